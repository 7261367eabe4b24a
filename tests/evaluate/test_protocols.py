"""Every protocol follows its rule, part by part."""

import math
import sys

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from shadowmaskformer import metrics
from shadowmaskformer.errors import ConfigError, EvaluationError
from shadowmaskformer.evaluate import PROTOCOLS, Reference, protocols, summarise


@pytest.fixture
def picture():
    rng = np.random.default_rng(0)
    truth = rng.integers(60, 250, (40, 56, 3), dtype=np.uint8)
    mask = np.zeros((40, 56), np.uint8)
    mask[10:25, 12:40] = 255
    result = np.clip(truth * np.where(mask > 0, 0.5, 0.97)[..., None], 0, 255).astype(np.uint8)
    return result, truth, mask


def measure(name, picture):
    result, truth, mask = picture
    return Reference(truth, mask, result).compare(result).scores(PROTOCOLS[name])


def test_reference_rule_is_resize_then_score(picture):
    result, truth, mask = (metrics.imresize(p / 255 if p.ndim == 3 else p, 256, 256) for p in picture)
    expected = metrics.score(result, truth, mask)
    found = measure("istd-256", picture)
    assert found.error == pytest.approx(expected.mae)
    assert found.psnr == pytest.approx(expected.psnr)
    assert found.ssim == pytest.approx(expected.ssim)
    assert measure("srd-256", picture) == found


def test_full_size_does_not_resize(picture):
    result, truth, mask = picture
    assert measure("istd-full", picture).error == pytest.approx(metrics.score(result / 255, truth / 255, mask).mae)
    assert PROTOCOLS["istd-full"].pooled
    assert not PROTOCOLS["istd-256"].pooled


def test_rounding_first_changes_the_number_a_little(picture):
    difference = measure("256-uint8", picture).error.lit - measure("istd-256", picture).error.lit
    assert 0 < abs(difference) < 0.3


def test_soft_border_of_the_mask_counts_as_shadow_only_in_the_reference(picture):
    wide, narrow = measure("istd-256", picture), measure("256-mask127", picture)
    assert wide.weights.shadow > narrow.weights.shadow
    assert wide.error.shadow < narrow.error.shadow


def test_nearest_mask_covers_exactly_its_share(picture):
    mask = picture[2]
    assert measure("256-nearest-pooled", picture).weights.shadow / 256**2 == pytest.approx((mask > 0).mean(), abs=0.02)


def test_homoformer_counts_every_touched_pixel(picture):
    result, truth, mask = picture
    big = [np.kron(p, np.ones((8, 8, 1) if p.ndim == 3 else (8, 8), np.uint8)) for p in (result, truth, mask)]
    touched = metrics.resize_area(big[2] / 255, 256, 256) > 0
    assert measure("homoformer-python", big).weights.shadow == touched.sum()


