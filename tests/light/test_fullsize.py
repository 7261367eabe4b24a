from __future__ import annotations

import numpy as np
import pytest

from shadowmaskformer.arrays import average_down, to_float
from shadowmaskformer.light.correction import Correction
from shadowmaskformer.light.fullsize import Restoration
from shadowmaskformer.light.relight import measure


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


def test_strips_do_not_show(found: Restoration, photo: np.ndarray, monkeypatch: pytest.MonkeyPatch):
    whole = found.apply(photo)
    monkeypatch.setattr("shadowmaskformer.light.fullsize._STRIP_PIXELS", 3 * 48)
    assert np.array_equal(found.apply(photo), whole)


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
