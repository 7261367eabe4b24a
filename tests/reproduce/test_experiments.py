"""`reproduce`: plans, held-out scenes, and every section of the report, with training replaced by random weights."""

import json
from pathlib import Path

import pytest

from shadowmaskformer import data
from shadowmaskformer.cli import main
from shadowmaskformer.errors import ConfigError
from shadowmaskformer.network import embedding
from shadowmaskformer.reproduce import experiments
from shadowmaskformer.reproduce.workshop import Run, Trained, Workshop, write_lists


@pytest.fixture
def trained(monkeypatch, tiny_weights) -> list[str]:
    """Stands in for training; the names of the runs asked for."""
    asked: list[str] = []

    def train(self: Workshop, run: Run) -> Trained:
        asked.append(run.name)
        scores = {
            f"{g}_{m}_{r}": 1.0 for g in ("unseen", "seen") for m in ("psnr", "mae") for r in ("shadow", "lit", "all")
        }
        floor = {f"floor_{key}": value for key, value in scores.items()}
        lines = [floor | {"floor_psnr": 1.0}, *(scores | {"psnr": 1.0, "elapsed_s": 60.0 * i} for i in (1, 2))]
        log = "".join(json.dumps({"step": step} | line) + "\n" for step, line in enumerate(lines))
        (tiny_weights.parent / "log.jsonl").write_text(log)
        return Trained(run, tiny_weights, steps=1, minutes=0.0)

    monkeypatch.setattr(Workshop, "train", train)
    return asked


@pytest.fixture
def shared_scene(istd: Path) -> Path:
    """The tiny ISTD, with scene 1 of train also in test."""
    for letter in "ABC":
        source = istd / "train" / f"train_{letter}" / "1-1.png"
        (istd / "test" / f"test_{letter}" / "1-2.png").write_bytes(source.read_bytes())
    return istd


def test_runs_are_shared_between_experiments():
    names = [run.name for run in experiments.runs_needed(experiments.NAMES, held_out=True, timed=True)]
    assert len(names) == len(set(names))
    assert names.count("base") == 1
    assert "held out" in names


def test_an_embedding_of_a_users_own_is_compared(monkeypatch):
    monkeypatch.setitem(embedding.EMBEDDINGS, "mine", embedding.EMBEDDINGS["plain"])
    runs = experiments.runs_needed(["embedding"], held_out=False, timed=True)
    assert {run.name for run in runs} == {"base", "plain", "mape-01", "mape-physical", "mine"}
    assert Run("mine", ("embedding=mine",)) in runs


def test_held_out_scenes_leave_training(shared_scene, tmp_path):
    folder, names = experiments.hold_out(data.open_dataset(shared_scene), tmp_path / "lists")
    assert names == {"1-2"}
    assert folder is not None
    assert [t.name for t in data.open_dataset(folder).split("train")] == ["2-1", "3-1", "4-1"]


def test_named_scenes_are_held_out(shared_scene, tmp_path):
    folder, names = experiments.hold_out(data.open_dataset(shared_scene), tmp_path / "lists", ["1"])
    assert (names, folder is None) == ({"1-2"}, False)


def test_a_scene_that_does_not_exist_is_named(shared_scene, tmp_path):
    with pytest.raises(ConfigError, match="called 77"):
        experiments.hold_out(data.open_dataset(shared_scene), tmp_path / "lists", ["1", "77"])


def test_nothing_to_hold_out_is_said(istd, tmp_path):
    assert experiments.hold_out(data.open_dataset(istd), tmp_path / "lists") == (None, frozenset())


def test_lists_point_at_the_same_pictures(istd, tmp_path):
    test = data.open_dataset(istd).split("test")
    again = data.open_dataset(write_lists(tmp_path / "lists", {"test": test})).split("test")
    assert [t.clean.read_bytes() for t in again] == [t.clean.read_bytes() for t in test]


