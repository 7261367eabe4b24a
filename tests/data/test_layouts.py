from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from data.drawn import box_mask, save, scene, shade, write_srd
from shadowmaskformer.data import open_dataset
from shadowmaskformer.errors import DatasetError


def write_triple(folder: Path, roles: tuple[str, str, str], names: list[str], ext: str = "png") -> None:
    for number, name in enumerate(names):
        mask = box_mask()
        for role, picture in zip(roles, (shade(scene(number), mask), mask, scene(number)), strict=True):
            save(picture, folder / role / f"{name}.{ext}")


def names(dataset, split: str) -> list[str]:
    return [triplet.name for triplet in dataset.split(split)]


def test_istd_with_its_scenes(tmp_path: Path) -> None:
    for split in ("train", "test"):
        write_triple(tmp_path / split, (f"{split}_A", f"{split}_B", f"{split}_C"), ["1-1", "1-2", "12-1"])
    # ISTD's truth is of another exposure outside the shadow too.
    for path in tmp_path.glob("*/*_C/*.png"):
        save((np.asarray(scene(0)) * 0.9).astype(np.uint8), path)
    dataset = open_dataset(tmp_path)
    assert (dataset.layout, dataset.splits) == ("istd", ("train", "test"))
    assert [t.scene for t in dataset.split("train")] == ["1", "1", "12"]
    first = dataset.split("test")[0]
    assert [p.parent.name for p in (first.shadow, first.mask, first.clean) if p] == ["test_A", "test_B", "test_C"]


@pytest.mark.parametrize("clean", ["C_fixed", "C_fixed_official", "C"])
def test_istd_plus_beside_istd_and_repacked(tmp_path: Path, clean: str) -> None:
    write_triple(tmp_path / "train", ("train_A", "train_B", f"train_{clean}"), ["1-1", "2-1"])
    if clean != "C":
        write_triple(tmp_path / "train", ("train_A", "train_B", "train_C"), ["1-1", "2-1"])
    dataset = open_dataset(tmp_path)
    assert dataset.layout == "istd+"
    assert {t.clean.parent.name for t in dataset.split("train")} == {f"train_{clean}"}


@pytest.mark.parametrize(
    ("train", "test"), [("train", "test"), ("Train", "Test"), ("SRD_Train", "SRD_Test"), ("training", "testing")]
)
def test_srd_spellings(tmp_path: Path, train: str, test: str) -> None:
    write_srd(tmp_path)
    (tmp_path / "train").rename(tmp_path / train)
    (tmp_path / "test").rename(tmp_path / test)
    shadow = tmp_path / train / "shadow"
    (shadow / "IMG_0.png").rename(shadow / "IMG_0.PNG")
    dataset = open_dataset(tmp_path)
    assert (dataset.layout, dataset.splits, dataset.problems) == ("srd", ("train", "test"), ())
    assert names(dataset, "train") == [f"IMG_{n}" for n in range(6)]
    assert dataset.split("test")[2].clean.name == "IMG_2_free.png"
    assert dataset.split("test")[2].mask is None


def test_srd_with_masks_apart(tmp_path: Path) -> None:
    write_srd(tmp_path)
    for number in range(2):
        save(box_mask(), tmp_path / "SRD_testmask" / f"IMG_{number}.jpg")
    dataset = open_dataset(tmp_path)
    assert [t.mask is not None for t in dataset.split("test")] == [True, True, False]
    assert [p.what for p in dataset.problems] == ["no mask of that name"]
    assert all(t.mask is None for t in dataset.split("train"))


def test_srd_as_letters(tmp_path: Path) -> None:
    write_triple(tmp_path / "test", ("test_A", "test_B", "test_C"), ["IMG_1", "IMG_2"], "jpg")
    assert open_dataset(tmp_path).layout == "srd"


@pytest.mark.parametrize(
    "roles",
    [("shadow_train", "mask_train", "gt_train"), ("X_shadow_train", "SRD_mask_train", "X_non_shadow_train"),
     ("train_shadow_img", "train_mask", "train_shadowless"), ("train_A", "train_B", "train_C_fixed_ours"),
     ("train/shadow/images", "train/mask/images", "train/shadow_free/images"),
     ("a/b/c/train_A", "a/b/c/train_B", "a/b/c/train_C")],
)  # fmt: skip
def test_other_spellings(tmp_path: Path, roles: tuple[str, str, str]) -> None:
    write_triple(tmp_path, roles, ["x", "y"])
    dataset = open_dataset(tmp_path)
    assert [triplet.mask is not None for triplet in dataset.split("train")] == [True, True]
    assert not dataset.problems


