from __future__ import annotations

import numpy as np
import pytest

from shadowmaskformer.errors import ConfigError
from shadowmaskformer.network.config import DetectorConfig
from shadowmaskformer.network.detector_steps import REDUCTION, detector_steps
from shadowmaskformer.network.steps import SOURCE, Builder, step_shapes
from shadowmaskformer.network.weights import parameter_shapes

SMALL = DetectorConfig(widths=(16, 16, 8, 8, 8))


def test_a_step_takes_earlier_maps_only_and_maps_to_add_are_alike():
    steps = detector_steps(DetectorConfig())
    for number, step in enumerate(steps):
        assert all(SOURCE <= source < number for source in step.inputs)
        if step.op == "add":
            assert {steps[source].channels for source in step.inputs} == {step.channels}
    strides = [step.stride for step in steps if step.op == "conv" and step.stride > 1]
    assert int(np.prod(strides)) == REDUCTION
    assert 2 ** sum(step.op == "enlarge" for step in steps) == REDUCTION
    assert steps[-1].channels == 1


def test_the_detector_is_as_small_as_promised():
    assert sum(int(np.prod(shape)) for shape in parameter_shapes(DetectorConfig()).values()) <= 1_200_000


def test_shapes_of_parameters_follow_the_steps():
    net = Builder()
    net.enlarge(net.conv(net.depthwise(net.conv(SOURCE, 8, "a", 3, 2), "b", 5), 16, "c"))
    assert step_shapes(net.steps, 6) == {
        "a.weight": (8, 6, 3, 3),
        "a.bias": (8,),
        "b.weight": (8, 1, 5, 5),
        "b.bias": (8,),
        "c.weight": (16, 8, 1, 1),
        "c.bias": (16,),
    }


@pytest.mark.parametrize("widths", [(8, 8, 8, 8), (8, 8, 8, 8, 12), (0, 8, 8, 8, 8)])
def test_other_widths_are_refused(widths: tuple[int, ...]):
    with pytest.raises(ConfigError, match="the way back has five, multiples of 8"):
        DetectorConfig(widths=widths)


# --- in PyTorch -------------------------------------------------------------------------------------------------------


def by_hand(picture: np.ndarray, arrays: dict[str, np.ndarray]) -> np.ndarray:
    """The steps in plain NumPy, float64, one picture (C, H, W)."""
    maps: list[np.ndarray] = []
    for step in detector_steps(SMALL):
        first, *others = (picture if each == SOURCE else maps[each] for each in step.inputs)
        if step.op == "add":
            made = first + others[0]
        elif step.op == "mean":
            made = first.mean((1, 2), keepdims=True)
        elif step.op == "enlarge":
            made = first
            for axis in (1, 2):
                places = np.clip((np.arange(2 * first.shape[axis]) + 0.5) / 2 - 0.5, 0, first.shape[axis] - 1)
                low = places.astype(int)
                high = np.minimum(low + 1, first.shape[axis] - 1)
                share = (places - low).reshape([-1 if each == axis else 1 for each in range(3)])
                made = made.take(low, axis) * (1 - share) + made.take(high, axis) * share
        else:
            weight, bias = arrays[f"{step.name}.weight"], arrays[f"{step.name}.bias"]
            before = (step.side - step.stride) // 2
            padded = np.pad(first, ((0, 0), *(((before, step.side - step.stride - before),) * 2)))
            windows = np.lib.stride_tricks.sliding_window_view(padded, (step.side, step.side), (1, 2))
            windows = windows[:, :: step.stride, :: step.stride]
            rule = "chwij,cij->chw" if step.depthwise else "chwij,ocij->ohw"
            made = np.einsum(rule, windows, weight[:, 0] if step.depthwise else weight) + bias[:, None, None]
            made = np.clip(made, 0, 6) if step.clipped else made
        assert made.shape[0] == step.channels
        maps.append(made)
    return maps[-1]


@pytest.mark.parametrize("size", [(32, 32), (64, 32), (37, 70), (1, 5)])
def test_the_network_follows_the_steps(size: tuple[int, int]):
    torch = pytest.importorskip("torch")
    from shadowmaskformer.network.detector import Detector

    torch.manual_seed(0)
    model = Detector(SMALL)
    with torch.no_grad():
        for parameter in model.parameters():
            parameter.add_(0.05 * torch.randn_like(parameter))
    picture = torch.randn(1, 6, *size)
    arrays = {key: tensor.double().numpy() for key, tensor in model.state_dict().items()}
    assert {key: array.shape for key, array in arrays.items()} == parameter_shapes(SMALL)
    with torch.no_grad():
        found = model.predict(picture)[0].numpy()
    height, width = size
    padded = np.pad(picture[0].double().numpy(), ((0, 0), (0, -height % REDUCTION), (0, -width % REDUCTION)))
    expected = by_hand(padded, arrays)[:, :height, :width]
    np.testing.assert_allclose(found, expected, rtol=0, atol=1e-5 * max(1, np.abs(expected).max()))


def test_hints_and_mask_that_are_not_given_add_nothing():
    torch = pytest.importorskip("torch")
    from shadowmaskformer.network.detector import Detector

    model = Detector(SMALL)
    photo = torch.rand(1, 3, 32, 32)
    with torch.no_grad():
        before = model(photo)
        model.stem.weight[:, 3:] += 1
        assert torch.equal(model(photo), before)
