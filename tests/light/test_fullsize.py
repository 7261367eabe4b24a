from __future__ import annotations

import numpy as np
import pytest

from shadowmaskformer.arrays import average_down, to_float
from shadowmaskformer.light.correction import Correction
from shadowmaskformer.light.fullsize import Restoration
from shadowmaskformer.light.relight import Light, measure


@pytest.fixture
def found(photo: np.ndarray, mask: np.ndarray) -> Restoration:
    """Light and a network's answer for the shared photo, found at half its size."""
    small, marked = average_down(photo, 16, 24), average_down(mask, 16, 24)
    network = Correction(np.full((5, 7, 3), 1.1, np.float32), np.full((5, 7, 3), -0.02, np.float32))
    return Restoration((16, 24), measure(small, marked), network)


def test_at_its_own_size_it_is_the_correction(found: Restoration, photo: np.ndarray):
    small = (average_down(photo, 16, 24) * 255).round().astype(np.uint8)
    expected = found.correction(to_float(small)).apply(to_float(small))
    assert np.abs(to_float(found.apply(small)) - np.clip(expected, 0, 1)).max() <= 0.5001 / 255


def test_tiles_do_not_show(found: Restoration, photo: np.ndarray, monkeypatch: pytest.MonkeyPatch):
    whole = found.apply(photo)
    monkeypatch.setattr("shadowmaskformer.light.fullsize._TILE_PIXELS", 3 * 48)
    assert np.array_equal(found.apply(photo), whole)


def test_threads_do_not_show(found: Restoration, photo: np.ndarray, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr("shadowmaskformer.light.fullsize._TILE_PIXELS", 64)
    assert np.array_equal(found.apply(photo, threads=3), found.apply(photo))


def test_where_memory_is_short_it_goes_on_with_smaller_tiles(
    found: Restoration, photo: np.ndarray, monkeypatch: pytest.MonkeyPatch
):
    whole = found.apply(photo)
    tried: list[int] = []

    def short_of_memory(self: Light, part: np.ndarray, *places: np.ndarray) -> np.ndarray:
        tried.append(part.shape[0] * part.shape[1])
        if tried[-1] > 100:
            raise MemoryError
        return relit(self, part, *places)

    relit = Light.relit
    monkeypatch.setattr(Light, "relit", short_of_memory)
    monkeypatch.setattr("shadowmaskformer.light.fullsize._SMALLEST_TILE", 64)
    assert np.array_equal(found.apply(photo, threads=2), whole)
    assert max(tried) > 100 >= tried[-1]
    monkeypatch.setattr("shadowmaskformer.light.fullsize._SMALLEST_TILE", 128)
    with pytest.raises(MemoryError):
        found.apply(photo)


def test_where_no_thread_can_be_started_it_goes_on_with_one(
    found: Restoration, photo: np.ndarray, monkeypatch: pytest.MonkeyPatch
):
    whole = found.apply(photo)

    def refuse(*_: object) -> None:
        raise RuntimeError(why)

    why = "can't start new thread"  # what Python says when the system gives it none
    monkeypatch.setattr("threading.Thread.start", refuse)
    assert np.array_equal(found.apply(photo, threads=2), whole)
    why = "something else"
    with pytest.raises(RuntimeError, match=why):
        found.apply(photo, threads=2)


def test_a_shadow_at_the_frame_is_relit_up_to_the_last_pixel():
    photo = np.full((48, 64, 3), 0.8, np.float32)
    mask = np.zeros((48, 64), np.float32)
    mask[:20, :30] = mask[30:, 40:] = 1
    photo[mask > 0] = 0.3
    light = measure(photo, mask)
    large = photo.repeat(5, axis=0).repeat(5, axis=1)
    result = Restoration((48, 64), light).apply(large)
    for inner, corner in ((result[40, 40], result[:3, :3]), (result[-20, -20], result[-3:, -3:])):
        assert np.abs(corner - inner).max() < 0.02


def test_nothing_found_changes_nothing():
    photo = np.full((4, 6, 3), 0.5, np.float32)
    assert np.array_equal(Restoration((2, 3)).apply(photo, np.ones((2, 3), np.float32)), photo)
    assert (photo == 0.5).all()


def test_a_mask_may_be_smaller_than_the_photo(found: Restoration, photo: np.ndarray):
    small = np.zeros((16, 24), np.float32)
    small[4:8, 6:12] = 1
    result = found.apply(photo, np.zeros((16, 24), np.float32), small)
    changed = np.any(result != photo, axis=2)
    assert changed[9:15, 13:23].mean() > 0.9
    assert not changed[:7].any()
    assert not changed[17:].any()


def test_pixels_without_weight_keep_their_levels(found: Restoration, photo: np.ndarray):
    weight = np.zeros((16, 24), np.float32)
    weight[4:12, 6:18] = 1
    result = found.apply(photo, weight)
    changed = np.any(result != photo, axis=2)
    assert changed[10:22, 14:34].mean() > 0.9
    assert not changed[:6].any()
    assert not changed[:, :10].any()


def test_pixels_take_at_least_the_mask(found: Restoration, photo: np.ndarray, mask: np.ndarray):
    result = found.apply(photo, np.zeros((16, 24), np.float32), to_float(mask))
    assert np.array_equal(result[mask > 0], found.apply(photo)[mask > 0])
    assert np.array_equal(result[mask == 0], photo[mask == 0])
