"""Report what a data set contains and what is wrong with it, for `shadowmaskformer data check`."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
from PIL import Image, ImageDraw

from shadowmaskformer.arrays import Floats, box_mean, from_float, to_float
from shadowmaskformer.data.derive import derive_mask
from shadowmaskformer.data.layouts import Dataset, Problem, ProblemKind, Triplet
from shadowmaskformer.data.pictures import gray_draft, read_dataset_mask, read_rgb, resize, size_of
from shadowmaskformer.data.scenes import SAME_PICTURE, SAME_VIEW, CleanPictures
from shadowmaskformer.errors import ImageReadError

ALIGN_SIDE = 128
"""Side of the square pictures that are compared; shifts from about 1 % of the picture are found."""
SHIFT = 0.01
"""Shift of a pair, as a share of its width or height, from which it counts as misaligned."""
NOTES: frozenset[ProblemKind] = frozenset(("maskless", "stray", "blank", "misaligned"))
"""Kinds of problem that do not make a file unfit for training."""
CELL = 160
"""Width of a picture on the contact sheet, in pixels."""


@dataclass
class SplitReport:
    """One split: how many pairs and masks, how many different clean pictures, which sizes."""

    pairs: int
    masks: int
    clean_pictures: int = 0
    sizes: dict[str, int] = field(default_factory=dict[str, int])


@dataclass
class Overlap:
    """How much of a test split shows scenes that train shows too.

    Attributes:
        test: name of the split that should be unseen.
        same_picture: how many clean pictures are in train too, perhaps resized or recompressed.
        same_view: how many more are other shots of a view in train.
        names: of `same_picture`.
    """

    test: str
    same_picture: int
    same_view: int
    names: tuple[str, ...]


@dataclass
class DatasetReport:
    """All findings: `faults` make a data set unfit for training, `notes` do not."""

    folder: str
    layout: str
    splits: dict[str, SplitReport]
    overlaps: tuple[Overlap, ...]
    faults: tuple[Problem, ...]
    notes: tuple[Problem, ...]

    def as_json(self) -> dict[str, Any]:
        """Return the report in JSON's types."""
        plain = asdict(self)
        for kind in ("faults", "notes"):
            plain[kind] = [{**problem, "file": str(problem["file"])} for problem in plain[kind]]
        return plain


def check(dataset: Dataset, progress: Callable[[int, int], None] | None = None) -> DatasetReport:
    """Read every picture of `dataset` and report.

    Args:
        dataset: a recognised data set.
        progress: called with (done, all) pairs.
    """
    splits: dict[str, SplitReport] = {}
    problems = list(dataset.problems)
    sound: dict[str, list[Triplet]] = {}
    members = {name: dataset.split(name, allow_unpaired=True) for name in dataset.splits}
    total, done = sum(len(triplets) for triplets in members.values()), 0
    for name, triplets in members.items():
        splits[name] = SplitReport(len(triplets), sum(t.mask is not None for t in triplets))
        sizes: Counter[tuple[int, int]] = Counter()
        sound[name] = []
        with ThreadPoolExecutor() as pool:
            for triplet, (size, findings) in zip(triplets, pool.map(_inspect, triplets), strict=True):
                problems += [Problem(name, *finding) for finding in findings]
                if size is not None:
                    sizes[size] += 1
                    sound[name].append(triplet)
                done += 1
                if progress is not None:
                    progress(done, total)
        splits[name].sizes = {f"{height}x{width}": count for (height, width), count in sizes.most_common()}
    pictures = {name: CleanPictures(triplets) for name, triplets in sound.items()}
    for name, clean in pictures.items():
        splits[name].clean_pictures = len(clean)
    overlaps = tuple(
        _overlap(name, sound[name], pictures[name], pictures["train"])
        for name in dataset.splits
        if name != "train" and "train" in pictures
    )
    faults = tuple(problem for problem in problems if problem.kind not in NOTES)
    notes = tuple(problem for problem in problems if problem.kind in NOTES)
    return DatasetReport(str(dataset.folder), dataset.layout, splits, overlaps, faults, notes)


_Finding = tuple[Path, ProblemKind, str]


