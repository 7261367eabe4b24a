"""Decoders: from the bytes of one format to the array and the metadata that its file stores.

Each decoder calls the reader of its format directly, so that rarely used parsers never see untrusted bytes and
Pillow's global size limit does not apply. Sizes are checked on the header, before any pixel is decoded. Pillow reads
most files. imagecodecs reads 16-bit PNG and tifffile most TIFF, because Pillow would silently reduce them to 8 bits.
"""

from __future__ import annotations

import io
import math
import struct
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass, field, replace
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
    ShadowMaskFormerError,
)
from shadowmaskformer.photo.blocks import (
    DECODER_ERRORS,
    IPTC,
    PNG_TEXTS,
    has_readable_profile,
    icc_colour_space,
    jpeg_blocks,
    jpeg_quality,
    png_blocks,
    png_chunks,
    png_without,
)
from shadowmaskformer.photo.exif import DESCRIPTIVE_TAGS, EXIF_PREFIX, BadExifError, descriptive_exif
from shadowmaskformer.photo.picture import Metadata

# Pillow modes that are converted to sRGB.
_OTHER_COLOURS = ("CMYK", "LAB")
_STRIP = 512  # rows
# Stands for EXIF that cannot be read, so that the check of EXIF blocks reports it.
_DAMAGED_EXIF = b"?"


@dataclass(frozen=True)
class Reading:
    """What a decoder needs to know besides the bytes.

    Attributes:
        name: what messages call the picture.
        max_pixels: larger pictures are refused.
        frame: which picture of several, 0 = first; None refuses files with several.
        drop_metadata: do not unpack texts, or profiles that are too large.
        as_mask: the picture is a mask: only its numbers matter, and no frame can be chosen.
    """

    name: str
    max_pixels: int
    frame: int | None = None
    drop_metadata: bool = False
    as_mask: bool = False

    def check_size(self, width: int, height: int) -> None:
        """Raise ImageTooLargeError for more than `max_pixels`."""
        if width * height > self.max_pixels:
            raise ImageTooLargeError(
                f"{self.name}: {width}x{height} = {width * height:,} pixels, more than the {self.max_pixels:,} allowed",
                "scale it down or raise {max_pixels}",
            )

    def choose_frame(self, count: int, kind: str = "frame") -> int:
        """Return the index of the picture to read among `count`."""
        frames = f"{count} {kind}" if count == 1 else f"{count} {kind}s"
        if self.frame is None and count > 1:
            remedy = f"pick one with {{frame=0…{count - 1}}}"
            raise NotAnImageError(
                f"{self.name}: has {frames}", "save the mask as a single picture" if self.as_mask else remedy
            )
        frame = self.frame or 0
        if not 0 <= frame < count:
            remedy = f"pick one with {{frame=0…{count - 1}}}" if count > 1 else "leave {frame} out"
            raise NotAnImageError(f"{self.name}: {kind} {frame} does not exist; the file has {frames}", remedy)
        return frame


@dataclass(frozen=True)
class Stored:
    """A decoded picture as its file stores it, not yet turned upright.

    Attributes:
        array: (H, W) gray, (H, W, 2) gray and alpha, (H, W, 3) RGB or (H, W, 4) RGB and alpha; uint8, uint16
            or float32.
        metadata: as found; EXIF and ICC are not checked yet.
        warnings: lines for the user.
    """

    array: NDArray[Any]
    metadata: Metadata = field(default_factory=Metadata)
    warnings: tuple[str, ...] = ()

    def with_metadata(self, **changes: Any) -> Stored:
        """Return a copy with other fields of `metadata`."""
        return replace(self, metadata=replace(self.metadata, **changes))

    def with_warning(self, line: str) -> Stored:
        """Return a copy with one more warning."""
        return replace(self, warnings=(*self.warnings, line))


def decode_jpeg(data: bytes, reading: Reading) -> Stored:
    """Decode a JPEG; of a phone's multi-picture file, the first picture."""
    # Pillow's JPEG factory is not used: it would open multi-picture files as animations.
    from PIL.JpegImagePlugin import JpegImageFile

    image = _open(JpegImageFile, data, reading)
    return _with_jpeg_details(_from_image(image, reading), image, reading)


