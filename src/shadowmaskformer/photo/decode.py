"""Bytes of a picture to an array of its own numbers, plus the blocks that its file keeps beside them.

Formats are told by content and opened with that format's reader alone, so that no rarely used parser ever
sees a stranger's bytes. Sizes are checked on the header, before a pixel is decoded. Pillow reads most files;
16-bit PNG goes through imagecodecs and most TIFF through tifffile, because Pillow would quietly cut them to
8 bits.
"""

from __future__ import annotations

import io
import struct
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass, field
from functools import partial
from typing import Any, BinaryIO

import numpy as np
from numpy.typing import NDArray
from PIL import Image, ImageFile

from shadowmaskformer.errors import (
    ArrayError,
    ImageReadError,
    ImageTooLargeError,
    MissingExtraError,
    NotAnImageError,
)
from shadowmaskformer.photo import blocks
from shadowmaskformer.photo import exif as metadata
from shadowmaskformer.photo.blocks import DECODER_ERRORS

_READABLE = "JPEG, PNG, WebP, TIFF, BMP, GIF, AVIF or HEIC"
_BMP_HEADER_BYTES = {12, 40, 52, 56, 64, 108, 124}
_HEIF_BRANDS = {b"heic", b"heix", b"heim", b"heis", b"hevc", b"hevx", b"mif1", b"msf1"}
_OTHER_FILES = {
    b"%PDF": "PDF", b"%!PS": "PostScript", b"8BPS": "Photoshop", b"SIMPLE": "FITS", b"PK\x03\x04": "ZIP",
    b"\0\0\0\x0cjP  ": "JPEG 2000", b"\0\0\0\x0cJXL ": "JPEG XL", b"\xff\x0a": "JPEG XL",
}  # fmt: skip


@dataclass
class Stored:
    """A decoded picture as its file stores it, not yet turned upright.

    Attributes:
        format: "JPEG", "PNG", ...
        array: (H, W) gray, (H, W, 2) gray and alpha, (H, W, 3) RGB or (H, W, 4) RGB and alpha; uint8, uint16
            or float32.
        info: Pillow's dictionary: icc_profile, xmp, dpi.
        exif: EXIF block without prefix, unchecked.
        jpeg_quality, jpeg_subsampling, jpeg_tables, lossless, blocks: as in `Metadata`.
        warnings: one line each.
    """

    format: str
    array: NDArray[Any]
    info: dict[Any, Any]
    exif: bytes | None = None
    jpeg_quality: int | None = None
    jpeg_subsampling: int | None = None
    jpeg_tables: tuple[tuple[int, ...], ...] = ()
    lossless: bool = False
    blocks: bytes = b""
    warnings: list[str] = field(default_factory=list[str])


def sniff(data: bytes) -> str | None:
    """Format that the first bytes announce: "JPEG", "PNG", ...; None when it is none that we read.

    >>> sniff(b"GIF89a"), sniff(b"<svg/>")
    ('GIF', None)
    """
    if data.startswith(b"\xff\xd8\xff"):
        return "JPEG"
    if data.startswith(blocks.PNG_SIGNATURE):
        return "PNG"
    if data.startswith((b"GIF87a", b"GIF89a")):
        return "GIF"
    if data.startswith(b"RIFF") and data[8:12] == b"WEBP":
        return "WEBP"
    if data.startswith((b"II*\0", b"MM\0*", b"II+\0", b"MM\0+")):
        return "TIFF"
    if data.startswith(b"BM") and int.from_bytes(data[14:18], "little") in _BMP_HEADER_BYTES:
        return "BMP"
    if data[4:8] == b"ftyp":
        end = min(int.from_bytes(data[:4], "big"), 64)
        brands = {data[at : at + 4] for at in (8, *range(16, end, 4))}
        if brands & {b"avif", b"avis"}:
            return "AVIF"
        if brands & _HEIF_BRANDS:
            return "HEIF"
    return None


