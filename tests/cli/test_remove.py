from __future__ import annotations

import argparse
import io
import json
import os
import signal
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
from PIL import Image

import shadowmaskformer
from pictures import opened
from shadowmaskformer.cli import main

ASSETS = Path(shadowmaskformer.__file__).parent / "assets"


@pytest.fixture
def files(tmp_path: Path, photo: np.ndarray, mask: np.ndarray) -> Path:
    Image.fromarray(photo).save(tmp_path / "photo.png")
    Image.fromarray(mask).save(tmp_path / "mask.png")
    return tmp_path


def remove(folder: Path, *arguments: str | Path, photo: str = "photo.png", mask: str = "mask.png") -> int:
    return main(
        [
            "remove",
            str(folder / photo),
            "--mask",
            str(folder / mask),
            "--method",
            "relight",
            *map(str, arguments),
        ]
    )


def test_a_folder_may_have_a_dot_in_its_name(files: Path):
    (files / "out.v2").mkdir()
    assert remove(files, "-o", files / "out.v2") == 0
    assert opened(files / "out.v2" / "photo-no-shadow.png").size == (48, 32)


def test_default_output_is_beside_the_photo(files: Path, capsys: pytest.CaptureFixture[str]):
    assert remove(files) == 0
    assert opened(files / "photo-no-shadow.png").size == (48, 32)
    assert "photo-no-shadow.png" in capsys.readouterr().out