def decode_png(data: bytes, reading: Reading) -> Stored:
    """Decode a PNG of up to 16 bits, or one frame of an animated PNG."""
    from PIL.PngImagePlugin import PngImageFile

    if reading.drop_metadata:
        data = png_without(data, PNG_TEXTS)
        if reading.as_mask or not has_readable_profile(data):
            data = png_without(data, [b"iCCP"])
    try:
        image = _open(PngImageFile, data, reading)
        stored = _decode_png16(data, image) if data[24] == 16 else _from_image(image, reading)
    except DECODER_ERRORS as error:
        if "text" in str(error).lower() and not isinstance(error, ShadowMaskFormerError):
            raise ImageReadError(
                f"{reading.name}: its text or colour profile unpacks to more than a megabyte",
                "use {drop_metadata=True} to skip it",
            ) from error
        raise
    return stored.with_metadata(blocks=png_blocks(data))


def decode_webp(data: bytes, reading: Reading) -> Stored:
    """Decode a WebP, or one of its frames."""
    from PIL.WebPImagePlugin import WebPImageFile

    stored = _from_image(_open(WebPImageFile, data, reading), reading)
    return stored.with_metadata(lossless=_is_lossless_webp(data))


def decode_bmp(data: bytes, reading: Reading) -> Stored:
    """Decode a BMP."""
    from PIL.BmpImagePlugin import BmpImageFile

    return _from_image(_open(BmpImageFile, data, reading), reading)


def decode_gif(data: bytes, reading: Reading) -> Stored:
    """Decode a GIF, or one of its frames."""
    from PIL.GifImagePlugin import GifImageFile

    return _from_image(_open(GifImageFile, data, reading), reading)


def decode_avif(data: bytes, reading: Reading) -> Stored:
    """Decode an AVIF, with 8 bits per channel."""
    from PIL.AvifImagePlugin import AvifImageFile

    stored = _from_image(_open(AvifImageFile, data, reading), reading)
    return stored.with_warning(_reduced_depth(reading, "AVIF")) if _is_deep_avif(data) else stored


def decode_heif(data: bytes, reading: Reading) -> Stored:
    """Decode the main picture of a HEIC, with 8 bits per channel; a phone's helper pictures are ignored."""
    try:
        from pillow_heif.as_plugin import HeifImageFile
    except ImportError as error:
        raise missing_heif() from error

    image = _open(HeifImageFile, data, reading, frames=1)
    stored = _from_image(image, reading)
    deep = image.info.get("bit_depth", 8) > 8
    return stored.with_warning(_reduced_depth(reading, "HEIC")) if deep else stored


def missing_heif() -> MissingExtraError:
    """Return the error for HEIC without its extra."""
    return MissingExtraError("HEIC pictures need an extra", "pip install 'shadowmaskformer[heif]'")


def decode_tiff(data: bytes, reading: Reading) -> Stored:
    """Decode one page of a TIFF: integers of up to 16 bits, or floats."""
    import tifffile

    name = reading.name
    with tifffile.TiffFile(io.BytesIO(data)) as tiff:
        if 50706 in tiff.pages.first.tags or data[8:10] == b"CR":
            raise camera_raw(name)
        # Previews and transparency masks are pages too, but not separate pictures.
        places = [place for place in range(len(tiff.pages)) if _is_picture(tiff.pages.get(place))] or [0]
        place = places[reading.choose_frame(len(places), "page")]
        page: Any = tiff.pages.get(place)
        reading.check_size(page.imagewidth, page.imagelength)
        # Tiles are decoded whole, and so is each sample.
        reading.check_size(page.tilewidth, page.tilelength)
        if page.samplesperpixel > 8:
            raise NotAnImageError(f"{name}: {page.samplesperpixel} channels; expected gray or RGB")
        dtype, photometric = page.dtype, int(page.photometric)
        if dtype is None or dtype.name not in ("bool", "uint8", "uint16", "float16", "float32", "float64"):
            raise NotAnImageError(
                f"{name}: {page.bitspersample}-bit {dtype} TIFF", "save it with 8 or 16 bits per channel"
            )
        if photometric in (0, 1, 2) and (dtype.name == "uint16" or page.bitspersample == dtype.itemsize * 8):
            tags = (("icc_profile", 34675), ("xmp", 700))
            info = {key: page.tags[tag].value for key, tag in tags if tag in page.tags}
            if 282 in page.tags and 283 in page.tags:
                info["dpi"] = page.get_resolution("inch")
            pixels = _tiff_pixels(page)
            stored = Stored(pixels, _metadata(info, _tiff_exif(_tiff_tags(data, page))))
            if pixels.shape[2] < page.samplesperpixel:
                stored = stored.with_warning(
                    f"{name}: has channels that are neither colours nor transparency; they are left out"
                )
        else:
            stored = _decode_tiff_with_pillow(data, reading, place, page.bitspersample)
        iptc = page.tags[IPTC].value if IPTC in page.tags else b""
        return stored.with_metadata(blocks=iptc if isinstance(iptc, bytes) else b"")


