"""A `Photo` back to the bytes of a file, with everything that its format can hold."""

from __future__ import annotations

import io
import os
import struct
import zlib
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray
from PIL import Image

from shadowmaskformer.arrays import from_float, gray_levels, to_float
from shadowmaskformer.errors import MissingExtraError, OutputError
from shadowmaskformer.photo import blocks
from shadowmaskformer.photo import exif as metadata
from shadowmaskformer.photo.picture import Metadata, Photo

EXTENSIONS = {
    ".jpg": "JPEG", ".jpeg": "JPEG", ".jpe": "JPEG", ".jfif": "JPEG", ".png": "PNG", ".apng": "PNG",
    ".webp": "WEBP", ".tif": "TIFF", ".tiff": "TIFF", ".bmp": "BMP", ".dib": "BMP", ".gif": "GIF",
    ".avif": "AVIF", ".heic": "HEIF", ".heif": "HEIF", ".hif": "HEIF",
}  # fmt: skip

# Bits per channel, opacity and one-channel pictures: what each format that we write can hold.
_DEPTHS: dict[str, tuple[str, ...]] = {
    "JPEG": ("uint8",), "PNG": ("uint8", "uint16"), "WEBP": ("uint8",),
    "TIFF": ("uint8", "uint16", "float32"), "BMP": ("uint8",), "AVIF": ("uint8",), "HEIF": ("uint8",),
}  # fmt: skip
_WITH_ALPHA = {"PNG", "WEBP", "TIFF", "AVIF", "HEIF"}
_WITH_GRAY = {"JPEG", "PNG", "TIFF", "BMP"}
# Their writers take the block apart; the others store it byte for byte.
_REWRITING_EXIF = {"TIFF", "AVIF", "HEIF"}
_LONGEST_SIDE = {"JPEG": 65_500, "WEBP": 16_383}

# Above this, no step of the 8-bit result differs visibly from the decoded original.
_QUALITY = 95
# A JPEG source from here on keeps its own quantisation; below, what was changed would be coarsened once more.
_GOOD_SOURCE = 90
_XMP_KEYWORD = "XML:com.adobe.xmp"


def format_from_path(path: str | os.PathLike[str]) -> str | None:
    """Format that a file name asks for ("JPEG", "PNG", ...); None when its extension is not known.

    >>> format_from_path("a/b.JPG"), format_from_path("b.txt")
    ('JPEG', None)
    """
    return EXTENSIONS.get(Path(path).suffix.lower())


def encoding_losses(photo: Photo, format: str | None = None) -> list[str]:
    """One line for each thing of `photo` that the format cannot hold; empty when nothing is lost.

    Args:
        photo: what shall be written.
        format: as for `encode_photo`.
    """
    chosen = _chosen_format(photo, format)
    losses: list[str] = []
    if photo.pixels.dtype.name not in _DEPTHS[chosen]:
        kept = np.dtype(_DEPTHS[chosen][-1]).itemsize * 8
        found, deep = ("float", "TIFF") if photo.pixels.dtype.kind == "f" else ("16-bit", "PNG or TIFF")
        losses.append(f"{chosen} holds {kept} bits per channel: the {found} photo loses depth; write {deep} to keep it")
    if photo.alpha is not None and chosen not in _WITH_ALPHA:
        losses.append(f"{chosen} has no transparency: laid over white; write PNG to keep it")
    kept = _holdable(photo, chosen)
    for what, before, after in (
        ("EXIF block", photo.metadata.exif, kept.exif),
        ("colour profile", photo.metadata.icc, kept.icc),
        ("XMP block", photo.metadata.xmp, kept.xmp),
    ):
        if before and not after:
            losses.append(f"{chosen} cannot hold this {what}: left out; write PNG to keep it")
    if blocks.holds_text(photo.metadata.blocks) and not kept.blocks:
        losses.append(
            f"{chosen} cannot hold the texts of a {photo.format}: left out; write {photo.format} to keep them"
        )
    return losses


