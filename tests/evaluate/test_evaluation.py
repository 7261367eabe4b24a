"""Whole evaluations on a tiny ISTD: pairing, masks, resuming, missing results, tables."""

import math
import shutil

import numpy as np
import pytest
from PIL import Image

from shadowmaskformer.cli import main
from shadowmaskformer.errors import ConfigError, DatasetError, EvaluationError
from shadowmaskformer.evaluate import (
    PROTOCOLS,
    EvaluationSet,
    Input,
    MaskSource,
    Predictions,
    RemoverMethod,
    evaluate,
    protocols,
)
from shadowmaskformer.report.results import extremes_table, interval_table, protocols_table, results_table

STANDARD = [PROTOCOLS["istd-256"], PROTOCOLS["istd-full"]]
DATASET = MaskSource("dataset")


def test_input_scores_worse_than_the_floor_and_truth_perfect(istd, tmp_path):
    test = EvaluationSet.open(istd)
    truth = Predictions(istd / "test" / "test_C")
    found = evaluate(test, [Input(), truth, RemoverMethod(None)], STANDARD, DATASET, tmp_path / "out")
    error = {m: found.summary(m, STANDARD[0]).value("error", "shadow") for m in found.methods}
    assert error["test_C"] == 0
    assert error["Relight floor"] < 0.7 * error["Input"]


def test_without_a_test_split_a_split_must_be_named(istd):
    (istd / "test").rename(istd / "valid")
    for kind in "ABC":
        (istd / "valid" / f"test_{kind}").rename(istd / "valid" / f"valid_{kind}")
    with pytest.raises(DatasetError, match="test"):
        EvaluationSet.open(istd)
    assert EvaluationSet.open(istd, "valid").triplets


def test_scoring_the_input_folder_equals_scoring_the_input(istd, tmp_path):
    found = evaluate(
        EvaluationSet.open(istd), [Input(), Predictions(istd / "test" / "test_A")], STANDARD, DATASET, tmp_path / "out"
    )
    assert found.rows["Input"]["istd-256"]["90-1"] == found.rows["test_A"]["istd-256"]["90-1"]


def test_what_remove_writes_is_found(istd, tmp_path):
    results = tmp_path / "results"
    results.mkdir()
    for path in (istd / "test/test_C").iterdir():
        shutil.copy(path, results / f"{path.stem}-no-shadow.png")
    assert not Predictions(results).missing(EvaluationSet.open(istd).triplets)


def test_second_run_computes_nothing_again(istd, tmp_path, monkeypatch):
    test = EvaluationSet.open(istd)
    first = evaluate(test, [Input()], STANDARD, DATASET, tmp_path / "out")

    def explode(*_):
        raise AssertionError("computed again")

    monkeypatch.setattr(Input, "restore", explode)
    again = evaluate(test, [Input()], STANDARD, DATASET, tmp_path / "out")
    # NaN differs from itself, so the texts are compared.
    assert repr(sorted(again.rows["Input"]["istd-256"].items())) == repr(
        sorted(first.rows["Input"]["istd-256"].items())
    )


def test_torn_last_line_is_computed_again(istd, tmp_path):
    test = EvaluationSet.open(istd)
    path = evaluate(test, [Input()], STANDARD, DATASET, tmp_path / "out").csv_files["Input"]
    whole = path.read_text()
    path.write_text(whole[:-20])
    evaluate(test, [Input()], STANDARD, DATASET, tmp_path / "out")
    assert sorted(path.read_text().splitlines()) == sorted(whole.splitlines())


@pytest.mark.parametrize("left", ["", "proto", "rows without a header"])
def test_a_torn_header_is_written_again(istd, tmp_path, left):
    test = EvaluationSet.open(istd)
    path = evaluate(test, [Input()], STANDARD, DATASET, tmp_path / "out").csv_files["Input"]
    whole = path.read_text()
    path.write_text(whole[whole.index("\n") + 1 :] if "rows" in left else left)
    for _ in range(2):
        evaluate(test, [Input()], STANDARD, DATASET, tmp_path / "out")
        assert sorted(path.read_text().splitlines()) == sorted(whole.splitlines())


def test_rows_of_other_masks_are_not_reused(istd, tmp_path):
    test = EvaluationSet.open(istd)
    files = {
        evaluate(test, [Input()], STANDARD[:1], MaskSource(s), tmp_path / "out").csv_files["Input"]
        for s in ("dataset", "derived")
    }
    assert len(files) == 2


