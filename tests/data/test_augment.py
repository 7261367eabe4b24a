from __future__ import annotations

import numpy as np
import pytest

from data.drawn import box_mask, scene
from shadowmaskformer.data import Augment
from shadowmaskformer.data.augment import change_light, draw_box, jitter_mask, turn
from shadowmaskformer.errors import ConfigError

PHOTO = scene(0).astype(np.float32) / 255
MASK = box_mask().astype(np.float32) / 255


def test_photo_mask_and_truth_turn_together(rng: np.random.Generator) -> None:
    square, mask = PHOTO[:, :48], MASK[:, :48]
    for _ in range(12):
        photo, turned, truth = turn((square, mask, square * 0.5), Augment(flip=0.5, rot90=0.7), rng)
        np.testing.assert_allclose(truth, photo * 0.5)
        # The shadow lies on the same pixels as before.
        np.testing.assert_allclose(np.sort(photo[turned > 0].ravel()), np.sort(square[mask > 0].ravel()))


def test_all_eight_positions_occur(rng: np.random.Generator) -> None:
    square = PHOTO[:, :48]
    seen = {turn((square,), Augment(flip=0.5, rot90=0.75), rng)[0].tobytes() for _ in range(100)}
    assert len(seen) == 8


def test_a_picture_that_is_not_square_keeps_its_shape(rng: np.random.Generator) -> None:
    shapes = {turn((PHOTO,), Augment(rot90=1.0), rng)[0].shape for _ in range(8)}
    assert shapes == {PHOTO.shape}


def test_light_changes_for_all_alike(rng: np.random.Generator) -> None:
    photo, truth = change_light((PHOTO * 0.2, PHOTO * 0.4), Augment(exposure=1.0, white_balance=0.3), rng)
    np.testing.assert_allclose(truth, photo * 2, rtol=1e-5)
    gain = (photo / np.maximum(PHOTO * 0.2, 1e-6)).mean(axis=(0, 1))
    assert gain.std() > 0.01
    assert np.all(np.abs(np.log2(gain)) <= 1.3 + 1e-4)


def test_light_is_clipped_as_in_a_camera() -> None:
    photo, truth = change_light((PHOTO, PHOTO), Augment(exposure=4.0), np.random.default_rng(1))
    assert max(photo.max(), truth.max()) <= 1


def test_nothing_is_on_by_default(rng: np.random.Generator) -> None:
    off = Augment()
    assert off.crop == off.mask_jitter == off.synthetic == 0
    photo, truth = change_light((PHOTO, PHOTO), off, rng)
    assert photo is PHOTO
    np.testing.assert_array_equal(turn((PHOTO, truth), off, rng)[0], PHOTO)


@pytest.mark.parametrize("size", [(48, 64), (96, 128)])
def test_a_jittered_mask_is_near_the_mask(size: tuple[int, int], rng: np.random.Generator) -> None:
    mask = np.kron(MASK, np.ones((size[0] // 48, size[1] // 64), np.float32))
    jittered = [jitter_mask(mask, rng) for _ in range(60)]
    for rough in jittered:
        assert rough.dtype == np.float32
        assert rough.shape == mask.shape
        assert 0 <= rough.min() <= rough.max() <= 1
        assert np.abs(rough - mask).mean() < 0.15
    areas = np.array([rough.mean() for rough in jittered]) / mask.mean()
    assert areas.min() < 0.95 < 1.05 < areas.max()
    assert any(((rough > 0.1) & (rough < 0.9)).any() for rough in jittered)


@pytest.mark.parametrize("value", [0.0, 1.0])
def test_a_mask_without_an_edge_keeps_its_meaning(value: float, rng: np.random.Generator) -> None:
    mask = np.full((48, 64), value, np.float32)
    assert all(abs(jitter_mask(mask, rng).mean() - value) < 0.05 for _ in range(20))


def test_crops_lie_inside_and_are_large_enough(rng: np.random.Generator) -> None:
    for _ in range(200):
        left, top, right, bottom = draw_box(48, 64, 0.5, rng)
        assert 0 <= left < right <= 64
        assert 0 <= top < bottom <= 48
        assert min((right - left) / 64, (bottom - top) / 48) > 0.5 * np.exp(-0.15) - 1e-9


@pytest.mark.parametrize("wrong", [{"crop": 1.5}, {"exposure": -1.0}, {"smallest_crop": 2.0}])
def test_values_out_of_range_are_named(wrong: dict[str, float]) -> None:
    with pytest.raises(ConfigError, match=f"augment.{next(iter(wrong))}"):
        Augment(**wrong)
