from __future__ import annotations

import shutil
from pathlib import Path

import numpy as np
import pytest
from PIL import Image

from data.drawn import box_mask, save, scene, shade, write_srd
from shadowmaskformer.data import derive_mask, open_dataset
from shadowmaskformer.data.writers import write_adjusted, write_masks, write_synthetic
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


@pytest.mark.parametrize(
    ("shadow", "clean"),
    [("{}/shadow", "{}/shadow_free"), ("{}A", "{}C"), ("{}_a", "{}_c"), ("{}_shadow", "{}_shadow_free"),
     ("shadow/{}", "clean/{}"), ("shadow_{}", "gt_{}")],
)  # fmt: skip
def test_masks_of_every_layout_are_found_again(tmp_path: Path, shadow: str, clean: str) -> None:
    for split in ("train", "test"):
        for number in range(2):
            save(shade(scene(number), box_mask()), tmp_path / shadow.format(split) / f"{number}.png")
            save(scene(number), tmp_path / clean.format(split) / f"{number}.png")
    assert write_masks(open_dataset(tmp_path)).written == 4
    again = open_dataset(tmp_path)
    assert again.splits == ("train", "test")
    assert all(t.mask is not None for split in again.splits for t in again.split(split))


def test_missing_masks_join_those_that_are_there(tmp_path: Path) -> None:
    write_srd(tmp_path)
    save(box_mask(), tmp_path / "SRD_testmask" / "IMG_0.jpg")
    assert write_masks(open_dataset(tmp_path)).written == 8
    assert all(triplet.mask is not None for triplet in open_dataset(tmp_path).split("test"))


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


def test_masks_beside_the_pictures_are_not_replaced(tmp_path: Path) -> None:
    folder = write_srd(tmp_path)
    write_masks(open_dataset(folder))
    with pytest.raises(OutputError, match="choose another output"):
        write_masks(open_dataset(folder), overwrite=True)


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


def test_pairs_that_need_no_adjusting_are_adjusted_all_the_same(tmp_path: Path) -> None:
    for number in range(2):
        save(shade(scene(number), box_mask()), tmp_path / "in" / "train_A" / f"{number}.png")
        save(scene(number), tmp_path / "in" / "train_C" / f"{number}.png")
    assert write_adjusted(open_dataset(tmp_path / "in"), tmp_path / "out").written == 2
    assert open_dataset(tmp_path / "out").layout == "istd+"


def test_editing_an_adjusted_set_leaves_its_source_alone(tmp_path: Path) -> None:
    source = write_istd(tmp_path / "istd")
    before = {path: path.read_bytes() for path in source.rglob("*.png")}
    write_adjusted(open_dataset(source), tmp_path / "plus")
    for path in (tmp_path / "plus").rglob("*.png"):
        with path.open("r+b") as file:
            file.write(b"edited")
    assert {path: path.read_bytes() for path in source.rglob("*.png")} == before


def test_making_a_set_of_links_again_unties_it_from_its_source(tmp_path: Path) -> None:
    dataset = open_dataset(write_istd(tmp_path / "istd"))
    write_adjusted(dataset, tmp_path / "plus")
    copied = tmp_path / "plus" / "train" / "train_A" / "0-1.png"
    copied.unlink()
    copied.hardlink_to(dataset.split("train")[0].shadow)
    write_adjusted(dataset, tmp_path / "plus", overwrite=True)
    assert not copied.samefile(dataset.split("train")[0].shadow)


def test_an_adjusted_set_is_made_again_as_a_whole(tmp_path: Path) -> None:
    dataset = open_dataset(write_istd(tmp_path / "istd"))
    write_adjusted(dataset, tmp_path / "plus")
    for role, replaced in (("A", scene(7)), ("B", box_mask(4, 4))):
        path = tmp_path / "istd" / "train" / f"train_{role}" / "0-1.png"
        path.unlink()
        save(replaced, path)
    assert write_adjusted(dataset, tmp_path / "plus", overwrite=True).written == 3
    for triplet, copied in zip(dataset.split("train"), open_dataset(tmp_path / "plus").split("train"), strict=True):
        assert copied.mask is not None
        assert triplet.mask is not None
        assert copied.shadow.read_bytes() == triplet.shadow.read_bytes()
        assert copied.mask.read_bytes() == triplet.mask.read_bytes()


def test_files_of_another_set_are_not_replaced_by_adjusting(tmp_path: Path) -> None:
    other = save(scene(7), tmp_path / "other" / "train" / "train_B" / "0-1.png")
    before = other.read_bytes()
    with pytest.raises(OutputError, match=r"0-1\.png: already exists"):
        write_adjusted(open_dataset(write_istd(tmp_path / "istd")), tmp_path / "other")
    assert other.read_bytes() == before
    assert not list((tmp_path / "other" / "train" / "train_A").iterdir())


def test_a_pair_that_cannot_be_adjusted_leaves_nothing_behind(tmp_path: Path) -> None:
    source = write_istd(tmp_path / "istd")
    save(scene(0, 24, 32), source / "train" / "train_C" / "1-1.png")
    done = write_adjusted(open_dataset(source), tmp_path / "plus")
    assert (done.written, len(done.failed)) == (2, 1)
    plus = open_dataset(tmp_path / "plus")
    assert ([triplet.name for triplet in plus.split("train")], plus.problems) == (["0-1", "2-1"], ())


@pytest.mark.parametrize("inner", ["", "plus", "../istd/plus"])
def test_adjusting_into_the_data_set_is_refused(tmp_path: Path, inner: str) -> None:
    source = write_istd(tmp_path / "istd")
    with pytest.raises(OutputError, match="choose another output outside it"):
        write_adjusted(open_dataset(source), source / inner)
    assert len(open_dataset(source).split("train")) == 3
    assert not (source / "plus").exists()