def refuse(data: bytes, name: str) -> NotAnImageError:
    """The error for bytes that `sniff` does not know, saying what they seem to be."""
    start = data[:512].lstrip(b"\xef\xbb\xbf \t\r\n")
    found = next((what for magic, what in _OTHER_FILES.items() if start.startswith(magic)), "")
    lower = start.lower()
    if not data:
        found = "an empty file"
    elif b"<svg" in lower:
        found = "SVG"
    elif lower.startswith((b"<!doctype html", b"<html")):
        found = "HTML"
    elif not found:
        found = "text" if start and b"\0" not in start and start.isascii() else "unknown content"
    return NotAnImageError(f"{name}: not a picture ({found}); expected {_READABLE}")


def decode(
    data: bytes,
    name: str,
    *,
    max_pixels: int,
    frame: int | None = None,
    drop_metadata: bool = False,
    drop_profile: bool = False,
) -> Stored:
    """Decode the bytes of one picture.

    Args:
        data: the whole file.
        name: what messages call it.
        max_pixels: larger pictures are refused before decoding.
        frame: which picture of several, 0 = first; None refuses several.
        drop_metadata: do not unpack a PNG's text, nor a profile that is too large.
        drop_profile: take the numbers as they are, whatever colours they mean.
    """
    kind = sniff(data)
    if kind is None:
        raise refuse(data, name)
    if kind == "PNG" and drop_metadata:
        data = blocks.png_without(data, blocks.PNG_TEXTS)
        if drop_profile or not blocks.has_readable_profile(data):
            data = blocks.png_without(data, [b"iCCP"])
    try:
        decoder = _decode_tiff if kind == "TIFF" else partial(_decode_with_pillow, kind)
        stored = decoder(data, name, max_pixels, frame)
        if drop_profile:
            stored.info.pop("icc_profile", None)
        return stored
    except Image.DecompressionBombError as error:
        raise ImageTooLargeError(f"{name}: {error} Scale it down first.") from error
    except DECODER_ERRORS as error:
        if kind == "PNG" and "text" in str(error).lower():
            raise ImageReadError(
                f"{name}: its text or colour profile unpacks to more than a megabyte; "
                "read it without with --drop-metadata"
            ) from error
        raise ImageReadError(f"{name}: damaged or cut short {kind} ({error}); copy it again") from error


def check_size(width: int, height: int, name: str, max_pixels: int) -> None:
    """Raise ImageTooLargeError when a header announces more than `max_pixels`."""
    if width * height > max_pixels:
        raise ImageTooLargeError(
            f"{name}: {width}x{height} = {width * height:,} pixels, more than the {max_pixels:,} allowed; "
            "scale it down or raise --max-pixels"
        )


def choose_frame(count: int, frame: int | None, name: str, what: str = "frames") -> int:
    """Index of the picture to read among `count`."""
    if frame is None and count == 1:
        return 0
    if frame is None:
        raise NotAnImageError(
            f"{name}: {count} {what}: --frame N (0 to {count - 1}) chooses one of a photo's; save a mask alone"
        )
    if not 0 <= frame < count:
        raise NotAnImageError(f"{name}: no frame {frame}; it has {count}, 0 to {count - 1}")
    return frame


def _opener(kind: str) -> Callable[[BinaryIO], ImageFile.ImageFile]:
    """Pillow's reader of one format, called directly: `Image.open` would apply Pillow's global size limit."""
    if kind == "JPEG":
        # Not Pillow's JPEG factory: this class takes the first picture of a phone's multi-picture file.
        from PIL.JpegImagePlugin import JpegImageFile as Opener
    elif kind == "PNG":
        from PIL.PngImagePlugin import PngImageFile as Opener
    elif kind == "WEBP":
        from PIL.WebPImagePlugin import WebPImageFile as Opener
    elif kind == "TIFF":
        from PIL.TiffImagePlugin import TiffImageFile as Opener
    elif kind == "BMP":
        from PIL.BmpImagePlugin import BmpImageFile as Opener
    elif kind == "GIF":
        from PIL.GifImagePlugin import GifImageFile as Opener
    elif kind == "AVIF":
        from PIL.AvifImagePlugin import AvifImageFile as Opener
    else:
        try:
            from pillow_heif.as_plugin import HeifImageFile as Opener
        except ImportError as error:
            raise MissingExtraError("HEIC pictures need an extra: pip install 'shadowmaskformer[heif]'") from error
    return Opener


