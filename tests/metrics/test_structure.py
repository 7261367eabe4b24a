"""SSIM: against scikit-image where definitions coincide, against a literal 3-D filter where they do not."""

import tracemalloc

import numpy as np
import pytest
from skimage.filters import gaussian
from skimage.metrics import structural_similarity

from shadowmaskformer.errors import ArrayError
from shadowmaskformer.metrics import ssim_uniform, ssim_volume, ssim_volume_regions


@pytest.fixture
def pair():
    rng = np.random.default_rng(0)
    truth = rng.random((32, 48, 3))
    return np.clip(truth + rng.normal(0, 0.1, truth.shape), 0, 1), truth


def literal_volume_ssim(x, y):
    def blur(volume):  # truncate 3.4 sigma: radius 5, an 11x11x11 window
        return gaussian(volume, sigma=1.5, mode="nearest", truncate=3.4, preserve_range=True)

    mx, my = blur(x), blur(y)
    vx, vy, vxy = blur(x * x) - mx**2, blur(y * y) - my**2, blur(x * y) - mx * my
    c1, c2 = 1e-4, 9e-4
    return np.mean((2 * mx * my + c1) * (2 * vxy + c2) / ((mx**2 + my**2 + c1) * (vx + vy + c2)))


def test_volume_ssim_is_a_three_dimensional_filter(pair):
    assert ssim_volume(*pair) == pytest.approx(literal_volume_ssim(*pair), abs=1e-12)


def test_volume_ssim_mixes_channels(pair):
    alone = [ssim_volume(*(picture[..., [channel]] for picture in pair)) for channel in range(3)]
    assert abs(ssim_volume(*pair) - np.mean(alone)) > 1e-3


def test_region_ssim_equals_ssim_of_masked_products(pair):
    result, truth = pair
    shadow = np.zeros((32, 48), dtype=bool)
    shadow[5:20, 10:33] = True
    inside, outside = shadow[..., None], ~shadow[..., None]
    regions = ssim_volume_regions(result, truth, shadow)
    assert regions.shadow == pytest.approx(ssim_volume(result * inside, truth * inside), abs=1e-12)
    assert regions.lit == pytest.approx(ssim_volume(result * outside, truth * outside), abs=1e-12)
    assert regions.all == ssim_volume(result, truth)


def test_pictures_of_many_sizes_leave_no_memory_behind():
    tracemalloc.start()
    try:
        for width in (1500, 1600, 1700):
            truth = np.zeros((8, width, 3))
            ssim_volume(truth, truth)
        kept, _ = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert kept < 2**20  # a full matrix of the width would take 18 MB


def test_uniform_ssim_agrees_with_scikit_image(pair):
    assert ssim_uniform(*pair) == pytest.approx(structural_similarity(*pair, channel_axis=2, data_range=1))
    x, y = pair[0][..., 0], pair[1][..., 0]
    assert ssim_uniform(x, y, peak=2) == pytest.approx(structural_similarity(x, y, data_range=2))


def test_ssim_is_symmetric_and_at_most_one(pair):
    result, truth = pair
    assert ssim_volume(result, truth) == pytest.approx(ssim_volume(truth, result))
    assert ssim_volume(result, truth) < 1 == ssim_volume(truth, truth)


def test_too_small_for_the_window_is_refused():
    with pytest.raises(ArrayError, match="7x7"):
        ssim_uniform(np.zeros((6, 9)), np.zeros((6, 9)))


def test_different_shapes_are_refused():
    with pytest.raises(ArrayError, match="one shape"):
        ssim_volume(np.zeros((8, 9, 3)), np.zeros((9, 8, 3)))
