from pathlib import Path

import pytest

from shadowmaskformer.cli import main
from shadowmaskformer.network import weights


def test_released_checkpoint_becomes_a_folder_of_weights(
    shared: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
):
    pytest.importorskip("torch")
    arguments = ["convert", str(shared / "parity" / "small.pth"), "-o", str(tmp_path / "w")]
    assert main(arguments) == 0
    assert "small" in capsys.readouterr().out
    config, _ = weights.load(tmp_path / "w")
    assert config.depths == (12, 12, 12, 8, 8)
    assert not config.attention_conv
    assert main(arguments) == 3
    assert "--overwrite" in capsys.readouterr().err


def test_a_picture_is_no_checkpoint(tmp_path: Path, capsys: pytest.CaptureFixture[str]):
    (tmp_path / "p.png").write_bytes(b"\x89PNG\r\n")
    assert main(["convert", str(tmp_path / "p.png")]) == 3
    assert "p.png: not a PyTorch checkpoint; give the .pth file" in capsys.readouterr().err
