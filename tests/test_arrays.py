from __future__ import annotations

import numpy as np
import pytest

from shadowmaskformer import arrays
from shadowmaskformer.arrays import box_mean


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