def test_worker_processes_give_the_same_rows(istd, tmp_path):
    test = EvaluationSet.open(istd)
    alone = evaluate(test, [Input()], STANDARD[:1], DATASET, tmp_path / "a", workers=0)
    pooled = evaluate(test, [Input()], STANDARD[:1], DATASET, tmp_path / "b", workers=2)
    for name, row in alone.rows["Input"]["istd-256"].items():
        assert pooled.rows["Input"]["istd-256"][name].error.all == pytest.approx(row.error.all)


def test_missing_results_are_listed_or_marked_partial(istd, tmp_path):
    results = tmp_path / "ours"
    shutil.copytree(istd / "test" / "test_C", results)
    (results / "91-1.png").unlink()
    test = EvaluationSet.open(istd)
    with pytest.raises(EvaluationError, match=r"1 of 4 results are missing.*91-1"):
        evaluate(test, [Predictions(results)], STANDARD, DATASET, tmp_path / "out")
    found = evaluate(test, [Input(), Predictions(results)], STANDARD, DATASET, tmp_path / "out", allow_missing=True)
    assert found.label("ours") == "ours (partial, 1 missing)"
    assert found.summary("ours", STANDARD[0]).pictures == 3
    assert found.summary("Input", STANDARD[0]).pictures == 4


def test_results_are_paired_by_name_and_extra_ones_counted(istd, tmp_path):
    results = tmp_path / "ours"
    shutil.copytree(istd / "test" / "test_C", results)
    shutil.copy(results / "90-1.png", results / "00-extra.png")
    method = Predictions(results)
    test = EvaluationSet.open(istd)
    assert method.extra(test.triplets) == 1
    assert (
        evaluate(test, [method], STANDARD, DATASET, tmp_path / "o").summary("ours", STANDARD[0]).value("error", "all")
        == 0
    )


def test_results_of_another_size_are_refused_unless_named(istd, tmp_path):
    results = tmp_path / "ours"
    results.mkdir()
    for path in (istd / "test" / "test_C").iterdir():
        Image.open(path).resize((256, 256), Image.Resampling.BICUBIC).save(results / path.name)
    test = EvaluationSet.open(istd)
    with pytest.raises(EvaluationError, match=r"expected 24x32.*size=256"):
        evaluate(test, [Predictions(results)], STANDARD[:1], DATASET, tmp_path / "out")
    found = evaluate(test, [Predictions(results, 256)], STANDARD[:1], DATASET, tmp_path / "out")
    assert found.methods == ["ours (256×256 results)"]


def test_mask_folder_reaches_the_method_and_not_the_regions(istd, tmp_path):
    empty = tmp_path / "none-detected"
    for path in (istd / "test" / "test_B").iterdir():
        empty.mkdir(exist_ok=True)
        Image.fromarray(np.zeros((24, 32), np.uint8)).save(empty / path.name)
    test = EvaluationSet.open(istd)
    good = evaluate(test, [RemoverMethod(None)], STANDARD[:1], DATASET, tmp_path / "a")
    bad = evaluate(test, [RemoverMethod(None)], STANDARD[:1], MaskSource(str(empty)), tmp_path / "b")
    name = "Relight floor"
    assert bad.summary(name, STANDARD[0]).value("error", "shadow") > good.summary(name, STANDARD[0]).value(
        "error", "shadow"
    )
    assert bad.rows[name]["istd-256"]["90-1"].weights == good.rows[name]["istd-256"]["90-1"].weights


def test_dataset_masks_that_do_not_exist_name_the_remedy(istd, tmp_path):
    shutil.rmtree(istd / "test" / "test_B")
    with pytest.raises(EvaluationError, match='mask_source="derived"'):
        evaluate(EvaluationSet.open(istd), [Input()], STANDARD, DATASET, tmp_path / "out")


def test_unseen_scenes_are_those_whose_clean_picture_train_lacks(istd):
    shutil.copy(istd / "train" / "train_C" / "1-1.png", istd / "test" / "test_C" / "90-1.png")
    assert EvaluationSet.open(istd).subsets["unseen scenes"] == {"91-1", "92-1", "93-1"}


def test_table_puts_published_rows_beside_ours_with_protocol_and_masks(istd, tmp_path):
    found = evaluate(EvaluationSet.open(istd), [Input()], STANDARD, DATASET, tmp_path / "out")
    table = results_table(found, STANDARD[0])
    names = [str(row.cells[0]) for row in table.rows]
    assert "ShadowMaskFormer" in names
    assert names[-1] == "Input"
    assert "istd-256" in table.caption
    assert "dataset" in table.caption
    assert "n/a" not in interval_table(found, STANDARD[0]).text()


