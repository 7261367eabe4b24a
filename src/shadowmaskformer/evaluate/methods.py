"""The methods that can be scored: the input itself, a folder of result pictures, the relight floor, weights.

Each method answers `restore(picture, kind)` with a picture. Under the published protocols, weights and the floor run at
the protocol's network size, and their raw answer is rounded to 8 bits, like a saved result. Weights therefore score
the same as the pictures that they save. Under `as-used` they answer as `ShadowRemover.remove` does.
"""

from __future__ import annotations

import functools
import hashlib
import math
import sys
from collections.abc import Iterable
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any
from typing import Protocol as Interface

import numpy as np
from numpy.typing import NDArray

import shadowmaskformer
from shadowmaskformer import data, engine, metrics
from shadowmaskformer.arrays import Levels, from_float, to_float
from shadowmaskformer.data import derive
from shadowmaskformer.data.layouts import pictures_in
from shadowmaskformer.data.writers import masks_below
from shadowmaskformer.detect.detector import WEIGHTS as DETECTOR
from shadowmaskformer.errors import ConfigError, EvaluationError
from shadowmaskformer.evaluate.as_used import MaskChange
from shadowmaskformer.evaluate.protocols import ResultKind, as_float, as_uint8
from shadowmaskformer.light.relight import RULE
from shadowmaskformer.masks import interpret
from shadowmaskformer.network import weights as weight_files
from shadowmaskformer.network.kinds import input_channels
from shadowmaskformer.photo import Photo, endings, read_photo, read_plain
from shadowmaskformer.removal.job import RESULT
from shadowmaskformer.runtimes import exported_for

if TYPE_CHECKING:
    from shadowmaskformer.removal.remover import ShadowRemover

MASK_SOURCES = ("dataset", "derived")
READING = 2
"""Counts up when `read_stored_mask` answers otherwise: rows scored with other masks must not be found again."""


@dataclass(frozen=True)
class MaskSource:
    """Where masks come from: the data set's files, the pair's difference, or a folder (a detector's output).

    A folder only changes what methods are given: the regions S and NS then come from `regions`.

    Attributes:
        name: "dataset", "derived" or a folder.
        regions: with a folder, "dataset" (derived where the data set has no masks) or "derived".
        change: what is done to the masks that methods are given, to see what a wrong mask costs; the regions stay.
        split: with a folder that `data masks` wrote, which split's masks are meant.

    Raises:
        ConfigError: there is no such folder.
    """

    name: str
    regions: str = "dataset"
    change: MaskChange | None = None
    split: str | None = None

    def __post_init__(self) -> None:
        if self.folder is not None and not self.folder.is_dir():
            known = ", ".join(MASK_SOURCES)
            raise ConfigError(f"no mask source {self.name!r}", f"give {known} or a folder of masks")

    @cached_property
    def folder(self) -> Path | None:
        """The folder of masks, if the source is one: the one that is named, or the split's in it."""
        if self.name in MASK_SOURCES:
            return None
        named = Path(self.name)
        written = named if self.split is None else masks_below(named, self.split)
        return written if written.is_dir() and not pictures_in(named) else named

    @property
    def identity(self) -> str:
        """What the masks depend on besides the pictures: the source, the rule of derived ones, a folder's state."""
        folder, change = self.folder, "" if self.change is None else f" {self.change}"
        if folder is None:
            return f"{self.name} {derive.RULE if self.name == 'derived' else READING}{change}"
        return f"{folder.resolve()} {READING} {_state(folder)}{change}\n{MaskSource(self.regions).identity}"

    @property
    def label(self) -> str:
        """What tables print."""
        folder, change = self.folder, "" if self.change is None else f", {self.change}"
        if folder is None:
            return self.name + change
        regions = "from the data set" if self.regions == "dataset" else "derived"
        return f"folder {Path(self.name).name}, regions {regions}{change}"


def _state(folder: Path) -> str:
    """Return a hash that changes when a file in `folder` is written, removed or replaced, even by an older one."""
    about = ((path.name, path.stat()) for path in sorted(folder.iterdir()))
    files = [(name, stat.st_size, stat.st_mtime_ns) for name, stat in about]
    return hashlib.sha256(repr(files).encode()).hexdigest()[:16]


class EvaluationPicture:
    """One test picture, read when first needed.

    Args:
        triplet: where it is.
        masks: where its mask comes from.
        region: the mask behind S and NS, if it has been read or derived already.
    """

    def __init__(self, triplet: data.Triplet, masks: MaskSource, region: Levels | None = None) -> None:
        self.name = triplet.name
        self.triplet = triplet
        self.masks = masks
        if region is not None:
            self.region = region

    @cached_property
    def photo(self) -> NDArray[Any]:
        """RGB, (H, W, 3), uint8 or uint16."""
        return read_photo(self.triplet.shadow, drop_metadata=True).pixels

    @cached_property
    def truth(self) -> NDArray[Any]:
        """As `photo`, without the shadow."""
        return read_photo(self.triplet.clean, drop_metadata=True).pixels

    @cached_property
    def region(self) -> Levels:
        """The mask that defines S and NS, (H, W), 255 = shadow."""
        source = self.masks.name if self.masks.folder is None else self.masks.regions
        if source != "derived" and self.triplet.mask is not None:
            return read_stored_mask(self.triplet.mask, self.photo.shape)
        return self._derived

    @cached_property
    def mask(self) -> Levels:
        """The mask that methods are given, as `region`."""
        folder, change = self.masks.folder, self.masks.change
        mask = self.region
        if folder is not None:
            mask = read_stored_mask(find_picture(folder, self.triplet), self.photo.shape)
        return mask if change is None else change.apply(mask)

    @cached_property
    def _derived(self) -> Levels:
        photo, truth = (as_float(picture).astype(np.float32) for picture in (self.photo, self.truth))
        return as_uint8(data.derive_mask(photo, truth))