def encode_photo(photo: Photo, *, format: str | None = None, quality: int | None = None) -> bytes:
    """Encode a photo with its depth, gray, alpha, EXIF, ICC profile, XMP and resolution.

    Args:
        photo: what to write. `encoding_losses` tells what of it the format cannot hold.
        format: "JPEG", "PNG", "WEBP", "TIFF", "BMP", "AVIF" or "HEIF"; None takes the photo's own (PNG for
            a GIF, whose 256 colours would spoil the result).
        quality: 1 to 100 for the formats with loss. None chooses it so that nothing visible is lost: 95, or as a
            good JPEG source was quantised, which keeps the pixels that nobody touched nearest to what they were.

    Raises:
        OutputError: unknown format, quality out of range, or a side longer than the format allows.
    """
    chosen = _chosen_format(photo, format)
    if quality is not None and not 1 <= quality <= 100:
        raise OutputError(f"quality {quality}; expected 1 to 100")
    limit = _LONGEST_SIDE.get(chosen)
    if limit is not None and max(photo.height, photo.width) > limit:
        raise OutputError(f"{photo.width}x{photo.height} is too large for {chosen} ({limit} a side at most); write PNG")
    photo = replace(photo, metadata=_holdable(photo, chosen))
    array = _layers(photo, chosen)
    try:
        if chosen == "TIFF":
            return _encode_tiff(photo, array)
        if chosen == "PNG" and array.dtype == np.uint16:
            return _encode_png16(photo, array)
        return _encode_with_pillow(photo, array, chosen, quality)
    except blocks.DECODER_ERRORS as error:
        raise OutputError(f"cannot be encoded as {chosen} ({error}); write PNG") from error


def file_of(photo: Photo, *, format: str | None = None, quality: int | None = None) -> bytes:
    """The photo as a file: its own, bit for bit, while nothing was changed in it, else `encode_photo`."""
    if photo.file is not None and quality is None and _chosen_format(photo, format) == photo.format:
        return photo.file
    return encode_photo(photo, format=format, quality=quality)


def format_from_name(name: str) -> str:
    """Format that a name or ending asks for ("jpg", "WebP", ".tif").

    Raises:
        OutputError: none that we write.

    >>> format_from_name("jpg")
    'JPEG'
    """
    plain = name.upper().removeprefix(".")
    chosen = EXTENSIONS.get(f".{plain.lower()}", plain)
    if chosen not in _DEPTHS:
        raise OutputError(f"cannot write {name!r}; choose one of {', '.join(_DEPTHS)}")
    return chosen


def _chosen_format(photo: Photo, format: str | None) -> str:
    if format is None:
        return photo.format if photo.format in _DEPTHS else "PNG"
    return format_from_name(format)


def _holdable(photo: Photo, format: str) -> Metadata:
    """The photo's metadata without what the format cannot hold."""
    about = photo.metadata
    if format != photo.format:
        about = replace(about, blocks=b"")
    if format == "BMP":
        return replace(about, exif=None, icc=None, xmp=None)
    if about.icc and photo.gray and format not in _WITH_GRAY:
        # It describes one channel, and the format stores three.
        about = replace(about, icc=None)
    if about.exif and format in _REWRITING_EXIF and not metadata.can_be_rewritten(about.exif):
        about = replace(about, exif=None)
    if format == "JPEG":
        # A JPEG's blocks hold 65,533 bytes with their prefix.
        if about.exif and len(about.exif) > 65_533 - len(metadata.EXIF_PREFIX):
            about = replace(about, exif=None)
        if about.xmp and len(about.xmp) > 65_533 - 29:
            about = replace(about, xmp=None)
    return about


def _layers(photo: Photo, format: str) -> NDArray[Any]:
    """The photo's channels as the file stores them: (H, W) or (H, W, 2 to 4), of a depth the format holds."""
    pixels, alpha = photo.pixels, photo.alpha
    if pixels.dtype.name not in _DEPTHS[format]:
        depth = np.dtype(_DEPTHS[format][-1])
        pixels = from_float(to_float(pixels), depth)
        alpha = None if alpha is None else from_float(to_float(alpha), depth)
    if alpha is not None and format not in _WITH_ALPHA:
        opacity = to_float(alpha)[..., None]
        pixels = from_float(to_float(pixels) * opacity + (1 - opacity), pixels.dtype)
        alpha = None
    if photo.gray and format in _WITH_GRAY:
        pixels = gray_levels(pixels)[..., None]
    if alpha is None:
        return np.ascontiguousarray(pixels[..., 0] if pixels.shape[2] == 1 else pixels)
    return np.concatenate((pixels, alpha[..., None]), axis=2)


