"""MATLAB's resizer: known values, invariants, and agreement with outside references."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from PIL import Image

from shadowmaskformer.errors import ArrayError
from shadowmaskformer.metrics import imresize, resize_area, resize_nearest

sizes = st.integers(1, 40)


@given(sizes, sizes, sizes, sizes)
@settings(max_examples=40, deadline=None)
def test_constant_picture_stays_constant(height, width, new_height, new_width):
    out = imresize(np.full((height, width, 3), 0.3), new_height, new_width)
    assert out.shape == (new_height, new_width, 3)
    np.testing.assert_allclose(out, 0.3, atol=1e-12)


@given(sizes, sizes, st.integers(0, 9))
@settings(max_examples=30, deadline=None)
def test_mirrored_picture_gives_mirrored_result(height, width, seed):
    picture = np.random.default_rng(seed).random((24, 36))
    out = imresize(picture, height, width)
    np.testing.assert_allclose(imresize(picture[::-1, ::-1], height, width), out[::-1, ::-1], atol=1e-10)


def test_inside_pixels_agree_with_pillow_bicubic():
    # Pillow's BICUBIC is the same kernel (a = -0.5, widened); only its border differs.
    picture = np.random.default_rng(0).random((64, 96)).astype(np.float32)
    pillow = np.asarray(Image.fromarray(picture, mode="F").resize((36, 28), Image.Resampling.BICUBIC))
    np.testing.assert_allclose(imresize(picture, 28, 36)[4:-4, 4:-4], pillow[4:-4, 4:-4], atol=1e-5)


def test_border_is_symmetric_not_renormalised():
    # Hand computed: shrinking [1, 0, 0, 0] to 2 folds the taps left of the border back onto pixel 1 and 2.
    assert imresize(np.array([[1.0, 0, 0, 0]]), 1, 2).round(6).tolist() == [[0.546875, -0.046875]]


def test_float_picture_is_not_clipped_and_uint8_is_rounded():
    edge = np.zeros((8, 12))
    edge[:, 6:] = 1
    assert imresize(edge, 8, 24).max() > 1.01
    eight = imresize((edge * 255).astype(np.uint8), 8, 24)
    assert eight.dtype == np.uint8
    assert eight.max() == 255


def test_uint8_is_rounded_after_each_dimension():
    picture = np.random.default_rng(1).integers(0, 255, (20, 40), dtype=np.uint8)
    columns = imresize(picture, 20, 10)  # the smaller scale goes first
    np.testing.assert_array_equal(imresize(picture, 15, 10), imresize(columns, 15, 10))


def test_bool_mask_counts_as_0_and_255():
    mask = np.zeros((10, 14), dtype=bool)
    mask[3:7, 4:9] = True
    np.testing.assert_array_equal(imresize(mask, 5, 7), imresize(mask.astype(np.uint8) * 255, 5, 7))


def test_same_size_is_identity():
    picture = np.random.default_rng(2).random((9, 13, 3))
    np.testing.assert_array_equal(imresize(picture, 9, 13), picture)


def test_nearest_keeps_values():
    mask = np.array([[0, 7], [9, 0]], dtype=np.uint8)
    assert set(np.unique(resize_nearest(mask, 5, 7))) == {0, 7, 9}


def test_area_by_whole_factor_is_block_mean():
    picture = np.random.default_rng(3).random((12, 18, 3))
    blocks = picture.reshape(4, 3, 6, 3, 3).mean(axis=(1, 3))
    np.testing.assert_allclose(resize_area(picture, 4, 6), blocks, atol=1e-12)


def test_area_keeps_the_mean():
    picture = np.random.default_rng(4).random((31, 47))
    assert resize_area(picture, 13, 17).mean() == pytest.approx(picture.mean())


def test_bad_shape_names_the_shape():
    with pytest.raises(ArrayError, match=r"\(5,\)"):
        imresize(np.zeros(5), 2, 2)
