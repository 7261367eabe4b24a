"""`shadowmaskformer export` leaves a proven file or none."""

from __future__ import annotations

from pathlib import Path

import pytest

from shadowmaskformer.cli import main
from shadowmaskformer.runtimes.backends import export_formats

pytest.importorskip("torch")
pytest.importorskip("onnx")
pytest.importorskip("onnxruntime")


def test_exported_file_removes_a_shadow(
    tiny_weights: Path, tmp_path: Path, photo, mask, capsys: pytest.CaptureFixture[str]
) -> None:
    from PIL import Image

    model = tmp_path / "model.onnx"
    assert main(["export", "--to", "onnx", "--weights", str(tiny_weights), "-o", str(model)]) == 0
    printed = capsys.readouterr().out
    assert printed.count("differs by") >= 5
    assert "model.onnx" in printed

    Image.fromarray(photo).save(tmp_path / "photo.png")
    Image.fromarray(mask).save(tmp_path / "mask.png")
    arguments = ["remove", str(tmp_path / "photo.png"), "--mask", str(tmp_path / "mask.png"), "-q"]
    assert main([*arguments, "--runtime", "onnx", "--weights", str(model), "-o", str(tmp_path / "out.png")]) == 0
    with Image.open(tmp_path / "out.png") as result:
        assert result.size == (48, 32)


def test_existing_file_is_kept_unless_overwriting_is_asked_for(
    tiny_weights: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    model = tmp_path / "model.onnx"
    model.write_bytes(b"precious")
    assert main(["export", "--to", "onnx", "--weights", str(tiny_weights), "-o", str(model)]) == 3
    assert "--overwrite" in capsys.readouterr().err
    assert model.read_bytes() == b"precious"


def test_wrong_ending_is_a_usage_error(tiny_weights: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["export", "--to", "openvino", "--weights", str(tiny_weights), "-o", str(tmp_path / "m.onnx")]) == 2
    assert ".xml" in capsys.readouterr().err
    assert not list(tmp_path.iterdir())


def test_a_picture_given_as_weights_is_named(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "p.png").write_bytes(b"\x89PNG\r\n")
    picture, model = str(tmp_path / "p.png"), str(tmp_path / "m.onnx")
    assert main(["export", "--to", "onnx", "--weights", picture, "-o", model]) == 3
    assert "p.png is not a file of weights; give a folder with model.safetensors" in capsys.readouterr().err


def test_the_help_lists_every_format(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit):
        main(["export", "--help"])
    printed = capsys.readouterr().out
    assert all(f"{form.suffix} ({name})" in printed for name, form in export_formats().items())


def test_missing_weights_are_named(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["export", "--to", "onnx", "--weights", str(tmp_path / "none"), "-o", str(tmp_path / "m.onnx")]) == 3
    assert "none" in capsys.readouterr().err
