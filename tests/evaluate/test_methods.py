"""Masks are read as training reads them, with every level of the file; other files are another method or source."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
from PIL import Image

from shadowmaskformer.data.pictures import read_dataset_mask
from shadowmaskformer.errors import MaskError
from shadowmaskformer.evaluate import EvaluationSet, Input, MaskSource, Predictions, evaluate, protocols
from shadowmaskformer.evaluate.methods import find_picture, read_stored_mask


def saved_as(kind: str, mask: np.ndarray) -> Image.Image:
    """Return `mask`, 0 and 255, as people and programs save it."""
    image, empty = Image.fromarray(mask), Image.new("L", mask.shape[::-1])
    match kind:
        case "zeros and ones":
            return Image.fromarray(mask // 255)
        case "16 bits":
            return Image.fromarray(mask.astype(np.uint16))
        case "red":
            return Image.merge("RGB", [image, empty, empty])
        case "blue":
            return Image.merge("RGB", [empty, empty, image])
        case "palette":
            painted = Image.fromarray(mask // 255, "P")
            painted.putpalette([0, 0, 0, 0, 0, 128])
            return painted
        case "transparency":
            return Image.merge("RGBA", [empty, empty, empty, image])
        case "a forgotten layer":
            return Image.merge("RGBA", [image, image, image, empty])
        case _:
            raise ValueError(kind)


KINDS = ["zeros and ones", "16 bits", "red", "blue", "palette", "transparency", "a forgotten layer"]


@pytest.mark.parametrize("kind", KINDS)
def test_a_mask_saved_in_any_way_is_read_as_training_reads_it(tmp_path: Path, mask: np.ndarray, kind: str) -> None:
    path = tmp_path / "mask.png"
    saved_as(kind, mask).save(path)
    np.testing.assert_array_equal(read_stored_mask(path, mask.shape), mask)
    np.testing.assert_array_equal(read_dataset_mask(path), mask)


@pytest.mark.parametrize("mode", ["L", "RGB", "RGBA"])
def test_every_level_of_a_mask_stays(tmp_path: Path, mode: str) -> None:
    levels = np.arange(256, dtype=np.uint8).reshape(8, 32)
    Image.fromarray(levels).convert(mode).save(tmp_path / "mask.png")
    np.testing.assert_array_equal(read_stored_mask(tmp_path / "mask.png", levels.shape), levels)


def test_a_photograph_is_no_mask(tmp_path: Path, photo: np.ndarray) -> None:
    Image.fromarray(photo).save(tmp_path / "photo.png")
    with pytest.raises(MaskError, match=r"photo\.png: a picture, not a mask"):
        read_stored_mask(tmp_path / "photo.png", photo.shape)


def test_masks_of_zeros_and_ones_score_like_the_same_masks_in_white(istd: Path, tmp_path: Path) -> None:
    def scores(output: str) -> str:
        test, masks = EvaluationSet.open(istd), MaskSource("dataset")
        found = evaluate(test, [Input()], protocols("all", "istd"), masks, tmp_path / output, workers=0)
        # NaN differs from itself, so texts are compared.
        return repr({name: sorted(rows.items()) for name, rows in found.rows["Input"].items()})

    white = scores("white")
    for path in (istd / "test" / "test_B").iterdir():
        Image.fromarray(np.asarray(Image.open(path)) // 255).save(path)
    assert scores("ones") == white


def test_masks_are_found_as_the_command_mask_names_them(istd: Path, tmp_path: Path, mask: np.ndarray) -> None:
    triplets = EvaluationSet.open(istd).triplets
    for each in triplets:
        Image.fromarray(mask).save(tmp_path / f"{each.shadow.stem}-mask.png")
    found = [find_picture(tmp_path, each).stem for each in triplets]
    assert found == [f"{each.shadow.stem}-mask" for each in triplets]


def test_a_source_with_masks_of_several_splits_gives_those_of_its_own(tmp_path: Path, mask: np.ndarray) -> None:
    for folder in ("mm/train/mask", "mm/test/mask", "mm/mask", "flat", "flat/mask"):
        (tmp_path / folder).mkdir(parents=True, exist_ok=True)
        Image.fromarray(mask).save(tmp_path / folder / "a.png")
    written, flat = str(tmp_path / "mm"), str(tmp_path / "flat")
    assert MaskSource(written, split="train").folder == tmp_path / "mm" / "train" / "mask"
    assert MaskSource(written, split="test").folder == tmp_path / "mm" / "test" / "mask"
    assert MaskSource(written, split="all").folder == tmp_path / "mm" / "mask"
    assert MaskSource(written).folder == tmp_path / "mm"
    assert MaskSource(flat, split="all").folder == tmp_path / "flat"


@pytest.mark.parametrize("identity", [lambda f: Predictions(f).identity, lambda f: MaskSource(str(f)).identity])
def test_a_file_replaced_by_an_older_one_makes_another_method_or_mask_source(
    tmp_path: Path, photo: np.ndarray, identity: Callable[[Path], str]
) -> None:
    for name, written in (("a.png", 3), ("b.png", 2)):
        Image.fromarray(photo).save(tmp_path / name)
        os.utime(tmp_path / name, (written, written))
    before = identity(tmp_path)
    assert identity(tmp_path) == before
    os.utime(tmp_path / "b.png", (1, 1))  # as `cp -p` and `rsync -a` leave it
    assert identity(tmp_path) != before