@pytest.mark.parametrize("other", ["train/images", "docs/images", "without_shadow_train", "results/model/train/gt"])
def test_folders_of_other_things_are_passed_over(tmp_path: Path, other: str) -> None:
    write_triple(tmp_path, ("train/train_A", "train/train_B", "train/train_C"), ["x"])
    save(scene(1), tmp_path / other / "y.png")
    dataset = open_dataset(tmp_path)
    assert [t.name for t in dataset.split("train")] == ["x"]
    assert not dataset.problems


def test_a_split_without_its_clean_pictures_is_a_problem(tmp_path: Path) -> None:
    write_triple(tmp_path, ("train_A", "train_B", "train_C"), ["x"])
    save(box_mask(), tmp_path / "test_A" / "x.png")
    dataset = open_dataset(tmp_path)
    assert [(p.split, p.kind) for p in dataset.problems] == [("test", "unpaired")]
    assert len(dataset.split("train")) == 1


def test_masks_without_a_pair_are_listed(tmp_path: Path) -> None:
    write_triple(tmp_path, ("train_A", "train_B", "train_C"), ["x"])
    save(box_mask(), tmp_path / "train_B" / "y.png")
    assert [(p.file.name, p.kind) for p in open_dataset(tmp_path).problems] == [("y.png", "stray")]
    assert len(open_dataset(tmp_path).split("train")) == 1


def test_a_list_of_files_that_are_elsewhere_does_not_hide_the_folders(tmp_path: Path) -> None:
    write_triple(tmp_path, ("train_A", "train_B", "train_C"), ["x"])
    (tmp_path / "train.txt").write_text("else/a.png|else/b.png|else/c.png\n")
    assert len(open_dataset(tmp_path).split("train")) == 1


@pytest.mark.parametrize("encoding", ["latin-1", "utf-16"])
def test_a_list_that_is_not_utf8_says_how_to_save_it(tmp_path: Path, encoding: str) -> None:
    (tmp_path / "train.txt").write_bytes("in/é.png|m/é.png|out/é.png\n".encode(encoding))
    with pytest.raises(DatasetError, match=r"train\.txt is not UTF-8.*save the list as UTF-8"):
        open_dataset(tmp_path)
    write_triple(tmp_path, ("train_A", "train_B", "train_C"), ["x"])
    assert names(open_dataset(tmp_path), "train") == ["x"]


def test_release_layout(tmp_path: Path) -> None:
    for split in ("train", "valid", "test"):
        write_triple(tmp_path / split, ("cond", "mask", "gt"), ["a", "b"])
    dataset = open_dataset(tmp_path)
    assert (dataset.layout, dataset.splits) == ("release", ("train", "valid", "test"))
    assert names(dataset, "valid") == ["a", "b"]


def test_lists_of_lines(tmp_path: Path) -> None:
    write_triple(tmp_path, ("in", "m", "out"), ["x", "y"])
    lines = [f"in/{n}.png|m/{n}.png|out/{n}.png" for n in ("y", "x")]
    (tmp_path / "srd_test.txt").write_text("\n".join([*lines, "in/z.png|m/z.png|out/z.png", ""]))
    dataset = open_dataset(tmp_path)
    with pytest.raises(DatasetError, match="no partner"):
        dataset.split("test")
    assert [t.name for t in dataset.split("test", allow_unpaired=True)] == ["x", "y"]
    assert [p.file.name for p in dataset.problems] == ["z.png"] * 3
    (tmp_path / "srd_test.txt").write_text("\n".join(lines))
    assert names(open_dataset(tmp_path / "srd_test.txt"), "test") == ["x", "y"]


@pytest.mark.parametrize(
    "roles", [("shadow", "mask", "clean"), ("input", "masks", "target"), ("shadows", "shadow_mask", "Shadow Free")]
)
def test_plain_folders(tmp_path: Path, roles: tuple[str, str, str]) -> None:
    write_triple(tmp_path, roles, ["a", "b"])
    dataset = open_dataset(tmp_path)
    assert (dataset.layout, dataset.splits) == ("folders", ("all",))
    assert all(t.mask is not None for t in dataset.split("all"))