def _inspect(triplet: Triplet) -> tuple[tuple[int, int] | None, list[_Finding]]:
    """Return the size of a sound pair, or None, and what was found about its files."""
    findings: list[_Finding] = []
    sizes: dict[Path, tuple[int, int]] = {}
    grays: dict[Path, Floats] = {}
    for path in (triplet.shadow, triplet.clean, triplet.mask):
        if path is None:
            continue
        try:
            sizes[path] = size_of(path)
            if path != triplet.mask:
                grays[path] = gray_draft(path, ALIGN_SIDE)
            elif not (marked := read_dataset_mask(path) > 127).any():
                findings.append((path, "blank", "marks no shadow"))
            elif marked.all():
                findings.append((path, "blank", "marks the whole picture"))
        except ImageReadError as error:
            findings.append((path, "unreadable", str(error).removeprefix(f"{path}: ")))
    if triplet.shadow not in grays or triplet.clean not in grays:
        return None, findings
    size = sizes[triplet.shadow]
    for path, other in sizes.items():
        if other != size:
            findings.append((path, "size", f"is {_by(other)}, its shadow picture is {_by(size)}"))
    if sizes[triplet.clean] != size:
        return None, findings
    shift = misalignment(grays[triplet.shadow], grays[triplet.clean])
    if shift is None:
        findings.append((triplet.shadow, "misaligned", "does not seem to show the view of its clean picture"))
    elif max(abs(shift[0]), abs(shift[1])) >= SHIFT:
        rows, columns = round(shift[0] * size[0]), round(shift[1] * size[1])
        what = f"is shifted against its clean picture by about {rows} rows, {columns} columns"
        findings.append((triplet.shadow, "misaligned", what))
    return size, findings


def _by(size: tuple[int, int]) -> str:
    return f"{size[0]}x{size[1]}"


def misalignment(shadow: Floats, clean: Floats) -> tuple[float, float] | None:
    """Return how far `shadow` lies below and to the right of `clean`, as shares of height and width.

    Args:
        shadow: luminance, (H, W), any range.
        clean: as `shadow`.

    Returns:
        (down, right), 0 where the pair lies best as it is; None where no shift makes the two alike.

    >>> rng = np.random.default_rng(0)
    >>> wall = rng.uniform(50, 200, (64, 64)).astype(np.float32)
    >>> misalignment(np.roll(wall, (2, -4), (0, 1)), wall)
    (0.03125, -0.0625)
    """
    # Texture only: the logarithm minus its local mean, limited, so that a shadow's edge counts like any other.
    texture = []
    for gray in (shadow, clean):
        log = np.log(gray + 8)
        detail = np.tanh((log - box_mean(log, 3)) * 8)
        texture.append(detail - detail.mean())
    first, second = texture
    power = float(np.sqrt(np.square(first).sum() * np.square(second).sum()))
    if power < 1e-3 * first.size:
        return 0.0, 0.0
    likeness = np.fft.irfft2(np.fft.rfft2(first) * np.conj(np.fft.rfft2(second)), s=first.shape) / power
    row, column = np.unravel_index(int(likeness.argmax()), likeness.shape)
    best = float(likeness[row, column])
    if best < 0.12:
        return None
    # Repeated patterns match at many places: a shift must match clearly better than none.
    if best < likeness[0, 0] + 0.1:
        return 0.0, 0.0
    height, width = likeness.shape
    return float((row + height // 2) % height - height // 2) / height, float(
        (column + width // 2) % width - width // 2
    ) / width


def _overlap(name: str, triplets: Sequence[Triplet], test: CleanPictures, train: CleanPictures) -> Overlap:
    nearest = test.nearest(train)
    distance = [float(nearest[number]) for number in test.which]
    names = tuple(t.name for t, d in zip(triplets, distance, strict=True) if d <= SAME_PICTURE)
    return Overlap(name, len(names), sum(SAME_PICTURE < d <= SAME_VIEW for d in distance), names)


def contact_sheet(dataset: Dataset, rows: int = 12) -> Image.Image:
    """Return triplets spread over each split, two a row: shadow, mask (derived if there is none) and clean."""
    chosen: list[tuple[str, Triplet]] = []
    for split in dataset.splits:
        triplets = dataset.split(split, allow_unpaired=True)
        number = min(len(triplets), 2 * rows // len(dataset.splits))
        places = np.linspace(0, len(triplets) - 1, number).round().astype(int) if number else ()
        chosen += [(split, triplets[int(place)]) for place in places]
    height, caption = CELL * 3 // 4, 14
    sheet = Image.new("RGB", (6 * CELL + 16, -(-len(chosen) // 2) * (height + caption)), "white")
    pen = ImageDraw.Draw(sheet)
    for place, (split, triplet) in enumerate(chosen):
        left, top = (place % 2) * (3 * CELL + 16), (place // 2) * (height + caption)
        pen.text((left + 2, top), f"{split}/{triplet.name}{'' if triplet.mask else '  (mask derived)'}", fill="black")
        try:
            shadow, clean = (resize(read_rgb(path), height, CELL) for path in (triplet.shadow, triplet.clean))
            if triplet.mask is not None:
                mask = resize(read_dataset_mask(triplet.mask), height, CELL)
            else:
                mask = from_float(derive_mask(to_float(shadow), to_float(clean)))
        except ImageReadError:
            pen.text((left + 2, top + caption), "unreadable", fill="red")
            continue
        for column, picture in enumerate((shadow, mask, clean)):
            sheet.paste(Image.fromarray(picture), (left + column * CELL, top + caption))
    return sheet