def test_all_experiments_end_in_one_report(shared_scene, tmp_path, trained, capsys):
    pytest.importorskip("matplotlib")
    words = ["--data", str(shared_scene), "-o", str(tmp_path / "report"), "--mask-source", "dataset"]
    assert main(["reproduce", "--all", *words, "--budget-minutes", "1", "--limit", "1", "--workers", "0"]) == 0
    page = (tmp_path / "report" / "index.html").read_text()
    for title in (
        "Patch embedding",
        "Model size",
        "Robustness to mask quality",
        "Weights w1 and w2",
        "at equal time",
        "Left out",
    ):
        assert title in page
    assert "Table III (SRD)" in page
    assert set(trained) >= {"base", "plain", "mape-01", "mape-physical", "small", "middle", "large"}
    assert "report:" in capsys.readouterr().out


def test_one_experiment_says_what_it_left_out(istd, tmp_path, trained):
    pytest.importorskip("matplotlib")
    words = ["--data", str(istd), "-o", str(tmp_path / "report"), "--mask-source", "dataset", "--limit", "1"]
    assert main(["reproduce", "--experiment", "generalisation", *words, "--workers", "0"]) == 0
    text = (tmp_path / "report" / "report.md").read_text()
    assert "could be held out; name scenes with --hold-out" in text
    assert "not asked for" in text
    assert trained == []


def test_recipes_need_a_time_budget(istd, tmp_path, trained):
    pytest.importorskip("matplotlib")
    words = ["--data", str(istd), "-o", str(tmp_path / "report"), "--mask-source", "dataset", "--limit", "1"]
    assert main(["reproduce", "--experiment", "recipes", *words, "--workers", "0"]) == 0
    assert "give a time budget" in (tmp_path / "report" / "report.md").read_text()
    assert trained == []


def test_unknown_experiment_is_wrong_usage(istd, tmp_path, capsys):
    words = ["--data", str(istd), "-o", str(tmp_path), "--mask-source", "dataset"]
    assert main(["reproduce", "--experiment", "magic", *words]) == 2
    assert "mask-quality" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("option", "value"),
    [("--limit", "0"), ("--budget-minutes", "nan"), ("--budget-minutes", "inf"), ("--budget-minutes", "0")],
)
def test_limits_that_leave_nothing_are_wrong_usage(istd, tmp_path, trained, capsys, option, value):
    words = ["--data", str(istd), "-o", str(tmp_path / "report"), "--mask-source", "dataset", option, value]
    assert main(["reproduce", "--all", *words]) == 2
    error = capsys.readouterr().err
    assert option.strip("-") in error
    assert f"is {value}" in error
    assert trained == []
    assert not (tmp_path / "report").exists()


def test_unseen_scenes_are_searched_once(shared_scene, tmp_path, trained, monkeypatch):
    pytest.importorskip("matplotlib")
    searched: list[int] = []
    search = data.unseen_scenes
    monkeypatch.setattr(data, "unseen_scenes", lambda test, train: searched.append(1) or search(test, train))
    words = ["--data", str(shared_scene), "-o", str(tmp_path / "report"), "--mask-source", "dataset", "--workers", "0"]
    for _ in range(2):
        assert main(["reproduce", "--experiment", "recipes", *words]) == 0
    assert searched == [1]


@pytest.mark.slow
def test_a_real_run_trains_within_its_budget_and_is_not_trained_twice(istd, tmp_path):
    pytest.importorskip("torch")
    lines: list[str] = []
    small = ["depths=[1,1,1,1,1]", "sizes=[16]", "batches=[1]", "shares=[1.0]", "validations=1", "validation_size=16"]
    shop = Workshop(istd, None, tmp_path / "runs", recipe="cpu", overrides=small, minutes=0.05, say=lines.append)
    first = shop.train(experiments.BASE)
    assert (first.weights / "model.safetensors").exists()
    assert shop.train(experiments.BASE) == first
    assert len(lines) == 1
