"""Training samples, drawn from pictures that were decoded once.

`build_cache` decodes a data set into one memory-mapped file at a working size; a clean picture that many pairs share
is stored once. For networks that start from the relit photo it measures the light too: once for each picture, where
every training step would need it again. `Samples` draws from it. A sample depends only on the seed and its position in
the run, so that any number of processes and threads get the same samples, and a resumed run goes on with the next one.
"""

from __future__ import annotations

import functools
import glob
import json
import os
import secrets
import shutil
import time
from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import BinaryIO, Literal, get_args

import numpy as np
from numpy.typing import NDArray
from PIL import Image

from shadowmaskformer.arrays import Floats, Levels, from_float, to_float
from shadowmaskformer.data import adjust, derive
from shadowmaskformer.data.augment import Augment, change_light, draw_box, jitter_mask, turn
from shadowmaskformer.data.layouts import Triplet
from shadowmaskformer.data.pictures import read_dataset_mask, read_rgb, resize, size_of
from shadowmaskformer.data.scenes import content_key, fingerprint
from shadowmaskformer.data.synthetic import draw as draw_shadow
from shadowmaskformer.data.synthetic import paste_decoy
from shadowmaskformer.errors import ConfigError, DatasetError, ImageReadError, OutputError
from shadowmaskformer.files import first_ten, write_atomically
from shadowmaskformer.light import relight
from shadowmaskformer.machine import usable_cores

PICTURES, INDEX = "pictures.bin", "index.json"
SIDE = 320
"""Shorter side of the stored pictures, in pixels, unless larger ones are needed."""
TOLERATED = 0.001
"""Share of unreadable pictures that a run tolerates."""
CROP_TRIES = 6
"""How often a crop without a shadow's edge is drawn again."""

_PARTIAL = ".partial-"
_STALE_AFTER_S = 600.0  # what is being written is written to every few seconds

Truth = Literal["as-taken", "own-light"]
"""Which truth to learn: the clean picture as it was taken, or brought to the light of its photo.

A clean picture is taken moments before or after its photo, so its light differs a little everywhere. `own-light`
changes each channel of it by the line that meets the photo outside the shadow (`data.adjust`), as ISTD+ does.
"""
TRUTHS: tuple[Truth, ...] = get_args(Truth)


def check_truth(truth: str) -> Truth:
    """Return `truth`, or raise ConfigError if it is not one of `TRUTHS`.

    >>> check_truth("own-light")
    'own-light'
    """
    for known in TRUTHS:
        if truth == known:
            return known
    raise ConfigError(f"truth is {truth!r}; choose one of {', '.join(TRUTHS)}")


@dataclass(frozen=True)
class Entry:
    """Where a triplet lies in the cache: byte offsets of its pictures and their common size.

    A photo whose clean picture is not known, or that has no shadow, is its own clean picture. `start` is the relit
    photo, None if it was not measured.
    """

    name: str
    height: int
    width: int
    shadow: int
    mask: int
    clean: int
    start: int | None = None


@dataclass(frozen=True)
class Sample:
    """One training picture.

    Attributes:
        name: of the triplet it was made from.
        photo: RGB with the shadow, (H, W, 3), [0, 1].
        mask: (H, W), [0, 1], 1 = shadow.
        truth: RGB without the shadow, as `photo`.
        start: the photo relit, as `photo`, if it was measured with the picture and neither shadow nor mask are others.
    """

    name: str
    photo: Floats
    mask: Floats
    truth: Floats
    start: Floats | None = None


