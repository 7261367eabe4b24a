from __future__ import annotations

import dataclasses
from pathlib import Path

import numpy as np
import pytest
from PIL import Image

torch = pytest.importorskip("torch")

from shadowmaskformer import train  # noqa: E402
from shadowmaskformer.data import Sample, open_dataset  # noqa: E402
from shadowmaskformer.errors import ConfigError  # noqa: E402
from shadowmaskformer.network import weights  # noqa: E402
from shadowmaskformer.network.config import DetectorConfig  # noqa: E402
from shadowmaskformer.network.detector import Detector  # noqa: E402
from shadowmaskformer.train.batches import Batch  # noqa: E402
from shadowmaskformer.train.config import TrainConfig, load_recipe  # noqa: E402
from shadowmaskformer.train.detection import Detection, balanced_entropy, dice  # noqa: E402
from shadowmaskformer.train.guidance import ROUGHENERS, clicks, guide  # noqa: E402
from shadowmaskformer.train.learner import Learner  # noqa: E402
from shadowmaskformer.train.processes import Processes  # noqa: E402

QUICK = dataclasses.replace(
    load_recipe("detector"),
    steps=4,
    sizes=(32,),
    batches=(3,),
    shares=(1.0,),
    validations=2,
    validation_size=48,
)


@pytest.fixture
def lists(tmp_path: Path) -> Path:
    """Photos of three kinds: with a drawn mask, as a pair, and without shadow; each for training and validation."""
    rng = np.random.default_rng(2)
    for split in ("train", "valid"):
        lines: list[str] = []
        for kind in ("drawn", "pair", "bare"):
            clean = np.clip(rng.normal(170, 20, (48, 64, 3)), 0, 255)
            mask = np.zeros((48, 64), np.uint8)
            if kind != "bare":
                mask[10:30, 12:40] = 255
            photo = np.where(mask[..., None] > 0, clean * 0.4, clean)
            names = {role: f"{split}-{kind}-{role}.png" for role in ("photo", "mask", "clean")}
            for role, picture in (("photo", photo), ("mask", mask), ("clean", clean)):
                Image.fromarray(picture.astype(np.uint8)).save(tmp_path / names[role])
            mask_name = names["mask"] if kind == "drawn" else ""
            truth = {"drawn": "", "pair": names["clean"], "bare": names["photo"]}[kind]
            lines.append(f"{names['photo']}|{mask_name}|{truth}")
        (tmp_path / f"{split}.txt").write_text("\n".join(lines) + "\n")
    return tmp_path


def test_lists_may_lack_the_truth(lists: Path):
    drawn = {triplet.name: triplet for triplet in open_dataset(lists).split("train")}
    assert drawn["train-drawn-photo"].clean == drawn["train-drawn-photo"].shadow
    assert drawn["train-bare-photo"].mask is None


def test_a_detector_is_trained_and_validated_on_all_kinds(lists: Path, tmp_path: Path):
    result = train.run(QUICK, lists, tmp_path / "run")
    assert result.finished
    assert result.best is not None
    assert {"score", "pairs_ber", "drawn_ber", "drawn_iou", "drawn_iou_clicked", "bare_area"} <= set(result.best)
    config, arrays = weights.load(tmp_path / "run" / "best")
    assert isinstance(config, DetectorConfig)
    assert config.view_pixels == 32 * 32
    assert arrays["stem.weight"].shape[1] == 6
    assert list((tmp_path / "run" / "panels").glob("*.jpg"))
    assert train.run(QUICK, lists, tmp_path / "run", resume=True).steps == 4


def test_a_batch_depends_on_its_samples_alone(rng: np.random.Generator):
    depth = np.zeros((32, 48), np.float32)
    depth[8:20, 10:30] = 1
    photo = rng.random((32, 48, 3)).astype(np.float32)
    samples = [Sample("a", photo * share, depth, photo) for share in (0.2, 0.5, 0.9)]
    first, again = (Detection(TrainConfig()).batch(samples, view=None, total=3) for _ in range(2))
    for name, tensor in first.inputs.items():
        assert torch.equal(tensor, again.inputs[name])
    assert first.inputs["hints"].shape == (3, 2, 32, 48)


def test_the_loss_falls_towards_the_right_answer():
    depth = torch.zeros(1, 1, 16, 24)
    depth[..., 4:10, 5:15] = 1
    right, wrong, nothing = 8 * (2 * depth - 1), 8 * (1 - 2 * depth), torch.full_like(depth, -8)
    for loss in (balanced_entropy, dice):
        assert float(loss(right, depth)) < 0.05 < float(loss(nothing, depth)) < float(loss(wrong, depth)) + 1e-3


