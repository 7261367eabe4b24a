from __future__ import annotations

import argparse
import os
import re
import shlex
import signal
import threading
from pathlib import Path

import pytest

pytest.importorskip("torch")

from shadowmaskformer.cli import train as command
from shadowmaskformer.errors import ConfigError, OutputError
from train.pairs import QUICK, write_pairs

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
    threading.Timer(3, os.kill, (os.getpid(), signal.SIGINT)).start()
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


def test_errors_name_the_run_as_it_was_given(data: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    with pytest.raises(ConfigError, match=r"^runs/first holds no run to resume"):
        run("--resume", "-o", "runs/first")
    Path("runs").write_text("a file, not a folder")
    with pytest.raises(OutputError, match=r"^cannot write into runs/first: Not a directory; choose another output"):
        run("--data", data, "-o", "runs/first", *TINY)


def test_the_allocator_is_left_alone_on_request(monkeypatch: pytest.MonkeyPatch) -> None:
    from shadowmaskformer.machine import OPT_OUT, tune_allocator

    monkeypatch.setenv(OPT_OUT, "1")
    assert tune_allocator() is False