def camera_raw(name: str) -> NotAnImageError:
    """Return the error for a camera's raw file."""
    return NotAnImageError(f"{name}: a camera's raw file", "develop it to TIFF or JPEG first")


def from_pillow(image: Image.Image, reading: Reading) -> Stored:
    """Return an open Pillow image as its file stores it; the image is left unchanged."""
    reading.check_size(*image.size)
    try:
        stored = _from_image(image, reading)
        if stored.metadata.exif is None and len(tags := image.getexif()):
            stored = stored.with_metadata(exif=descriptive_exif(tags))
    except ShadowMaskFormerError:
        raise
    except DECODER_ERRORS as error:
        raise ImageReadError(f"{reading.name}: cannot be decoded ({error})", "open it again") from error
    return _with_jpeg_details(stored, image, reading)


def _open(
    opener: Callable[[BinaryIO], ImageFile.ImageFile], data: bytes, reading: Reading, frames: int | None = None
) -> ImageFile.ImageFile:
    """Return the image at the chosen frame, after a check of its size; its pixels are not loaded."""
    image = opener(io.BytesIO(data))
    reading.check_size(*image.size)
    if frame := reading.choose_frame(frames or int(getattr(image, "n_frames", 1))):
        image.seek(frame)
    return image


def _from_image(image: Image.Image, reading: Reading) -> Stored:
    image.load()
    array, warnings = _pixels(image, reading.name)
    stored = Stored(array, _metadata(image.info, _exif(image.info)), warnings)
    # The profile of a converted picture no longer describes its pixels.
    return stored.with_metadata(icc=None) if image.mode in _OTHER_COLOURS else stored


def _metadata(info: dict[Any, Any], exif: bytes | None) -> Metadata:
    """Return what Pillow's `info` holds: profile, XMP and resolution."""
    xmp = info.get("xmp")
    return Metadata(
        exif=exif,
        icc=info.get("icc_profile") or None,
        xmp=(xmp.encode() if isinstance(xmp, str) else xmp) or None,
        dpi=_resolution(info),
    )


def _exif(info: dict[Any, Any]) -> bytes | None:
    """Return the EXIF block in Pillow's `info`, including ImageMagick's, which is a text in a PNG."""
    if isinstance(block := info.get("exif"), bytes) and block:
        return block.removeprefix(EXIF_PREFIX)
    if isinstance(text := info.get("Raw profile type exif"), str):
        try:
            return bytes.fromhex("".join(text.split("\n")[3:])).removeprefix(EXIF_PREFIX)
        except ValueError:
            return _DAMAGED_EXIF
    return None


def _resolution(info: dict[Any, Any]) -> tuple[float, float] | None:
    """Return the dots per inch in Pillow's `info`, or None when they are missing or impossible."""
    try:
        horizontal, vertical = (float(value) for value in info["dpi"])
    except (KeyError, TypeError, ValueError, ZeroDivisionError):
        return None
    if not all(math.isfinite(value) and 0 < value < 1e5 for value in (horizontal, vertical)):
        return None
    return horizontal, vertical


