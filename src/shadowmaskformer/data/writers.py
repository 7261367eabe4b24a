"""Write new files: masks that a data set lacks, adjusted truth, and data sets drawn on photographs."""

from __future__ import annotations

import io
import zlib
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from functools import partial
from pathlib import Path

import numpy as np
from PIL import Image

from shadowmaskformer.arrays import Floats, Levels, from_float, to_float
from shadowmaskformer.data.adjust import adjust_clean
from shadowmaskformer.data.derive import derive_mask
from shadowmaskformer.data.layouts import WHOLE, Dataset, Triplet, pictures_in, read_folder_name
from shadowmaskformer.data.pictures import read_dataset_mask, read_rgb, resize
from shadowmaskformer.data.synthetic import draw
from shadowmaskformer.errors import DatasetError, ImageReadError, OutputError
from shadowmaskformer.files import check_output, make_folder, write_atomically
from shadowmaskformer.machine import usable_cores

Progress = Callable[[int, int], None]

SYNTHETIC_SIDE = 640
"""Shorter side of the pictures that synthetic shadows are drawn on, at most; that of SRD."""


@dataclass
class Written:
    """What a writer did.

    Attributes:
        written: pictures made.
        already_there: pictures that an earlier call had made.
        not_needed: pairs that have a mask of the data set's own, so that none was derived.
        failed: why a picture could not be made, one line each.
    """

    written: int = 0
    already_there: int = 0
    not_needed: int = 0
    failed: tuple[str, ...] = ()


def write_masks(
    dataset: Dataset, output: Path | None = None, *, overwrite: bool = False, progress: Progress | None = None
) -> Written:
    """Derive a mask for each pair that has none and write it as PNG, 255 = shadow.

    Args:
        dataset: a recognised data set.
        output: folder for `{split}/mask/NAME.png`; None: beside the shadow pictures, where readers find it.
        overwrite: replace existing masks; only with `output`, because masks beside the pictures may be the data
            set's own.
        progress: called with (done, all).
    """
    if overwrite and output is None:
        raise OutputError(
            "masks beside the pictures may be the data set's own", "delete them yourself or choose another {output}"
        )

    def make(triplet: Triplet) -> tuple[bytes, ...]:
        shadow, clean = _pair(triplet)
        return (_png(from_float(derive_mask(shadow, clean))),)

    work: list[_Output] = []
    not_needed = 0
    for split in dataset.splits:
        triplets = dataset.split(split, allow_unpaired=True)
        not_needed += sum(triplet.mask is not None for triplet in triplets)
        if missing := [triplet for triplet in triplets if triplet.mask is None]:
            folder = _mask_folder(triplets, split, output)
            work += [_Output((folder / f"{triplet.name}.png",), partial(make, triplet)) for triplet in missing]
    done = _write_all(work, overwrite, progress)
    done.not_needed = not_needed
    return done


def masks_below(output: Path, split: str) -> Path:
    """Return the folder in which `write_masks` puts the masks of a split, given `output`."""
    return output / "mask" if split == WHOLE else output / split / "mask"


def write_adjusted(
    dataset: Dataset, output: Path, *, overwrite: bool = False, progress: Progress | None = None
) -> Written:
    """Write ISTD+ from ISTD: clean pictures fitted to the shadow pictures' exposure outside the mask.

    Args:
        dataset: a recognised data set; masks that it lacks are derived.
        output: folder for `{split}/{split}_C_fixed/NAME.png` (without splits, `train`), outside the data set; shadow
            pictures and masks are copied beside them, so that it is a complete data set.
        overwrite: replace pictures that are there.
        progress: called with (done, all).

    Raises:
        DatasetError: the data set is adjusted already.
        OutputError: `output` lies in the data set, or pictures that are there differ.
    """
    members = {split: dataset.split(split, allow_unpaired=True) for split in dataset.splits}
    if any("c_fixed" in triplet.clean.parent.name.lower() for split in members.values() for triplet in split[:1]):
        raise DatasetError(f"{dataset.folder} is adjusted already", "give the folder of ISTD as it was published")

    def make(triplet: Triplet) -> tuple[bytes, ...]:
        shadow, clean = _pair(triplet)
        mask = derive_mask(shadow, clean) if triplet.mask is None else to_float(read_dataset_mask(triplet.mask))
        if mask.shape != shadow.shape[:2]:
            raise ImageReadError(f"{triplet.mask}: mask and picture differ in size", "save the mask at photo size")
        # Copies, not links: whoever edits the new set must not change the old one.
        copies = [path.read_bytes() for path in (triplet.shadow, triplet.mask) if path is not None]
        return *copies, _png(from_float(adjust_clean(shadow, clean, mask)))

    work: list[_Output] = []
    for split, triplets in members.items():
        name = "train" if split == WHOLE else split
        shadows, masks, cleans = (output / name / f"{name}_{role}" for role in ("A", "B", "C_fixed"))
        for triplet in triplets:
            paths = [shadows / f"{triplet.name}{triplet.shadow.suffix}"]
            if triplet.mask is not None:
                paths.append(masks / f"{triplet.name}{triplet.mask.suffix}")
            work.append(_Output((*paths, cleans / f"{triplet.name}.png"), partial(make, triplet)))
    _check_apart(work, dataset.folder)
    return _write_all(work, overwrite, progress)