def _decode_with_pillow(kind: str, data: bytes, name: str, max_pixels: int, frame: int | None) -> Stored:
    image = _opener(kind)(io.BytesIO(data))
    check_size(*image.size, name, max_pixels)
    warnings: list[str] = []
    # A phone's HEIC holds helper pictures beside the photo; like a multi-picture JPEG it means its main one.
    several = 1 if kind == "HEIF" else int(getattr(image, "n_frames", 1))
    chosen = choose_frame(several, frame, name)
    if chosen:
        image.seek(chosen)
    if kind == "PNG" and data[24] == 16:
        array, exif = _decode_png16(data, several, chosen)
        return Stored(kind, array, image.info, exif, blocks=blocks.png_blocks(data))
    image.load()
    stored = Stored(kind, pixels_of(image, name, warnings), image.info, warnings=warnings)
    stored.exif = exif_of_info(image.info)
    if kind == "JPEG":
        note_jpeg(image, stored, name)
    elif kind == "PNG":
        stored.blocks = blocks.png_blocks(data)
    stored.lossless = kind == "WEBP" and _is_lossless_webp(data)
    if (kind == "AVIF" and _is_deep_avif(data)) or image.info.get("bit_depth", 8) > 8:
        warnings.append(f"{name}: more than 8 bits per channel; {kind} is read with 8")
    return stored


def _decode_png16(data: bytes, count: int, frame: int) -> tuple[NDArray[Any], bytes | None]:
    """Pixels of a 16-bit PNG at full depth, and its EXIF block wherever in the file it stands."""
    import imagecodecs

    array = imagecodecs.apng_decode(data, index=frame) if count > 1 else imagecodecs.png_decode(data)
    exif = next((payload for kind, payload in blocks.png_chunks(data) if kind == b"eXIf"), None)
    return np.asarray(array), exif


def exif_of_info(info: dict[Any, Any]) -> bytes | None:
    """The EXIF block in Pillow's `info`, also where ImageMagick hides it in a PNG's text."""
    if isinstance(block := info.get("exif"), bytes) and block:
        return metadata.without_prefix(block)
    if isinstance(text := info.get("Raw profile type exif"), str):
        try:
            return metadata.without_prefix(bytes.fromhex("".join(text.split("\n")[3:])))
        except ValueError:
            # Not empty, so that the check of EXIF blocks reports it.
            return b"?"
    return None


def note_jpeg(image: Image.Image, stored: Stored, name: str) -> None:
    """Record how a JPEG was compressed, while Pillow's file object still knows."""
    from PIL import JpegImagePlugin

    if not isinstance(image, JpegImagePlugin.JpegImageFile):
        return
    if image.quantization:
        # Each component names its table; the encoder takes them in the components' order.
        tables = tuple(tuple(image.quantization[component[3]]) for component in image.layer[:3])
        stored.jpeg_quality, stored.jpeg_tables = blocks.jpeg_quality(list(tables[0])), tables
    stored.blocks = blocks.jpeg_blocks(image.applist)
    sampling = JpegImagePlugin.get_sampling(image)
    stored.jpeg_subsampling = sampling if sampling >= 0 else None
    # The decoder paints what is missing in middle gray when a damaged file goes on to its end mark.
    if stored.array.shape[0] > 16 and np.all(stored.array[-16:] == 128):
        stored.warnings.append(f"{name}: plain gray at its bottom, as in a damaged file; if so, copy it again")
    if "mp" in image.info:
        stored.warnings.append(f"{name}: several pictures in one file; the first is used, the others are left out")


