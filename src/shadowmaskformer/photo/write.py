"""Turn a `Photo` into the bytes of a file."""

from __future__ import annotations

import os
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from shadowmaskformer.arrays import from_float, gray_levels, to_float
from shadowmaskformer.errors import ConfigError, Notice, OutputError, ShadowMaskFormerError
from shadowmaskformer.files import shown
from shadowmaskformer.photo.blocks import DECODER_ERRORS, holds_text
from shadowmaskformer.photo.exif import EXIF_PREFIX, can_be_rewritten
from shadowmaskformer.photo.formats import FORMATS, Format, find_format, format_of_path, listed
from shadowmaskformer.photo.picture import Metadata, Photo

_XMP_PREFIX = b"http://ns.adobe.com/xap/1.0/\0"


def choose_format(
    own: str, *, path: str | os.PathLike[str] | None = None, wanted: str | None = None
) -> tuple[Format, list[Notice]]:
    """Return the format to write, and warnings.

    Args:
        own: the photo's own format, `Photo.format`. A format that is only read (GIF) is written as PNG.
        path: where the file will be; its ending decides unless `wanted` does. None, or a name without an ending,
            leaves the photo's own format.
        wanted: a format by name or ending ("jpg", "WebP", ".tif"); it wins over `path`.

    Raises:
        ConfigError: a format or an ending that cannot be written.

    >>> choose_format("JPEG", path="result.png")[0].name, choose_format("GIF")[0].name
    ('PNG', 'PNG')
    """
    named = None if path is None else format_of_path(path)
    if wanted is not None:
        chosen = _writable(find_format(wanted), repr(wanted))
        if path is None or named in (None, chosen):
            return chosen, []
        line = f"{shown(path)}: is written as {chosen.label}, but its name ends in {Path(path).suffix}"
        return chosen, [Notice(line, f"use {chosen.endings[0]}, or leave {{format}} out")]
    if path is not None and Path(path).suffix:
        return _writable(named, f"{Path(path).suffix} files", f"{shown(path)}: "), []
    known = FORMATS.get(own)
    return (known if known and known.encode else FORMATS["PNG"]), []


def encoding_losses(photo: Photo, format: str | Format | None = None) -> list[Notice]:
    """Return one line for each thing that the format cannot store; empty when nothing is lost.

    Args:
        photo: what to write.
        format: as for `encode_photo`.
    """
    chosen = _resolved(photo, format)
    losses: list[Notice] = []

    def lose(message: str, remedy: str) -> None:
        losses.append(Notice(f"{photo.name}: {message}", remedy))

    depth = photo.pixels.dtype.name
    bits = np.dtype(chosen.depths[-1]).itemsize * 8
    if depth not in chosen.depths and photo.pixels.dtype.itemsize * 8 > bits:
        found = "float" if depth == "float32" else "16-bit"
        deeper = listed(each for each in FORMATS.values() if each.encode and depth in each.depths)
        lose(f"{chosen.label} stores {bits} bits per channel, so the {found} photo loses depth", f"write {deeper}")
    if photo.alpha is not None and not chosen.alpha:
        lose(f"{chosen.label} has no transparency, so the photo is laid over white", "write PNG to keep it")
    kept = _storable(photo, chosen)
    for what, before, after in (
        ("EXIF block", photo.metadata.exif, kept.exif),
        ("colour profile", photo.metadata.icc, kept.icc),
        ("XMP block", photo.metadata.xmp, kept.xmp),
    ):
        if before and not after:
            lose(f"{chosen.label} cannot store this {what}, so it is left out", "write PNG to keep it")
    if holds_text(photo.metadata.blocks) and not kept.blocks:
        own = FORMATS[photo.format].label
        lose(f"{chosen.label} cannot store the texts of a {own}, so they are left out", f"write {own} to keep them")
    return losses


