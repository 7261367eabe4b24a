"""Files, bytes and Pillow images to `Photo` and masks, and back: the one door between disk and arrays."""

from __future__ import annotations

import os
import stat
from dataclasses import replace
from pathlib import Path
from typing import Any, BinaryIO

import numpy as np
from numpy.typing import NDArray
from PIL import Image

from shadowmaskformer.arrays import check_levels
from shadowmaskformer.errors import ImageReadError, ImageTooLargeError, NotAnImageError
from shadowmaskformer.files import check_output, shown, write_atomically
from shadowmaskformer.photo import blocks
from shadowmaskformer.photo import decode as decoding
from shadowmaskformer.photo import exif as metadata
from shadowmaskformer.photo.decode import Stored
from shadowmaskformer.photo.encode import (
    EXTENSIONS,
    encode_photo,
    encoding_losses,
    file_of,
    format_from_name,
    format_from_path,
)
from shadowmaskformer.photo.picture import Metadata, Photo

__all__ = [
    "MAX_PIXELS",
    "ImageSource",
    "Metadata",
    "Photo",
    "check_output",
    "encode_photo",
    "encoding_losses",
    "file_of",
    "format_from_name",
    "format_from_path",
    "local_path",
    "read_photo",
    "shown",
    "write_atomically",
]

ImageSource = str | os.PathLike[str] | bytes | bytearray | memoryview | BinaryIO | Image.Image

# Where Pillow itself refuses by default. Its global is never changed: other code may rely on it.
MAX_PIXELS = 178_956_970

_RAW_EXTENSIONS = {".arw", ".cr2", ".cr3", ".dng", ".nef", ".nrw", ".orf", ".pef", ".raf", ".rw2", ".srw"}
_COLOUR_SPACES = {True: "GRAY", False: "RGB"}


def read_photo(
    source: ImageSource,
    *,
    max_pixels: int = MAX_PIXELS,
    frame: int | None = None,
    drop_metadata: bool = False,
) -> Photo:
    """Read one picture, upright, with its own depth and all that its file says about it.

    Args:
        source: path of a regular file, its bytes, a binary file object (read to its end, left open), or a
            Pillow image (left as it is).
        max_pixels: larger pictures are refused from their header.
        frame: which picture of an animated or multi-page file, 0 = first; None refuses such files.
        drop_metadata: leave out EXIF, XMP, texts and resolution; the orientation is still applied, the profile kept.

    Raises:
        ImageReadError: missing, not a regular file, or damaged.
        NotAnImageError: not of a format we read, or of several frames and none chosen.
        ImageTooLargeError: more than `max_pixels`, or than memory holds.
        ArrayError: a float picture with NaN, infinite or out-of-range values.
        MissingExtraError: HEIC without the `heif` extra.
    """
    return read_any(source, max_pixels, frame, drop_metadata=drop_metadata)


def read_any(
    source: ImageSource, max_pixels: int, frame: int | None, *, drop_metadata: bool, drop_profile: bool = False
) -> Photo:
    name = name_of(source)
    try:
        if isinstance(source, Image.Image):
            photo = _photo(_stored_from_pillow(source, name, max_pixels), name)
        else:
            data = _bytes_of(source, name)
            stored = decoding.decode(
                data, name, max_pixels=max_pixels, frame=frame, drop_metadata=drop_metadata, drop_profile=drop_profile
            )
            _check_extension(source, stored, name)
            photo = _photo(stored, name)
            if not drop_metadata and frame is None:
                photo = replace(photo, file=data)
    except MemoryError as error:
        raise ImageTooLargeError(f"{name}: does not fit in memory; scale it down first") from error
    if drop_metadata:
        # How the source was compressed says nothing about anybody, and the output should match it; without the
        # colour profile it would look different. Of the blocks, a PNG's texts were not read.
        blocks = photo.metadata.blocks if photo.format == "PNG" else b""
        photo = replace(photo, metadata=replace(photo.metadata, exif=None, xmp=None, dpi=None, blocks=blocks))
    return photo


def local_path(source: str | os.PathLike[str]) -> str | os.PathLike[str]:
    """Refuse addresses: nothing here reaches for the network."""
    if isinstance(source, str) and "://" in source[:12]:
        raise ImageReadError(f"{shown(source)}: addresses are not fetched; download the picture first")
    return source


def name_of(source: ImageSource) -> str:
    """What messages call the source."""
    if isinstance(source, (str, os.PathLike)):
        return shown(source)
    if isinstance(source, Image.Image):
        return "the given image"
    return "the given bytes" if isinstance(source, (bytes, bytearray, memoryview)) else "the given file object"


def _bytes_of(source: str | os.PathLike[str] | bytes | bytearray | memoryview | BinaryIO, name: str) -> bytes:
    if isinstance(source, (bytes, bytearray, memoryview)):
        return bytes(source)
    if not isinstance(source, (str, os.PathLike)):
        data: Any = source.read()
        if not isinstance(data, bytes):
            raise ImageReadError(f"{name}: gives {type(data).__name__}, expected bytes; open it in mode 'rb'")
        return data
    if Path(local_path(source)).suffix.lower() in _RAW_EXTENSIONS:
        raise NotAnImageError(f"{name}: a camera's raw file; develop it to TIFF or JPEG first")
    try:
        return _read_regular_file(source, name)
    except FileNotFoundError as error:
        raise ImageReadError(f"{name}: no such file") from error
    except ValueError as error:
        raise ImageReadError(f"{name}: not a possible file name ({error})") from error
    except OSError as error:
        raise ImageReadError(f"{name}: cannot be read ({error.strerror or error})") from error