def _is_deep_avif(data: bytes) -> bool:
    """True when the AV1 configuration (AV1-ISOBMFF, 2.3.3) sets its high_bitdepth flag."""
    at = data.find(b"av1C")
    return at >= 0 and bool(data[at + 6 : at + 7]) and bool(data[at + 6] & 0x40)


def _is_lossless_webp(data: bytes) -> bool:
    at = 12
    while at + 8 <= len(data):
        chunk, length = struct.unpack_from("<4sI", data, at)
        if chunk in (b"VP8 ", b"VP8L"):
            return chunk == b"VP8L"
        at += 8 + length + length % 2
    return False


def pixels_of(image: Image.Image, name: str, warnings: list[str]) -> NDArray[Any]:
    """The pixels of a Pillow image as gray or RGB, with alpha where it has one.

    Returns:
        (H, W), (H, W, 2), (H, W, 3) or (H, W, 4); uint8, uint16 or float32. The image is left as it is.
    """
    mode = image.mode
    if mode in ("CMYK", "LAB"):
        return _to_srgb(image, name, warnings)
    if mode.startswith("I;16"):
        return np.asarray(image).astype(np.uint16)
    if mode == "I":
        values = np.asarray(image)
        if values.min() < 0 or values.max() > 65535:
            raise ArrayError(f"{name}: 32-bit levels up to {values.max()}; save it with 8 or 16 bits per channel")
        return values.astype(np.uint16)
    if mode == "F":
        return np.array(image, np.float32)
    if mode in ("1", "L", "LA", "La"):
        wanted = "LA" if image.has_transparency_data else "L"
    else:
        wanted = "RGBA" if image.has_transparency_data else "RGB"
    return np.array(image if mode == wanted else image.convert(wanted))


def _to_srgb(image: Image.Image, name: str, warnings: list[str]) -> NDArray[Any]:
    """CMYK and LAB to sRGB: by the file's profile, or by convention where it has none."""
    from PIL import ImageCms

    icc = image.info.pop("icc_profile", None)
    srgb = ImageCms.createProfile("sRGB")
    how = "its profile"
    profile: Any = None
    if image.mode == "LAB":
        profile, how = ImageCms.createProfile("LAB"), "the D50 white point"
    elif icc and blocks.icc_colour_space(icc) == "CMYK":
        profile = ImageCms.ImageCmsProfile(io.BytesIO(icc))
    converted = None
    if profile is not None:
        with suppress(ImageCms.PyCMSError):
            converted = ImageCms.profileToProfile(image, profile, srgb, outputMode="RGB")
    if converted is None:
        converted, how = image.convert("RGB"), "a plain formula (no usable profile)"
    warnings.append(f"{name}: {image.mode} converted to sRGB by {how}")
    return np.array(converted)


