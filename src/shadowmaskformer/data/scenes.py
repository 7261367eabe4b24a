"""Which pictures show the same scene: splits without leaks, and a hash of a data set's content.

SRD shows one view under many shadows. These pictures share a clean picture, even between train and test. A split by
shadow picture would validate on walls that the network has seen, so this one holds out whole scenes. It also holds out
some pictures of seen scenes, to show the difference between learning and remembering.
"""

from __future__ import annotations

import hashlib
import logging
from collections.abc import Hashable, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import NamedTuple

import numpy as np

from shadowmaskformer.arrays import Floats
from shadowmaskformer.data import derive
from shadowmaskformer.data.layouts import Triplet
from shadowmaskformer.data.pictures import gray_thumbnail
from shadowmaskformer.errors import DatasetError, ImageReadError

logger = logging.getLogger(__name__)

SIDE = 32
SAME_PICTURE = 0.45
"""Distance (RMS of 32 x 32 luminance, of 255) up to which two files are one picture, resized or recompressed.
SRD at 840 x 640 against the same picture reduced to a quarter and recompressed: at most 0.30; against the
most similar other shot of the same wall: at least 0.53."""
SAME_VIEW = 6.0
"""Distance up to which two pictures are shots of one view, moments apart."""


def content_key(path: Path) -> str:
    """Return a hash of the file's bytes: equal for identical files only."""
    return hashlib.blake2b(path.read_bytes(), digest_size=16).hexdigest()


