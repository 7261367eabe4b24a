"""Lists of steps, run on the engine and in PyTorch."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pytest

torch = pytest.importorskip("torch")

from torch.nn import functional as F  # noqa: E402

from shadowmaskformer.engine import Floats, StepNetwork  # noqa: E402
from shadowmaskformer.network.steps import SOURCE, Step  # noqa: E402

# Largest absolute difference from PyTorch for values of order 1; in proportion where they are larger.
TOLERANCE = {
    "one step": 2e-6,  # float32 rounding of one sum, of up to 1176 products, in another order; measures 1e-6
    "network": 1e-5,  # the same after several steps; what the project promises of networks
}


class Steps(list[Step]):
    """A list of steps that grows; each method returns the number of the step that it adds."""

    def conv(
        self,
        of: int,
        channels: int,
        side: int = 1,
        stride: int = 1,
        *,
        depthwise: bool = False,
        clipped: bool = False,
    ) -> int:
        self.append(Step("conv", (of,), channels, f"conv{len(self)}", side, stride, depthwise, clipped))
        return len(self) - 1

    def _plain(self, op: str, *inputs: int) -> int:
        self.append(Step(op, inputs, self[inputs[0]].channels))
        return len(self) - 1

    def add(self, first: int, second: int) -> int:
        return self._plain("add", first, second)

    def enlarge(self, of: int) -> int:
        return self._plain("enlarge", of)

    def mean(self, of: int) -> int:
        return self._plain("mean", of)

    def bottleneck(self, of: int, channels: int, side: int, stride: int = 1, expand: int = 6) -> int:
        """An inverted bottleneck of MobileNet: wide, depthwise, narrow, with a sum around it where sizes allow."""
        before = self[of].channels
        wide = of if expand == 1 else self.conv(of, before * expand, clipped=True)
        mixed = self.conv(wide, self[wide].channels, side, stride, depthwise=True, clipped=True)
        narrow = self.conv(mixed, channels)
        return self.add(narrow, of) if stride == 1 and channels == before else narrow


STAGES = ((3, 1, 1, 16, 1), (3, 2, 6, 24, 2), (5, 2, 6, 40, 2), (3, 2, 6, 80, 3), (5, 1, 6, 112, 3))
"""EfficientNet-Lite0 up to a sixteenth of the size: side, stride, expansion, channels, repetitions."""


def lite(channels: int = 6, decoder: int = 48) -> Steps:
    """EfficientNet-Lite0 up to a sixteenth of the size, and a decoder back to a quarter."""
    steps, by_stage = Steps(), []
    at = steps.conv(SOURCE, 32, 3, 2, clipped=True)
    for side, stride, expand, width, repetitions in STAGES:
        for index in range(repetitions):
            at = steps.bottleneck(at, width, side, stride if index == 0 else 1, expand)
        by_stage.append(at)
    quarter, eighth, sixteenth = by_stage[1], by_stage[2], by_stage[4]
    at = steps.conv(sixteenth, decoder)
    at = steps.add(at, steps.conv(steps.mean(at), decoder, clipped=True))
    for lateral in (eighth, quarter):
        at = steps.add(steps.conv(lateral, decoder), steps.enlarge(at))
        at = steps.conv(steps.conv(at, decoder, 5, depthwise=True, clipped=True), decoder, clipped=True)
    steps.conv(at, 1)
    return steps


def random_weights(steps: Sequence[Step], channels: int) -> dict[str, Floats]:
    """Weights that keep values of order 1 from step to step, with biases that matter."""
    random, weights = np.random.default_rng(5), {}
    for step in steps:
        if step.op == "conv":
            taken = channels if step.inputs[0] == SOURCE else steps[step.inputs[0]].channels
            shape = (step.channels, 1 if step.depthwise else taken, step.side, step.side)
            scale = (2 / np.prod(shape[1:])) ** 0.5
            weights[f"{step.name}.weight"] = (scale * random.standard_normal(shape)).astype(np.float32)
            weights[f"{step.name}.bias"] = (0.3 * random.standard_normal(step.channels)).astype(np.float32)
    return weights


def in_pytorch(steps: Sequence[Step], weights: dict[str, Floats], projected: Floats) -> Floats:
    """What `Step` says, by PyTorch's functions, on (..., H, W, C)."""
    maps = [torch.from_numpy(projected).reshape(-1, *projected.shape[-3:]).permute(0, 3, 1, 2)]
    for step in steps:
        taken = [maps[index + 1] for index in step.inputs]
        if step.op == "conv":
            weight, bias = (torch.from_numpy(weights[f"{step.name}.{part}"]) for part in ("weight", "bias"))
            before = (step.side - step.stride) // 2
            after = step.side - step.stride - before
            padded = F.pad(taken[0], (before, after, before, after))
            made = F.conv2d(padded, weight, bias, step.stride, groups=step.channels if step.depthwise else 1)
            maps.append(made.clamp(0, 6) if step.clipped else made)
        elif step.op == "add":
            maps.append(taken[0] + taken[1])
        elif step.op == "enlarge":
            maps.append(F.interpolate(taken[0], scale_factor=2, mode="bilinear", align_corners=False))
        else:
            maps.append(taken[0].mean((2, 3), keepdim=True))
    found = maps[-1].permute(0, 2, 3, 1)
    return found.reshape(*projected.shape[:-3], *found.shape[1:]).numpy()


def assert_like_pytorch(steps: Sequence[Step], projected: Floats, tolerance: float, threads: int | None = None) -> None:
    weights = random_weights(steps, projected.shape[-1])
    found = StepNetwork(steps, projected.shape[-1], weights).forward(projected, threads)
    reference = in_pytorch(steps, weights, projected)
    assert found.shape == reference.shape
    scale = max(1.0, float(np.abs(reference).max()))
    np.testing.assert_allclose(found, reference, rtol=0, atol=tolerance * scale)
