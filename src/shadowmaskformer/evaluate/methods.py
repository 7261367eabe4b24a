"""What can be scored: the input itself, a folder of anyone's results, the relight floor, weights.

Each method answers `restore(sample, side)` with a picture. Weights and the floor run at the protocol's
network size and are rounded to 8 bits, as a saved result is, so that scoring weights and scoring the pictures
that they saved give the same number.
"""

from __future__ import annotations

import hashlib
import math
import sys
from collections.abc import Iterable
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Protocol as Interface

import numpy as np
from numpy.typing import NDArray

from shadowmaskformer import data, metrics
from shadowmaskformer.arrays import to_float
from shadowmaskformer.data import derive
from shadowmaskformer.errors import ConfigError, EvaluationError
from shadowmaskformer.evaluate.protocols import as_float, as_uint8
from shadowmaskformer.light.relight import RULE
from shadowmaskformer.network import weights as weights_room
from shadowmaskformer.network.kinds import input_channels
from shadowmaskformer.photo import endings, read_photo

MASK_SOURCES = ("dataset", "derived")


@dataclass(frozen=True)
class MaskSource:
    """Where masks come from: the data set's files, the pair's difference, or a folder (a detector's output).

    A folder only changes what methods are given: the regions S and NS then come from `regions`.

    Attributes:
        name: "dataset", "derived" or a folder.
        regions: with a folder, "dataset" (derived where the data set has no masks) or "derived".
    """

    name: str
    regions: str = "dataset"

    @property
    def folder(self) -> Path | None:
        """The folder of masks, if the source is one."""
        return None if self.name in MASK_SOURCES else Path(self.name)

    @property
    def identity(self) -> str:
        """What the masks depend on besides the pictures: the source, the rule of derived ones, a folder's state."""
        folder = self.folder
        if folder is None:
            return f"{self.name} {derive.RULE}" if self.name == "derived" else self.name
        return f"{folder.resolve()} {_newest(folder)}\n{MaskSource(self.regions).identity}"

    @property
    def label(self) -> str:
        """What tables print."""
        folder = self.folder
        if folder is None:
            return self.name
        return f"folder {folder.name}, regions " + ("from the data set" if self.regions == "dataset" else "derived")

    def check(self) -> None:
        """Refuse a folder that is not there, before any work."""
        folder = self.folder
        if folder is not None and not folder.is_dir():
            raise ConfigError(f"no mask source {self.name!r}; give {', '.join(MASK_SOURCES)} or a folder of masks")


def _newest(folder: Path) -> int:
    """When anything in `folder` was last written, in nanoseconds."""
    return max((entry.stat().st_mtime_ns for entry in folder.iterdir()), default=0)


class Sample:
    """One test picture, read when first needed.

    Args:
        triplet: where it is.
        masks: where its mask comes from.
        region: the mask of `region`, where somebody has read or derived it already.
    """

    def __init__(self, triplet: data.Triplet, masks: MaskSource, region: NDArray[np.uint8] | None = None) -> None:
        self.name = triplet.name
        self.triplet = triplet
        self.masks = masks
        if region is not None:
            self.region = region

    @cached_property
    def photo(self) -> NDArray:
        """RGB, (H, W, 3), uint8 or uint16."""
        return read_photo(self.triplet.shadow, drop_metadata=True).pixels

    @cached_property
    def truth(self) -> NDArray:
        """As `photo`, without the shadow."""
        return read_photo(self.triplet.clean, drop_metadata=True).pixels

    @cached_property
    def region(self) -> NDArray[np.uint8]:
        """The mask that defines S and NS, (H, W), 255 = shadow."""
        source = self.masks.name if self.masks.folder is None else self.masks.regions
        if source != "derived" and self.triplet.mask is not None:
            return read_mask(self.triplet.mask, self.photo.shape)
        return self._derived

    @cached_property
    def mask(self) -> NDArray[np.uint8]:
        """The mask that methods are given, as `region`."""
        folder = self.masks.folder
        if folder is None:
            return self.region
        return read_mask(find_picture(folder, self.triplet), self.photo.shape)

    @cached_property
    def _derived(self) -> NDArray[np.uint8]:
        photo, truth = (as_float(picture).astype(np.float32) for picture in (self.photo, self.truth))
        return as_uint8(data.derive_mask(photo, truth))


class Method(Interface):
    """Something that removes shadows from a sample."""

    @property
    def name(self) -> str:
        """What tables print."""
        ...

    @property
    def identity(self) -> str:
        """A text that changes when the results may change."""
        ...

    @property
    def params_m(self) -> float:
        """Million parameters; NaN where there are none or nobody said."""
        ...

    @property
    def heavy(self) -> bool:
        """Whether `restore` computes for long, and so runs in the main process beside the metrics."""
        ...

    def restore(self, sample: Sample, side: int | None) -> NDArray:
        """The result, (h, w, 3), uint8 or uint16; networks run at side x side, or at photo size for None."""
        ...


@dataclass(frozen=True)
class Input:
    """The photo untouched: the row that every table starts with."""

    name: str = "Input"
    identity: str = "input"
    params_m: float = math.nan
    heavy: bool = False

    def restore(self, sample: Sample, side: int | None) -> NDArray:
        """The photo; the protocol resizes it."""
        del side
        return sample.photo