def _pixels(image: Image.Image, name: str) -> tuple[NDArray[Any], tuple[str, ...]]:
    """Return a Pillow image as gray or RGB, with alpha if it has any, and warnings; see `Stored.array`."""
    mode = image.mode
    if mode in _OTHER_COLOURS:
        return _to_srgb(image, name)
    if mode.startswith("I;16"):
        return np.asarray(image).astype(np.uint16), ()
    if mode == "I":
        values = np.asarray(image)
        if values.min() < 0 or values.max() > 65535:
            raise ArrayError(f"{name}: 32-bit levels up to {values.max()}", "save it with 8 or 16 bits per channel")
        return values.astype(np.uint16), ()
    if mode == "F":
        return np.array(image, np.float32), ()
    if mode in ("1", "L", "LA", "La"):
        wanted = "LA" if image.has_transparency_data else "L"
    else:
        wanted = "RGBA" if image.has_transparency_data else "RGB"
    return _levels(image if mode == wanted else image.convert(wanted)), ()


def _levels(image: Image.Image) -> NDArray[Any]:
    """Return an image of 8 bits as an array; in strips, because Pillow would copy the whole of it twice."""
    levels = np.empty((image.height, image.width, len(image.getbands())), np.uint8)
    for top in range(0, image.height, _STRIP):
        bottom = min(top + _STRIP, image.height)
        part = image if bottom - top == image.height else image.crop((0, top, image.width, bottom))
        levels[top:bottom] = np.asarray(part).reshape(bottom - top, image.width, -1)
    return levels if levels.shape[2] > 1 else levels[..., 0]


def _to_srgb(image: Image.Image, name: str) -> tuple[NDArray[Any], tuple[str, ...]]:
    """Convert CMYK and LAB to sRGB, by the file's profile if it has a usable one."""
    from PIL import ImageCms

    icc = image.info.get("icc_profile")
    srgb = ImageCms.createProfile("sRGB")
    how = "its profile"
    profile: Any = None
    if image.mode == "LAB":
        profile, how = ImageCms.createProfile("LAB"), "the D50 white point"
    elif icc and icc_colour_space(icc) == "CMYK":
        profile = ImageCms.ImageCmsProfile(io.BytesIO(icc))
    converted = None
    if profile is not None:
        with suppress(ImageCms.PyCMSError):
            converted = ImageCms.profileToProfile(image, profile, srgb, outputMode="RGB")
    if converted is None:
        converted, how = image.convert("RGB"), "a plain formula (no usable profile)"
    return np.array(converted), (f"{name}: {image.mode} converted to sRGB by {how}",)


# JPEG, PNG, WebP and AVIF in detail


def _with_jpeg_details(stored: Stored, image: Image.Image, reading: Reading) -> Stored:
    """Record how a JPEG was compressed; other images stay as they are."""
    from PIL import JpegImagePlugin

    if not isinstance(image, JpegImagePlugin.JpegImageFile):
        return stored
    if image.quantization:
        # Each component names its table. The encoder takes them in the order of the components.
        tables = tuple(tuple(image.quantization[component[3]]) for component in image.layer[:3])
        stored = stored.with_metadata(jpeg_quality=jpeg_quality(tables[0]), jpeg_tables=tables)
    if not reading.drop_metadata:
        stored = stored.with_metadata(blocks=jpeg_blocks(image.applist))
    sampling = JpegImagePlugin.get_sampling(image)
    if sampling >= 0:
        stored = stored.with_metadata(jpeg_subsampling=sampling)
    # When a damaged file still has its end mark, the decoder fills the missing part with middle gray.
    if stored.array.shape[0] > 16 and np.all(stored.array[-16:] == 128):
        stored = stored.with_warning(
            f"{reading.name}: the bottom is plain gray, as in a damaged file; if it is damaged, copy it again"
        )
    if "mp" in image.info:
        stored = stored.with_warning(f"{reading.name}: holds several pictures; only the first is used and written")
    return stored


def _decode_png16(data: bytes, image: ImageFile.ImageFile) -> Stored:
    """Return a 16-bit PNG at full depth, with its EXIF block even if that follows the pixels."""
    import imagecodecs

    several = int(getattr(image, "n_frames", 1)) > 1
    array = imagecodecs.apng_decode(data, index=image.tell()) if several else imagecodecs.png_decode(data)
    exif = next((payload for kind, payload in png_chunks(data) if kind == b"eXIf"), None)
    return Stored(np.asarray(array), _metadata(image.info, exif or _exif(image.info)))