def _decode_tiff(data: bytes, name: str, max_pixels: int, frame: int | None) -> Stored:
    import tifffile

    with tifffile.TiffFile(io.BytesIO(data)) as tiff:
        if 50706 in tiff.pages.first.tags or data[8:10] == b"CR":
            raise NotAnImageError(f"{name}: a camera's raw file; develop it to TIFF or JPEG first")
        # Previews and transparency masks are pages too, but not pictures of their own.
        places = [place for place in range(len(tiff.pages)) if _is_picture(tiff.pages.get(place))] or [0]
        place = places[choose_frame(len(places), frame, name, "pages")]
        page: Any = tiff.pages.get(place)
        check_size(page.imagewidth, page.imagelength, name, max_pixels)
        # Tiles are decoded whole, and each sample is a picture more.
        check_size(page.tilewidth, page.tilelength, name, max_pixels)
        if page.samplesperpixel > 8:
            raise NotAnImageError(f"{name}: {page.samplesperpixel} channels; expected gray or RGB")
        dtype, photometric = page.dtype, int(page.photometric)
        if dtype is None or dtype.name not in ("bool", "uint8", "uint16", "float16", "float32", "float64"):
            raise NotAnImageError(
                f"{name}: {page.bitspersample}-bit {dtype} TIFF; save it with 8 or 16 bits per channel"
            )
        if photometric in (0, 1, 2) and page.bitspersample == dtype.itemsize * 8:
            tags = (("icc_profile", 34675), ("xmp", 700))
            info = {key: page.tags[tag].value for key, tag in tags if tag in page.tags}
            if 282 in page.tags and 283 in page.tags:
                info["dpi"] = page.get_resolution("inch")
            return Stored("TIFF", _tiff_pixels(page), info, _tiff_exif(_tiff_tags(data, page)))
    # Palettes, single bits, CMYK, LAB and JPEG's colours are Pillow's trade.
    image = _opener("TIFF")(io.BytesIO(data))
    if place:
        image.seek(place)
    image.load()
    warnings: list[str] = []
    if page.bitspersample > 8:
        warnings.append(f"{name}: {page.bitspersample}-bit {image.mode} is read with 8 bits per channel")
    array = pixels_of(image, name, warnings)
    # Pillow has turned the picture upright while loading it, and taken the orientation out of these tags.
    return Stored("TIFF", array, image.info, _tiff_exif(image.getexif()), warnings=warnings)


def _is_picture(page: Any) -> bool:
    subfile = page.tags.get(254) if hasattr(page, "tags") else None
    return subfile is None or not int(subfile.value) & 0b101


def _tiff_pixels(page: Any) -> NDArray[Any]:
    """A gray or RGB page as (H, W, 1 to 4), with alpha where it has one; uint8, uint16 or float32."""
    array: NDArray[Any] = page.asarray()
    if page.axes.startswith("S"):
        array = np.moveaxis(array, 0, -1)
    array = array.reshape(page.imagelength, page.imagewidth, -1)
    colours = 3 if int(page.photometric) == 2 else 1
    alpha_kind = next((int(kind) for kind in page.extrasamples if int(kind) in (1, 2)), 0)
    array = array[..., : colours + (alpha_kind > 0)]
    if int(page.photometric) == 0:
        # White is zero.
        top = _top(array.dtype)
        array = np.concatenate((top - array[..., :1], array[..., 1:]), axis=-1).astype(array.dtype)
    if alpha_kind == 1:
        array = _unmultiplied(array)
    # Of native byte order, and single precision at most.
    return array.astype("float32" if array.dtype.kind == "f" else array.dtype.name)


def _top(dtype: np.dtype[Any]) -> float:
    """The level of full light."""
    return 1 if dtype.kind == "f" else int(np.iinfo(dtype).max)


def _tiff_tags(data: bytes, page: Any) -> Image.Exif:
    tags = Image.Exif()
    if page.parent.is_bigtiff or page.index:
        # Pillow reads no 8-byte offsets, and first pages only: the texts and the orientation are kept.
        for tag in metadata.DESCRIPTIVE_TAGS:
            if tag in page.tags:
                tags[tag] = page.tags[tag].value
    else:
        tags.load(data)
    return tags


def _unmultiplied(array: NDArray[Any]) -> NDArray[Any]:
    """Colours that were stored times their alpha, divided by it."""
    top = _top(array.dtype)
    alpha = array[..., -1:].astype(np.float64) / top
    colour = np.divide(array[..., :-1], alpha, out=np.zeros(array[..., :-1].shape), where=alpha > 0)
    if array.dtype.kind != "f":
        colour = np.rint(colour)
    return np.concatenate((np.clip(colour, 0, top).astype(array.dtype), array[..., -1:]), axis=-1)


def _tiff_exif(tags: Image.Exif) -> bytes | None:
    try:
        return metadata.descriptive_exif(tags)
    except metadata.BadExifError:
        # Not empty, so that the check of EXIF blocks reports it.
        return b"?"