def fingerprint(triplets: Sequence[Triplet]) -> str:
    """Return a hash of the content of `triplets`: names, byte sizes and a sample of the bytes of every file.

    A missing mask is derived, so the rule that does it belongs to the content. Independent of where the data set
    lies and of file times, so that a resumed run knows its data on another machine too.
    """
    digest = hashlib.blake2b(digest_size=16)
    for triplet in sorted(triplets, key=lambda t: (t.name, t.shadow.name)):
        digest.update(triplet.name.encode("utf-8", "surrogateescape") + b"\0")
        for path in (triplet.shadow, triplet.clean, triplet.mask):
            if path is None:
                digest.update(repr(derive.RULE).encode())
                continue
            size = path.stat().st_size
            with path.open("rb") as file:
                file.seek(max(0, size // 2 - 512))
                digest.update(f"{size}:".encode() + file.read(1024))
    return digest.hexdigest()


class CleanPictures:
    """The different clean pictures among `triplets`, with thumbnails to compare them by.

    Attributes:
        which: for each triplet, the index of its clean picture.
        paths: one file for each clean picture.
        thumbnails: (N, 1024) float32, luminance; NaN for a file that cannot be read: it is like no other.
    """

    def __init__(self, triplets: Sequence[Triplet]) -> None:
        with ThreadPoolExecutor() as pool:
            keys = list(pool.map(content_key, [t.clean for t in triplets]))
            index: dict[str, int] = {}
            self.which = [index.setdefault(key, len(index)) for key in keys]
            first = {number: t.clean for number, t in reversed(list(zip(self.which, triplets, strict=True)))}
            self.paths = [first[number] for number in range(len(index))]
            thumbnails = list(pool.map(_thumbnail, self.paths))
        self.thumbnails = np.stack(thumbnails) if thumbnails else np.zeros((0, SIDE * SIDE), np.float32)

    def __len__(self) -> int:
        return len(self.paths)

    def nearest(self, other: CleanPictures) -> Floats:
        """Return each picture's distance to the most similar one of `other`, (len(self),); inf if there is none."""
        return np.fmin.reduce(self.distances(other), axis=1, initial=np.inf)

    def distances(self, other: CleanPictures) -> Floats:
        """Return the RMS difference of the thumbnails, (len(self), len(other)), [0, 255]."""
        # Row by row: the expanded square would lose the small distances that matter to rounding.
        rows = [np.sqrt(np.square(other.thumbnails - row).mean(axis=1)) for row in self.thumbnails]
        return np.stack(rows) if rows else np.zeros((0, len(other)), np.float32)


def _thumbnail(path: Path) -> Floats:
    try:
        return gray_thumbnail(path, SIDE).ravel()
    except ImageReadError:
        return np.full(SIDE * SIDE, np.nan, np.float32)


def scene_groups(triplets: Sequence[Triplet]) -> tuple[int, ...]:
    """Return a scene number for each triplet: from its name if it has one, else by comparing clean pictures."""
    pictures = CleanPictures([t for t in triplets if t.scene is None])
    near = pictures.distances(pictures) <= SAME_VIEW
    group = list(range(len(pictures)))
    for i in range(len(pictures)):
        for j in np.flatnonzero(near[i, :i]):
            old, new = group[i], group[int(j)]
            if old != new:
                group = [new if g == old else g for g in group]
    unnamed = iter(pictures.which)
    numbers: dict[Hashable, int] = {}
    return tuple(
        numbers.setdefault(t.scene if t.scene is not None else group[next(unnamed)], len(numbers)) for t in triplets
    )


class Split(NamedTuple):
    """Triplets to train on and two kinds to validate on, each in the order of the data set.

    Attributes:
        train: what training sees.
        unseen: pictures of scenes that training never sees.
        seen: other shadows in scenes that training sees; empty where every scene has one picture.
    """

    train: tuple[Triplet, ...]
    unseen: tuple[Triplet, ...]
    seen: tuple[Triplet, ...]


def validation_split(
    triplets: Sequence[Triplet],
    *,
    share: float,
    seen: int = 0,
    seed: int = 0,
) -> Split:
    """Keep some scenes, and some pictures of the other scenes, from training.

    Args:
        triplets: what to split.
        share: share of the pictures wanted of unseen scenes, (0, 1).
        seen: how many pictures of seen scenes are wanted.
        seed: which scenes and pictures are drawn.

    Returns:
        At most as many pictures as asked for; of unseen scenes at least one.
    """
    if len(triplets) < 2:
        raise DatasetError(f"{len(triplets)} pairs cannot be split into training and validation", "add some")
    wanted = max(1, round(share * len(triplets)))
    scenes = _at_least_two(scene_groups(triplets), triplets)
    sizes = np.bincount(scenes)
    order = np.random.default_rng(seed).permutation(len(sizes))
    # A scene with very many pictures would be most of the validation: it serves better in train.
    most = max(wanted // 8, -(-len(triplets) // len(sizes)))
    chosen: set[int] = set()
    taken = 0
    for scene in order:
        if sizes[scene] <= most and taken + sizes[scene] <= wanted and len(chosen) < len(sizes) - 1:
            chosen.add(int(scene))
            taken += int(sizes[scene])
    if not chosen:
        chosen.add(int(order[np.argmin(sizes[order])]))
    left = [0 if scene in chosen else int(size) for scene, size in enumerate(sizes)]
    spared: set[int] = set()
    for picture in np.random.default_rng((seed, 1)).permutation(len(triplets)):
        if len(spared) < seen and left[scenes[picture]] > 1:
            spared.add(int(picture))
            left[scenes[picture]] -= 1
    numbered = list(zip(range(len(triplets)), triplets, scenes, strict=True))
    return Split(
        tuple(t for picture, t, scene in numbered if scene not in chosen and picture not in spared),
        tuple(t for _, t, scene in numbered if scene in chosen),
        tuple(t for picture, t, _ in numbered if picture in spared),
    )


def _at_least_two(scenes: tuple[int, ...], triplets: Sequence[Triplet]) -> tuple[int, ...]:
    """Return the scenes; if there is only one, take each clean picture, or else each picture, for a scene."""
    if len(set(scenes)) > 1:
        return scenes
    numbers: dict[str, int] = {}
    cleans = tuple(numbers.setdefault(content_key(t.clean), len(numbers)) for t in triplets)
    what = "clean picture" if len(numbers) > 1 else "picture"
    logger.warning("all %d pictures seem to show one scene: validation is split off by %s", len(triplets), what)
    return cleans if len(numbers) > 1 else tuple(range(len(triplets)))


def unseen_scenes(test: Sequence[Triplet], train: Sequence[Triplet]) -> tuple[bool, ...]:
    """Return for each test triplet whether its clean picture is absent from `train`, in any size or quality."""
    pictures = CleanPictures(test)
    nearest = pictures.nearest(CleanPictures(train))
    return tuple(bool(nearest[number] > SAME_PICTURE) for number in pictures.which)