class Cache:
    """Decoded triplets, memory-mapped; unreadable ones were left out and are listed in `skipped`."""

    def __init__(self, folder: Path) -> None:
        index = json.loads((folder / INDEX).read_text(encoding="utf-8"))
        self.entries = tuple(Entry(**entry) for entry in index["entries"])
        self.skipped: tuple[str, ...] = tuple(index["skipped"])
        self._bytes = np.memmap(folder / PICTURES, np.uint8, "r")

    def __len__(self) -> int:
        return len(self.entries)

    def pictures(self, index: int) -> tuple[Levels, Levels, Levels]:
        """Return shadow (H, W, 3), mask (H, W) and clean (H, W, 3) as views of the file, [0, 255]."""
        entry = self.entries[index]
        shape = (entry.height, entry.width)
        return (
            self._view(entry.shadow, (*shape, 3)),
            self._view(entry.mask, shape),
            self._view(entry.clean, (*shape, 3)),
        )

    def start(self, index: int) -> Levels | None:
        """Return the relit photo (H, W, 3) as a view of the file, [0, 255], if it was stored."""
        entry = self.entries[index]
        return None if entry.start is None else self._view(entry.start, (entry.height, entry.width, 3))

    def _view(self, offset: int, shape: tuple[int, ...]) -> Levels:
        return self._bytes[offset : offset + int(np.prod(shape))].reshape(shape)


def build_cache(
    triplets: Sequence[Triplet],
    folder: Path,
    *,
    side: int = SIDE,
    truth: Truth = "as-taken",
    soft: bool = False,
    relit: bool = False,
    progress: Callable[[int, int], None] | None = None,
) -> Cache:
    """Decode `triplets` into `folder`, or reopen it if it already holds exactly them.

    Args:
        triplets: what to decode; missing masks are derived from the pair.
        folder: for this cache alone; written under another name and renamed, so that it is whole or absent.
        side: shorter side of the stored pictures; smaller pictures stay as they are.
        truth: store the clean pictures `as-taken`, or in the `own-light` of each pair's photo.
        soft: derive missing masks as the depth of the shadow.
        relit: store each photo relit too, unless it is its own clean picture.
        progress: called with (done, all) while decoding.

    Raises:
        DatasetError: no triplets, pairs of different sizes, or more than 0.1 % unreadable.
    """
    if not triplets:
        raise DatasetError("no pictures to train on", "check the split's name and the data set's folder")
    light = f":{truth} {adjust.RULE}" if check_truth(truth) == "own-light" else ""
    key = f"2:{side}:{fingerprint(triplets)}{light}{':soft 2' * soft}{f':relit {relight.RULE}' * relit}"
    if _is_whole(folder, key):
        return Cache(folder)
    # Named by chance: containers that share a disk repeat process numbers.
    partial = folder.with_name(f"{folder.name}{_PARTIAL}{secrets.token_hex(8)}")
    try:
        _sweep(folder)
        partial.mkdir(parents=True)
        try:
            _write_cache(triplets, partial, _Rules(side, truth, soft, relit), key, progress)
            if _is_whole(folder, key):  # another run has written it meanwhile, and may be reading it
                return Cache(folder)
            if folder.exists():
                shutil.rmtree(folder)
            partial.replace(folder)
        finally:
            shutil.rmtree(partial, ignore_errors=True)
    except OSError as error:
        raise OutputError(
            f"cannot write the cache {folder}: {error.strerror}", "free space or choose another {cache}"
        ) from error
    return Cache(folder)


def _sweep(folder: Path) -> None:
    """Remove what killed runs have left of this cache."""
    for leftover in folder.parent.glob(f"{glob.escape(folder.name)}{_PARTIAL}*"):
        with suppress(OSError):  # its run may finish meanwhile
            written = max((path.stat().st_mtime for path in (leftover, *leftover.iterdir())), default=0.0)
            if time.time() - written > _STALE_AFTER_S:
                shutil.rmtree(leftover, ignore_errors=True)


def _is_whole(folder: Path, key: str) -> bool:
    """Return whether `folder` holds the whole cache for `key`."""
    try:
        index = json.loads((folder / INDEX).read_text(encoding="utf-8"))
        return index["key"] == key and (folder / PICTURES).stat().st_size == index["bytes"]
    except (OSError, ValueError, LookupError, TypeError):
        return False


@dataclass(frozen=True)
class _Rules:
    """How pictures are stored; see `build_cache`."""

    side: int
    truth: Truth
    soft: bool
    relit: bool


