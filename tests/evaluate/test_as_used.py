"""What users get: own-light truth, regions by their own pixels, wrong masks."""

import math

import numpy as np
import pytest
from PIL import Image

from shadowmaskformer.errors import ConfigError, EvaluationError
from shadowmaskformer.evaluate import (
    PROTOCOLS,
    EvaluationPicture,
    EvaluationSet,
    Input,
    MaskChange,
    MaskSource,
    PictureScores,
    Predictions,
    Reference,
    RemoverMethod,
    evaluate,
    summarise,
)
from shadowmaskformer.evaluate.as_used import UsedRegions, used_scores, worst_tenth
from shadowmaskformer.metrics import Regions
from shadowmaskformer.report.results import mask_error_table, results_table

USED = PROTOCOLS["as-used"]
NAMES = ("Input", "Relight floor")


@pytest.fixture
def pair(rng: np.random.Generator) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Photo, truth taken in other light, mask; 60 x 100."""
    clean = np.clip(rng.normal(0.6, 0.08, (60, 100, 3)), 0.1, 0.95)
    mask = np.zeros((60, 100), np.uint8)
    mask[20:45, 30:70] = 255
    photo = np.where(mask[..., None] > 0, clean * 0.4, clean)
    taken = clean * np.array([0.9, 0.95, 1.0]) + 0.02
    return (np.round(photo * 255).astype(np.uint8), np.round(taken * 255).astype(np.uint8), mask)


def test_a_change_of_daylight_between_the_shots_counts_for_nothing(pair):
    photo, taken, mask = pair
    found = Reference(taken, mask, photo).compare(photo).scores(USED)
    assert found.psnr.lit > 45
    assert found.psnr.shadow < 15
    assert found.psnr.shadow < found.edge < found.psnr.lit


def test_psnr_is_over_the_pixels_of_the_region(pair):
    _, truth, mask = pair
    truth = truth / 255
    off = truth.copy()
    off[mask > 0] += 0.1
    found = used_scores(off, truth, UsedRegions.of(mask))
    assert found.shadow == pytest.approx(20)
    assert found.lit == math.inf
    # A quarter of the frame's 6000 pixels would be 1500; the shadow has 1000.
    assert found.all == pytest.approx(20 + 10 * math.log10(6))


def test_the_edge_is_a_band_of_two_percent_on_both_sides(pair):
    mask = pair[2]
    edge = UsedRegions.of(mask).edge
    assert edge[30, 28:32].all()
    assert edge[30, 68:72].all()
    assert not edge[30, 27]
    assert not edge[30, 33:67].any()


def test_contrast_is_a_share_of_the_truths(pair):
    _, truth, mask = pair
    truth, regions = truth / 255, UsedRegions.of(mask)
    mean = truth.mean(axis=(0, 1))
    assert used_scores(truth, truth, regions).contrast == 1
    assert used_scores(mean + (truth - mean) * 0.5, truth, regions).contrast == pytest.approx(0.5, abs=0.01)
    small = np.zeros_like(mask)
    small[30:35, 30:35] = 255
    assert math.isnan(used_scores(truth, truth, UsedRegions.of(small)).contrast)


def test_worst_tenth_is_the_mean_of_the_worst_pictures():
    nothing = Regions(math.nan, math.nan, math.nan)
    rows = [
        PictureScores(nothing, Regions(float(n), 40.0, 30.0), nothing, Regions(1, 1, 2), edge=20.0, contrast=0.5 + n)
        for n in range(20, 40)
    ]
    summary = summarise(USED, rows)
    assert summary.worst_tenth == 20.5
    assert summary.edge == 20
    assert summary.contrast_median == pytest.approx(30.0)
    assert math.isnan(worst_tenth(np.array([np.nan])))


@pytest.mark.parametrize("text", ["shrink", "shrink:2", "2%", "shrink:-2%", "grow:0%", "melt:2%", "grow:60%"])
def test_a_mask_error_that_makes_no_sense_is_refused_with_examples(text):
    with pytest.raises(ConfigError, match="shrink:2%, grow:2% or shift:2%"):
        MaskChange.parse(text)


def test_mask_errors_are_in_percent_of_the_width(pair):
    mask = pair[2]
    assert (MaskChange.parse("shrink:2%").apply(mask)[30] > 0).sum() == 36
    assert (MaskChange.parse("grow:2%").apply(mask)[30] > 0).sum() == 44
    shifted = MaskChange.parse("shift:2%").apply(mask)
    np.testing.assert_array_equal(shifted[:, 2:], mask[:, :-2])


def test_a_shifted_mask_still_reaches_the_frame_it_ran_out_of():
    mask = np.zeros((10, 50), np.uint8)
    mask[:, :20] = 255
    assert (MaskChange.parse("shift:10%").apply(mask)[:, :25] == 255).all()


def test_wrong_masks_reach_the_method_and_not_the_regions(istd):
    triplet = EvaluationSet.open(istd).triplets[0]
    exact = EvaluationPicture(triplet, MaskSource("dataset"))
    wrong = EvaluationPicture(triplet, MaskSource("dataset", change=MaskChange("grow", 10)))
    np.testing.assert_array_equal(exact.region, wrong.region)
    assert (wrong.mask > 0).sum() > (exact.mask > 0).sum()
    assert MaskSource("dataset", change=MaskChange("grow", 10)).identity != MaskSource("dataset").identity


def test_the_result_is_the_one_that_remove_gives(istd):
    from shadowmaskformer import ShadowRemover

    picture = EvaluationPicture(EvaluationSet.open(istd).triplets[0], MaskSource("dataset"))
    expected = ShadowRemover(method="relight").remove(picture.photo, picture.mask)
    np.testing.assert_array_equal(RemoverMethod(None).restore(picture, USED.result_kind), expected)
    far = np.ones(picture.mask.shape, bool)
    far[picture.mask > 0] = False
    assert (expected[far] == picture.photo[far]).mean() > 0.5


def test_tables_show_what_users_get_and_what_a_wrong_mask_costs(istd, tmp_path):
    test, methods = EvaluationSet.open(istd), [Input(), RemoverMethod(None)]
    exact = evaluate(test, methods, [USED], MaskSource("dataset"), tmp_path)
    small = MaskSource("dataset", change=MaskChange("shrink", 5))
    changed = {"shrink 5 %": evaluate(test, methods, [USED], small, tmp_path)}
    table = results_table(exact, USED)
    assert [row.cells[0] for row in table.rows] == list(NAMES)
    floor, before = table.rows[1].cells[1], table.rows[0].cells[1]
    assert isinstance(floor, float)
    assert isinstance(before, float)
    assert floor > before + 5
    lost = mask_error_table(exact, changed, USED)
    assert [row.cells[1] for row in lost.rows] == ["exact", "shrink 5 %"]
    assert isinstance(lost.rows[1].cells[-1], float)
    assert lost.rows[1].cells[-1] > 1


def test_rows_are_kept_apart_from_those_of_published_protocols(istd, tmp_path):
    test = EvaluationSet.open(istd)
    found = evaluate(test, [Input()], [USED, PROTOCOLS["istd-256"]], MaskSource("dataset"), tmp_path)
    assert set(found.csv_files) == {"Input", "Input, as used"}
    assert set(found.rows["Input"]) == {"as-used", "istd-256"}


def test_small_results_cannot_be_scored_as_used(istd, tmp_path):
    results = tmp_path / "small"
    results.mkdir()
    for path in (istd / "test" / "test_C").iterdir():
        Image.open(path).resize((256, 256)).save(results / path.name)
    with pytest.raises(EvaluationError, match="as-used does not resize"):
        evaluate(EvaluationSet.open(istd), [Predictions(results, 256)], [USED], MaskSource("dataset"), tmp_path / "out")