class ScoredMethod(Interface):
    """Something that removes shadows from test pictures."""

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
        """Million parameters; NaN where there are none or the number is unknown."""
        ...

    @property
    def heavy(self) -> bool:
        """Whether `restore` computes for long, and so runs in the main process beside the metrics."""
        ...

    def restore(self, picture: EvaluationPicture, kind: ResultKind) -> NDArray[Any]:
        """Return the result of that kind, (h, w, 3), uint8 or uint16."""
        ...


@dataclass(frozen=True)
class Input:
    """The photo untouched: the row that every table starts with."""

    name: str = "Input"
    identity: str = "input"
    params_m: float = math.nan
    heavy: bool = False

    def restore(self, picture: EvaluationPicture, kind: ResultKind) -> NDArray[Any]:
        """Return the photo; the protocol resizes it."""
        del kind
        return picture.photo


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
            raise EvaluationError(f"no folder {str(folder)!r}", "give {predictions} a folder of result pictures")
        self.folder = folder
        self.side = side
        first = next(iter(self._index.values()), None)
        notes = [] if side is None else [f"{side}×{side} results"]
        if first is not None and read_photo(first, drop_metadata=True).pixels.dtype == np.uint16:
            notes.append("16 bit")
        self.name = f"{folder.name} ({', '.join(notes)})" if notes else folder.name
        self.identity = f"predictions {folder.resolve()} {side} {_state(folder)}"

    def missing(self, triplets: Iterable[data.Triplet]) -> list[str]:
        """Return the names of the test pictures without a result."""
        return [t.name for t in triplets if _find(self._index, t) is None]

    def extra(self, triplets: Iterable[data.Triplet]) -> int:
        """Return how many result pictures belong to no test picture."""
        return len(self._index) - sum(_find(self._index, t) is not None for t in triplets)

    def restore(self, picture: EvaluationPicture, kind: ResultKind) -> NDArray[Any]:
        """Return the stored picture, by its own depth."""
        del kind
        path = _find(self._index, picture.triplet)
        if path is None:
            raise EvaluationError(
                f"{self.folder.name}: no result for {picture.name}", "score the rest with {allow_missing=True}"
            )
        stored = read_photo(path, drop_metadata=True).pixels
        wanted = picture.truth.shape[:2] if self.side is None else (self.side, self.side)
        if stored.shape[:2] != wanted:
            other = "256" if self.side is None else "original"
            raise EvaluationError(
                f"{path.name} is {stored.shape[0]}x{stored.shape[1]}, expected {wanted[0]}x{wanted[1]}",
                f"save results at that size or use {{size={other}}}",
            )
        return stored

    @cached_property
    def _index(self) -> dict[str, Path]:
        return index_pictures(self.folder)


