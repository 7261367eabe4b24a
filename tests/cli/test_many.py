from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import numpy as np
import pytest
from PIL import Image

from shadowmaskformer.cli import main


@pytest.fixture
def files(tmp_path: Path, photo: np.ndarray, mask: np.ndarray, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The working directory, with `in/a.png`, `in/b.png` and `mask.png`."""
    monkeypatch.chdir(tmp_path)
    Path("in").mkdir()
    for name in ("in/a.png", "in/b.png"):
        Image.fromarray(photo).save(name)
    Image.fromarray(mask).save("mask.png")
    return tmp_path


def remove(*arguments: str) -> int:
    return main(["remove", *arguments, "--method", "relight"])


def test_a_folder_and_its_summary(files: Path, capsys: pytest.CaptureFixture[str]):
    assert remove("in", "--mask", "mask.png", "-o", "out") == 0
    assert sorted(path.name for path in Path("out").glob("*.png")) == ["a-no-shadow.png", "b-no-shadow.png"]
    printed = capsys.readouterr()
    assert printed.out.startswith("2 done in ")
    assert printed.out.endswith("out/shadowmaskformer-manifest.jsonl\n")
    assert printed.err == ""
    assert remove("in", "--mask", "mask.png", "-o", "out") == 0
    assert capsys.readouterr().out.startswith("2 skipped in ")


def test_several_files_with_masks_from_a_folder(files: Path):
    Path("masks").mkdir()
    Path("mask.png").rename("masks/a.png")
    assert remove("in/a.png", "in/b.png", "--masks", "masks", "--require-mask") == 1
    assert Path("in/a-no-shadow.png").exists()
    assert not Path("in/b-no-shadow.png").exists()


def test_photos_may_stand_between_options(files: Path):
    assert remove("in/a.png", "--mask", "mask.png", "in/b.png", "-o", "out") == 0
    assert sorted(path.name for path in Path("out").glob("*.png")) == ["a-no-shadow.png", "b-no-shadow.png"]
    Path("in/a.png").rename("-a.png")
    assert main(["remove", "--mask", "mask.png", "--method", "relight", "-o", "dash", "--", "-a.png", "in/b.png"]) == 0
    assert sorted(path.name for path in Path("dash").glob("*.png")) == ["-a-no-shadow.png", "b-no-shadow.png"]


def test_a_batch_without_any_shadow_exits_4(files: Path):
    for name in ("in/a.png", "in/b.png"):
        Image.new("RGB", (90, 60), (200, 200, 190)).save(name)
    assert remove("in") == 4
    assert remove("in") == 0  # known by now


def test_some_failed_exits_1_all_failed_3(files: Path, capsys: pytest.CaptureFixture[str]):
    Path("in/bad\n.jpg").write_text("text")
    assert remove("in", "--mask", "mask.png", "-o", "out") == 1
    printed = capsys.readouterr()
    assert printed.err.splitlines() == [
        line for line in printed.err.splitlines() if "in/bad\\n.jpg: not a pict" in line
    ]
    assert printed.err.count("\n") == 1
    assert "2 done, 1 failed" in printed.out
    assert remove("in/bad\n.jpg", "in/missing.jpg", "--mask", "mask.png", "-o", "out") == 3


def test_collisions_exit_2_and_touch_nothing(files: Path, capsys: pytest.CaptureFixture[str]):
    Path("in/a.jpg").touch()
    assert remove("in", "--mask", "mask.png", "-o", "out", "--format", "png") == 2
    assert "in/a.jpg and in/a.png" in capsys.readouterr().err
    assert not Path("out").exists()


@pytest.mark.parametrize(
    "arguments",
    [
        ("in", "--mask", "mask.png", "--masks", "in"),
        ("in/a.png", "-", "--mask", "mask.png"),
        ("in", "--mask", "mask.png", "-o", "-"),
        ("in", "--mask", "mask.png", "-o", "mask.png"),
        ("in", "--mask", "mask.png", "--workers", "0"),
    ],
)
def test_wrong_usage_exits_2(files: Path, arguments: tuple[str, ...], capsys: pytest.CaptureFixture[str]):
    assert remove(*arguments) == 2
    assert capsys.readouterr().err.count("\n") == 1
    assert sorted(path.name for path in files.iterdir()) == ["in", "mask.png"]


def test_json_is_a_line_for_each_photo_and_a_summary(files: Path, capsys: pytest.CaptureFixture[str]):
    Path("in/c.jpg").write_text("text")
    assert remove("in", "--mask", "mask.png", "-o", "out", "--json") == 1
    printed = capsys.readouterr()
    *lines, last = map(json.loads, printed.out.splitlines())
    assert {line["input"]: line["status"] for line in lines} == {
        "in/a.png": "done", "in/b.png": "done", "in/c.jpg": "failed",
    }  # fmt: skip
    assert last["summary"]["done"] == 2
    assert printed.err == ""


def test_quiet_prints_errors_only(files: Path, capsys: pytest.CaptureFixture[str]):
    Path("in/c.jpg").write_text("text")
    assert remove("in", "--mask", "mask.png", "--quiet") == 1
    printed = capsys.readouterr()
    assert (printed.out, printed.err.count("\n")) == ("", 1)


def test_a_command_that_is_killed_or_interrupted_goes_on(files: Path, photo: np.ndarray):
    for index in range(60):
        Image.fromarray(photo).save(f"in/{index:02}.png")
    command = [sys.executable, "-m", "shadowmaskformer", "remove", "in", "--mask", "mask.png", "-o", "out",
               "--method", "relight", "--workers", "2"]  # fmt: skip

    def stopped_by(number: int) -> tuple[int, str, str]:
        done = len(list(Path("out").glob("*.png")))
        running = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
        while len(list(Path("out").glob("*.png"))) < done + 3:
            assert running.poll() is None
            time.sleep(0.005)
        os.kill(running.pid, number)
        return (*running.communicate(timeout=30), running.returncode)[::-1]  # type: ignore[return-value]

    assert stopped_by(signal.SIGKILL)[0] == -signal.SIGKILL
    code, err, out = stopped_by(signal.SIGTERM)
    assert code == 130
    assert err == "interrupted; the same command goes on from here\n"
    assert "done" in out
    code, err, _ = stopped_by(signal.SIGINT)
    assert (code, err.count("\n")) == (130, 1)
    assert not list(Path("out").glob(".*"))
    assert main(command[3:]) == 0
    lines = [json.loads(line) for line in Path("out/shadowmaskformer-manifest.jsonl").read_text().splitlines()]
    assert len(list(Path("out").glob("*.png"))) == 62
    assert len({line["output"] for line in lines}) == len(lines) == 62


def test_watching_ends_with_ctrl_c(files: Path):
    command = [sys.executable, "-m", "shadowmaskformer", "remove", "in", "--mask", "mask.png", "-o", "out",
               "--method", "relight", "--watch"]  # fmt: skip
    running = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    assert running.stdout is not None
    lines = [running.stdout.readline() for _ in range(2)]
    assert all("-no-shadow.png" in line for line in lines)
    os.kill(running.pid, signal.SIGINT)
    out, err = running.communicate(timeout=30)
    assert running.returncode == 130
    assert out.startswith("2 done in ")
    assert err.splitlines() == ["watching in; Ctrl-C ends it", "interrupted; the same command goes on from here"]


def test_only_folders_are_watched(files: Path, capsys: pytest.CaptureFixture[str]):
    assert remove("in/a.png", "-o", "out", "--watch") == 2
    assert "give folders only" in capsys.readouterr().err


def test_workers_do_not_make_one_photo_many(files: Path):
    assert remove("in/a.png", "--mask", "mask.png", "--workers", "1", "-o", "one.png") == 0
    assert Path("one.png").exists()


def test_photos_without_a_shadow_are_counted_and_explained(files: Path, capsys: pytest.CaptureFixture[str]):
    Image.new("RGB", (96, 64), "white").save("in/bare.png")
    Path("in/a.png").rename("in/a-photo.png")
    Path("in/b.png").unlink()
    Path("mask.png").rename("in/a-photo-mask.png")
    assert remove("in", "-r", "-o", "out") == 1
    printed = capsys.readouterr()
    assert printed.err == ("no shadow found: in/bare.png: if there is one, save a mask beside it as bare-mask.png\n")
    assert printed.out.startswith("1 done, 1 without a shadow in ")
    assert remove("in", "-r", "-o", "out") == 0
    printed = capsys.readouterr()
    assert printed.err == ""
    assert printed.out.startswith("2 skipped (1 without a shadow) in ")
    assert remove("in", "-r", "-o", "out", "--json") == 0
    *lines, last = map(json.loads, capsys.readouterr().out.splitlines())
    assert [line["error"]["type"] for line in lines if line["error"]] == ["NoShadowError"]
    assert (last["summary"]["skipped"], last["summary"]["no_shadow"]) == (2, 1)


def test_photos_without_a_mask_in_the_folder_are_counted(
    files: Path, mask: np.ndarray, capsys: pytest.CaptureFixture[str]
):
    Path("masks").mkdir()
    Image.fromarray(mask).save("masks/a.png")
    remove("in", "--masks", "masks", "-o", "out", "--json")
    assert json.loads(capsys.readouterr().out.splitlines()[-1])["summary"]["no_mask"] == 1