@pytest.mark.parametrize(
    "option",
    [
        "--format=foo",
        "--format=a/b",
        "--format=.",
        "-oout.gif",
        "--max-pixels=0",
        "--threads=0",
        "--feather=nan",
        "--feather=inf",
        "--feather=-3",
        "--feather=1e9",
        "--grow=99999",
        "--weights=x",
    ],
)
def test_wrong_usage_is_one_line_and_touches_nothing(
    files: Path, option: str, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.chdir(files)
    assert remove(files, option) == 2
    assert capsys.readouterr().err.count("\n") == 1
    assert sorted(path.name for path in files.iterdir()) == ["mask.png", "photo.png"]


def test_a_second_mask_is_not_taken_for_the_first(files: Path, capsys: pytest.CaptureFixture[str]):
    with pytest.raises(SystemExit, match="2"):
        remove(files, "--mask", files / "mask.png")
    assert "--mask: can be given only once" in capsys.readouterr().err


def test_found_shadows_are_not_inverted(files: Path, capsys: pytest.CaptureFixture[str]):
    assert main(["remove", str(files / "photo.png"), "--only", "1", "--invert-mask"]) == 2
    assert "no mask to invert" in capsys.readouterr().err


@pytest.mark.parametrize("folder", ["empty", "./empty/", "."])
def test_a_folder_without_photos_is_an_error(
    files: Path, folder: str, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
):
    (files / "empty").mkdir()
    monkeypatch.chdir(files / "empty" if folder == "." else files)
    assert main(["remove", folder, "--mask", str(files / "mask.png")]) == 3
    assert "folder" in capsys.readouterr().err


@pytest.mark.parametrize("arguments", [["remove", ""], ["remove", "photo.png", "--mask", ""], ["mask", ""]])
def test_an_empty_name_is_named_as_one(
    files: Path, arguments: list[str], capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.chdir(files)
    assert main(arguments) == 3
    assert capsys.readouterr().err.endswith("the name of a picture is empty; give the path of a picture\n")


def test_limits_hold_for_the_mask_too(files: Path, capsys: pytest.CaptureFixture[str]):
    Image.new("L", (480, 320), 255).save(files / "mask.png")
    assert remove(files, "--max-pixels", "2000") == 3
    assert "mask.png" in capsys.readouterr().err
    assert remove(files, "--max-pixels", "200000") == 0


def test_a_folder_as_output_takes_the_result_under_its_usual_name(files: Path):
    (files / "results").mkdir()
    assert remove(files, "-o", files / "results") == 0
    assert opened(files / "results" / "photo-no-shadow.png").size == (48, 32)


def test_a_name_without_an_ending_keeps_the_photos_format(files: Path):
    assert remove(files, "-o", files / "result") == 0
    assert opened(files / "result").format == "PNG"


def test_unbuffered_output_into_a_short_pipe_is_an_error(files: Path, rng: np.random.Generator):
    Image.fromarray(rng.integers(0, 256, (480, 640, 3), np.uint8)).save(files / "photo.png")
    Image.fromarray(np.full((480, 640), 255, np.uint8)).save(files / "mask.png")
    command = f"{sys.executable} -m shadowmaskformer remove {files}/photo.png --mask {files}/mask.png --method relight"
    done = subprocess.run(
        ["bash", "-o", "pipefail", "-c", f"{command} -q -o - | head -c 10 > /dev/null"],
        env=os.environ | {"PYTHONUNBUFFERED": "1"}, capture_output=True, text=True,
    )  # fmt: skip
    assert done.returncode == 3
    assert "lost" in done.stderr


def test_errors_are_json_too_where_json_was_asked_for(files: Path, capsys: pytest.CaptureFixture[str]):
    assert remove(files, "--json", photo="missing.png") == 3
    printed = capsys.readouterr()
    assert json.loads(printed.out)["error"]["type"] == "ImageReadError"
    assert printed.err == ""


@pytest.mark.parametrize("wrong", [["remove"], ["remove", "photo.png", "--nonsense"], ["nonsense"], []])
def test_wrong_arguments_are_json_too_where_json_was_asked_for(wrong: list[str], capsys: pytest.CaptureFixture[str]):
    assert main([*wrong, "--json"]) == 2
    printed = capsys.readouterr()
    assert json.loads(printed.out)["error"]["type"] == "ConfigError"
    assert "--help" in json.loads(printed.out)["error"]["message"]
    assert printed.err == ""


def test_ctrl_c_while_the_command_loads_leaves_no_traceback():
    code = """
import os, signal, sys
class Interrupt:
    def find_spec(self, name, *_):
        if name == "shadowmaskformer.cli.console":
            os.kill(os.getpid(), signal.SIGINT)
sys.meta_path.insert(0, Interrupt())
from shadowmaskformer.__main__ import main
main()
"""
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
    assert (done.returncode, done.stderr) == (-signal.SIGINT, "")


LOST = ["| true", ">&-", *(["> /dev/full"] if Path("/dev/full").exists() else [])]


@pytest.mark.parametrize("where", LOST)
def test_lost_log_does_not_matter(files: Path, where: str):
    command = f"{sys.executable} -m shadowmaskformer remove {files}/photo.png --mask {files}/mask.png --method relight"
    done = subprocess.run(["bash", "-o", "pipefail", "-c", f"{command} {where}"], capture_output=True, text=True)
    assert (done.returncode, done.stderr) == (0, "")
    assert (files / "photo-no-shadow.png").exists()


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="no full device on this system")
@pytest.mark.parametrize("report", ["info", "mask demo-photo.jpg --list"])
def test_lost_report_is_an_error(files: Path, report: str):
    command = f"cd {ASSETS}; {sys.executable} -m shadowmaskformer {report} > /dev/full"
    done = subprocess.run(["bash", "-c", command], capture_output=True, text=True)
    assert done.returncode == 3
    assert done.stderr.count("\n") == 1


@pytest.mark.parametrize("where", LOST)
def test_lost_picture_is_an_error_of_one_line(files: Path, where: str):
    command = f"{sys.executable} -m shadowmaskformer remove {files}/photo.png --mask {files}/mask.png --method relight"
    done = subprocess.run(["bash", "-o", "pipefail", "-c", f"{command} -o - {where}"], capture_output=True, text=True)
    assert done.returncode == 3
    assert done.stderr.count("\n") == 1


def test_terminal_without_unicode_shows_escapes(files: Path):
    command = [sys.executable, "-m", "shadowmaskformer", "remove"]
    arguments = [str(files / "photo.png"), "--mask", str(files / "mask.png"), "--method", "relight"]
    for each in ([*command, *arguments], [*command, "--help"]):
        done = subprocess.run(each, capture_output=True, env=os.environ | {"PYTHONIOENCODING": "ascii"})
        assert (done.returncode, done.stderr) == (0, b"")


def test_existing_output_is_kept_unless_told(files: Path, capsys: pytest.CaptureFixture[str]):
    (files / "out.png").write_text("mine")
    assert remove(files, "-o", files / "out.png") == 3
    assert "--overwrite" in capsys.readouterr().err
    assert (files / "out.png").read_text() == "mine"
    assert remove(files, "-o", files / "out.png", "--overwrite") == 0


def test_output_over_the_input_is_refused(files: Path, capsys: pytest.CaptureFixture[str]):
    before = (files / "photo.png").read_bytes()
    os.link(files / "photo.png", files / "link.png")
    assert remove(files, "-o", files / "link.png", "--overwrite") == 3
    assert (files / "photo.png").read_bytes() == before


def test_comparison_is_written_beside_the_result(files: Path):
    assert remove(files, "-o", files / "out.png", "--compare") == 0
    assert opened(files / "out-compare.jpg").width > 3 * 48


def test_json_is_one_line_for_machines(files: Path, capsys: pytest.CaptureFixture[str]):
    assert remove(files, "-o", files / "out.png", "--json") == 0
    told = json.loads(capsys.readouterr().out)
    assert told["output"].endswith("out.png")
    assert (told["width"], told["height"], told["method"]) == (48, 32, "relight")
    assert told["input"].endswith("photo.png")
    assert told["mask"].endswith("mask.png")
    assert told["weights"] is None
    assert told["version"]
    assert told["shadow_share"] == pytest.approx(0.25, abs=0.01)


def test_quiet_prints_nothing(files: Path, capsys: pytest.CaptureFixture[str]):
    assert remove(files, "-o", files / "out.png", "--quiet") == 0
    assert capsys.readouterr() == ("", "")


def test_format_and_quality_are_followed(files: Path):
    assert remove(files, "-o", files / "out.jpg", "--quality", "60") == 0
    assert opened(files / "out.jpg").format == "JPEG"
    assert remove(files, "--format", "webp") == 0
    assert opened(files / "photo-no-shadow.webp").format == "WEBP"


def test_pipe_in_and_out(files: Path):
    command = [sys.executable, "-m", "shadowmaskformer", "remove", "-", "--mask", str(files / "mask.png"), "-o", "-",
               "--method", "relight"]  # fmt: skip
    done = subprocess.run(command, input=(files / "photo.png").read_bytes(), capture_output=True, check=True)
    assert Image.open(io.BytesIO(done.stdout)).size == (48, 32)


def test_a_piped_photo_gets_the_ending_of_its_format_in_a_folder(files: Path):
    command = [sys.executable, "-m", "shadowmaskformer", "remove", "-", "--mask", str(files / "mask.png"),
               "--method", "relight", "-o", str(files)]  # fmt: skip
    subprocess.run(command, input=(files / "photo.png").read_bytes(), capture_output=True, check=True)
    assert opened(files / "photo-no-shadow.png").format == "PNG"


def test_sixteen_bits_survive(files: Path, photo: np.ndarray):
    import imagecodecs

    deep = photo.astype(np.uint16) * 257 + 13
    (files / "deep.png").write_bytes(imagecodecs.png_encode(deep))
    assert remove(files, "-o", files / "out.png", photo="deep.png") == 0
    result = imagecodecs.png_decode((files / "out.png").read_bytes())
    assert result.dtype == np.uint16
    assert np.array_equal(result[:2], deep[:2])
    assert result.max() > 255


def test_rotated_phone_photo_comes_back_upright_with_its_tags(files: Path, photo: np.ndarray):
    exif = Image.Exif()
    exif[0x0112] = 6
    exif[0x010F] = "Maker"
    Image.fromarray(np.rot90(photo).copy()).save(files / "phone.jpg", exif=exif, quality=95)
    assert remove(files, "-o", files / "out.jpg", photo="phone.jpg") == 0
    result = opened(files / "out.jpg")
    assert result.size == (48, 32)
    assert result.getexif()[0x010F] == "Maker"
    assert result.getexif().get(0x0112, 1) == 1
    assert np.abs(np.asarray(result, float)[:3] - photo[:3].astype(float)).mean() < 12


@pytest.mark.parametrize(
    ("name", "content"),
    [
        ("missing.png", None),
        ("empty.jpg", b""),
        ("page.html", b"<html>"),
    ],
)
def test_unreadable_photo_is_one_line_and_exit_3(
    files: Path, name: str, content: bytes | None, capsys: pytest.CaptureFixture[str]
):
    if content is not None:
        (files / name).write_bytes(content)
    assert remove(files, "-o", files / "out.png", photo=name) == 3
    lines = capsys.readouterr().err.strip().splitlines()
    assert len(lines) == 1
    assert name in lines[0]
    assert not (files / "out.png").exists()


def test_empty_mask_returns_the_photo_with_a_warning(
    files: Path, photo: np.ndarray, capsys: pytest.CaptureFixture[str]
):
    Image.fromarray(np.zeros((32, 48), np.uint8)).save(files / "none.png")
    assert remove(files, "-o", files / "out.png", mask="none.png") == 0
    assert "warning" in capsys.readouterr().err
    assert np.array_equal(np.asarray(Image.open(files / "out.png")), photo)


@pytest.mark.parametrize(
    "arguments", [("--quality", "0"), ("--quality", "lots"), ("--nonsense",), ("-o", "-", "--json")]
)
def test_wrong_usage_exits_2(files: Path, arguments: tuple[str, ...]):
    try:
        code = remove(files, *arguments)
    except SystemExit as exit:
        code = exit.code
    assert code == 2
    assert not (files / "photo-no-shadow.png").exists()


@pytest.mark.parametrize("wrong", [["--workers", "0"], ["--address", "auto"]])
def test_options_of_a_batch_are_checked_for_one_photo(
    files: Path, wrong: list[str], capsys: pytest.CaptureFixture[str]
):
    assert main(["remove", str(files / "photo.png"), *wrong]) == 2
    assert wrong[0].removeprefix("--") in capsys.readouterr().err


def test_names_with_spaces_newlines_and_dashes_work(
    files: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
):
    odd = "-a b\né.png"
    (files / odd).write_bytes((files / "photo.png").read_bytes())
    monkeypatch.chdir(files)
    assert main(["remove", "--mask", "mask.png", "--method", "relight", "-o", "out.png", "--", odd]) == 0
    assert main(["remove", "--mask", "mask.png", "--method", "relight", "-o", "out2.png", "--", "gone\n.png"]) == 3
    assert len(capsys.readouterr().err.strip().splitlines()) == 1


def test_debug_shows_the_traceback(files: Path):
    from shadowmaskformer.errors import ImageReadError

    with pytest.raises(ImageReadError):
        remove(files, "--debug", photo="missing.png")


def test_runs_where_torch_cannot_be_imported(files: Path, tiny_weights: Path):
    from shadowmaskformer import engine

    if engine.why_unavailable():
        pytest.skip("the native engine is not built")
    blocker = files / "blocker"
    blocker.mkdir()
    (blocker / "torch.py").write_text("raise ImportError('torch is not here')\n")
    done = subprocess.run(
        [sys.executable, "-m", "shadowmaskformer", "remove", str(files / "photo.png"),
         "--mask", str(files / "mask.png"), "--weights", str(tiny_weights), "--json"],
        env={**os.environ, "PYTHONPATH": str(blocker)}, capture_output=True, text=True, check=True,
    )  # fmt: skip
    assert json.loads(done.stdout)["runtime"] == "native"


def test_sigterm_ends_it_like_ctrl_c(files: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]):
    def terminated(args: argparse.Namespace) -> int:
        signal.raise_signal(signal.SIGTERM)
        return 0

    before = signal.getsignal(signal.SIGTERM)
    monkeypatch.setattr("shadowmaskformer.cli.remove.run", terminated)
    assert main(["remove", str(files / "photo.png"), "--mask", str(files / "mask.png")]) == 130
    assert capsys.readouterr().err.strip() == "interrupted"
    assert signal.getsignal(signal.SIGTERM) == before