def _read_regular_file(path: str | os.PathLike[str], name: str) -> bytes:
    # Non-blocking, and typed after opening: a FIFO must neither hang us nor slip in between check and read.
    descriptor = os.open(path, os.O_RDONLY | getattr(os, "O_NONBLOCK", 0) | getattr(os, "O_BINARY", 0))
    kind = os.fstat(descriptor).st_mode
    if not stat.S_ISREG(kind):
        os.close(descriptor)
        what = "a folder" if stat.S_ISDIR(kind) else "not a regular file"
        raise ImageReadError(f"{name}: {what}; give the path of a picture")
    with os.fdopen(descriptor, "rb") as file:
        start = file.read(512)
        # Told from its start, so that a film of 50 GB is not read to learn that it is no picture.
        if decoding.sniff(start) is None:
            raise decoding.refuse(start, name)
        return start + file.read()


def _check_extension(source: object, stored: Stored, name: str) -> None:
    if not isinstance(source, (str, os.PathLike)):
        return
    expected = EXTENSIONS.get(Path(source).suffix.lower())
    if expected not in (None, stored.format):
        stored.warnings.append(f"{name}: named like {expected} but holds {stored.format}; read by its content")


def _stored_from_pillow(image: Image.Image, name: str, max_pixels: int) -> Stored:
    decoding.check_size(*image.size, name, max_pixels)
    warnings: list[str] = []
    try:
        image.load()
        # A shallow copy, because colour conversion takes the profile out of `info`.
        view = image.copy() if image.mode in ("CMYK", "LAB") else image
        array = decoding.pixels_of(view, name, warnings)
        exif = decoding.exif_of_info(image.info)
        if exif is None and len(tags := image.getexif()):
            exif = metadata.descriptive_exif(tags)
    except blocks.DECODER_ERRORS as error:
        raise ImageReadError(f"{name}: cannot be decoded ({error}); open it again") from error
    stored = Stored(image.format or "PNG", array, dict(view.info), exif, warnings=warnings)
    if stored.format == "MPO":
        stored.format = "JPEG"
    if stored.format == "JPEG":
        decoding.note_jpeg(image, stored, name)
    return stored


def _photo(stored: Stored, name: str) -> Photo:
    """Split, turn upright and check what was decoded."""
    warnings = stored.warnings
    array = stored.array
    if array.dtype.kind == "f":
        check_levels(array, name)
    orientation, exif = 1, stored.exif
    if exif is not None:
        try:
            orientation = metadata.exif_orientation(exif)
        except metadata.BadExifError as error:
            warnings.append(f"{name}: EXIF left out because it is damaged ({error}); pixels taken as stored")
            exif = None
    array = np.ascontiguousarray(_turned(array, orientation))
    if array.ndim == 2:
        array = array[..., None]
    channels = array.shape[2]
    gray = channels < 3
    alpha = np.ascontiguousarray(array[..., -1]) if channels in (2, 4) else None
    pixels = np.repeat(array[..., :1], 3, axis=2) if gray else np.ascontiguousarray(array[..., :3])

    icc = stored.info.get("icc_profile") or None
    if icc is not None:
        space = blocks.icc_colour_space(icc)
        if space != _COLOUR_SPACES[gray]:
            why = "is damaged" if space is None else f"is for {space}, the pixels are {_COLOUR_SPACES[gray]}"
            warnings.append(f"{name}: colour profile left out because it {why}; taken as sRGB")
            icc = None
    xmp = stored.info.get("xmp")
    if isinstance(xmp, str):
        xmp = xmp.encode()
    if xmp and orientation != 1:
        xmp = metadata.upright_xmp(xmp)
    dpi = metadata.resolution(stored.info)
    return Photo(
        pixels=pixels,
        alpha=alpha,
        gray=gray,
        format=stored.format,
        metadata=Metadata(
            exif=metadata.upright_exif(exif, *pixels.shape[:2]) if exif else None,
            icc=icc,
            xmp=xmp or None,
            dpi=(dpi[1], dpi[0]) if dpi and orientation > 4 else dpi,
            jpeg_quality=stored.jpeg_quality,
            jpeg_subsampling=stored.jpeg_subsampling,
            jpeg_tables=stored.jpeg_tables,
            lossless=stored.lossless,
            blocks=stored.blocks,
        ),
        warnings=tuple(warnings),
    )


def _turned(array: NDArray[Any], orientation: int) -> NDArray[Any]:
    """The array upright, given how EXIF says the camera was held (Exif 2.32, tag 274)."""
    if orientation > 4:
        array = array.swapaxes(0, 1)
    if orientation in (3, 4, 7, 8):
        array = array[::-1]
    if orientation in (2, 3, 6, 7):
        array = array[:, ::-1]
    return array
