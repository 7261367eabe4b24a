from __future__ import annotations

import io
import json
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
from PIL import Image

from pictures import opened
from shadowmaskformer.cli import main

ASSETS = Path(__file__).parents[2] / "src" / "shadowmaskformer" / "assets"


@pytest.fixture
def demo(tmp_path: Path) -> Path:
    """The demo photo, reduced, in a folder of its own."""
    with Image.open(ASSETS / "demo-photo.jpg") as image:
        image.resize((320, 240)).save(tmp_path / "beach.jpg", quality=92)
    return tmp_path / "beach.jpg"


def test_a_mask_and_an_overlay_are_written(demo: Path, capsys: pytest.CaptureFixture[str]):
    assert main(["mask", str(demo), "--overlay"]) == 0
    mask = opened(demo.with_name("beach-mask.png"))
    assert (mask.mode, mask.size) == ("L", (320, 240))
    assert np.asarray(mask).max() > 200
    assert opened(demo.with_name("beach-mask-overlay.jpg")).size == (320, 240)
    assert "found" in capsys.readouterr().out
    assert main(["mask", str(demo)]) == 3
    assert "--overwrite" in capsys.readouterr().err


def test_remove_takes_only_the_chosen_shadow(demo: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]):
    twice, result = tmp_path / "twice.png", tmp_path / "result.png"
    photo = np.asarray(opened(demo))
    Image.fromarray(np.hstack([photo, np.full((240, 60, 3), 170, np.uint8), photo])).save(twice)
    assert main(["mask", str(twice), "--list"]) == 0
    lines = capsys.readouterr().out.splitlines()
    left = next(line.split()[0] for line in lines if " x " in line and int(line.split("to ")[1].split(",")[0]) <= 320)
    assert len(lines) > 1
    assert main(["remove", str(twice), "--only", left, "-o", str(result)]) == 0
    changed = (np.asarray(opened(result)) != np.asarray(opened(twice))).any(axis=(0, 2))
    assert changed[:320].any()
    assert not changed[380:].any()
    Image.new("RGB", (96, 64), "white").save(tmp_path / "bare.png")
    assert main(["remove", str(tmp_path / "bare.png"), "--only", "1"]) == 4
    assert main(["remove", str(twice), "--only", left, "--mask", str(twice)]) == 2
    assert "leave --mask out" in capsys.readouterr().err