def test_under_a_memory_limit_it_ends_with_a_result_or_a_line(files: Path):
    Image.new("RGB", (6000, 5000), "gray").save(files / "large.jpg")
    mask = Image.new("L", (600, 500))
    mask.paste(255, (200, 200, 400, 300))
    mask.save(files / "mask.png")
    codes: set[int] = set()
    for megabytes in (400, 1600):
        limit = f"import resource; resource.setrlimit(resource.RLIMIT_AS, ({megabytes} << 20, {megabytes} << 20)); "
        run = "import sys; from shadowmaskformer.cli import main; sys.exit(main())"
        command = ["remove", "large.jpg", "--mask", "mask.png", "--method", "relight", "--exact-mask", "--threads", "1"]
        ended = subprocess.run(
            [sys.executable, "-c", limit + run, *command], cwd=files, capture_output=True, text=True, check=False
        )
        assert "Traceback" not in ended.stderr
        if ended.returncode:
            assert ended.returncode == 3
            assert "large.jpg: there is not enough memory for" in ended.stderr
            assert not list(files.glob("*no-shadow*"))
        codes.add(ended.returncode)
    assert codes == {0, 3}


def test_a_mask_beside_the_photo_is_used(files: Path, mask: np.ndarray, capsys: pytest.CaptureFixture[str]):
    Image.fromarray(np.zeros_like(mask)).save(files / "photo-mask.png")
    assert main(["remove", str(files / "photo.png"), "--method", "relight", "-o", str(files / "out.png")]) == 0
    printed = capsys.readouterr().err
    assert "using the mask " in printed
    assert "the mask is empty" in printed


def test_a_raw_file_says_so_with_a_folder_as_output_too(files: Path, capsys: pytest.CaptureFixture[str]):
    (files / "out").mkdir()
    (files / "a.cr2").write_bytes(b"II*\0")
    assert main(["remove", str(files / "a.cr2"), "-o", str(files / "out")]) == 3
    assert "develop it" in capsys.readouterr().err


def test_an_inverted_mask_that_was_right_says_what_to_leave_out(files: Path, capsys: pytest.CaptureFixture[str]):
    assert remove(files, "--invert-mask", "--exact-mask", "-o", files / "out.png") == 0
    assert "leave --invert-mask out" in capsys.readouterr().err