def test_adjusting_a_split_into_its_data_set_is_refused(tmp_path: Path) -> None:
    source = write_istd(tmp_path / "istd")
    with pytest.raises(OutputError, match="choose another output outside it"):
        write_adjusted(open_dataset(source / "train"), source)


@pytest.mark.parametrize("inner", ["", "out"])
def test_drawing_into_the_photographs_is_refused(tmp_path: Path, inner: str) -> None:
    save(scene(0), tmp_path / "photos" / "a.png")
    with pytest.raises(OutputError, match="choose another output outside it"):
        write_synthetic(tmp_path / "photos", tmp_path / "photos" / inner)
    assert [path.name for path in (tmp_path / "photos").iterdir()] == ["a.png"]


def test_photographs_in_folders_are_drawn_on_upright(tmp_path: Path) -> None:
    exif = Image.Exif()
    exif[0x0112] = 6
    (tmp_path / "photos" / "rome").mkdir(parents=True)
    Image.fromarray(scene(0)).save(tmp_path / "photos" / "rome" / "a.jpg", exif=exif)
    assert write_synthetic(tmp_path / "photos", tmp_path / "out", per_photo=1).written == 1
    with Image.open(tmp_path / "out" / "train" / "gt" / "rome-a-1.png") as drawn:
        drawn.load()
    assert drawn.size == (48, 64)


def test_masks_of_lists_stay_inside_the_data_set(tmp_path: Path) -> None:
    save(shade(scene(0), box_mask()), tmp_path / "set" / "img" / "a.png")
    save(scene(0), tmp_path / "set" / "gt" / "a.png")
    (tmp_path / "set" / "all.txt").write_text("img/a.png||gt/a.png\n")
    write_masks(open_dataset(tmp_path / "set"))
    assert (tmp_path / "set" / "mask" / "a.png").exists()


def test_adjusting_twice_is_refused(tmp_path: Path) -> None:
    write_adjusted(open_dataset(write_istd(tmp_path / "istd")), tmp_path / "plus")
    with pytest.raises(DatasetError, match="adjusted already"):
        write_adjusted(open_dataset(tmp_path / "plus"), tmp_path / "twice")


def test_a_folder_that_cannot_be_made_is_named(tmp_path: Path) -> None:
    (tmp_path / "file").write_bytes(b"")
    with pytest.raises(OutputError, match="choose another output"):
        write_masks(open_dataset(write_srd(tmp_path / "data")), tmp_path / "file")


def test_shadows_drawn_on_photographs_are_a_data_set(tmp_path: Path) -> None:
    for number in range(2):
        save(scene(number, 96, 128), tmp_path / "photos" / f"p{number}.png")
    assert write_synthetic(tmp_path / "photos", tmp_path / "out", per_photo=3).written == 6
    dataset = open_dataset(tmp_path / "out")
    assert (dataset.layout, len(dataset.split("train")), dataset.problems) == ("release", 6, ())
    triplet = dataset.split("train")[0]
    assert triplet.mask is not None
    photo, mask, clean = (np.asarray(Image.open(p)) for p in (triplet.shadow, triplet.mask, triplet.clean))
    np.testing.assert_array_equal(clean, scene(0, 96, 128))
    np.testing.assert_array_equal(photo[mask == 0], clean[mask == 0])
    assert photo[mask > 200].mean() < clean[mask > 200].mean()


def test_drawn_shadows_depend_on_name_and_seed(tmp_path: Path) -> None:
    photo = save(scene(0), tmp_path / "photos" / "b.png")
    drawn: list[bytes] = []
    for run, seed in enumerate((0, 0, 1)):
        write_synthetic(tmp_path / "photos", tmp_path / str(run), per_photo=1, seed=seed)
        drawn.append((tmp_path / str(run) / "train" / "cond" / "b-1.png").read_bytes())
        save(scene(5), photo.with_name("a.png"))
    assert drawn[0] == drawn[1] != drawn[2]


def test_a_set_left_incomplete_is_made_whole(tmp_path: Path) -> None:
    save(scene(0), tmp_path / "photos" / "a.png")
    write_synthetic(tmp_path / "photos", tmp_path / "out", per_photo=2)
    (tmp_path / "out" / "train" / "gt" / "a-2.png").unlink()
    done = write_synthetic(tmp_path / "photos", tmp_path / "out", per_photo=2)
    assert (done.written, done.already_there) == (1, 1)
    assert len(open_dataset(tmp_path / "out").split("train")) == 2


def test_photographs_of_one_name_or_none_at_all(tmp_path: Path) -> None:
    with pytest.raises(DatasetError, match="holds no pictures"):
        write_synthetic(tmp_path, tmp_path / "out")
    save(scene(0), tmp_path / "a.png")
    save(scene(0), tmp_path / "a.jpg")
    with pytest.raises(DatasetError, match=r"a\.jpg and a\.png"):
        write_synthetic(tmp_path, tmp_path / "out")


def test_adjusted_pairs_without_splits_can_be_read(tmp_path: Path) -> None:
    source = open_dataset(write_istd(tmp_path / "istd")).folder / "train"
    mine = tmp_path / "mine"
    for role, name in (("A", "shadow"), ("B", "mask"), ("C", "clean")):
        shutil.copytree(source / f"train_{role}", mine / name)
    assert open_dataset(mine).splits == ("all",)
    assert write_adjusted(open_dataset(mine), tmp_path / "plus").written == 3
    assert len(open_dataset(tmp_path / "plus").split("train")) == 3
