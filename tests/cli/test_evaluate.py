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


def test_masks_that_our_own_command_wrote_are_found(pairs, tmp_path, capsys):
    assert main(["data", "masks", str(pairs), "-o", str(tmp_path / "mm")]) == 0
    words = ("--mask-source", str(tmp_path / "mm"), "--method", "relight", "--no-report")
    assert main(command(pairs, tmp_path, *words, "--as-used", "--mask-error", "shrink:3%")) == 0
    assert "folder mm" in capsys.readouterr().out


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


def test_results_of_256_are_scored_under_the_standard_protocols_that_resize(istd, tmp_path, capsys):
    results = tmp_path / "theirs"
    results.mkdir()
    for path in (istd / "test" / "test_C").iterdir():
        Image.open(path).resize((256, 256)).save(results / path.name)
    words = ("--mask-source", "dataset", "--predictions", str(results), "--size", "256", "--no-report")
    assert main(command(istd, tmp_path, *words)) == 0
    out, err = capsys.readouterr()
    assert "left out with --size 256, because they do not resize: istd-full\n" in err
    assert "istd-256" in out
    assert main(command(istd, tmp_path, *words, "--protocol", "all")) == 0
    assert "istd-full, full-per-image, shadowformer-python\n" in capsys.readouterr().err
    assert main(command(istd, tmp_path, *words, "--protocol", "istd-full")) == 3
    assert "istd-full does not resize" in capsys.readouterr().err


def test_report_is_one_page_with_tables_beside_it(pairs, tmp_path):
    pytest.importorskip("matplotlib")
    assert main(command(pairs, tmp_path, "--mask-source", "derived")) == 0
    assert (tmp_path / "out" / "index.html").exists()
    assert {p.suffix for p in (tmp_path / "out" / "tables").iterdir()} == {".md", ".csv", ".tex"}


def test_as_used_prints_its_table_and_what_wrong_masks_cost(pairs, tmp_path, capsys):
    pytest.importorskip("matplotlib")
    words = ("--mask-source", "derived", "--method", "relight", "--as-used", "--mask-error", "shrink:3%", "shift:3%")
    assert main(command(pairs, tmp_path, *words)) == 0
    out = capsys.readouterr().out
    assert "as-used" in out
    assert "Worst tenth" in out
    assert "shrink 3 %" in out
    assert "MAE" not in out
    page = (tmp_path / "out" / "index.html").read_text()
    assert "What users get" in page
    assert "what a wrong mask costs" in page
    assert "blended into the photo" in page


def test_mask_errors_need_as_used(pairs, tmp_path, capsys):
    assert main(command(pairs, tmp_path, "--mask-source", "derived", "--mask-error", "shrink:2%")) == 2
    assert "add --as-used" in capsys.readouterr().err
    assert main(command(pairs, tmp_path, "--mask-source", "derived", "--as-used", "--mask-error", "2%")) == 2
    assert "shrink:2%" in capsys.readouterr().err


def test_remedies_name_flags_on_the_command_line(pairs, tmp_path, capsys):
    assert main(command(pairs, tmp_path, "--mask-source", "dataset")) == 3
    assert "use --mask-source derived" in capsys.readouterr().err


def test_two_results_of_one_name_are_both_named(pairs, tmp_path, capsys):
    results = tmp_path / "theirs"
    results.mkdir()
    for number in range(3):
        picture = Image.open(pairs / "test" / "shadow_free" / f"IMG_{number}_free.png")
        picture.save(results / f"IMG_{number}.png")
    picture.save(results / "IMG_2.jpg")
    assert main(command(pairs, tmp_path, "--mask-source", "derived", "--predictions", str(results))) == 3
    assert "theirs has both IMG_2.jpg and IMG_2.png" in capsys.readouterr().err


def test_the_report_says_what_its_pictures_show_and_is_small(pairs, tmp_path):
    pytest.importorskip("matplotlib")
    assert main(command(pairs, tmp_path, "--mask-source", "derived", "--method", "relight")) == 0
    page = (tmp_path / "out" / "index.html").read_text()
    assert "raw answer" in page
    assert page.count("data:image/jpeg") == 2  # three pictures make one group: strips and error maps
    assert len(page) < 800_000


def test_a_finished_evaluation_restores_and_decodes_no_picture_again(pairs, tmp_path, monkeypatch):
    pytest.importorskip("matplotlib")
    from shadowmaskformer.data import scenes
    from shadowmaskformer.evaluate import methods
    from shadowmaskformer.removal.remover import ShadowRemover

    words = command(pairs, tmp_path, "--mask-source", "derived", "--method", "relight", "--weights", "default")
    assert main(words) == 0

    def explode(*args: object, **options: object) -> None:
        raise AssertionError("done again")

    monkeypatch.setattr(methods, "read_photo", explode)
    monkeypatch.setattr(ShadowRemover, "__init__", explode)
    monkeypatch.setattr(scenes, "CleanPictures", explode)
    before = (tmp_path / "out" / "figures" / "pictures-worst.jpg").read_bytes()
    assert main(words) == 0
    assert (tmp_path / "out" / "figures" / "pictures-worst.jpg").read_bytes() == before


def test_a_long_evaluation_says_so_first(pairs, tmp_path, capsys, monkeypatch):
    from shadowmaskformer.evaluate import runner

    monkeypatch.setattr(runner, "SECONDS_PER_MEGAPIXEL", 1e6)
    words = command(pairs, tmp_path, "--mask-source", "derived", "--no-report", "--protocol", "all")
    assert main(words) == 0
    assert "min to go: 3 pictures, 1 methods, " in capsys.readouterr().err
