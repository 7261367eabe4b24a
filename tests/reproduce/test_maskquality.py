"""Damaged masks reach their rate, and only along the edge."""

import os

import numpy as np
import pytest
from PIL import Image

from shadowmaskformer.evaluate import EvaluationPicture, EvaluationSet, MaskSource
from shadowmaskformer.masks.shape import grow, shrink
from shadowmaskformer.metrics import balance_error_rate
from shadowmaskformer.reproduce.maskquality import PAPER_LEVELS, damage, write_damaged


@pytest.fixture
def mask():
    mask = np.zeros((96, 128), np.uint8)
    mask[20:70, 30:100] = 255
    return mask


@pytest.mark.parametrize("ber", PAPER_LEVELS)
def test_rate_is_reached(mask, ber):
    damaged = damage(mask, ber, np.random.default_rng(0))
    assert balance_error_rate(damaged / 255, mask / 255) == pytest.approx(ber, abs=0.03)


def test_only_pixels_near_the_edge_flip(mask):
    wrong = damage(mask, 1.29, np.random.default_rng(0)) != mask
    soft = (mask > 0).astype(np.float32)
    band = (grow(soft, 4) > 0.5) & (shrink(soft, 4) < 0.5)
    assert wrong.any()
    assert not wrong[~band].any()


def test_mask_of_one_class_comes_back(mask):
    for whole in (np.zeros_like(mask), np.full_like(mask, 255)):
        np.testing.assert_array_equal(damage(whole, 2.0, np.random.default_rng(0)), whole)


def test_written_masks_serve_as_a_mask_source(istd, tmp_path):
    test, source = EvaluationSet.open(istd), MaskSource("dataset")
    reached = write_damaged(test.triplets, source, 2.85, tmp_path / "masks")
    assert reached == pytest.approx(2.85, abs=0.4)  # 24 x 32 pixels: steps of 0.4 %
    sample = EvaluationPicture(test.triplets[0], MaskSource(str(tmp_path / "masks")))
    assert (sample.mask != sample.region).any()
    np.testing.assert_array_equal(sample.region, EvaluationPicture(test.triplets[0], source).region)


def test_a_folder_of_masks_can_leave_the_regions_to_the_pair(istd, tmp_path):
    triplet = EvaluationSet.open(istd).triplets[0]
    write_damaged([triplet], MaskSource("derived"), 2.85, tmp_path / "masks")
    sample = EvaluationPicture(triplet, MaskSource(str(tmp_path / "masks"), regions="derived"))
    np.testing.assert_array_equal(sample.region, EvaluationPicture(triplet, MaskSource("derived")).region)


def test_masks_of_other_data_are_written_anew_and_the_same_ones_stay(istd, tmp_path):
    triplets, source = EvaluationSet.open(istd).triplets[:1], MaskSource("dataset")
    folder = tmp_path / "masks"
    write_damaged(triplets, source, 2.85, folder)
    before = MaskSource(str(folder)).identity
    write_damaged(triplets, source, 2.85, folder)
    assert MaskSource(str(folder)).identity == before
    assert triplets[0].mask is not None
    moved = np.roll(np.asarray(Image.open(triplets[0].mask)), 5, axis=1)
    Image.fromarray(moved).save(triplets[0].mask)
    reached = write_damaged(triplets, source, 2.85, folder)
    sample = EvaluationPicture(triplets[0], MaskSource(str(folder)))
    assert balance_error_rate(sample.mask / 255, moved / 255) == reached


def test_rewritten_masks_are_another_source(istd, tmp_path):
    triplets = EvaluationSet.open(istd).triplets
    write_damaged(triplets[:1], MaskSource("dataset"), 2.85, tmp_path / "masks")
    source = MaskSource(str(tmp_path / "masks"))
    before = source.identity
    assert source.identity == before
    mask = next((tmp_path / "masks").iterdir())
    os.utime(mask, ns=(0, mask.stat().st_mtime_ns + 1))
    assert source.identity != before
    assert MaskSource(source.name, regions="derived").identity != source.identity
