"""The command `evaluate`: exit codes, what it prints, what it writes."""

from pathlib import Path

import numpy as np
import pytest
from PIL import Image

from shadowmaskformer.cli import main


@pytest.fixture
def pairs(tmp_path: Path) -> Path:
    """An SRD of three test pictures, 24 x 32, no masks."""
    rng = np.random.default_rng(1)
    for number in range(3):
        clean = np.full((24, 32, 3), 150.0) + rng.normal(0, 3, (24, 32, 3)) + 20 * number
        shadow = clean.copy()
        shadow[6:16, 8:22] *= 0.4
        for folder, name, picture in (
            ("shadow", f"IMG_{number}.png", shadow),
            ("shadow_free", f"IMG_{number}_free.png", clean),
        ):
            path = tmp_path / "SRD" / "test" / folder / name
            path.parent.mkdir(parents=True, exist_ok=True)
            Image.fromarray(np.clip(picture, 0, 255).astype(np.uint8)).save(path)
    return tmp_path / "SRD"


def command(pairs: Path, tmp_path: Path, *more: str) -> list[str]:
    return ["evaluate", "--data", str(pairs), "-o", str(tmp_path / "out"), *more]


def test_prints_protocol_masks_and_published_rows(pairs, tmp_path, capsys):
    code = main(command(pairs, tmp_path, "--mask-source", "derived", "--method", "relight", "--no-report"))
    out = capsys.readouterr().out
    assert code == 0
    assert "srd-256" in out
    assert "derived" in out
    assert "ShadowMaskFormer" in out
    assert "Relight floor" in out
    assert len(list((tmp_path / "out" / "rows").glob("*.csv"))) == 2


def test_mask_source_must_be_named(pairs, tmp_path):
    with pytest.raises(SystemExit) as stop:
        main(command(pairs, tmp_path))
    assert stop.value.code == 2


def test_mistyped_mask_source_is_wrong_usage(pairs, tmp_path, capsys):
    assert main(command(pairs, tmp_path, "--mask-source", "dervied")) == 2
    assert "derived" in capsys.readouterr().err


def test_unknown_protocol_is_wrong_usage(pairs, tmp_path, capsys):
    assert main(command(pairs, tmp_path, "--mask-source", "derived", "--protocol", "nope")) == 2
    assert "srd-256" in capsys.readouterr().err


def test_missing_results_exit_3_and_with_allow_missing_1(pairs, tmp_path, capsys):
    results = tmp_path / "theirs"
    results.mkdir()
    for number in (0, 1):
        source = pairs / "test" / "shadow_free" / f"IMG_{number}_free.png"
        (results / f"IMG_{number}.png").write_bytes(source.read_bytes())
    words = ("--mask-source", "derived", "--predictions", str(results), "--no-report")
    assert main(command(pairs, tmp_path, *words)) == 3
    assert "IMG_2" in capsys.readouterr().err
    assert main(command(pairs, tmp_path, *words, "--allow-missing")) == 1
    assert "partial, 1 missing" in capsys.readouterr().out


def test_report_is_one_page_with_tables_beside_it(pairs, tmp_path):
    pytest.importorskip("matplotlib")
    assert main(command(pairs, tmp_path, "--mask-source", "derived")) == 0
    assert (tmp_path / "out" / "index.html").exists()
    assert {p.suffix for p in (tmp_path / "out" / "tables").iterdir()} == {".md", ".csv", ".tex"}
