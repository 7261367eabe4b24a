from __future__ import annotations

import json
from pathlib import Path

import pytest

from data.drawn import box_mask, save, scene, write_srd
from shadowmaskformer.cli import main


@pytest.fixture(autouse=True)
def here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)


def test_check_says_what_it_recognised(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    write_srd(tmp_path / "set", train=6, test=5)
    assert main(["data", "check", str(tmp_path / "set")]) == 0
    out = capsys.readouterr().out
    assert ": srd" in out
    assert "train: 6 pairs, no masks (derived when needed), 3 different clean pictures" in out
    assert "3 of 5 test pictures share their scene with train" in out
    assert (tmp_path / "set-sheet.jpg").exists()


def test_check_draws_no_sheet_among_the_data(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    write_srd(tmp_path)
    before = sorted(tmp_path.rglob("*"))
    assert main(["data", "check", "."]) == 0
    assert "with -o" in capsys.readouterr().err
    assert sorted(tmp_path.rglob("*")) == before


def test_check_replaces_no_file_unless_asked(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    write_srd(tmp_path / "set")
    sheet = tmp_path / "set-sheet.jpg"
    sheet.write_bytes(b"somebody's")
    assert main(["data", "check", str(tmp_path / "set")]) == 0
    assert "no contact sheet: set-sheet.jpg: already exists; replace it with --overwrite" in capsys.readouterr().err
    assert sheet.read_bytes() == b"somebody's"
    assert main(["data", "check", str(tmp_path / "set"), "--overwrite"]) == 0
    assert sheet.read_bytes()[:2] == b"\xff\xd8"


def test_check_names_unfit_files_and_exits_1(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    write_srd(tmp_path)
    (tmp_path / "train" / "shadow" / "IMG_0.png").write_bytes(b"x")
    assert main(["data", "check", str(tmp_path)]) == 1
    assert "train/shadow/IMG_0.png: not a picture" in capsys.readouterr().out


def test_check_as_json(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    write_srd(tmp_path)
    assert main(["data", "check", str(tmp_path), "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["layout"] == "srd"


def test_check_draws_a_contact_sheet(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    write_srd(tmp_path / "data")
    sheet = tmp_path / "sheet.jpg"
    assert main(["data", "check", str(tmp_path / "data"), "-o", str(sheet)]) == 0
    assert sheet.read_bytes()[:2] == b"\xff\xd8"
    assert main(["data", "check", str(tmp_path / "data"), "-o", str(sheet)]) == 3
    assert "--overwrite" in capsys.readouterr().err
    assert main(["data", "check", str(tmp_path / "data"), "-o", str(tmp_path / "sheet.txt")]) == 2


def test_no_data_set_is_one_line_and_exit_3(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["data", "check", str(tmp_path / "gone")]) == 3
    assert capsys.readouterr().err.count("\n") == 1


def test_masks_and_then_none_left(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    write_srd(tmp_path)
    assert main(["data", "masks", str(tmp_path)]) == 0
    assert capsys.readouterr().out.startswith("9 masks written")
    assert main(["data", "masks", str(tmp_path)]) == 0
    assert capsys.readouterr().out == "nothing to derive: all 9 pairs have masks of the data set's own\n"


def test_pairs_with_masks_of_their_own_are_counted(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    write_srd(tmp_path)
    save(box_mask(), tmp_path / "SRD_testmask" / "IMG_0.png")
    assert main(["data", "masks", str(tmp_path)]) == 0
    out = capsys.readouterr().out
    assert "1 pairs have masks of the data set's own" in out
    assert "8 masks written" in out


def test_a_pair_that_fails_is_named_and_exits_1(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    write_srd(tmp_path)
    save(scene(0, 24, 32), tmp_path / "test" / "shadow" / "IMG_1.png")
    assert main(["data", "masks", str(tmp_path)]) == 1
    assert "IMG_1_free.png: 48x64, its shadow picture is 24x32" in capsys.readouterr().err


def test_adjust_needs_a_place_to_write(tmp_path: Path) -> None:
    with pytest.raises(SystemExit) as stop:
        main(["data", "adjust", str(tmp_path)])
    assert stop.value.code == 2


def test_adjust_writes_a_data_set(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    write_srd(tmp_path / "data")
    assert main(["data", "adjust", str(tmp_path / "data"), "-o", str(tmp_path / "plus")]) == 0
    assert capsys.readouterr().out.startswith("9 clean pictures written")
    assert (tmp_path / "plus" / "train" / "train_C_fixed" / "IMG_0.png").is_file()


def test_draw_makes_a_data_set_of_photographs(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    save(scene(0), tmp_path / "photos" / "a.png")
    words = ["data", "draw", str(tmp_path / "photos"), "-o", str(tmp_path / "out"), "--per-photo"]
    assert main([*words, "2"]) == 0
    assert capsys.readouterr().out.startswith("2 triplets written")
    assert main([*words, "0"]) == 2
