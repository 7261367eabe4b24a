from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from PIL import Image

from data.drawn import box_mask, save, scene, shade, write_srd
from shadowmaskformer.data import derive_mask, open_dataset
from shadowmaskformer.data.writers import write_adjusted, write_masks
from shadowmaskformer.errors import DatasetError, OutputError


def write_istd(folder: Path) -> Path:
    for number in range(3):
        mask, name = box_mask(), f"{number}-1.png"
        clean = scene(number)
        save(shade(clean, mask), folder / "train" / "train_A" / name)
        save(mask, folder / "train" / "train_B" / name)
        save((clean * 0.9).astype(np.uint8), folder / "train" / "train_C" / name)
    return folder


def test_masks_are_written_where_readers_find_them(tmp_path: Path) -> None:
    dataset = open_dataset(write_srd(tmp_path))
    assert write_masks(dataset).written == 9
    again = open_dataset(tmp_path)
    assert all(t.mask is not None for split in again.splits for t in again.split(split))
    triplet = again.split("train")[1]
    pair = [np.asarray(Image.open(p), np.float32) / 255 for p in (triplet.shadow, triplet.clean)]
    assert triplet.mask is not None
    np.testing.assert_array_equal(np.asarray(Image.open(triplet.mask)) / 255, derive_mask(*pair))


def test_masks_elsewhere_leave_the_data_set_alone(tmp_path: Path) -> None:
    folder = write_srd(tmp_path / "data")
    before = sorted(folder.rglob("*"))
    write_masks(open_dataset(folder), tmp_path / "out")
    assert sorted(folder.rglob("*")) == before
    assert len(list((tmp_path / "out" / "train" / "mask").iterdir())) == 6


def test_written_masks_are_not_made_again(tmp_path: Path) -> None:
    dataset = open_dataset(write_srd(tmp_path / "data"))
    write_masks(dataset, tmp_path / "out")
    target = tmp_path / "out" / "test" / "mask" / "IMG_0.png"
    target.write_bytes(b"kept")
    done = write_masks(dataset, tmp_path / "out")
    assert (done.written, done.already_there) == (0, 9)
    assert target.read_bytes() == b"kept"
    assert write_masks(dataset, tmp_path / "out", overwrite=True).written == 9
    assert target.read_bytes() != b"kept"


def test_an_unreadable_pair_does_not_stop_the_rest(tmp_path: Path) -> None:
    folder = write_srd(tmp_path)
    (folder / "train" / "shadow" / "IMG_1.png").write_bytes(b"no picture")
    done = write_masks(open_dataset(folder))
    assert done.written == 8
    assert len(done.failed) == 1
    assert "IMG_1.png" in done.failed[0]


def test_adjusted_istd_is_a_data_set_of_its_own(tmp_path: Path) -> None:
    dataset = open_dataset(write_istd(tmp_path / "istd"))
    assert dataset.layout == "istd"
    assert write_adjusted(dataset, tmp_path / "plus").written == 3
    plus = open_dataset(tmp_path / "plus")
    assert (plus.layout, len(plus.split("train"))) == ("istd+", 3)
    triplet = plus.split("train")[2]
    shadow, clean = (np.asarray(Image.open(p)).astype(int) for p in (triplet.shadow, triplet.clean))
    lit = box_mask() == 0
    assert np.abs((shadow - clean)[lit]).mean() < 1
    np.testing.assert_allclose(clean, scene(2), atol=2)


def test_adjusting_twice_is_refused(tmp_path: Path) -> None:
    write_adjusted(open_dataset(write_istd(tmp_path / "istd")), tmp_path / "plus")
    with pytest.raises(DatasetError, match="adjusted already"):
        write_adjusted(open_dataset(tmp_path / "plus"), tmp_path / "twice")


def test_a_folder_that_cannot_be_made_is_named(tmp_path: Path) -> None:
    (tmp_path / "file").write_bytes(b"")
    with pytest.raises(OutputError, match="choose another folder"):
        write_masks(open_dataset(write_srd(tmp_path / "data")), tmp_path / "file")