def _is_lossless_webp(data: bytes) -> bool:
    at = 12
    while at + 8 <= len(data):
        chunk, length = struct.unpack_from("<4sI", data, at)
        if chunk in (b"VP8 ", b"VP8L"):
            return chunk == b"VP8L"
        at += 8 + length + length % 2
    return False


def _is_deep_avif(data: bytes) -> bool:
    """Return True when the AV1 configuration (AV1-ISOBMFF, 2.3.3) sets its high_bitdepth flag."""
    at = data.find(b"av1C")
    return at >= 0 and bool(data[at + 6 : at + 7]) and bool(data[at + 6] & 0x40)


def _reduced_depth(reading: Reading, label: str) -> str:
    return f"{reading.name}: more than 8 bits per channel; {label} is read with 8"


# TIFF in detail


def _decode_tiff_with_pillow(data: bytes, reading: Reading, place: int, bits: int) -> Stored:
    """Decode what tifffile returns undecoded: palettes, single bits, CMYK, LAB and JPEG colours."""
    from PIL.TiffImagePlugin import TiffImageFile

    image = TiffImageFile(io.BytesIO(data))
    if place:
        image.seek(place)
    stored = _from_image(image, reading)
    if bits > 8:
        stored = stored.with_warning(f"{reading.name}: {bits}-bit {image.mode} is read with 8 bits per channel")
    # Loading has turned the picture upright and removed the orientation from these tags.
    return stored.with_metadata(exif=_tiff_exif(image.getexif()))


def _is_picture(page: Any) -> bool:
    subfile = page.tags.get(254) if hasattr(page, "tags") else None
    return subfile is None or not int(subfile.value) & 0b101


def _tiff_pixels(page: Any) -> NDArray[Any]:
    """Return a gray or RGB page as (H, W, 1 to 4), with alpha if it has any; uint8, uint16 or float32."""
    array: NDArray[Any] = page.asarray()
    if page.axes.startswith("S"):
        array = np.moveaxis(array, 0, -1)
    if array.dtype.name == "uint16" and page.bitspersample < 16:
        # 10, 12 or 14 bits, scaled up so that white stays white.
        array = np.rint(np.linspace(0, 65535, 2**page.bitspersample)).astype(np.uint16)[array]
    array = array.reshape(page.imagelength, page.imagewidth, -1)
    colours = 3 if int(page.photometric) == 2 else 1
    kinds = [int(kind) for kind in page.extrasamples]
    alpha, alpha_kind = next(((place, kind) for place, kind in enumerate(kinds) if kind in (1, 2)), (0, 0))
    array = array[..., [*range(colours), *([colours + alpha] if alpha_kind else [])]]
    if int(page.photometric) == 0:
        # White is zero.
        top = _top(array.dtype)
        array = np.concatenate((top - array[..., :1], array[..., 1:]), axis=-1).astype(array.dtype)
    if alpha_kind == 1:
        array = _unmultiplied(array)
    # Native byte order, and single precision at most.
    return array.astype("float32" if array.dtype.kind == "f" else array.dtype.name)


def _top(dtype: np.dtype[Any]) -> float:
    """Return the level of white."""
    return 1 if dtype.kind == "f" else int(np.iinfo(dtype).max)


def _unmultiplied(array: NDArray[Any]) -> NDArray[Any]:
    """Divide colours that were stored multiplied by their alpha."""
    top = _top(array.dtype)
    alpha = array[..., -1:].astype(np.float64) / top
    colour = np.divide(array[..., :-1], alpha, out=np.zeros(array[..., :-1].shape), where=alpha > 0)
    if array.dtype.kind != "f":
        colour = np.rint(colour)
    return np.concatenate((np.clip(colour, 0, top).astype(array.dtype), array[..., -1:]), axis=-1)


def _tiff_tags(data: bytes, page: Any) -> Image.Exif:
    tags = Image.Exif()
    if page.parent.is_bigtiff or page.index:
        # Pillow reads only 4-byte offsets and only first pages; otherwise just these tags are kept.
        for tag in DESCRIPTIVE_TAGS:
            if tag in page.tags:
                tags[tag] = page.tags[tag].value
    else:
        tags.load(data)
    return tags


def _tiff_exif(tags: Image.Exif) -> bytes | None:
    try:
        return descriptive_exif(tags)
    except BadExifError:
        return _DAMAGED_EXIF