def test_splits_inside_the_folders_of_each_kind(tmp_path: Path) -> None:
    write_triple(tmp_path, ("shadow/train", "mask/train", "clean/train"), ["a"])
    write_triple(tmp_path, ("shadow/test", "mask/test", "clean/test"), ["b"])
    dataset = open_dataset(tmp_path)
    assert (names(dataset, "train"), names(dataset, "test")) == (["a"], ["b"])


def test_pairs_by_name_and_not_by_position(tmp_path: Path) -> None:
    write_srd(tmp_path, train=6)
    (tmp_path / "train" / "shadow_free" / "IMG_1_no_shadow.png").unlink()
    (tmp_path / "train" / "shadow" / "IMG_4.png").unlink()
    dataset = open_dataset(tmp_path)
    pairs = dataset.split("train", allow_unpaired=True)
    assert [(t.shadow.stem, t.clean.stem.removesuffix("_no_shadow")) for t in pairs] == [
        (f"IMG_{n}", f"IMG_{n}") for n in (0, 2, 3, 5)
    ]
    with pytest.raises(DatasetError, match=r"2 pictures have no partner.*IMG_1\.png, IMG_4_no_shadow\.png"):
        dataset.split("train")
    assert len(dataset.split("test")) == 3


def test_only_the_first_ten_are_named(tmp_path: Path) -> None:
    write_srd(tmp_path, train=14)
    for path in sorted((tmp_path / "train" / "shadow_free").iterdir())[:12]:
        path.unlink()
    with pytest.raises(DatasetError, match=r"12 pictures have no partner.*and 2 more"):
        open_dataset(tmp_path).split("train")


def test_two_pictures_of_one_name_are_a_problem(tmp_path: Path) -> None:
    write_srd(tmp_path)
    save(scene(0), tmp_path / "test" / "shadow" / "IMG_0.jpg")
    (problem,) = open_dataset(tmp_path).problems
    assert "second shadow picture of that name" in problem.what


def test_nothing_there(tmp_path: Path) -> None:
    with pytest.raises(DatasetError, match="does not exist"):
        open_dataset(tmp_path / "gone")
    with pytest.raises(DatasetError, match="no folders of pictures"):
        open_dataset(tmp_path)
    save(scene(0), tmp_path / "shadow" / "a.png")
    with pytest.raises(DatasetError, match="shadow/"):
        open_dataset(tmp_path)
    save(scene(0), tmp_path / "clean" / "b.png")
    with pytest.raises(DatasetError, match="2 pictures without a partner"):
        open_dataset(tmp_path)


def test_an_unknown_split_names_those_there_are(tmp_path: Path) -> None:
    with pytest.raises(DatasetError, match="only train, test"):
        open_dataset(write_srd(tmp_path)).split("valid")


def test_strange_names_and_other_files_do_no_harm(tmp_path: Path) -> None:
    write_triple(tmp_path, ("shadow", "mask", "clean"), ["sömmer & ü", "-dash", "new\nline"])
    (tmp_path / "shadow" / "Thumbs.db").write_bytes(b"x")
    (tmp_path / "shadow" / ".hidden.png").write_bytes(b"x")
    dataset = open_dataset(tmp_path)
    assert (len(dataset.split("all")), dataset.problems) == (3, ())


def test_a_file_that_is_no_list_is_refused(tmp_path: Path) -> None:
    (tmp_path / "SRD.zip").write_bytes(b"PK\x03\x04\xff\xfe")
    with pytest.raises(DatasetError, match="unpack an archive first"):
        open_dataset(tmp_path / "SRD.zip")


def test_a_list_over_two_data_sets(tmp_path: Path) -> None:
    for name in ("ISTD", "SRD"):
        write_triple(tmp_path / name, ("train_A", "train_B", "train_C"), [name])
    lines = [
        f"{name}/train_A/{name}.png|{name}/train_B/{name}.png|{name}/train_C/{name}.png" for name in ("ISTD", "SRD")
    ]
    (tmp_path / "train.txt").write_text("\n".join(lines))
    assert names(open_dataset(tmp_path), "train") == ["ISTD", "SRD"]