def test_all_parameters_learn():
    model = Detector(DetectorConfig(widths=(8, 8, 8, 8, 8)))
    photo = torch.rand(2, 3, 20, 28)
    model(photo, torch.rand(2, 2, 20, 28), torch.rand(2, 1, 20, 28)).square().mean().backward()
    assert all(parameter.grad is not None for parameter in model.parameters())


def test_what_is_not_given_is_zero():
    model = Detector(DetectorConfig(widths=(8, 8, 8, 8, 8)))
    photo = torch.rand(1, 3, 12, 16)
    given = model(photo, torch.zeros(1, 2, 12, 16), torch.zeros(1, 1, 12, 16))
    assert torch.equal(model(photo), given)


# --- guidance ---------------------------------------------------------------------------------------------------------


@pytest.fixture
def two_shadows() -> np.ndarray:
    depth = np.zeros((64, 96), np.float32)
    depth[5:30, 5:40] = depth[40:60, 55:90] = 1
    return depth


def test_clicks_lie_in_the_errors_and_tell_the_truth(two_shadows: np.ndarray, rng: np.random.Generator):
    wanted = two_shadows > 0.5
    found = np.roll(wanted, 12, 1)
    for _ in range(20):
        hints = clicks(found, wanted, rng)
        assert hints
        for hint in hints:
            x, y = hint.points[0]
            assert found[int(y), int(x)] != wanted[int(y), int(x)]
            assert all(wanted[int(y), int(x)] == hint.shadow for x, y in hint.points)


def test_nothing_to_correct_is_no_click(two_shadows: np.ndarray, rng: np.random.Generator):
    assert clicks(two_shadows > 0.5, two_shadows > 0.5, rng) == []


def test_a_mask_so_far_is_about_the_shadows_that_it_touches(two_shadows: np.ndarray, rng: np.random.Generator):
    photo = np.full((64, 96, 3), 0.7, np.float32) * (1 - 0.6 * two_shadows[..., None])
    kinds: set[tuple[bool, bool]] = set()
    for _ in range(80):
        hints, mask, depth = guide(photo, two_shadows, rng)
        kinds.add((bool(hints.any()), bool(mask.any())))
        assert hints.shape == (64, 96, 2)
        if not mask.any():
            np.testing.assert_array_equal(depth, two_shadows)
        else:
            assert depth.sum() in (two_shadows.sum(), two_shadows[:32].sum(), two_shadows[32:].sum())
    assert kinds == {(False, False), (True, False), (False, True), (True, True)}


@pytest.mark.parametrize("rough", ROUGHENERS)
def test_rough_masks_are_masks(rough: object, two_shadows: np.ndarray, rng: np.random.Generator):
    photo = rng.random((64, 96, 3)).astype(np.float32)
    for depth in (two_shadows, np.zeros_like(two_shadows)):
        mask = rough(photo, depth, rng)  # type: ignore[operator]
        assert mask.shape == depth.shape
        assert 0 <= mask.min() <= mask.max() <= 1


def test_what_was_trained_before_learns_at_its_own_rate():
    config = dataclasses.replace(QUICK, rates={"encoder": 0.0, "stem": 0.5}, weight_decay=0.0, ema_decay=0.0)
    learner = Learner(config, Processes(0, 1, torch.device("cpu")))
    before = {name: tensor.clone() for name, tensor in learner.model.state_dict().items()}
    photo = torch.rand(2, 3, 32, 32)
    inputs = {"photo": photo, "hints": torch.rand(2, 2, 32, 32), "mask": torch.rand(2, 1, 32, 32)}
    learner.step(Batch(inputs, {"depth": torch.rand(2, 1, 32, 32)}, None, 2), 0, 1e-3)
    moved = {name: float((now - before[name]).abs().max()) for name, now in learner.model.state_dict().items()}
    assert all((moved[name] == 0) == name.startswith("encoder") for name in moved if name.endswith("weight"))
    # Adam's first step is as long as the rate.
    assert moved["head.weight"] == pytest.approx(1e-3, rel=0.01)
    assert moved["stem.weight"] == pytest.approx(5e-4, rel=0.01)


def test_rates_below_zero_are_refused():
    with pytest.raises(ConfigError, match="rates"):
        dataclasses.replace(QUICK, rates={"encoder": -1.0})