def _write_cache(
    triplets: Sequence[Triplet],
    folder: Path,
    rules: _Rules,
    key: str,
    progress: Callable[[int, int], None] | None,
) -> None:
    entries: list[Entry] = []
    skipped: list[str] = []
    unequal: list[str] = []
    cleans: dict[str, int] = {}
    with (folder / PICTURES).open("wb") as file, ThreadPoolExecutor(usable_cores()) as pool:
        for done, (triplet, decoded) in enumerate(_in_order(pool, triplets, rules), start=1):
            if isinstance(decoded, _Failure):
                (unequal if decoded.unequal else skipped).append(f"{triplet.name}: {decoded.reason}")
            else:
                offset, mask_offset = (_append(file, picture) for picture in (decoded.shadow, decoded.mask))
                if triplet.clean == triplet.shadow:
                    cleans[decoded.key] = offset
                if decoded.key not in cleans:
                    cleans[decoded.key] = _append(file, decoded.clean)
                start = None if decoded.start is None else _append(file, decoded.start)
                height, width = decoded.mask.shape
                entries.append(Entry(triplet.name, height, width, offset, mask_offset, cleans[decoded.key], start))
            if progress is not None:
                progress(done, len(triplets))
        # On the disk before the index is, or a power cut could leave an index of pictures that are not there.
        file.flush()
        os.fsync(file.fileno())
        size = file.tell()
    if unequal:
        raise DatasetError(
            f"{len(unequal)} of {len(triplets)} pairs differ in size ({first_ten(unequal)})",
            "`shadowmaskformer data check` lists them all",
        )
    if not entries or len(skipped) > TOLERATED * len(triplets):
        raise DatasetError(
            f"{len(skipped)} of {len(triplets)} pictures cannot be read ({first_ten(skipped)})",
            "copy them again or remove them",
        )
    about = {"key": key, "bytes": size, "skipped": skipped, "entries": [asdict(entry) for entry in entries]}
    write_atomically(folder / INDEX, json.dumps(about).encode())


@dataclass(frozen=True)
class _Decoded:
    shadow: Levels
    mask: Levels
    clean: Levels
    key: str
    """Pictures with the same key have the same `clean`."""
    start: Levels | None


@dataclass(frozen=True)
class _Failure:
    reason: str
    unequal: bool = False


def _in_order(
    pool: ThreadPoolExecutor, triplets: Iterable[Triplet], rules: _Rules
) -> Iterator[tuple[Triplet, _Decoded | _Failure]]:
    listed = list(triplets)
    # In portions: a pool decodes everything at once if it may, and a data set does not fit into memory.
    for start in range(0, len(listed), 64):
        part = listed[start : start + 64]
        yield from zip(part, pool.map(lambda triplet: _decode(triplet, rules), part), strict=True)


def _decode(triplet: Triplet, rules: _Rules) -> _Decoded | _Failure:
    """Return the pictures of `triplet` at the working size, or why it failed."""
    try:
        sizes = {size_of(path) for path in (triplet.shadow, triplet.clean)}
        if len(sizes) > 1:
            return _Failure(" and ".join(f"{h}x{w}" for h, w in sorted(sizes)), unequal=True)
        height, width = sizes.pop()
        scale = min(1.0, rules.side / min(height, width))
        height, width = max(1, round(height * scale)), max(1, round(width * scale))
        shadow, clean = (resize(read_rgb(path), height, width) for path in (triplet.shadow, triplet.clean))
        if triplet.mask is None:
            rule = derive.derive_depth if rules.soft else derive.derive_mask
            mask = from_float(rule(to_float(shadow), to_float(clean)))
        else:
            mask = resize(read_dataset_mask(triplet.mask), height, width)
        key = content_key(triplet.clean)
        if rules.truth == "own-light":
            # No longer shared: the same clean picture gets another light beside another photo.
            clean = from_float(adjust.adjust_clean(to_float(shadow), to_float(clean), to_float(mask)))
            key = f"{key} {content_key(triplet.shadow)}"
        start = None
        if rules.relit and triplet.clean != triplet.shadow:
            photo = to_float(shadow)
            start = from_float(relight.start_light(photo, to_float(mask)).apply(photo))
        return _Decoded(shadow, mask, clean, key, start)
    except ImageReadError as error:
        return _Failure(str(error))


def _append(file: BinaryIO, picture: Levels) -> int:
    offset = file.tell()
    file.write(picture.tobytes())
    return offset


