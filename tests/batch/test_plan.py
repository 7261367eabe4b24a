from __future__ import annotations

from pathlib import Path

import pytest

from shadowmaskformer.batch.plan import Item, plan
from shadowmaskformer.errors import ConfigError, ImageReadError


@pytest.fixture
def tree(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """`make` makes empty files below it; it is the working directory."""
    monkeypatch.chdir(tmp_path)
    return tmp_path


def make(*names: str) -> None:
    for name in names:
        path = Path(name)
        path.parent.mkdir(parents=True, exist_ok=True)
        path.touch()


def photos(items: list[Item]) -> list[str]:
    return [item.photo for item in items]


def test_a_folder_without_its_subfolders(tree: Path):
    make("in/b.JPG", "in/a.png", "in/notes.txt", "in/sub/c.jpg")
    assert plan(["in"]) == [Item("in/a.png", "in/a-no-shadow.png"), Item("in/b.JPG", "in/b-no-shadow.JPG")]


def test_subfolders_are_kept_in_the_output(tree: Path):
    make("in/a.jpg", "in/sub/a.jpg", "in/sub/deep/b.gif")
    assert [item.output for item in plan(["in"], "out", recursive=True)] == [
        "out/a-no-shadow.jpg", "out/sub/a-no-shadow.jpg", "out/sub/deep/b-no-shadow.png",
    ]  # fmt: skip


def test_files_by_name_are_taken_whatever_they_are_called(tree: Path):
    make("in/.a.jpg", "in/b")
    assert photos(plan(["in/.a.jpg", "in/b", "in/missing.jpg"])) == ["in/.a.jpg", "in/b", "in/missing.jpg"]


def test_hidden_files_results_and_masks_in_a_folder_are_no_photos(tree: Path):
    make("in/a.jpg", "in/.b.jpg", "in/.hidden/c.jpg", "in/old-no-shadow.png", "in/old-no-shadow-compare.jpg")
    make("in/a-mask.png", "in/lonely-mask.png", "in/a-mask-overlay.jpg", "in/a-compare.jpg")
    assert photos(plan(["in"], recursive=True)) == ["in/a.jpg", "in/lonely-mask.png"]


def test_outputs_of_the_batch_are_no_photos_even_by_name(tree: Path):
    make("a.jpg", "a-mask.png", "a-no-shadow.jpg", "a-no-shadow-compare.jpg", "b-no-shadow.jpg")
    names = ["a-mask.png", "a-no-shadow-compare.jpg", "a-no-shadow.jpg", "a.jpg", "b-no-shadow.jpg"]
    assert photos(plan(names)) == ["a.jpg", "b-no-shadow.jpg"]


@pytest.mark.parametrize("output", ["in/out", "in", "."])
def test_folders_for_results_and_masks_are_left_out(tree: Path, output: str):
    make("in/a.jpg", "in/masks/a.png", "in/out/a.jpg" if output == "in/out" else "in/b.jpg")
    expected = ["in/a.jpg"] if output == "in/out" else ["in/a.jpg", "in/b.jpg"]
    assert photos(plan(["in"], output, masks="in/masks", recursive=True)) == expected


def test_each_real_folder_and_photo_is_taken_once(tree: Path):
    make("in/sub/a.jpg")
    Path("in/sub/loop").symlink_to(tree / "in", target_is_directory=True)
    Path("in/twin").symlink_to(tree / "in/sub", target_is_directory=True)
    Path("in/twin.jpg").symlink_to(tree / "in/sub/a.jpg")
    assert photos(plan(["in", "in/sub", "in/sub/a.jpg"], "out", recursive=True)) == ["in/twin.jpg"]


def test_two_photos_for_one_output_are_refused_by_name(tree: Path):
    make("in/a.jpg", "in/a.png", "other/b.jpg", "in/b.jpg")
    assert len(plan(["in"])) == 3
    with pytest.raises(ConfigError, match=r"in/a\.jpg and in/a\.png would both become in/a-no-shadow\.webp"):
        plan(["in"], format="webp")
    with pytest.raises(ConfigError, match=r"in/b\.jpg and other/b\.jpg"):
        plan(["in", "other"], "out")


def test_masks_beside_the_photos(tree: Path):
    make("in/a.jpg", "in/a-mask.png", "in/b.jpg", "in/b_mask.jpg", "in/c.jpg")
    assert [item.mask for item in plan(["in"])] == ["in/a-mask.png", "in/b_mask.jpg", None]
    assert plan(["in/a.jpg"])[0].mask == "in/a-mask.png"


def test_masks_from_a_folder_lie_where_their_photos_do(tree: Path):
    make("in/a.jpg", "in/sub/a.jpg", "in/sub/b.jpg", "in/a-mask.png")
    make("masks/a.png", "masks/sub/a.tif", "masks/b.png", "masks/sub/b.txt")
    assert [item.mask for item in plan(["in"], masks="masks", recursive=True)] == [
        "masks/a.png", "masks/sub/a.tif", None,
    ]  # fmt: skip
    assert [item.mask for item in plan(["in/sub/b.jpg"], masks="masks")] == ["masks/b.png"]


def test_a_folder_of_photos_and_masks_never_takes_a_photo_for_its_own_mask(tree: Path):
    make("in/a.jpg", "in/a-mask.png", "in/b.jpg")
    assert [item.mask for item in plan(["in"], masks="in")] == ["in/a-mask.png", None]


def test_one_mask_serves_all(tree: Path):
    make("in/a.jpg", "in/b.jpg", "in/b-mask.png", "m.png")
    assert {item.mask for item in plan(["in"], masks="m.png")} == {"m.png"}


def test_two_masks_for_one_photo_are_refused_by_name(tree: Path):
    make("in/a.jpg", "masks/a.png", "masks/a-mask.png")
    with pytest.raises(ConfigError, match=r"masks/a\.png and masks/a-mask\.png"):
        plan(["in"], masks="masks")


def test_a_folder_that_cannot_be_read_is_named(tree: Path, monkeypatch: pytest.MonkeyPatch):
    make("in/sub/a.jpg")

    def refuse(path: str) -> None:
        raise PermissionError(13, "Permission denied", path)

    monkeypatch.setattr("os.scandir", refuse)
    with pytest.raises(ImageReadError, match="in: this folder cannot be read"):
        plan(["in"])


def test_namesakes_have_comparisons_of_their_own(tree: Path):
    make("in/a.jpg", "in/a.png", "in/b.jpg")
    items = plan(["in"])
    assert [item.comparison for item in items] == [
        "in/a-jpg-no-shadow-compare.jpg", "in/a-png-no-shadow-compare.jpg", "in/b-no-shadow-compare.jpg",
    ]  # fmt: skip
    make(*(item.comparison for item in items))
    assert plan(["in"]) == items


def test_what_the_commands_write_is_no_photo_even_by_name(tree: Path):
    make("a.jpg", "a-mask-overlay.jpg", "shadowmaskformer-manifest.jsonl", "b-mask-overlay.jpg")
    names = ["a-mask-overlay.jpg", "a.jpg", "b-mask-overlay.jpg", "shadowmaskformer-manifest.jsonl"]
    assert photos(plan(names)) == ["a.jpg", "b-mask-overlay.jpg"]


def test_a_folder_of_masks_that_fit_no_photo_is_refused(tree: Path):
    make("in/a.jpg", "in/b.jpg", "masks/a.shadow.png")
    with pytest.raises(ConfigError, match="no mask in masks has the name of a photo"):
        plan(["in"], masks="masks")
    make("masks/b.png")
    assert [item.mask for item in plan(["in"], masks="masks")] == [None, "masks/b.png"]


def test_among_the_photos_a_namesake_is_another_photo(tree: Path):
    make("in/a.jpg", "in/a.png", "in/b.jpg", "in/b-mask.png")
    items = plan(["in"], masks="in")
    assert photos(items) == ["in/a.jpg", "in/a.png", "in/b.jpg"]
    assert [item.mask for item in items] == [None, None, "in/b-mask.png"]


def test_masks_are_found_however_their_letters_are_written(tree: Path):
    make("in/Beach.JPG", "in/beach-mask.png", "in/cafe\u0301.jpg", "in/caf\u00e9-mask.png", "in/c.jpg", "in/C-mask.png")
    make("in/c-mask.png")
    assert {item.photo: item.mask for item in plan(["in"])} == {
        "in/Beach.JPG": "in/beach-mask.png",
        "in/cafe\u0301.jpg": "in/caf\u00e9-mask.png",
        "in/c.jpg": "in/c-mask.png",
    }