def _encode_with_pillow(photo: Photo, array: NDArray[Any], format: str, quality: int | None) -> bytes:
    image = Image.fromarray(array)
    options = _options(photo, format, quality)
    buffer = io.BytesIO()
    if format == "HEIF":
        _save_heif(image, buffer, options)
    else:
        image.save(buffer, format, **options)
    encoded = buffer.getvalue()
    return blocks.png_with_blocks(encoded, photo.metadata.blocks) if format == "PNG" else encoded


def _options(photo: Photo, format: str, quality: int | None) -> dict[str, Any]:
    """Arguments for Pillow's `save`."""
    about = photo.metadata
    options: dict[str, Any] = {}
    if about.dpi and format in ("JPEG", "PNG", "BMP"):
        options["dpi"] = about.dpi
    if about.icc:
        options["icc_profile"] = about.icc
    if about.exif:
        options["exif"] = metadata.EXIF_PREFIX + about.exif
    if about.xmp and format == "PNG":
        from PIL.PngImagePlugin import PngInfo

        options["pnginfo"] = PngInfo()
        options["pnginfo"].add_itxt(_XMP_KEYWORD, about.xmp.decode("utf-8", "replace"))
    elif about.xmp:
        options["xmp"] = about.xmp
    if format == "JPEG":
        if quality is None and about.jpeg_tables and (about.jpeg_quality or 0) >= _GOOD_SOURCE:
            options["qtables"] = [list(table) for table in about.jpeg_tables]
        else:
            options["quality"] = quality or _QUALITY
        options["extra"] = about.blocks
        # The source's own chroma, or full: halving it anew would soften coloured edges.
        options["subsampling"] = about.jpeg_subsampling or 0
        options["optimize"] = photo.height * photo.width < 1 << 24
    elif format == "WEBP":
        options["quality"] = quality or _QUALITY
        options["lossless"] = about.lossless and quality is None
        # Colours under full transparency are the user's too.
        options["exact"] = True
    elif format == "AVIF":
        options["quality"] = quality or _QUALITY
        options["subsampling"] = "4:4:4"
    elif format == "HEIF":
        options["quality"] = quality or _QUALITY
    return options


def _save_heif(image: Image.Image, buffer: io.BytesIO, options: dict[str, Any]) -> None:
    try:
        import pillow_heif
    except ImportError as error:
        raise MissingExtraError("HEIC pictures need an extra: pip install 'shadowmaskformer[heif]'") from error
    image.info.update({key: options[key] for key in ("icc_profile", "exif", "xmp") if key in options})
    pillow_heif.from_pillow(image).save(buffer, quality=options["quality"], chroma=444)


def _encode_png16(photo: Photo, array: NDArray[Any]) -> bytes:
    """16-bit PNG, with the chunks that imagecodecs does not write put behind its header."""
    import imagecodecs

    about = photo.metadata
    encoded = bytes(imagecodecs.png_encode(array, level=6))
    chunks = about.blocks
    if about.icc:
        chunks += blocks.png_chunk(b"iCCP", b"ICC Profile\0\0" + zlib.compress(about.icc))
    if about.dpi:
        per_metre = (round(value / 0.0254) for value in about.dpi)
        chunks += blocks.png_chunk(b"pHYs", struct.pack(">IIB", *per_metre, 1))
    if about.exif:
        chunks += blocks.png_chunk(b"eXIf", about.exif)
    if about.xmp:
        chunks += blocks.png_chunk(b"iTXt", _XMP_KEYWORD.encode() + b"\0\0\0\0\0" + about.xmp)
    return blocks.png_with_blocks(encoded, chunks)


def _encode_tiff(photo: Photo, array: NDArray[Any]) -> bytes:
    """TIFF of any depth, deflated without loss."""
    import tifffile

    about = photo.metadata
    tags = [(700, "B", len(about.xmp), about.xmp, True)] if about.xmp else []
    buffer = io.BytesIO()
    tifffile.imwrite(
        buffer,
        array,
        photometric="minisblack" if array.ndim == 2 or array.shape[2] == 2 else "rgb",
        planarconfig="contig" if array.ndim == 3 else None,
        extrasamples=["unassalpha"] if photo.alpha is not None else None,
        compression="adobe_deflate",
        # Differences pack far better; for floats few readers know the predictor.
        predictor=array.dtype.kind == "u",
        iccprofile=about.icc,
        resolution=about.dpi,
        resolutionunit="INCH" if about.dpi else None,
        software=False,
        metadata=None,
        extratags=tags,
        byteorder="<",
    )
    encoded = buffer.getvalue()
    return metadata.tiff_with_exif(encoded, about.exif) if about.exif else encoded
