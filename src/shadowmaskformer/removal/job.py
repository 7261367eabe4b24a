"""Process one photo from its source to the bytes of the result, as the command, a batch and a server all do."""

# pyright: reportTypedDictNotRequiredAccess=false
# `complete` fills in every option.
from __future__ import annotations

import os
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np

from shadowmaskformer import masks
from shadowmaskformer.arrays import Floats, average_down, from_float
from shadowmaskformer.detect.detection import Detection
from shadowmaskformer.errors import ConfigError, ImageReadError
from shadowmaskformer.files import inside, shown
from shadowmaskformer.light.correction import Correction
from shadowmaskformer.light.fullsize import Restoration
from shadowmaskformer.photo import (
    ImageSource,
    Photo,
    choose_format,
    encode_photo,
    encoding_losses,
    file_of,
    read_photo,
    sniff,
)
from shadowmaskformer.removal.options import Options, complete

RESULT = "-no-shadow"
"""What the name of a result ends in by default."""

_COMPARE_HEIGHT, _COMPARE_WIDTH = 720, 20_000  # pixels of one picture of three


@dataclass(frozen=True, repr=False)
class Finding:
    """How the light of a photo must change, and where.

    Attributes:
        before: the photo as read, upright.
        mask: the mask that was used, [0, 1]: (H, W) if it was given, the size of a reduced copy if it was found.
        detection: what the detector found, or made of the given mask; None when it was not asked.
        warnings: one line each, for the user.
        weight: how much of the correction each pixel takes at full strength, (h, w) of any size; None if the
            correction is not pasted into the photo.
        restoration: how the light must change; None when the mask was empty.
        reduced: the copy of the photo, (h, w, 3), on which that was found.
    """

    before: Photo
    mask: Floats
    detection: Detection | None = None
    warnings: tuple[str, ...] = field(default=())
    weight: Floats | None = None
    restoration: Restoration | None = None
    reduced: Floats | None = None

    @property
    def correction(self) -> Correction | None:
        """How the light must change, on a reduced copy of the photo; None when the mask was empty."""
        if self.restoration is None or self.reduced is None:
            return None
        return self.restoration.correction(self.reduced)

    @property
    def shadow_share(self) -> float:
        """Share of the photo that the mask covers, 0 to 1."""
        return float(self.mask.mean(dtype=np.float64))

    def __repr__(self) -> str:
        said = f", {len(self.warnings)} warnings" if self.warnings else ""
        return f"{type(self).__name__}({self.before.width}x{self.before.height}, {self.shadow_share:.1%} shadow{said})"


@dataclass(frozen=True, repr=False)
class Removal(Finding):
    """A photo without its shadow, and what there is to say about it.

    Attributes:
        after: the photo with new pixels.
    """

    after: Photo = field(kw_only=True)


@dataclass(frozen=True, repr=False)
class RemovedFile:
    """The result as a file.

    Attributes:
        data: the file's bytes.
        removal: the pictures behind it.
        warnings: one line each, for the user; the removal's and the file's.
    """

    data: bytes
    removal: Removal
    warnings: tuple[str, ...]

    def __repr__(self) -> str:
        return f"RemovedFile({len(self.data):,} bytes, {self.removal!r})"

    def facts(self) -> dict[str, Any]:
        """Return what was done, as plain JSON types."""
        photo = self.removal.before
        return {
            "width": photo.width,
            "height": photo.height,
            "shadow_share": round(self.removal.shadow_share, 4),
            "shadows_found": _count(self.removal.detection),
            "bytes": len(self.data),
        }


def _count(detection: Detection | None) -> int | None:
    return None if detection is None else len(detection.shadows)


def remove_file(
    source: ImageSource, restore: Callable[[Photo], Removal], name: str | None, options: Options
) -> RemovedFile:
    """Read a photo, restore it and encode the result.

    Args:
        source: the photo; see `read_photo`.
        restore: removes the shadow from a photo that was read.
        name: of the file that the result is for; its ending chooses the format unless an option does.
        options: see `Options`.
    """
    chosen = complete(options)
    photo = read_photo(
        source, max_pixels=chosen["max_pixels"], frame=chosen["frame"], drop_metadata=chosen["drop_metadata"]
    )
    format, notes = choose_format(photo.format, path=name, wanted=chosen["format"])
    removal = restore(photo)
    data = file_of(removal.after, format=format, quality=chosen["quality"])
    return RemovedFile(data, removal, (*removal.warnings, *notes, *encoding_losses(removal.after, format)))


def default_output(source: Path, format: str | None = None) -> Path:
    """Return where the result for `source` goes by default: beside it.

    >>> default_output(Path("holiday/beach.jpg")).name, default_output(Path("beach.jpg"), "png").name
    ('beach-no-shadow.jpg', 'beach-no-shadow.png')
    """
    if not source.name:
        raise ImageReadError(f"{shown(source)}: is a folder", "give the path of a picture")
    # A GIF's 256 colours would spoil the result.
    ending = ".png" if source.suffix.lower() == ".gif" else source.suffix
    if format:
        ending = "." + format.lower().removeprefix(".")
    return source.with_name(f"{source.stem}{RESULT}{ending}")


def output_path(source: str | os.PathLike[str] | bytes, output: str | Path | None, format: str | None = None) -> Path:
    """Return where to write: to `output`, into it if it is a folder, or beside `source`; bytes are called `photo`.

    >>> output_path(b"GIF89a", "results/").name
    'photo-no-shadow.png'
    """
    if isinstance(source, bytes):
        known = sniff(source)
        source = f"photo{known.endings[0] if known else ''}"
    beside = default_output(Path(source), format)
    try:
        return beside if output is None else inside(output, beside.name)
    except TypeError:
        raise ConfigError(f"output is a {type(output).__name__}", "give a path; `remove_file` returns bytes") from None


def compare(removal: Removal) -> bytes:
    """Return before, mask and after side by side, as a JPEG."""
    photo = removal.before
    scale = min(1.0, _COMPARE_HEIGHT / photo.height, _COMPARE_WIDTH / photo.width)
    height, width = max(1, round(photo.height * scale)), max(1, round(photo.width * scale))
    gap = max(2, width // 80)
    strip = np.full((height, 3 * width + 2 * gap, 3), 255, np.uint8)
    mask = np.repeat(masks.resize_with_photo(removal.mask, height, width)[..., None], 3, axis=2)
    panels = (average_down(photo.pixels, height, width), mask, average_down(removal.after.pixels, height, width))
    for index, panel in enumerate(panels):
        left = index * (width + gap)
        strip[:, left : left + width] = from_float(panel)
    return encode_photo(Photo(strip), format="JPEG", quality=92)