def test_soft_mask_is_a_weight(picture):
    result, truth, mask = picture
    half = (result, truth, (mask // 2).astype(np.uint8))
    assert measure("lfg-diffusion", half).weights.shadow == pytest.approx(
        measure("lfg-diffusion", picture).weights.shadow * 127 / 255, rel=0.01
    )


def test_survey_scores_at_the_truths_size_with_true_rmse(picture):
    result, truth, _ = picture
    lab = [metrics.lab_d65(p / 255) for p in (result, truth)]
    assert measure("hu-survey-256", picture).error.all == pytest.approx(metrics.lab_rmse(*lab))
    small = metrics.resize_area(result / 255, 20, 28)
    assert measure("hu-survey-256", (small, truth, picture[2])).error.all > 0


def test_shadowformer_python_uses_opencv_lab_and_gray_ssim(picture):
    result, truth, _ = (p / 255 for p in picture)
    found = measure("shadowformer-python", picture)
    assert found.error.all == pytest.approx(metrics.lab_mae(metrics.lab_opencv(result), metrics.lab_opencv(truth)))
    gray = metrics.ssim_uniform(metrics.gray(result), metrics.gray(truth), peak=2)
    assert found.ssim.all == pytest.approx(gray)


@pytest.mark.parametrize("name", [name for name in PROTOCOLS if name != "as-used"])
def test_perfect_result_has_no_error_anywhere(name, picture):
    _, truth, mask = picture
    found = Reference(truth, mask).compare(truth).scores(PROTOCOLS[name])
    assert found.error == (0, 0, 0)
    assert found.psnr == (math.inf,) * 3
    # A protocol that prints All alone does not spend time on the rest.
    expected = (math.nan, math.nan, 1) if PROTOCOLS[name].all_only else (1, 1, 1)
    assert found.ssim == pytest.approx(expected, nan_ok=True)


def test_16_bit_result_is_read_by_its_own_depth(picture):
    result, truth, mask = picture
    deep = (result.astype(np.uint16) * 257, truth, mask)
    assert measure("istd-256", deep).error == pytest.approx(measure("istd-256", picture).error)


def test_full_size_protocol_refuses_another_size(picture):
    result, truth, mask = picture
    with pytest.raises(EvaluationError, match=r"20x28.*40x56"):
        measure("istd-full", (result[::2, ::2], truth, mask))


def test_mask_of_another_size_is_refused(picture):
    with pytest.raises(EvaluationError, match="mask is 20x28"):
        measure("istd-256", (picture[0], picture[1], picture[2][::2, ::2]))


def test_protocols_together_score_as_each_alone(picture):
    result, truth, mask = picture
    shared = Reference(truth, mask).compare(result)
    for protocol in protocols("all", "istd"):
        alone = Reference(truth, mask).compare(result).scores(protocol)
        assert repr(shared.scores(protocol)) == repr(alone), protocol.name


def test_protocols_share_what_they_agree_on(picture, monkeypatch):
    result, truth, mask = picture
    calls: list[str] = []
    for name in ("imresize", "lab_d50", "ssim_volume_regions"):
        original = getattr(metrics, name)
        replaced = lambda *args, name=name, original=original: (calls.append(name), original(*args))[1]  # noqa: E731
        monkeypatch.setattr(metrics, name, replaced)
    monkeypatch.setitem(sys.modules[Reference.__module__]._LABS, "d50", metrics.lab_d50)
    reference = Reference(truth, mask)
    for _ in range(2):
        comparison = reference.compare(result)
        for name in ("istd-256", "256-pooled"):
            comparison.scores(PROTOCOLS[name])
    # Truth and mask once for both methods; each result once for both protocols.
    assert calls.count("imresize") == 2 + 2
    assert calls.count("lab_d50") == 1 + 2
    assert calls.count("ssim_volume_regions") == 2


def test_unknown_protocol_lists_the_known_ones():
    with pytest.raises(ConfigError, match="istd-256"):
        protocols("istd-512", "istd")


def test_pooled_weighs_by_pixels_and_per_image_does_not(picture):
    _, truth, mask = picture
    small = mask.copy()
    small[:, 20:] = 0
    rows = [measure("istd-256", picture), measure("istd-256", (truth // 2, truth, small))]
    per_image = summarise(PROTOCOLS["istd-256"], rows).value("error", "shadow")
    pooled = summarise(PROTOCOLS["256-pooled"], rows).value("error", "shadow")
    errors, weights = [r.error.shadow for r in rows], [r.weights.shadow for r in rows]
    assert per_image == pytest.approx(np.mean(errors))
    assert pooled == pytest.approx(np.average(errors, weights=weights))
    assert pooled != pytest.approx(per_image)


def test_picture_without_shadow_is_left_out_of_s_and_counted(picture):
    result, truth, mask = picture
    rows = [measure("istd-256", picture), measure("istd-256", (result, truth, np.zeros_like(mask)))]
    summary = summarise(PROTOCOLS["istd-256"], rows)
    for name in ("error", "psnr", "ssim"):
        estimate = summary.estimates[name, "shadow"]
        assert (estimate.used, estimate.left_out) == (1, 1)
        assert estimate.value == getattr(rows[0], name).shadow
    assert summary.estimates["error", "all"].used == 2


@given(st.lists(st.floats(0, 50), min_size=2, max_size=30))
@settings(max_examples=30, deadline=None)
def test_interval_holds_the_mean(values):
    from shadowmaskformer.evaluate.summary import estimate

    found = estimate(np.array(values))
    assert found.low - 1e-9 <= found.value <= found.high + 1e-9
    assert min(values) - 1e-9 <= found.low <= found.high <= max(values) + 1e-9