class Predictions:
    """A folder of result pictures, paired by name.

    Args:
        folder: holds one picture per test picture, named like the photo or like its clean picture.
        side: the pictures must be side x side; None: of the truth's own size.
    """

    heavy = False
    params_m = math.nan

    def __init__(self, folder: Path, side: int | None = None) -> None:
        if not folder.is_dir():
            raise EvaluationError(f"no folder {str(folder)!r}; give --predictions a folder of result pictures")
        self.folder = folder
        self.side = side
        first = next(iter(self._index.values()), None)
        notes = [] if side is None else [f"{side}×{side} results"]
        if first is not None and read_photo(first, drop_metadata=True).pixels.dtype == np.uint16:
            notes.append("16 bit")
        self.name = f"{folder.name} ({', '.join(notes)})" if notes else folder.name
        self.identity = f"predictions {folder.resolve()} {side} {_newest(folder)}"

    def missing(self, triplets: Iterable[data.Triplet]) -> list[str]:
        """Names of the test pictures without a result."""
        return [t.name for t in triplets if _find(self._index, t) is None]

    def extra(self, triplets: Iterable[data.Triplet]) -> int:
        """Result pictures that belong to no test picture."""
        return len(self._index) - sum(_find(self._index, t) is not None for t in triplets)

    def restore(self, sample: Sample, side: int | None) -> NDArray:
        """The stored picture, by its own depth."""
        del side
        path = _find(self._index, sample.triplet)
        if path is None:
            raise EvaluationError(f"{self.folder.name}: no result for {sample.name}; --allow-missing scores the rest")
        picture = read_photo(path, drop_metadata=True).pixels
        wanted = sample.truth.shape[:2] if self.side is None else (self.side, self.side)
        if picture.shape[:2] != wanted:
            other = "--size 256" if self.side is None else "--size original"
            raise EvaluationError(
                f"{path.name} is {picture.shape[0]}x{picture.shape[1]}, expected {wanted[0]}x{wanted[1]}; "
                f"save results at that size or pass {other}"
            )
        return picture

    @cached_property
    def _index(self) -> dict[str, Path]:
        return index_pictures(self.folder)


class RemoverMethod:
    """Weights, or the relight floor, through `ShadowRemover`.

    Args:
        weights: a folder, file or shipped name; None is the relight floor.
        name: what tables print; None takes the weights' own.
    """

    heavy = True

    def __init__(self, weights: str | None, name: str | None = None) -> None:
        from shadowmaskformer.removal.remover import ShadowRemover

        if weights is None:
            self.remover = ShadowRemover(method="relight")
            self.name, self.identity, self.params_m = name or "Relight floor", f"relight {RULE}", math.nan
        else:
            # The raw network at the protocol's own size: no working size, however large the picture.
            self.remover = ShadowRemover(weights=weights, working_pixels=sys.maxsize)
            file = weights_room.locate(weights)
            self.name = name or _weights_name(file)
            config, arrays = weights_room.load(weights)
            floor = f" relight {RULE}" if "start" in input_channels(config) else ""
            self.identity = f"weights {hashlib.sha256(file.read_bytes()).hexdigest()} {config.to_dict()}{floor}"
            self.params_m = sum(array.size for array in arrays.values()) / 1e6

    def restore(self, sample: Sample, side: int | None) -> NDArray[np.uint8]:
        """The raw result: no compositing, no feathering.

        At 256 the photo comes by MATLAB's resize, clipped to [0, 1], and the mask as 8 bits: what the field's
        networks are trained and tested on.
        """
        photo, mask = as_float(sample.photo), sample.mask
        if side is not None:
            photo = np.clip(metrics.imresize(photo, side, side), 0, 1)
            mask = metrics.imresize(mask, side, side)
        pixels = photo.astype(np.float32)
        correction = self.remover.correct(pixels, to_float(mask))
        return as_uint8(correction.apply(pixels))


def _weights_name(file: Path) -> str:
    """The folder's name; of a training run's `best` folder, the run's.

    >>> _weights_name(Path("runs/wide/best/model.safetensors"))
    'wide'
    """
    if file.name != weights_room.WEIGHTS_FILE:
        return file.stem
    folder = file.resolve().parent
    return folder.parent.name if folder.name == "best" else folder.name


def read_mask(path: Path, shape: tuple[int, ...]) -> NDArray[np.uint8]:
    """A mask as its file has it: no snapping, no threshold, since the rules differ in just that.

    Args:
        path: a gray picture, or RGB with equal channels.
        shape: of the photo; another size is refused.
    """
    mask = as_uint8(read_photo(path, drop_metadata=True).pixels[..., 0])
    if mask.shape != shape[:2]:
        raise EvaluationError(
            f"mask {path.name} is {mask.shape[0]}x{mask.shape[1]}, its photo is {shape[0]}x{shape[1]}; "
            "save masks at photo size"
        )
    return mask


def index_pictures(folder: Path) -> dict[str, Path]:
    """Pictures of a folder by stem; of two with one stem, PNG wins."""
    found: dict[str, Path] = {}
    known = endings()
    for path in sorted(folder.iterdir(), key=lambda path: (path.suffix.lower() != ".png", path.name)):
        if path.suffix.lower() in known and path.is_file():
            found.setdefault(path.stem, path)
    return found


def find_picture(folder: Path, triplet: data.Triplet) -> Path:
    """The picture in `folder` that belongs to `triplet`."""
    path = _find(index_pictures(folder), triplet)
    if path is None:
        raise EvaluationError(f"{folder.name}: no mask for {triplet.name}; add it or use --mask-source derived")
    return path


def _find(index: dict[str, Path], triplet: data.Triplet) -> Path | None:
    stems = (triplet.name, triplet.shadow.stem, triplet.clean.stem)
    return next((index[stem] for stem in stems if stem in index), None)