class Samples:
    """Draws augmented samples from a cache; without state, so safe to share between threads."""

    def __init__(
        self,
        cache: Cache,
        *,
        augment: Augment,
        seed: int = 0,
        names: Collection[str] | None = None,
        bare: bool = True,
    ) -> None:
        """Draw from all of `cache`, or from the triplets called `names`.

        Unless `bare`, a picture that is its own clean one always gets a shadow drawn on it.
        """
        self.cache = cache
        self.bare = bare
        self.augment = augment
        self.seed = seed
        self._chosen = [i for i, entry in enumerate(cache.entries) if names is None or entry.name in names]

    def __len__(self) -> int:
        return len(self._chosen)

    def draw(self, position: int, size: int | tuple[int, int]) -> Sample:
        """Return the sample at `position` of the run: augmented, in a new order each epoch.

        Args:
            position: number of the sample, counted over all batches and processes.
            size: side, or (height, width), in pixels.
        """
        epoch, place = divmod(position, len(self))
        index = self._chosen[_permutation(self.seed, epoch, len(self))[place]]
        rng = np.random.default_rng((self.seed, position, 1))
        augment = self.augment
        pictures, start = self.cache.pictures(index), self.cache.start(index)
        box = None
        if rng.random() < augment.crop:
            box = self._edge_box(pictures[1], rng)
        shown = pictures if start is None else (*pictures, start)
        photo, soft, truth, *relit = turn(tuple(_scaled(picture, size, box) for picture in shown), augment, rng)
        if rng.random() < augment.synthetic or (self._is_own_truth(index) and not self.bare):
            relit.clear()
            cast, drawn = draw_shadow(truth, rng)
            if self._is_own_truth(index):
                # Where the sun does not shine, nothing can take it away a second time.
                photo = (photo + (1 - soft[..., None]) * (cast - photo)).astype(np.float32)
                soft = np.maximum(soft, drawn)
            else:
                photo, soft = cast, drawn
        if augment.decoys and rng.random() < augment.decoys:
            relit.clear()
            photo, soft, truth = paste_decoy(photo, soft, truth, rng)
        photo, truth, *relit = change_light((photo, truth, *relit), augment, rng)
        if rng.random() < augment.mask_jitter:
            relit.clear()
            soft = jitter_mask(soft, rng)
        return Sample(self.cache.entries[index].name, photo, soft, truth, *relit)

    def whole(self, index: int, size: int | tuple[int, int]) -> Sample:
        """Return picture `index`, whole, with only its size changed."""
        chosen = self._chosen[index]
        shadow, mask, clean = (_scaled(picture, size, None) for picture in self.cache.pictures(chosen))
        return Sample(self.cache.entries[chosen].name, shadow, mask, clean)

    def _is_own_truth(self, index: int) -> bool:
        entry = self.cache.entries[index]
        return entry.shadow == entry.clean

    def _edge_box(self, mask: Levels, rng: np.random.Generator) -> tuple[float, float, float, float]:
        """Return a part that shows both shadow and light, if a few tries find one."""
        height, width = mask.shape
        box = draw_box(height, width, self.augment.smallest_crop, rng)
        for _ in range(CROP_TRIES):
            left, top, right, bottom = (int(edge) for edge in box)
            if 0.02 * 255 < mask[top:bottom:4, left:right:4].mean() < 0.98 * 255:
                break
            box = draw_box(height, width, self.augment.smallest_crop, rng)
        return box


@functools.lru_cache(maxsize=4)
def _permutation(seed: int, epoch: int, length: int) -> NDArray[np.int64]:
    return np.random.default_rng((seed, epoch, 0)).permutation(length)


def _scaled(picture: Levels, size: int | tuple[int, int], box: tuple[float, float, float, float] | None) -> Floats:
    """Return the part `box` of `picture` at `size`, [0, 1]: bicubic, antialiased when it shrinks."""
    height, width = (size, size) if isinstance(size, int) else size
    image = Image.fromarray(picture)
    resized = image.resize((width, height), Image.Resampling.BICUBIC, box=box, reducing_gap=2.0)
    return np.asarray(resized, np.float32) / np.float32(255)
