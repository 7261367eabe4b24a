"""What the worker processes do for the server: bytes in, bytes out."""

# pyright: reportTypedDictNotRequiredAccess=false
# `complete` fills in every option.
from __future__ import annotations

import io
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, BinaryIO

import numpy as np

from shadowmaskformer import masks
from shadowmaskformer.arrays import average_down, fit_pixels, from_float
from shadowmaskformer.batch.worker import report
from shadowmaskformer.detect.hints import Hint
from shadowmaskformer.errors import ConfigError, MaskError, said
from shadowmaskformer.photo import Metadata, Photo, encode_photo, read_photo, sniff
from shadowmaskformer.removal.options import Options, complete
from shadowmaskformer.removal.remover import ShadowRemover

CORRECTION_PIXELS = 640 * 640
"""Most pixels of a correction: light is smooth, and the planes travel as they are."""
PREVIEW_PIXELS = 2400 * 2400


@dataclass(frozen=True)
class Answer:
    """The body of an answer and what there is to say about it."""

    data: bytes
    media_type: str
    facts: dict[str, Any]


def warm_up(remover: ShadowRemover) -> None:
    """Load what the first photo would wait for."""
    assert remover.detector


def remove(remover: ShadowRemover, photo: bytes, mask: bytes | None, hints: Sequence[Hint], options: Options) -> Answer:
    """Return the photo without its shadow, as a file."""
    result = remover.remove_file(_named(photo, "photo"), _mask(mask), hints=hints, progress=report, **options)
    format = sniff(result.data)
    assert format is not None
    warnings = [said(line, "http") for line in result.warnings]
    facts = {**result.facts(), "ending": format.endings[0], "warnings": warnings}
    return Answer(result.data, f"image/{format.label.lower()}", facts)


def find_mask(
    remover: ShadowRemover, photo: bytes, mask: bytes | None, hints: Sequence[Hint], options: Options
) -> Answer:
    """Return the shadows of a photo as a soft mask, a gray PNG, and the list of them."""
    read, chosen = _read(photo, options), complete(options)
    marked, notes = None, ()
    if mask is not None:
        marked, notes = masks.prepare(
            _named(mask, "mask"),
            read.height,
            read.width,
            invert_mask=chosen["invert_mask"],
            max_pixels=chosen["max_pixels"],
        )
    elif chosen["invert_mask"]:
        raise ConfigError("there is no mask to invert", "give a mask or leave {invert_mask} out")
    found = remover.detector.detect_in_photo(read, hints=hints, mask=marked, exact=chosen["exact_mask"])
    shadows = [{"share": round(each.share, 5), "box": [int(edge) for edge in each.box]} for each in found.shadows]
    levels = from_float(found.mask)
    data = encode_photo(Photo(np.repeat(levels[..., None], 3, axis=2), gray=True), format="PNG")
    warnings = [said(line, "http") for line in (*read.warnings, *notes, found.note) if line]
    facts = {"width": read.width, "height": read.height, "shadows": shadows[:64], "warnings": warnings}
    return Answer(data, "image/png", facts)


def correction(
    remover: ShadowRemover, photo: bytes, mask: bytes | None, hints: Sequence[Hint], options: Options
) -> Answer:
    """Return how the light changes, small, for a preview: float16 little-endian, (height, width, 8).

    The planes are gain (red, green, blue), the mask that was used, offset (red, green, blue), and the share of the
    correction that each pixel takes.
    """
    read = _read(photo, options)
    found = remover.find_in_photo(read, _mask(mask), hints=hints, **options)
    whole = found.correction
    if whole is None:
        raise MaskError("the mask is empty", "paint over the shadow")
    height, width = fit_pixels(read.height, read.width, CORRECTION_PIXELS)
    small = whole.resized(height, width)
    used = average_down(found.mask, height, width)
    # As in the result, pixels of the mask take at least as much as the mask says.
    weight = np.ones_like(used) if found.weight is None else average_down(found.weight, height, width)
    weight = np.maximum(weight, used)
    planes = np.dstack((small.gain, used, small.offset, weight)).astype("<f2")
    facts = {"width": width, "height": height, "planes": 8, "warnings": [said(w, "http") for w in found.warnings]}
    return Answer(planes.tobytes(), "application/octet-stream", facts)


def preview(
    remover: ShadowRemover, photo: bytes, mask: bytes | None, hints: Sequence[Hint], options: Options
) -> Answer:
    """Return a JPEG to look at, for formats that browsers do not read; colours keep their profile."""
    read = _read(photo, options)
    levels = from_float(average_down(read.pixels, *fit_pixels(read.height, read.width, PREVIEW_PIXELS)))
    icc = None if read.gray else read.metadata.icc
    data = encode_photo(Photo(levels, metadata=Metadata(icc=icc)), format="JPEG", quality=92)
    return Answer(data, "image/jpeg", {"width": read.width, "height": read.height})


def _read(photo: bytes, options: Options) -> Photo:
    """Return the photo without its metadata, which none of these answers has."""
    chosen = complete(options)
    return read_photo(photo, name="photo", max_pixels=chosen["max_pixels"], frame=chosen["frame"], drop_metadata=True)


def _mask(data: bytes | None) -> BinaryIO | None:
    return None if data is None else _named(data, "mask")


def _named(data: bytes, name: str) -> BinaryIO:
    """Return a part of the request as a file that messages call by the part's name."""
    file = io.BytesIO(data)
    file.name = name
    return file