def test_shadows_are_listed_and_chosen(demo: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]):
    assert main(["mask", str(demo), "--list"]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert lines[0].split()[0] == "1"
    assert not demo.with_name("beach-mask.png").exists()
    assert main(["mask", str(demo), "--list", "--overlay"]) == 2
    assert main(["mask", str(demo), "--json", "--only", "1", "-o", str(tmp_path / "one.png")]) == 0
    said = json.loads(capsys.readouterr().out)
    assert len(said["shadows"]) == len(lines)
    assert said["shadows"][0]["share"] > 0.01
    assert main(["mask", str(demo), "--only", "1", "-o", str(tmp_path / "again.png")]) == 0
    assert f"1 of {len(lines)} shadows, {100 * said['share']:.0f} % of the photo" in capsys.readouterr().out
    assert main(["mask", str(demo), "--only", "99", "-o", str(tmp_path / "other.png")]) == 2
    assert "there is no shadow 99" in capsys.readouterr().err


def test_hints_are_understood(demo: Path, capsys: pytest.CaptureFixture[str]):
    assert main(["mask", str(demo), "--json", "--list"]) == 0
    left, top, right, bottom = json.loads(capsys.readouterr().out)["shadows"][0]["box"]
    box = f"{left},{top},{right},{bottom}"
    assert main(["mask", str(demo), "--list", "--box", box, "--hint", "5.5,7", "--not", "300,10"]) == 0
    capsys.readouterr()
    for wrong in (["--hint", "5"], ["--not", "a,b"], ["--box", "1,2,3"], ["--hint", "900,10"]):
        assert main(["mask", str(demo), "--list", *wrong]) == 2
        assert len(capsys.readouterr().err.splitlines()) == 1


def test_scribbles_are_read_from_a_picture(demo: Path, tmp_path: Path):
    scribbles = np.zeros((240, 320, 4), np.uint8)
    scribbles[100:104, 40:60] = (0, 255, 0, 255)
    Image.fromarray(scribbles).save(tmp_path / "scribbles.png")
    assert main(["mask", str(demo), "--scribbles", str(tmp_path / "scribbles.png"), "-q"]) == 0
    assert np.asarray(opened(demo.with_name("beach-mask.png")))[102, 50] > 127


def test_a_photo_without_shadow_has_its_own_exit_code(tmp_path: Path, capsys: pytest.CaptureFixture[str]):
    Image.new("RGB", (90, 60), (200, 200, 190)).save(tmp_path / "wall.png")
    assert main(["mask", str(tmp_path / "wall.png")]) == 4
    assert capsys.readouterr().err.strip().endswith("no shadow found; if there is one, say where with --hint")
    assert main(["remove", str(tmp_path / "wall.png")]) == 4
    assert "paint a --mask, or say where it is with --hint" in capsys.readouterr().err
    assert sorted(path.name for path in tmp_path.iterdir()) == ["wall.png"]


def test_remove_without_a_mask_says_what_was_found(demo: Path, capsys: pytest.CaptureFixture[str]):
    assert main(["remove", str(demo), "--method", "relight"]) == 0
    captured = capsys.readouterr()
    assert "of the photo" in captured.err
    assert demo.with_name("beach-no-shadow.jpg").is_file()
    assert "beach-no-shadow.jpg" in captured.out


def test_masks_are_written_as_png(demo: Path, capsys: pytest.CaptureFixture[str]):
    assert main(["mask", str(demo), "-o", "mask.jpg"]) == 2
    assert "ends in .png" in capsys.readouterr().err


def test_scribbles_of_another_size_are_scaled_or_refused(
    demo: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
):
    path = tmp_path / "scribbles.png"
    scribbles = np.zeros((120, 160, 4), np.uint8)
    scribbles[50:52, 20:30] = (0, 255, 0, 255)
    Image.fromarray(scribbles).save(path)
    assert main(["mask", str(demo), "--scribbles", str(path), "-q"]) == 0
    assert np.asarray(opened(demo.with_name("beach-mask.png")))[102, 50] > 127
    Image.fromarray(scribbles[:100]).save(path)
    assert main(["mask", str(demo), "--scribbles", str(path), "--list"]) == 3
    assert "is 160x100, but the photo is 320x240" in capsys.readouterr().err


@pytest.mark.parametrize("option", ["--mask", "--scribbles"])
def test_what_a_user_painted_is_never_overwritten(demo: Path, option: str, capsys: pytest.CaptureFixture[str]):
    painted = demo.with_name("beach-mask.png")
    Image.new("L", (320, 240), 255).save(painted)
    before = painted.read_bytes()
    assert main(["mask", str(demo), option, str(painted), "--overwrite"]) != 0
    assert "the output is the input" in capsys.readouterr().err
    assert painted.read_bytes() == before


def test_frames_can_be_chosen_as_the_message_says(demo: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]):
    with Image.open(demo) as photo:
        photo.save(tmp_path / "two.gif", save_all=True, append_images=[photo.rotate(180)])
    assert main(["mask", str(tmp_path / "two.gif"), "-q"]) == 3
    assert "--frame 0…1" in capsys.readouterr().err
    scribbles = np.zeros((240, 320, 4), np.uint8)
    scribbles[100:104, 40:60] = (0, 255, 0, 255)
    Image.fromarray(scribbles).save(tmp_path / "scribbles.png")
    chosen = ["--frame", "0", "--scribbles", str(tmp_path / "scribbles.png"), "-q"]
    assert main(["mask", str(tmp_path / "two.gif"), *chosen]) == 0
    assert main(["remove", str(tmp_path / "two.gif"), *chosen]) == 0


def test_a_photo_that_is_not_there(capsys: pytest.CaptureFixture[str]):
    assert main(["mask", "nowhere/beach.jpg"]) == 3
    assert "there is no folder" in capsys.readouterr().err


@pytest.fixture
def holiday(demo: Path) -> Path:
    """A folder with a photo, one in a subfolder, one without a shadow, and a broken one."""
    folder = demo.parent / "holiday"
    (folder / "late").mkdir(parents=True)
    (folder / "late" / "b.jpg").write_bytes(demo.read_bytes())
    (folder / "c.jpg").write_bytes(b"no picture")
    Image.new("RGB", (90, 60), (200, 200, 190)).save(folder / "wall.png")
    return demo.rename(folder / "a.jpg").parent


