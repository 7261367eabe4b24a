from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest

from data.drawn import box_mask, save, scene, shade, write_srd
from shadowmaskformer.data import open_dataset
from shadowmaskformer.data.check import check, contact_sheet, misalignment


def test_a_sound_data_set_in_figures(tmp_path: Path) -> None:
    report = check(open_dataset(write_srd(tmp_path, train=6, test=5)))
    assert report.layout == "srd"
    assert (report.splits["train"].pairs, report.splits["train"].clean_pictures) == (6, 3)
    assert (report.splits["test"].pairs, report.splits["test"].clean_pictures) == (5, 5)
    assert report.splits["train"].sizes == {"48x64": 6}
    assert report.faults == report.notes == ()


def test_scenes_shared_between_train_and_test(tmp_path: Path) -> None:
    (overlap,) = check(open_dataset(write_srd(tmp_path, train=6, test=5))).overlaps
    assert (overlap.test, overlap.same_picture, overlap.names) == ("test", 3, ("IMG_0", "IMG_1", "IMG_2"))


def test_another_shot_of_a_view_is_told_apart(tmp_path: Path) -> None:
    write_srd(tmp_path, train=6, test=2)
    again = np.clip(scene(0).astype(int) + 3, 0, 255).astype(np.uint8)
    save(again, tmp_path / "test" / "shadow_free" / "IMG_0_free.png")
    (overlap,) = check(open_dataset(tmp_path)).overlaps
    assert (overlap.same_picture, overlap.same_view) == (1, 1)


def test_files_that_are_unfit_are_named(tmp_path: Path) -> None:
    write_srd(tmp_path)
    train = tmp_path / "train"
    (train / "shadow" / "IMG_0.png").write_bytes(b"not a picture")
    path = train / "shadow_free" / "IMG_1_no_shadow.png"
    path.write_bytes(path.read_bytes()[:300])
    save(scene(0, 24, 32), train / "shadow" / "IMG_2.png")
    (train / "shadow" / "IMG_3.png").unlink()
    found = {problem.file.name: problem.what for problem in check(open_dataset(tmp_path)).faults}
    assert found.keys() == {
        "IMG_0.png", "IMG_1_no_shadow.png", "IMG_2_no_shadow.png", "IMG_3_no_shadow.png"
    }  # fmt: skip
    assert "not a picture" in found["IMG_0.png"]
    assert found["IMG_2_no_shadow.png"] == "is 48x64, its shadow picture is 24x32"


def test_a_mask_of_another_size_is_a_fault(tmp_path: Path) -> None:
    write_srd(tmp_path)
    for number in range(3):
        save(box_mask()[: 48 - number], tmp_path / "test" / "mask" / f"IMG_{number}.png")
    assert [p.file.name for p in check(open_dataset(tmp_path)).faults] == ["IMG_1.png", "IMG_2.png"]


def test_misaligned_pairs_are_worth_a_look(tmp_path: Path) -> None:
    write_srd(tmp_path, train=6)
    shadow = tmp_path / "train" / "shadow"
    save(np.roll(shade(scene(1), box_mask()), (0, 3), (0, 1)), shadow / "IMG_2.png")
    save(np.random.default_rng(0).integers(0, 255, (48, 64, 3), np.uint8), shadow / "IMG_4.png")
    notes = {problem.file.name: problem.what for problem in check(open_dataset(tmp_path)).notes}
    assert "by about 0 rows, 3 columns" in notes["IMG_2.png"]
    assert "does not seem to show the view" in notes["IMG_4.png"]
    assert len(notes) == 2


@pytest.mark.parametrize("shift", [(0, 0), (5, 0), (-3, 7), (0, -12)])
def test_shifts_are_measured_under_a_shadow(shift: tuple[int, int]) -> None:
    clean = scene(2, 96, 96).mean(axis=2).astype(np.float32)
    shadow = clean.copy()
    shadow[20:70, 30:80] *= 0.4
    moved = np.roll(shadow, shift, (0, 1))
    assert misalignment(moved, clean) == pytest.approx((shift[0] / 96, shift[1] / 96))


def test_a_blank_pair_is_not_accused() -> None:
    blank = np.full((32, 32), 128, np.float32)
    assert misalignment(blank, blank) == (0.0, 0.0)


def test_the_report_as_json(tmp_path: Path) -> None:
    write_srd(tmp_path)
    (tmp_path / "train" / "shadow" / "IMG_3.png").unlink()
    plain = json.loads(json.dumps(check(open_dataset(tmp_path)).as_json()))
    assert plain["splits"]["train"]["pairs"] == 5
    assert plain["faults"][0]["file"].endswith("IMG_3_no_shadow.png")
    assert plain["overlaps"][0]["same_picture"] == 3


def test_the_contact_sheet_shows_both_splits(tmp_path: Path) -> None:
    sheet = np.asarray(contact_sheet(open_dataset(write_srd(tmp_path)), rows=3))
    assert sheet.shape[1] > 6 * 160
    # Three rows of two triplets each; the mask's column is black and white.
    assert sheet.shape[0] == 3 * (120 + 14)
    mask = sheet[14:134, 160:320]
    assert set(np.unique(mask)) == {0, 255}


def test_progress_counts_every_pair(tmp_path: Path) -> None:
    seen: list[tuple[int, int]] = []
    check(open_dataset(write_srd(tmp_path)), progress=lambda done, total: seen.append((done, total)))
    assert seen == [(n, 9) for n in range(1, 10)]


@pytest.mark.slow
def test_the_figures_of_srd(shared: Path) -> None:
    """The counts that every user of SRD should know, on the reduced and recompressed copy too."""
    if not (shared / "SRD" / "train").is_dir():
        pytest.skip("the copy of SRD beside the project is not unpacked (../shared/unpack-srd)")
    report = check(open_dataset(shared / "SRD"))
    assert {name: (split.pairs, split.clean_pictures) for name, split in report.splits.items()} == {
        "train": (2680, 462),
        "test": (408, 256),
    }
    assert report.overlaps[0].same_picture == 358
    assert report.faults == ()


def test_masks_that_mark_nothing_are_worth_a_look(tmp_path: Path) -> None:
    for name, mask in (("a", box_mask()), ("b", np.zeros_like(box_mask())), ("c", box_mask() // 255)):
        save(shade(scene(0), box_mask()), tmp_path / "train" / "shadow" / f"{name}.png")
        save(scene(0), tmp_path / "train" / "clean" / f"{name}.png")
        save(mask, tmp_path / "train" / "mask" / f"{name}.png")
    report = check(open_dataset(tmp_path))
    assert not report.faults
    assert [(note.file.name, note.what) for note in report.notes] == [("b.png", "marks no shadow")]