def test_a_picture_without_a_shadow_does_not_scramble_worst_and_best(istd, tmp_path):
    # As read from disk, the picture without S-PSNR comes between the others.
    for letter in "ABC":
        folder = istd / "test" / f"test_{letter}"
        (folder / "93-1.png").rename(folder / "90-2.png")
    used = PROTOCOLS["as-used"]
    found = evaluate(EvaluationSet.open(istd), [Input()], [used], DATASET, tmp_path / "out", workers=0)
    ranked = found.ranked("Input", used)
    scores = [score for _, score in ranked]
    assert {name for name, _ in ranked} == {"90-1", "91-1", "92-1"}
    assert scores == sorted(scores, reverse=True)
    assert "nan" not in extremes_table(found, used).text()


def test_all_protocols_stand_side_by_side(istd, tmp_path):
    every = protocols("all", "istd")
    found = evaluate(EvaluationSet.open(istd), [Input()], every, DATASET, tmp_path / "out")
    rows = protocols_table(found).rows
    assert [row.cells[1] for row in rows] == [protocol.name for protocol in every]
    survey = next(row for row in rows if row.cells[1] == "hu-survey-256")
    assert isinstance(survey.cells[3], float)
    assert math.isnan(survey.cells[3])


def test_two_methods_of_one_name_are_refused(istd, tmp_path):
    with pytest.raises(EvaluationError, match="two methods"):
        evaluate(EvaluationSet.open(istd), [Input(), Input()], STANDARD, DATASET, tmp_path / "out")


def test_weights_are_loaded_once_and_only_if_a_row_is_missing(istd, tmp_path, tiny_weights, monkeypatch):
    from shadowmaskformer.network import weights
    from shadowmaskformer.removal.remover import ShadowRemover

    loads: list[str] = []
    read, make = weights.read_arrays, ShadowRemover.__init__
    monkeypatch.setattr(weights, "read_arrays", lambda path: (loads.append("arrays"), read(path))[1])
    monkeypatch.setattr(ShadowRemover, "__init__", lambda *a, **k: (loads.append("remover"), make(*a, **k))[1])
    for _ in range(2):
        method = RemoverMethod(str(tiny_weights))
        evaluate(EvaluationSet.open(istd), [method], STANDARD, DATASET, tmp_path / "out", workers=0)
    assert sorted(loads) == ["arrays", "remover"]
    assert method.params_m == pytest.approx(sum(a.size for a in read(weights.locate(tiny_weights)).values()) / 1e6)


def test_an_export_and_another_runtime_score_like_the_weights(istd, tmp_path, tiny_weights):
    for module in ("torch", "onnx", "onnxscript", "onnxruntime"):
        pytest.importorskip(module)
    exported = tmp_path / "tiny.onnx"
    assert main(["export", "--to", "onnx", "--weights", str(tiny_weights), "-o", str(exported)]) == 0
    methods = [
        RemoverMethod(str(tiny_weights)),
        RemoverMethod(str(tiny_weights), "torch", runtime="torch", device="cpu"),
        RemoverMethod(str(exported)),
    ]
    assert len({method.identity for method in methods}) == 3
    assert methods[2].params_m == methods[0].params_m
    found = evaluate(EvaluationSet.open(istd, limit=1), methods, STANDARD[:1], DATASET, tmp_path / "out", workers=0)
    errors = [found.summary(method.name, STANDARD[0]).value("error", "all") for method in methods]
    assert errors == pytest.approx([errors[0]] * 3, rel=1e-2)


def test_a_mask_folder_that_is_not_there_is_refused_when_it_is_named(tmp_path):
    with pytest.raises(ConfigError, match="give dataset, derived or a folder of masks"):
        MaskSource(str(tmp_path / "gone"))


def test_pictures_for_the_report_are_kept_while_scoring(istd, tmp_path):
    test, methods = EvaluationSet.open(istd), [Input(), RemoverMethod(None)]
    found = evaluate(test, methods, STANDARD, DATASET, tmp_path / "out", pictures=True)
    assert found.gallery is not None
    for what in ("photo", "truth", "mask", *found.gallery_keys.values()):
        copy = found.gallery.get(what, "90-1")
        assert copy is not None
        assert copy.shape[:2] == (24, 32)
    assert evaluate(test, methods, STANDARD, DATASET, tmp_path / "bare").gallery is None
    assert not (tmp_path / "bare" / "pictures").exists()
