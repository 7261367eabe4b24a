"""Lab conversions against published colour tables and scikit-image."""

import numpy as np
import pytest
from skimage.color import rgb2gray, rgb2lab

from shadowmaskformer.metrics import gray, lab_d50, lab_d65, lab_opencv


@pytest.mark.parametrize(
    ("rgb", "lab"),
    [
        # ICC sRGB profile, D50 Lab of the primaries (as colour managed editors show them).
        ((1, 0, 0), (54.29, 80.81, 69.89)),
        ((0, 1, 0), (87.82, -79.29, 80.99)),
        ((0, 0, 1), (29.57, 68.30, -112.03)),
        ((1, 1, 1), (100, 0, 0)),
        ((0, 0, 0), (0, 0, 0)),
    ],
)
def test_d50_lab_of_primaries(rgb, lab):
    np.testing.assert_allclose(lab_d50(np.array(rgb, float)), lab, atol=0.03)


def test_d65_lab_agrees_with_scikit_image():
    picture = np.random.default_rng(0).random((24, 36, 3))
    np.testing.assert_allclose(lab_d65(picture), rgb2lab(picture), atol=2e-3)


def test_opencv_white_makes_gray_neutral():
    lab = lab_opencv(np.full((1, 2, 3), 0.6))
    np.testing.assert_allclose(lab[..., 1:], 0, atol=2e-3)


def test_values_below_zero_continue_the_line():
    lab = lab_d50(np.array([[-0.02] * 3, [0.0] * 3, [0.02] * 3]))
    np.testing.assert_allclose(lab[0], -lab[2], atol=1e-9)


def test_gray_uses_bt601_not_bt709():
    picture = np.random.default_rng(1).random((4, 6, 3))
    assert np.abs(gray(picture) - rgb2gray(picture)).max() > 0.01
    assert gray(np.array([[[0, 1.0, 0]]])).item() == pytest.approx(0.587)
