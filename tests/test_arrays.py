from __future__ import annotations

import numpy as np
import pytest
from PIL import Image

from shadowmaskformer import arrays
from shadowmaskformer.arrays import average_down, box_mean, places, sample


@pytest.mark.parametrize("size", [(7, 9), (43, 48), (301, 3), (1, 1)])
def test_reduction_in_strips_is_the_reduction_of_the_whole(size: tuple[int, int], rng: np.random.Generator):
    plane = rng.random((301, 97), np.float32)
    whole = Image.fromarray(plane).resize(size[::-1], Image.Resampling.BOX)
    assert np.abs(average_down(plane, *size) - np.asarray(whole)).max() < 1e-6


@pytest.mark.parametrize("kind", [np.uint8, np.uint16])
@pytest.mark.parametrize("rows", [4, 300])
def test_levels_are_averaged_as_floats(kind: type[np.unsignedinteger], rows: int, rng: np.random.Generator):
    top = np.iinfo(kind).max
    levels = rng.integers(top // 2, top, (2 * rows, 60, 3), kind, endpoint=True)
    expected = levels.reshape(2, rows, 15, 4, 3).mean(axis=(1, 3)) / top
    assert np.abs(average_down(levels, 2, 15) - expected).max() < 1e-6


def test_enlarging_agrees_with_pillow(rng: np.random.Generator):
    plane = rng.random((5, 8), np.float32)
    expected = np.asarray(Image.fromarray(plane).resize((40, 33), Image.Resampling.BILINEAR))
    assert np.abs(sample(plane[..., None], places(5, 33), places(8, 40))[..., 0] - expected).max() < 1e-5


@pytest.mark.parametrize("cached", [0, 10**9])
@pytest.mark.parametrize("radius", [1, 2, 20])
def test_box_mean_is_the_mean_of_the_neighbourhood(
    rng: np.random.Generator, monkeypatch: pytest.MonkeyPatch, cached: int, radius: int
) -> None:
    monkeypatch.setattr(arrays, "_CACHED", cached)
    plane = rng.random((9, 130)).astype(np.float32)
    kept = plane.copy()
    padded = np.pad(plane, radius, mode="edge")
    windows = np.lib.stride_tricks.sliding_window_view(padded, (2 * radius + 1,) * 2)
    np.testing.assert_allclose(box_mean(plane, radius), windows.mean(axis=(2, 3)), rtol=1e-5)
    np.testing.assert_array_equal(plane, kept)
