from __future__ import annotations

import dataclasses
import json
import math
import os
import re
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
from PIL import Image

torch = pytest.importorskip("torch")

from shadowmaskformer import train  # noqa: E402
from shadowmaskformer.errors import ConfigError, DatasetError, OutputError, TrainingError  # noqa: E402
from shadowmaskformer.network import weights  # noqa: E402
from shadowmaskformer.train import learner, loop, startup, tasks, validation  # noqa: E402
from shadowmaskformer.train.batches import Batch  # noqa: E402
from shadowmaskformer.train.journal import read_log  # noqa: E402
from shadowmaskformer.train.processes import Processes  # noqa: E402
from shadowmaskformer.train.tasks import task_of  # noqa: E402
from train.pairs import QUICK, write_pairs  # noqa: E402
from train.signs import signal_when  # noqa: E402


@pytest.fixture(scope="module")
def data(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write_pairs(tmp_path_factory.mktemp("pairs"))


@pytest.fixture(scope="module", autouse=True)
def one_thread() -> Iterator[None]:
    """Sums are exact to the last bit only between runs with the same number of threads."""
    before = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(before)


@pytest.fixture(scope="module")
def whole_run(data: Path, one_thread: None, tmp_path_factory: pytest.TempPathFactory) -> Path:
    out = tmp_path_factory.mktemp("whole") / "run"
    assert train.run(QUICK, data, out).finished
    return out


def losses(folder: Path) -> dict[int, float]:
    return {int(line["step"]): line["loss"] for line in read_log(folder) if "loss" in line}


def wait_for(event: Callable[[], bool], seconds: float = 90) -> None:
    until = time.monotonic() + seconds
    while not event():
        assert time.monotonic() < until, "it did not happen"
        time.sleep(0.2)


def run_in_process(data: Path, out: Path, *, resume: bool) -> subprocess.Popen[bytes]:
    code = (
        "import sys; sys.path.insert(0, sys.argv[1])\n"
        "import torch; torch.set_num_threads(1)\n"
        "from train.pairs import QUICK\n"
        "from shadowmaskformer.train import run\n"
        f"run(QUICK, sys.argv[2], sys.argv[3], resume={resume})"
    )
    tests = Path(__file__).parents[1]
    return subprocess.Popen([sys.executable, "-c", code, str(tests), str(data), str(out)])


def test_a_run_leaves_weights_description_log_panels_and_curves(whole_run: Path) -> None:
    config, arrays = weights.load(whole_run / "best")
    assert config == QUICK.model_config()
    assert all(np.isfinite(array).all() for array in arrays.values())
    assert sorted(losses(whole_run)) == list(range(1, 9))
    description = json.loads((whole_run / "run.json").read_text())
    assert description["recipe"]["learning_rate"] == QUICK.learning_rate
    assert description["facts"]["data"]
    assert {"git", "torch", "started"} <= set(description["about"])
    assert len(list((whole_run / "panels").glob("*.jpg"))) == 2
    assert len(list((whole_run / "checkpoints").glob("*"))) == 2


def test_seen_and_unseen_scenes_are_scored_apart(tmp_path: Path) -> None:
    data = write_pairs(tmp_path / "pairs", 6, shadows=2)
    result = train.run(dataclasses.replace(QUICK, steps=2, validations=1), data, tmp_path / "run")
    assert result.best is not None
    groups = [result.best[f"{group}_psnr_all"] for group in ("unseen", "seen")]
    assert groups[0] != groups[1]
    assert result.best["psnr"] == pytest.approx(np.mean(groups), abs=1e-4)


def test_pictures_are_kept_as_large_as_the_recipe_needs_them(
    data: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(startup, "SIDE", 16)
    config = dataclasses.replace(QUICK, steps=1, validations=1, sizes=(20,), batches=(2,), shares=(1.0,), detail=2)
    train.run(dataclasses.replace(config, validation_size=24), data, tmp_path / "run", cache=tmp_path / "cache")
    (index,) = (tmp_path / "cache").glob("*/index.json")
    assert {entry["height"] for entry in json.loads(index.read_text())["entries"]} == {40}


def test_validation_is_in_the_light_that_the_recipe_asks_for(data: Path, tmp_path: Path) -> None:
    folder = tmp_path / "pairs"
    shutil.copytree(data, folder)
    for path in (folder / "train" / "gt").iterdir():
        drifted = np.asarray(Image.open(path)) * 0.8 + 10
        Image.fromarray(drifted.astype(np.uint8)).save(path)
    shifts = []
    for truth in ("as-taken", "own-light"):
        config = dataclasses.replace(QUICK, truth=truth)
        split, processes = startup.split_data(config, folder), Processes(0, 1, torch.device("cpu"))
        _, checked = startup.open_samples(config, split, {}, task_of(config), tmp_path / "cache", processes, quiet=True)
        assert checked is not None
        (sample, *_) = checked.groups["unseen"]
        shifts.append(float(np.abs(sample.truth - sample.photo)[sample.mask == 0].mean()))
    assert shifts[0] > 0.05
    assert shifts[1] < 0.01


def test_other_pairs_decide_as_their_user_gets_them(data: Path, tmp_path: Path) -> None:
    other = write_pairs(tmp_path / "outside", count=3)
    config = dataclasses.replace(QUICK, embedding="mape-physical")
    result = train.run(config, data, tmp_path / "run", also=[other])
    log = read_log(tmp_path / "run")
    floor, *scored = [line for line in log if "floor_outside_shadow" in line or "outside_shadow" in line]
    assert floor["floor_outside_edge"] > 15
    assert len(scored) == QUICK.validations
    for line in scored:
        assert line["used"] == pytest.approx((line["outside_shadow"] + line["outside_edge"]) / 2, abs=1e-3)
    assert result.best is not None
    namesake = write_pairs(tmp_path / "more/outside", count=3)
    with pytest.raises(ConfigError, match="have one name"):
        train.run(config, data, tmp_path / "again", also=[other, namesake])
    assert not (tmp_path / "again").exists()
    assert result.best["used"] == max(line["used"] for line in scored)


def test_photographs_are_trained_on_with_drawn_shadows(data: Path, tmp_path: Path) -> None:
    photos = tmp_path / "photos"
    photos.mkdir()
    for path in (data / "train" / "gt").iterdir():
        shutil.copy(path, photos / f"more-{path.name}")
    config = dataclasses.replace(QUICK, augment={})
    split, processes = startup.split_data(config, data, photos), Processes(0, 1, torch.device("cpu"))
    samples, _ = startup.open_samples(config, split, {}, task_of(config), tmp_path / "cache", processes, quiet=True)
    drawn = [samples.draw(position, 48) for position in range(len(samples))]
    added = [sample for sample in drawn if sample.name.startswith("photos/")]
    assert len(added) == 8
    assert len(drawn) == len(added) + len(startup.split_data(config, data).train)
    for sample in added:
        assert (sample.photo <= sample.truth + 1e-6).all()
        assert (sample.photo < sample.truth - 0.05)[sample.mask > 0.5].any()


def test_a_folder_without_photographs_is_named(data: Path, tmp_path: Path) -> None:
    with pytest.raises(DatasetError, match="holds no photographs"):
        startup.split_data(QUICK, data, tmp_path)


def test_loss_falls_on_few_pictures(data: Path, tmp_path: Path) -> None:
    config = dataclasses.replace(QUICK, steps=40, sizes=(32,), batches=(2,), shares=(1.0,), augment={})
    train.run(dataclasses.replace(config, checkpoint_every_s=99.0), data, tmp_path / "run")
    values = list(losses(tmp_path / "run").values())
    assert np.mean(values[-8:]) < 0.7 * np.mean(values[:8])


def test_size_and_rate_follow_the_schedule(whole_run: Path) -> None:
    steps = [line for line in read_log(whole_run) if "loss" in line]
    assert [line["size"] for line in steps] == [32] * 4 + [48] * 4
    rates = [line["learning_rate"] for line in steps]
    assert rates[0] == 0
    assert max(rates) == rates[2] == QUICK.learning_rate


@pytest.mark.skipif(not hasattr(signal, "SIGKILL"), reason="no SIGKILL on this system")
def test_a_run_killed_twice_equals_one_that_was_not(data: Path, whole_run: Path, tmp_path: Path) -> None:
    out = tmp_path / "run"
    for resume, least in ((False, 2), (True, 5)):
        process = run_in_process(data, out, resume=resume)
        deadline = time.monotonic() + 120
        while len(losses(out)) < least and process.poll() is None and time.monotonic() < deadline:
            time.sleep(0.01)
        process.kill()
        process.wait()
    assert train.run(QUICK, data, out, resume=True).finished
    assert losses(out) == losses(whole_run)
    assert {p.read_bytes() for p in (out / "best").glob("*.safetensors")} == {
        p.read_bytes() for p in (whole_run / "best").glob("*.safetensors")
    }


def test_resume_takes_the_newest_whole_checkpoint(data: Path, whole_run: Path, tmp_path: Path) -> None:
    out = tmp_path / "run"
    train.run(QUICK, data, out)
    newest = max((out / "checkpoints").glob("*"))
    newest.write_bytes(newest.read_bytes()[:-100])
    assert train.run(QUICK, data, out, resume=True).steps == 8
    assert losses(out) == losses(whole_run)


def test_two_processes_equal_one_with_the_same_batch(data: Path, whole_run: Path, tmp_path: Path) -> None:
    out = tmp_path / "run"
    script = tmp_path / "script.py"
    script.write_text(
        "import sys; sys.path.insert(0, sys.argv[1])\n"
        "from train.pairs import QUICK\nfrom shadowmaskformer.train import run\n"
        "run(QUICK, sys.argv[2], sys.argv[3])\n"
    )
    command = [sys.executable, "-m", "torch.distributed.run", "--standalone", "--nproc-per-node", "2"]
    arguments = [str(script), str(Path(__file__).parents[1]), str(data), str(out)]
    subprocess.run(command + arguments, check=True, env={**os.environ, "OMP_NUM_THREADS": "1"}, timeout=240)
    alone, together = losses(whole_run), losses(out)
    assert together.keys() == alone.keys()
    # Up to summation order: float32 carries about 7 digits, and eight steps of AdamW stretch the last ones.
    assert np.allclose(list(together.values()), list(alone.values()), rtol=2e-4)


def test_a_batch_that_processes_cannot_share_is_refused(
    data: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with pytest.raises(ConfigError, match="multiples of 3"):
        startup.prepare_folder(
            tmp_path / "run",
            QUICK,
            data,
            [],
            tasks.task_of(QUICK),
            photos=None,
            also={},
            hours=None,
            init=None,
            before=None,
            allow_change=(),
            processes=Processes(0, 3, torch.device("cpu")),
        )


def test_a_changed_recipe_is_not_resumed_unless_allowed(data: Path, tmp_path: Path) -> None:
    out = tmp_path / "run"
    train.run(dataclasses.replace(QUICK, steps=2, validations=1), data, out)
    longer = dataclasses.replace(QUICK, steps=3, validations=1)
    with pytest.raises(ConfigError, match=r"steps was 2, is 3.*allow_change=.steps"):
        train.run(longer, data, out, resume=True)
    assert train.run(longer, data, out, resume=True, allow_change=["steps"]).steps == 3


def test_other_pairs_to_validate_on_are_not_taken_into_a_run_unless_allowed(data: Path, tmp_path: Path) -> None:
    out, config = tmp_path / "run", dataclasses.replace(QUICK, embedding="mape-physical", steps=2, validations=1)
    train.run(config, data, out)
    further = write_pairs(tmp_path / "further", count=2)
    longer, changed = dataclasses.replace(config, steps=8, validations=4), ["steps", "validations"]
    with pytest.raises(ConfigError, match=r"allow_change=.*also"):
        train.run(longer, data, out, resume=True, also=[further], allow_change=changed)
    again = train.run(longer, data, out, resume=True, also=[further], allow_change=[*changed, "also"])
    assert "used" in (again.best or {})


def test_pictures_of_one_name_in_both_splits_stay_apart(data: Path, tmp_path: Path) -> None:
    for split in ("train", "valid"):
        shutil.copytree(data / "train", tmp_path / "twice" / split)
    found = startup.split_data(QUICK, tmp_path / "twice")
    cache, one = tmp_path / "cache", Processes(0, 1, torch.device("cpu"))
    samples, valid = startup.open_samples(QUICK, found, {}, task_of(QUICK), cache, one, quiet=True)
    assert len(samples) == len(found.train) == 8
    assert valid is not None
    assert {each.name for each in valid.groups["unseen"]} == {each.name for each in found.unseen}


def test_a_run_shortened_below_what_it_did_keeps_its_weights(data: Path, tmp_path: Path) -> None:
    out = tmp_path / "run"
    with signal_when(lambda: max(losses(out), default=0) >= 3, signal.SIGTERM):
        assert not train.run(dataclasses.replace(QUICK, steps=100000, validations=1), data, out).finished
    shorter = dataclasses.replace(QUICK, steps=2, validations=1)
    result = train.run(shorter, data, out, resume=True, allow_change=["steps"])
    assert (result.finished, result.steps >= 3) == (True, True)
    assert result.best is not None
    assert (out / "best" / "model.safetensors").is_file()
    assert train.run(shorter, data, out, resume=True).best == result.best


def test_changed_data_is_not_resumed(tmp_path: Path) -> None:
    data = write_pairs(tmp_path / "pairs")
    config = dataclasses.replace(QUICK, steps=2, validations=1)
    train.run(config, data, tmp_path / "run")
    for picture in data.glob("train/*/000.png"):
        picture.unlink()
    with pytest.raises(ConfigError, match=r"allow_change=.data"):
        train.run(config, data, tmp_path / "run", resume=True)


def test_a_run_is_never_overwritten(data: Path, whole_run: Path) -> None:
    with pytest.raises(OutputError, match="resume=True"):
        train.run(QUICK, data, whole_run)


def test_the_bar_shows_loss_speed_and_time_left(data: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    train.run(dataclasses.replace(QUICK, steps=2, validations=1), data, tmp_path / "run", quiet=False)
    assert re.search(r"100%\|.*loss 0\.\d+, \d+ kpixel/s, 00:00 left", capsys.readouterr().err)


def test_a_finished_run_says_so_and_draws_no_bar(
    data: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str], caplog: pytest.LogCaptureFixture
) -> None:
    config = dataclasses.replace(QUICK, steps=2, validations=1)
    train.run(config, data, tmp_path / "run")
    with caplog.at_level("INFO", logger=loop.__name__):
        train.run(config, data, tmp_path / "run", resume=True, quiet=False)
    assert "the run was finished already, after 2 steps" in caplog.text
    assert "%|" not in capsys.readouterr().err


def test_nothing_to_resume_is_said(data: Path, tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="no run to resume"):
        train.run(QUICK, data, tmp_path / "run", resume=True)


def test_a_run_killed_before_its_first_checkpoint_starts_over(data: Path, whole_run: Path, tmp_path: Path) -> None:
    out = tmp_path / "run"
    (out / "checkpoints").mkdir(parents=True)
    (out / "run.json").write_bytes((whole_run / "run.json").read_bytes())
    assert train.run(QUICK, data, out, resume=True).finished
    assert losses(out) == losses(whole_run)


def test_the_description_says_what_the_run_came_from(data: Path, whole_run: Path, tmp_path: Path) -> None:
    out = tmp_path / "run"
    short = dataclasses.replace(QUICK, steps=1, validations=1)
    first = shutil.copytree(whole_run / "best", tmp_path / "first")
    train.run(short, data, out, init=first)
    shutil.rmtree(first)  # a checkpoint needs it no longer
    train.run(dataclasses.replace(short, steps=2), data, out, resume=True, allow_change=["steps"])
    description = json.loads((out / "run.json").read_text())
    assert description["init"] == str(first)
    assert description["resumed_from"][0]["changed_since"] == {"steps": [1, 2]}


def test_pairs_without_splits_are_trained_on(data: Path, tmp_path: Path) -> None:
    mine = tmp_path / "mine"
    shutil.copytree(data / "train", mine)
    assert train.run(dataclasses.replace(QUICK, steps=1, validations=1), mine, tmp_path / "run").finished


def poison(monkeypatch: pytest.MonkeyPatch, bad: range) -> None:
    """Let the loss be NaN at the steps in `bad`."""
    step = learner.Learner.step

    def poisoned(self: learner.Learner, batch: Batch, number: int, learning_rate: float) -> float:
        if number in bad:
            batch = dataclasses.replace(batch, inputs={**batch.inputs, "photo": batch.inputs["photo"] * math.nan})
        return step(self, batch, number, learning_rate)

    monkeypatch.setattr(learner.Learner, "step", poisoned)


def test_a_step_without_finite_gradient_is_skipped_and_its_batch_kept(
    data: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    poison(monkeypatch, range(3, 4))
    result = train.run(QUICK, data, tmp_path / "run")
    assert result.finished
    assert result.best is not None
    kept = list((tmp_path / "run" / "bad-batches").iterdir())
    assert [path.name for path in kept] == ["step-000000003-process-0.npz"]
    assert np.load(kept[0])["truth"].shape == (2, 3, 64, 64)


def test_ten_bad_steps_in_a_row_end_the_run(data: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    poison(monkeypatch, range(2, 99))
    recipe = dataclasses.replace(QUICK, steps=30, validations=1, checkpoint_every_s=0.0)
    with pytest.raises(TrainingError, match="last 10 steps"):
        train.run(recipe, data, tmp_path / "run")
    kept = sorted(path.name for path in (tmp_path / "run" / "checkpoints").iterdir())
    assert kept == ["step-000000001.checkpoint", "step-000000002.checkpoint"]
    assert [line["loss"] for line in read_log(tmp_path / "run") if line["step"] > 2 and "loss" in line] == [None] * 9


def test_a_run_that_ends_in_nan_is_an_error(data: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    poison(monkeypatch, range(5, 99))
    with pytest.raises(TrainingError, match="last 3 steps"):
        train.run(QUICK, data, tmp_path / "run")


@pytest.mark.skipif(startup.fcntl is None, reason="no locks on this system")
def test_a_folder_is_trained_in_by_one_run_at_a_time(data: Path, whole_run: Path) -> None:
    processes = Processes(0, 1, torch.device("cpu"))
    with startup.hold_folder(whole_run, processes), pytest.raises(OutputError, match="another process trains"):
        train.run(QUICK, data, whole_run, resume=True)


@pytest.mark.skipif(not hasattr(signal, "SIGKILL"), reason="no SIGKILL on this system")
def test_processes_whose_torchrun_was_killed_end_by_themselves(data: Path, tmp_path: Path) -> None:
    out, script = tmp_path / "run", tmp_path / "script.py"
    script.write_text(
        "import dataclasses, sys; sys.path.insert(0, sys.argv[1])\n"
        "from train.pairs import QUICK\nfrom shadowmaskformer.train import run\n"
        "long = dataclasses.replace(QUICK, steps=100_000, validations=1, checkpoint_every_s=1e9)\n"
        "run(long, sys.argv[2], sys.argv[3])\n"
    )
    command = [sys.executable, "-m", "torch.distributed.run", "--standalone", "--nproc-per-node", "2"]
    arguments = [str(script), str(Path(__file__).parents[1]), str(data), str(out)]
    parent = subprocess.Popen(command + arguments, env={**os.environ, "OMP_NUM_THREADS": "1"})
    try:
        wait_for(lambda: len(losses(out)) > 1)
        assert not list((out / "checkpoints").iterdir())
    finally:
        parent.kill()
        parent.wait()

    def free() -> bool:
        try:
            with startup.hold_folder(out, Processes(0, 1, torch.device("cpu"))):
                return True
        except OutputError:
            return False

    wait_for(free)
    assert list((out / "checkpoints").iterdir())


def test_a_slip_on_resume_does_not_change_the_run(data: Path, whole_run: Path, tmp_path: Path) -> None:
    shutil.copytree(whole_run, tmp_path / "run")
    before = (tmp_path / "run" / "run.json").read_text()
    deeper = dataclasses.replace(QUICK, depths=(2, 1, 1, 1, 1))
    with pytest.raises(TrainingError, match="another network"):
        train.run(deeper, data, tmp_path / "run", resume=True, allow_change=["depths"])
    with pytest.raises(ConfigError, match="leave init out"):
        train.run(QUICK, data, tmp_path / "run", resume=True, init=whole_run / "best")
    assert (tmp_path / "run" / "run.json").read_text() == before


def test_a_time_budget_anneals_to_its_end(data: Path, tmp_path: Path) -> None:
    result = train.run(QUICK, data, tmp_path / "run", hours=3 / 3600)
    steps = [line for line in read_log(tmp_path / "run") if "loss" in line]
    assert result.finished
    assert 3 <= result.elapsed_s < 30
    assert steps[-1]["learning_rate"] < 0.5 * QUICK.learning_rate


def test_validation_comes_on_top_of_the_budget(data: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    score, waited_s = validation.Validation.score, 0

    def slowly(*given: Any) -> validation.ValidationScores:
        nonlocal waited_s
        waited_s += 1000
        return score(*given)

    monkeypatch.setattr(validation.Validation, "score", slowly)
    monkeypatch.setattr(loop, "time", SimpleNamespace(monotonic=lambda: time.monotonic() + waited_s))
    result = train.run(dataclasses.replace(QUICK, validations=3), data, tmp_path / "run", hours=2 / 3600)
    assert waited_s
    assert result.elapsed_s < 1000  # not even the first of them is charged


def test_training_starts_from_given_weights(data: Path, whole_run: Path, tmp_path: Path) -> None:
    still = dataclasses.replace(QUICK, steps=1, validations=1, warmup=0.9)  # the first step's rate is zero
    train.run(still, data, tmp_path / "run", init=whole_run / "best")
    _, before = weights.load(whole_run / "best")
    _, after = weights.load(tmp_path / "run" / "best")
    assert all(np.allclose(before[key], after[key], atol=1e-6) for key in before)
    with pytest.raises(ConfigError, match="another network"):
        train.run(dataclasses.replace(still, depths=(1, 1, 1, 1, 1)), data, tmp_path / "b", init=whole_run / "best")
    assert not (tmp_path / "b").exists()


def test_sigterm_saves_and_stops(data: Path, tmp_path: Path) -> None:
    long = dataclasses.replace(QUICK, steps=100_000, validations=1, checkpoint_every_s=1e9)
    with signal_when(lambda: len(losses(tmp_path / "run")) > 1, signal.SIGTERM):
        result = train.run(long, data, tmp_path / "run")
    assert not result.finished
    assert result.steps > 0
    assert f"{result.steps:09d}" in max(p.name for p in (tmp_path / "run" / "checkpoints").iterdir())


def test_a_zero_head_starts_at_the_picture_to_correct() -> None:
    from shadowmaskformer.train.processes import Processes

    config = dataclasses.replace(QUICK, zero_head=True, embedding="mape-physical")
    model = learner.Learner(config, Processes(0, 1, torch.device("cpu"))).model
    photo, mask, start = torch.rand(1, 3, 32, 48), torch.ones(1, 1, 32, 48), torch.rand(1, 3, 32, 48)
    assert torch.allclose(model(photo, mask, start), start, atol=1e-6)
