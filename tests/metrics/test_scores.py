"""MAE, PSNR, BER and the one-call score."""

import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from skimage.metrics import peak_signal_noise_ratio

from shadowmaskformer.errors import ArrayError
from shadowmaskformer.metrics import (
    balance_error_rate,
    lab_d50,
    lab_mae,
    lab_rmse,
    psnr,
    score,
)


@pytest.fixture
def pair():
    rng = np.random.default_rng(0)
    truth = rng.random((32, 48, 3))
    return np.clip(truth + rng.normal(0, 0.1, truth.shape), 0, 1), truth


@pytest.fixture
def mask():
    mask = np.zeros((32, 48), dtype=np.float32)
    mask[8:20, 10:30] = 1
    return mask


def test_psnr_agrees_with_scikit_image(pair):
    assert psnr(*pair) == pytest.approx(peak_signal_noise_ratio(pair[1], pair[0], data_range=1))


def test_region_psnr_averages_over_the_whole_frame(pair, mask):
    result, truth = pair
    masked = mask[..., None].astype(float)
    expected = peak_signal_noise_ratio(truth * masked, result * masked, data_range=1)
    assert psnr(result, truth, mask) == pytest.approx(expected)
    assert psnr(result, truth, mask) > psnr(result, truth)


def test_mae_sums_channels_and_averages_the_region(pair, mask):
    result, truth = lab_d50(pair[0]), lab_d50(pair[1])
    region = mask > 0
    expected = np.abs(result - truth)[region].sum() / region.sum()
    assert lab_mae(result, truth, region) == pytest.approx(expected)


def test_rmse_is_not_the_mae(pair):
    result, truth = lab_d50(pair[0]), lab_d50(pair[1])
    assert lab_rmse(result, truth) == pytest.approx(np.sqrt(np.mean((result - truth) ** 2)))
    assert lab_rmse(result, truth) < lab_mae(result, truth)


def test_all_is_the_pixel_weighted_mean_of_the_regions(pair, mask):
    scores = score(*pair, mask)
    share = (mask > 0).mean()
    assert scores.mae.all == pytest.approx(share * scores.mae.shadow + (1 - share) * scores.mae.lit)


def test_any_value_above_zero_is_shadow(pair, mask):
    assert score(*pair, mask * 0.004) == score(*pair, mask)


def test_empty_region_is_nan_and_perfect_match_inf(pair):
    scores = score(*pair, np.zeros((32, 48)))
    assert math.isnan(scores.mae.shadow)
    assert scores.psnr.shadow == math.inf
    assert scores.mae.lit == scores.mae.all
    assert score(pair[1], pair[1], np.zeros((32, 48))).psnr.all == math.inf


def test_sizes_that_differ_are_refused(pair):
    with pytest.raises(ArrayError, match="one size"):
        score(*pair, np.zeros((48, 32)))


@given(st.integers(0, 50))
@settings(max_examples=20, deadline=None)
def test_ber_of_a_mask_and_its_inverse_add_to_100(seed):
    rng = np.random.default_rng(seed)
    truth, found = rng.random((12, 18)) > 0.6, rng.random((12, 18)) > 0.5
    assert balance_error_rate(found, truth) + balance_error_rate(~found, truth) == pytest.approx(100)
    assert balance_error_rate(truth, truth) == 0


def test_ber_of_a_truth_with_one_class_is_nan():
    assert math.isnan(balance_error_rate(np.ones((3, 4)), np.ones((3, 4))))