class RemoverMethod:
    """Weights, or the relight floor, through `ShadowRemover`.

    Weights are loaded when the first picture is restored: finished rows need none. An exported file is loaded at once,
    because its configuration is inside.

    Args:
        weights: a folder, shipped name or file, also an exported one; None is the relight floor.
        name: what tables print; None takes the weights' own.
        runtime: what runs the network, as for `ShadowRemover`.
        device: where, likewise.
    """

    heavy = True

    def __init__(
        self, weights: str | None, name: str | None = None, *, runtime: str | None = None, device: str | None = None
    ) -> None:
        self._weights, self._runtime, self._device = weights, runtime, device
        if weights is None:
            self.name, self.identity, self.params_m = name or "Relight floor", f"relight {RULE}", math.nan
            return
        exported = exported_for(weights)
        if exported and exported.runs_exports:
            file, session = Path(weights), self._raw.session
            assert session is not None  # only the floor has none
            config = session.config
        else:
            file = weight_files.locate(weights)
            config = weight_files.read_config(file.with_name(weight_files.CONFIG_FILE))
        self.name = name or _weights_name(file)
        digest = hashlib.sha256(file.read_bytes())
        if exported and (values := file.with_suffix(".bin")).is_file():  # OpenVINO's, beside its `.xml`
            digest.update(values.read_bytes())
        floor = f" relight {RULE}" if "start" in input_channels(config) else ""
        where = f" on {runtime} {device}" if runtime or device else ""
        self.identity = f"weights {digest.hexdigest()} {config.to_dict()}{floor}{where}"
        self.params_m = sum(math.prod(shape) for shape in weight_files.parameter_shapes(config).values()) / 1e6

    def restore(self, picture: EvaluationPicture, kind: ResultKind) -> Levels:
        """Return what a user gets for kind `as_used`, otherwise the raw result: no compositing, no feathering.

        At 256 the photo comes by MATLAB's resize, clipped to [0, 1], and the mask as 8 bits: what the field's
        networks are trained and tested on.
        """
        if kind.as_used:
            return as_uint8(self._used.remove_from_photo(Photo(picture.photo), picture.mask).after.pixels)
        photo, mask = as_float(picture.photo), picture.mask
        if kind.side is not None:
            photo = np.clip(metrics.imresize(photo, kind.side, kind.side), 0, 1)
            mask = metrics.imresize(mask, kind.side, kind.side)
        pixels = photo.astype(np.float32)
        correction = self._raw.correct(pixels, to_float(mask))
        return as_uint8(correction.apply(pixels))

    @cached_property
    def _used(self) -> ShadowRemover:
        return self._remover(None)

    @cached_property
    def _raw(self) -> ShadowRemover:
        """The network at the protocol's own size: no working size, however large the picture."""
        return self._remover(sys.maxsize)

    def _remover(self, working_pixels: int | None) -> ShadowRemover:
        from shadowmaskformer.removal.remover import ShadowRemover

        if self._weights is None:
            return ShadowRemover(method="relight", working_pixels=working_pixels)
        return ShadowRemover(
            weights=self._weights, runtime=self._runtime, device=self._device, working_pixels=working_pixels
        )


@functools.cache
def removal_code() -> str:
    """Return a hash of all that makes the picture a user gets, except for the network's own weights.

    It is part of the name under which `as-used` rows are kept: they change when blending or the detector changes.
    """
    package = Path(shadowmaskformer.__file__).parent
    rooms = ("detect", "engine", "light", "masks", "network", "photo", "removal", "runtimes")
    files = [package / "arrays.py", weight_files.locate(DETECTOR), *engine.files()]
    files += sorted(path for room in rooms for path in (package / room).rglob("*.py"))
    digest = hashlib.sha256()
    for path in files:
        digest.update(path.name.encode() + path.read_bytes())
    return digest.hexdigest()[:16]


def _weights_name(file: Path) -> str:
    """Return the folder's name, or for a training run's `best` folder the run's.

    >>> _weights_name(Path("runs/wide/best/model.safetensors"))
    'wide'
    """
    if file.name != weight_files.WEIGHTS_FILE:
        return file.stem
    folder = file.resolve().parent
    return folder.parent.name if folder.name == "best" else folder.name


def read_stored_mask(path: Path, shape: tuple[int, ...]) -> Levels:
    """Return a mask with the levels of its file: no snapping and no threshold, in which the protocols differ.

    As in training, it may be saved as 0 and 1, in a colour, or as transparency.

    Args:
        path: a mask in any of these forms.
        shape: of the photo; another size is refused.

    Raises:
        EvaluationError: the mask has another size.
        MaskError: it is a picture, not a mask.
    """
    photo = read_plain(path)
    layers: NDArray[Any] = photo.pixels[..., :1] if photo.gray else photo.pixels
    if photo.alpha is not None and photo.alpha.any():  # else a layer forgotten, not a mask of nothing
        layers = np.dstack((layers, photo.alpha))
    mask: Levels = from_float(interpret(layers, name=path.name)[0])
    if mask.shape != shape[:2]:
        raise EvaluationError(
            f"mask {path.name} is {mask.shape[0]}x{mask.shape[1]}, its photo is {shape[0]}x{shape[1]}",
            "save masks at photo size",
        )
    return mask


def index_pictures(folder: Path) -> dict[str, Path]:
    """Return the pictures of a folder by stem.

    Raises:
        EvaluationError: two pictures share a stem, so that it is unclear which one belongs to a photo.
    """
    found: dict[str, Path] = {}
    known = endings()
    for path in sorted(folder.iterdir()):
        if path.suffix.lower() not in known or not path.is_file():
            continue
        if path.stem in found:
            raise EvaluationError(
                f"{folder.name} has both {found[path.stem].name} and {path.name}", "keep one picture of each name"
            )
        found[path.stem] = path
    return found


def find_picture(folder: Path, triplet: data.Triplet) -> Path:
    """Return the mask in `folder` that belongs to `triplet`."""
    path = _find(index_pictures(folder), triplet, "-mask")
    if path is None:
        raise EvaluationError(f"{folder}: no mask for {triplet.name}", 'add it or use {mask_source="derived"}')
    return path


def _find(index: dict[str, Path], triplet: data.Triplet, ending: str = RESULT) -> Path | None:
    """Return the picture of a triplet: named like it, or as the package's commands name what they make of its photo."""
    stems = (triplet.name, triplet.shadow.stem, triplet.clean.stem, f"{triplet.shadow.stem}{ending}")
    return next((index[stem] for stem in stems if stem in index), None)
