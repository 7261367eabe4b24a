from __future__ import annotations

import argparse
import re
import shlex
import signal
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

pytest.importorskip("torch")

from shadowmaskformer import machine, train
from shadowmaskformer.cli import train as command
from shadowmaskformer.errors import ConfigError, OutputError
from shadowmaskformer.train.journal import read_log
from train.pairs import QUICK, write_pairs
from train.signs import signal_when

TINY = [f"--set={key}={value}" for key, value in QUICK.to_dict().items() if key not in ("losses", "augment")]
TINY = [text.replace("True", "true").replace("False", "false") for text in TINY]


@pytest.fixture(scope="module")
def data(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write_pairs(tmp_path_factory.mktemp("pairs"))


def run(*words: str | Path) -> int:
    parser = argparse.ArgumentParser()
    command.configure(parser)
    return command.run(parser.parse_args([*map(str, words), "--quiet", "--system-allocator"]))


def test_one_command_trains(data: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert run("--data", data, "--recipe", "paper", "-o", tmp_path / "run", *TINY, "--set", "steps=2") == 0
    assert re.search(r"best, 2 steps; validation: unseen scenes \d+\.\d+ dB, MAE \d", capsys.readouterr().out)
    assert (tmp_path / "run" / "best" / "model.safetensors").is_file()


def test_an_interrupted_run_prints_the_line_that_resumes_it(
    data: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    out = tmp_path / "a run"
    with signal_when(lambda: any("loss" in line for line in read_log(out)), signal.SIGINT):
        assert run("--data", data, "-o", out, *TINY, "--set", "steps=100000", "--set", "validations=1") == 130
    words = shlex.split(capsys.readouterr().err.splitlines()[-1].partition("continue with: ")[2])
    assert words[:2] == ["shadowmaskformer", "train"]
    done = int(max((out / "checkpoints").iterdir()).stem.partition("-")[2])
    assert run(*words[2:], "--set", f"steps={done + 2}", "--allow-change", "steps") == 0


def test_missing_data_and_a_bad_budget_are_named(data: Path, tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="--data"):
        run("-o", tmp_path / "run")
    with pytest.raises(ConfigError, match="--hours is -1"):
        run("--data", data, "-o", tmp_path / "run", "--hours", "-1")


@pytest.mark.parametrize(("words", "calls"), [([], 1), (["--system-allocator"], 0)])
def test_system_allocator_leaves_the_allocator_alone(
    words: list[str], calls: int, data: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    tuned: list[bool] = []
    done = SimpleNamespace(finished=True, steps=0, best=None)
    monkeypatch.setattr(machine, "tune_allocator", lambda: tuned.append(True))
    monkeypatch.setattr(train, "run", lambda *_, **__: done, raising=False)
    parser = argparse.ArgumentParser()
    command.configure(parser)
    arguments: list[Any] = ["--data", str(data), "-o", str(tmp_path / "run"), *words]
    assert command.run(parser.parse_args(arguments)) == 0
    assert len(tuned) == calls


def test_errors_name_the_run_as_it_was_given(data: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    with pytest.raises(ConfigError, match=r"^runs/first holds no run to resume"):
        run("--resume", "-o", "runs/first")
    Path("runs").write_text("a file, not a folder")
    with pytest.raises(OutputError, match=r"^cannot write into runs/first: Not a directory; choose another output"):
        run("--data", data, "-o", "runs/first", *TINY)
