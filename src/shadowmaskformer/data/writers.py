"""New files for a data set: masks that it lacks, and truth in the shadow pictures' own exposure."""

from __future__ import annotations

import io
import os
import shutil
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from numpy.typing import NDArray
from PIL import Image

from shadowmaskformer.data.adjust import adjust_clean
from shadowmaskformer.data.derive import derive_mask
from shadowmaskformer.data.layouts import WHOLE, Dataset, Triplet
from shadowmaskformer.data.pictures import read_mask, read_rgb
from shadowmaskformer.errors import DatasetError, ImageReadError, OutputError
from shadowmaskformer.output import write_atomically

Progress = Callable[[int, int], None]


@dataclass
class Written:
    """What a writer did: files written, files that were there already, and pairs it could not read."""

    written: int = 0
    already_there: int = 0
    failed: tuple[str, ...] = ()


def write_masks(
    dataset: Dataset, out: Path | None = None, *, overwrite: bool = False, progress: Progress | None = None
) -> Written:
    """Derive a mask for each pair that has none and write it as PNG, 255 = shadow.

    Args:
        dataset: a recognised data set.
        out: folder for `{split}/mask/NAME.png`; None: beside the shadow pictures, where readers find it.
        overwrite: replace masks that are there.
        progress: called with (done, all).
    """

    def make(triplet: Triplet) -> NDArray[np.uint8]:
        shadow, clean = _pair(triplet)
        return (derive_mask(shadow, clean) * 255).astype(np.uint8)

    work = [
        (triplet, _mask_folder(triplet, split, out) / f"{triplet.name}.png", make)
        for split in dataset.splits
        for triplet in dataset.split(split, allow_unpaired=True)
        if triplet.mask is None or (overwrite and out is not None)
    ]
    return _write_all(work, overwrite, progress)


def write_adjusted(
    dataset: Dataset, out: Path, *, overwrite: bool = False, progress: Progress | None = None
) -> Written:
    """Write ISTD+ from ISTD: clean pictures fitted to the shadow pictures' exposure outside the mask.

    Args:
        dataset: a recognised data set; masks that it lacks are derived.
        out: folder for `{split}/{split}_C_fixed/NAME.png`; shadow pictures and masks are linked beside them
            (copied where links are impossible), so that it is a data set of its own.
        overwrite: replace pictures that are there.
        progress: called with (done, all).
    """
    if dataset.layout == "istd+":
        raise DatasetError(f"{dataset.folder} is adjusted already; give the folder of ISTD as it was published")

    def make(triplet: Triplet) -> NDArray[np.uint8]:
        shadow, clean = _pair(triplet)
        mask = derive_mask(shadow, clean)
        if triplet.mask is not None:
            mask = (read_mask(triplet.mask) / np.float32(255)).astype(np.float32)
        if mask.shape != shadow.shape[:2]:
            raise ImageReadError(f"{triplet.mask}: mask and picture differ in size; save the mask at photo size")
        return np.round(adjust_clean(shadow, clean, mask) * 255).astype(np.uint8)

    work: list[_Job] = []
    for split in dataset.splits:
        home = out / split
        for triplet in dataset.split(split, allow_unpaired=True):
            _link(triplet.shadow, home / f"{split}_A" / f"{triplet.name}{triplet.shadow.suffix}")
            if triplet.mask is not None:
                _link(triplet.mask, home / f"{split}_B" / f"{triplet.name}{triplet.mask.suffix}")
            work.append((triplet, home / f"{split}_C_fixed" / f"{triplet.name}.png", make))
    return _write_all(work, overwrite, progress)


_Job = tuple[Triplet, Path, Callable[[Triplet], NDArray[np.uint8]]]


def _pair(triplet: Triplet) -> tuple[NDArray[np.float32], NDArray[np.float32]]:
    shadow, clean = ((read_rgb(path) / np.float32(255)).astype(np.float32) for path in (triplet.shadow, triplet.clean))
    if shadow.shape != clean.shape:
        raise ImageReadError(
            f"{triplet.clean}: {clean.shape[0]}x{clean.shape[1]}, its shadow picture is "
            f"{shadow.shape[0]}x{shadow.shape[1]}; take the pair out or resize one"
        )
    return shadow, clean


def _mask_folder(triplet: Triplet, split: str, out: Path | None) -> Path:
    if out is not None:
        return out / "mask" if split == WHOLE else out / split / "mask"
    folder = triplet.shadow.parent
    name = f"{folder.name[:-1]}B" if folder.name.endswith("_A") else "mask"
    return folder.parent / name


def _write_all(work: list[_Job], overwrite: bool, progress: Progress | None) -> Written:
    result = Written()
    failed: list[str] = []
    for folder in {path.parent for _, path, _ in work}:
        try:
            folder.mkdir(parents=True, exist_ok=True)
        except OSError as error:
            raise OutputError(f"{folder}: {error.strerror}; choose another folder with -o") from error
    todo = [job for job in work if overwrite or not job[1].exists()]
    result.already_there = len(work) - len(todo)
    for done, (job, made) in enumerate(_in_portions(todo), start=1):
        if isinstance(made, str):
            failed.append(made)
        else:
            write_atomically(job[1], made, overwrite=overwrite)
            result.written += 1
        if progress is not None:
            progress(done, len(todo))
    result.failed = tuple(failed)
    return result


def _in_portions(work: list[_Job]) -> Iterator[tuple[_Job, bytes | str]]:
    def make(job: _Job) -> bytes | str:
        try:
            buffer = io.BytesIO()
            Image.fromarray(job[2](job[0])).save(buffer, "PNG")
            return buffer.getvalue()
        except ImageReadError as error:
            return str(error)

    with ThreadPoolExecutor(os.cpu_count()) as pool:
        for start in range(0, len(work), 32):
            part = work[start : start + 32]
            yield from zip(part, pool.map(make, part), strict=True)


def _link(source: Path, target: Path) -> None:
    if target.exists():
        return
    try:
        target.parent.mkdir(parents=True, exist_ok=True)
        try:
            os.link(source, target)
        except OSError:
            shutil.copyfile(source, target)
    except OSError as error:
        raise OutputError(f"{target}: {error.strerror}; choose another folder with -o") from error