def test_each_photo_of_a_folder_gets_a_mask_that_remove_takes(holiday: Path, capsys: pytest.CaptureFixture[str]):
    out = holiday.parent / "masks"
    assert main(["mask", str(holiday), "-r", "-o", str(out), "--overlay"]) == 1
    said = capsys.readouterr()
    assert {"2 done", "1 failed"} <= set(said.out.split(" in ")[0].split(", "))
    assert len(said.err.splitlines()) == 2
    assert "c.jpg" in said.err
    made = sorted(path.relative_to(out).as_posix() for path in out.rglob("*.*"))
    assert made == ["a-mask-overlay.jpg", "a-mask.png", "late/b-mask-overlay.jpg", "late/b-mask.png"]
    assert main(["remove", str(holiday), "-r", "--masks", str(out), "--method", "relight", "-o", str(out / "r")]) == 1
    assert (out / "r/late/b-no-shadow.jpg").is_file()


def test_masks_that_are_there_stay(holiday: Path, capsys: pytest.CaptureFixture[str]):
    photos = [str(holiday / "a.jpg"), str(holiday / "late/b.jpg")]
    painted = holiday / "a-mask.png"
    Image.new("L", (320, 240), 255).save(painted)
    before = painted.read_bytes()
    assert main(["mask", *photos, "--json"]) == 0
    *lines, summary = map(json.loads, capsys.readouterr().out.splitlines())
    assert [line["status"] for line in lines] == ["skipped", "done"]
    assert lines[1]["shadows"] >= 1
    assert lines[1]["output"] == str(holiday / "late/b-mask.png")
    assert (summary["summary"]["done"], summary["summary"]["skipped"]) == (1, 1)
    assert painted.read_bytes() == before
    assert main(["mask", *photos, "--overwrite", "-q"]) == 0
    assert painted.read_bytes() != before
    assert capsys.readouterr().out == ""


def test_what_is_about_one_photo_is_refused_for_many(holiday: Path, capsys: pytest.CaptureFixture[str]):
    several = [str(holiday / "a.jpg"), str(holiday / "wall.png")]
    for wrong in (["--hint", "5,5"], ["--only", "1"], ["--list"], ["-o", "-"], ["-o", "mask.png"], ["-o", "a.jpg"]):
        assert main(["mask", *several, *wrong]) == 2
        assert len(capsys.readouterr().err.splitlines()) == 1
    (holiday / "late/b.png").write_bytes((holiday / "late/b.jpg").read_bytes())
    assert main(["mask", str(holiday), "-r"]) == 2
    assert "would have one mask" in capsys.readouterr().err
    assert not list(holiday.rglob("*-mask.png"))


def test_exit_codes_of_many(holiday: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]):
    (tmp_path / "empty").mkdir()
    assert main(["mask", str(tmp_path / "empty")]) == 3
    assert "no photos in this folder" in capsys.readouterr().err
    (holiday / "a.jpg").unlink()
    assert main(["mask", str(holiday)]) == 3
    (holiday / "c.jpg").unlink()
    assert main(["mask", str(holiday)]) == 4


def test_a_mask_goes_into_a_folder_and_says_what_was_chosen(demo: Path, capsys: pytest.CaptureFixture[str]):
    (demo.parent / "out").mkdir()
    assert main(["mask", str(demo), "--only", "1", "-o", str(demo.parent / "out")]) == 0
    assert opened(demo.parent / "out/beach-mask.png").size == (320, 240)
    assert "(1 of " in capsys.readouterr().out


def piped(data: bytes, *arguments: str) -> subprocess.CompletedProcess[bytes]:
    command = [sys.executable, "-m", "shadowmaskformer", "mask", "-", *arguments]
    return subprocess.run(command, input=data, capture_output=True)


def test_pipe_in_and_out(demo: Path):
    done = piped(demo.read_bytes())
    assert b"found" in done.stderr
    assert Image.open(io.BytesIO(done.stdout)).size == (320, 240)
    assert piped(demo.read_bytes(), "-o", str(demo.parent) + "/", "-q").returncode == 0
    assert opened(demo.with_name("photo-mask.png")).size == (320, 240)
    assert piped(b"", "--list").returncode == 3
    assert piped(demo.read_bytes(), "--json").returncode == 2


def test_warnings_about_photo_and_mask_are_printed(demo: Path, capsys: pytest.CaptureFixture[str]):
    wrong = demo.rename(demo.with_suffix(".png"))
    rough = demo.with_name("rough.png")
    Image.new("L", (160, 120), 255).save(rough)
    assert main(["mask", str(wrong), "--list"]) == 0
    assert f"warning: {wrong}: named like PNG but holds JPEG" in capsys.readouterr().err
    assert main(["mask", str(wrong), "--mask", str(rough), "--list", "--json"]) == 0
    about_photo, about_mask = json.loads(capsys.readouterr().out)["warnings"]
    assert "named like PNG" in about_photo
    assert "the mask was resized" in about_mask