def write_synthetic(
    photos: Path,
    output: Path,
    *,
    per_photo: int = 4,
    seed: int = 0,
    overwrite: bool = False,
    progress: Progress | None = None,
) -> Written:
    """Make a data set by drawing synthetic shadows on a folder of photographs.

    Args:
        photos: folder of pictures without cast shadows.
        output: folder for `train/{cond,mask,gt}/NAME-N.png`, the released code's layout; outside `photos`.
        per_photo: how many different shadows each photo gets.
        seed: which; a photo's shadows depend on it and on the photo's name alone.
        overwrite: replace pictures that are there.
        progress: called with (done, all).

    Raises:
        DatasetError: `photos` holds no pictures, or two that would get the same names.
        OutputError: `output` lies in `photos`, or pictures that are there differ.
    """
    if not photos.is_dir():
        raise DatasetError(f"{photos} is not a folder", "name one that holds photographs")
    found: dict[str, Path] = {}
    for folder in (photos, *sorted(path for path in photos.rglob("*") if path.is_dir())):
        if any(part.startswith(".") for part in folder.relative_to(photos).parts):
            continue
        for path in pictures_in(folder):
            name = "-".join(path.relative_to(photos).with_suffix("").parts)
            if name in found:
                raise DatasetError(f"{found[name].name} and {path.name} would get the same names", "rename one")
            found[name] = path
    if not found:
        raise DatasetError(f"{photos} holds no pictures", "name a folder of photographs without shadows")

    def make(name: str, path: Path, number: int) -> tuple[bytes, ...]:
        photo = read_rgb(path, upright=True)
        height, width = photo.shape[:2]
        scale = min(1.0, SYNTHETIC_SIDE / min(height, width))
        free = resize(photo, max(1, round(height * scale)), max(1, round(width * scale)))
        which = zlib.crc32(name.encode("utf-8", "surrogateescape"))
        shadow, mask = draw(to_float(free), np.random.default_rng((seed, which, number)))
        return _png(from_float(shadow)), _png(from_float(mask)), _png(free)

    work = [
        _Output(
            tuple(output / "train" / role / f"{stem}-{number}.png" for role in ("cond", "mask", "gt")),
            partial(make, stem, path, number),
        )
        for stem, path in found.items()
        for number in range(1, per_photo + 1)
    ]
    _check_apart(work, photos)
    return _write_all(work, overwrite, progress)


@dataclass(frozen=True)
class _Output:
    """Files that belong together and what makes their bytes."""

    paths: tuple[Path, ...]
    make: Callable[[], tuple[bytes, ...]]


def _pair(triplet: Triplet) -> tuple[Floats, Floats]:
    shadow, clean = (to_float(read_rgb(path)) for path in (triplet.shadow, triplet.clean))
    if shadow.shape != clean.shape:
        raise ImageReadError(
            f"{triplet.clean}: {clean.shape[0]}x{clean.shape[1]}, its shadow picture is "
            f"{shadow.shape[0]}x{shadow.shape[1]}",
            "remove the pair or resize one",
        )
    return shadow, clean


def _check_apart(work: Sequence[_Output], source: Path) -> None:
    """Refuse to write into `source`: what is written would be taken for its own pictures the next time."""
    whole = source.resolve()
    for folder in sorted({path.parent for job in work for path in job.paths}):
        if folder.resolve().is_relative_to(whole):
            raise OutputError(f"{folder} lies in {source}, which is read", "choose another {output} outside it")


def _mask_folder(triplets: Sequence[Triplet], split: str, output: Path | None) -> Path:
    """Return where the masks of a split go: to those it has, else where `open_dataset` looks for them."""
    if output is not None:
        return masks_below(output, split)
    for triplet in triplets:
        if triplet.mask is not None:
            return triplet.mask.parent
    folder = triplets[0].shadow.parent
    own_split, own_role, _ = read_folder_name(folder.name)
    if own_role is None and read_folder_name(folder.parent.name)[1]:  # shadow/train beside mask/train
        return folder.parent.parent / "mask" / folder.name
    if own_role is None or own_split is None:  # train/shadow beside train/mask
        return folder.parent / "mask"
    letter = folder.name[-1]  # train_A beside train_B, train_shadow beside train_mask
    name = f"{folder.name[:-1]}{'B' if letter == 'A' else 'b'}" if letter in "Aa" else f"{split}_mask"
    return folder.parent / name


def _write_all(work: list[_Output], overwrite: bool, progress: Progress | None) -> Written:
    result = Written()
    failed: list[str] = []
    for folder in {path.parent for job in work for path in job.paths}:
        make_folder(folder)
    todo = [job for job in work if overwrite or not all(path.exists() for path in job.paths)]
    result.already_there = len(work) - len(todo)
    for done, (job, made) in enumerate(_in_portions(todo), start=1):
        if isinstance(made, str):
            failed.append(made)
        else:
            _write(dict(zip(job.paths, made, strict=True)), overwrite)
            result.written += 1
        if progress is not None:
            progress(done, len(todo))
    result.failed = tuple(failed)
    return result


def _write(files: dict[Path, bytes], overwrite: bool) -> None:
    # A killed run may have left some of them: those are as they should be. Others are somebody's.
    todo = {path: data for path, data in files.items() if overwrite or not path.is_file() or path.read_bytes() != data}
    for path in todo:
        check_output(path, overwrite=overwrite)
    for path, data in todo.items():
        write_atomically(path, data, overwrite=overwrite)


def _in_portions(work: list[_Output]) -> Iterator[tuple[_Output, tuple[bytes, ...] | str]]:
    def make(job: _Output) -> tuple[bytes, ...] | str:
        try:
            return job.make()
        except ImageReadError as error:
            return str(error)

    with ThreadPoolExecutor(usable_cores()) as pool:
        for start in range(0, len(work), 32):
            part = work[start : start + 32]
            yield from zip(part, pool.map(make, part), strict=True)


def _png(picture: Levels) -> bytes:
    buffer = io.BytesIO()
    Image.fromarray(picture).save(buffer, "PNG")
    return buffer.getvalue()