def encode_photo(photo: Photo, *, format: str | Format | None = None, quality: int | None = None) -> bytes:
    """Encode a photo with its depth, gray, alpha, EXIF, ICC profile, XMP and resolution.

    Args:
        photo: what to write; `encoding_losses` lists what the format cannot store.
        format: a name or ending ("JPEG", "png", ".tif"); None keeps the photo's own, except that a GIF is written
            as PNG, because 256 colours would spoil the result.
        quality: 1 to 100, lossy formats only. None is visually lossless: 95, or the source's own quantisation if
            that is a good JPEG, which keeps unchanged pixels closest to what they were.

    Raises:
        ConfigError: an unknown format, or a quality out of range.
        OutputError: a side is longer than the format allows, or the encoder fails.
        ImageTooLargeError: there is not enough memory.
    """
    chosen = _resolved(photo, format)
    if quality is not None and not 1 <= quality <= 100:
        raise ConfigError(f"quality is {quality}; expected 1 to 100")
    limit = chosen.longest_side
    if limit is not None and max(photo.height, photo.width) > limit:
        raise OutputError(
            f"{photo.name}: {photo.width}x{photo.height} is too large for {chosen.label}, "
            f"whose sides have at most {limit:,} pixels",
            "write PNG",
        )
    photo = replace(photo, metadata=_storable(photo, chosen))
    encode = chosen.encode
    assert encode is not None  # `_resolved` refuses formats without one
    try:
        return encode(photo, _layers(photo, chosen), quality)
    except ShadowMaskFormerError:
        raise
    except MemoryError as error:
        raise photo.too_large() from error
    except DECODER_ERRORS as error:
        raise OutputError(f"{photo.name}: cannot be encoded as {chosen.label} ({error})", "write PNG") from error


def file_of(photo: Photo, *, format: str | Format | None = None, quality: int | None = None) -> bytes:
    """Return the photo as a file: the original bytes if nothing has changed, otherwise `encode_photo`."""
    if photo.file is not None and quality is None and _resolved(photo, format).name == photo.format:
        return photo.file
    return encode_photo(photo, format=format, quality=quality)


def _resolved(photo: Photo, format: str | Format | None) -> Format:
    if isinstance(format, Format):
        return _writable(format, format.label)
    return choose_format(photo.format, wanted=format)[0]


def _writable(format: Format | None, what: str, where: str = "") -> Format:
    if format is None or format.encode is None:
        known = listed(each for each in FORMATS.values() if each.encode)
        raise ConfigError(f"{where}cannot write {what}", f"choose {known}")
    return format


def _storable(photo: Photo, format: Format) -> Metadata:
    """Return the photo's metadata without what the format cannot store."""
    about = photo.metadata
    most = format.block_bytes or float("inf")
    exif, icc, xmp = about.exif, about.icc, about.xmp
    if exif and (
        format.exif == "none"
        or (format.exif == "rewritten" and not can_be_rewritten(exif))
        or len(EXIF_PREFIX + exif) > most
    ):
        exif = None
    # The profile of a gray photo describes one channel.
    if icc and (not format.icc or (photo.gray and not format.gray)):
        icc = None
    if xmp and (not format.xmp or len(_XMP_PREFIX + xmp) > most):
        xmp = None
    blocks = about.blocks if format.name == photo.format else b""
    return replace(about, exif=exif, icc=icc, xmp=xmp, blocks=blocks)


def _layers(photo: Photo, format: Format) -> NDArray[Any]:
    """Return the photo's channels as the file stores them: (H, W) or (H, W, 2 to 4), in a depth of the format."""
    pixels, alpha = photo.pixels, photo.alpha
    if pixels.dtype.name not in format.depths:
        depth = np.dtype(format.depths[-1])
        pixels = from_float(to_float(pixels), depth)
        alpha = None if alpha is None else from_float(to_float(alpha), depth)
    if alpha is not None and not format.alpha:
        opacity = to_float(alpha)[..., None]
        pixels = from_float(to_float(pixels) * opacity + (1 - opacity), pixels.dtype)
        alpha = None
    if photo.gray and format.gray:
        pixels = gray_levels(pixels)[..., None]
    if alpha is None:
        return np.ascontiguousarray(pixels[..., 0] if pixels.shape[2] == 1 else pixels)
    return np.concatenate((pixels, alpha[..., None]), axis=2)
