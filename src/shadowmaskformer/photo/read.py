"""Read a `Photo` from a file, bytes or a Pillow image."""

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
from shadowmaskformer.errors import (
    ArrayError,
    ConfigError,
    ImageReadError,
    ImageTooLargeError,
    NotAnImageError,
    ShadowMaskFormerError,
)
from shadowmaskformer.files import shown
from shadowmaskformer.photo.blocks import DECODER_ERRORS, icc_colour_space
from shadowmaskformer.photo.decode import Reading, Stored, camera_raw, from_pillow
from shadowmaskformer.photo.exif import BadExifError, ExifBlock, upright_xmp
from shadowmaskformer.photo.formats import (
    FORMATS,
    RAW_ENDINGS,
    SNIFFED_BYTES,
    Format,
    describe_other,
    format_of_path,
    listed,
    sniff,
)
from shadowmaskformer.photo.picture import Photo

ImageSource = str | os.PathLike[str] | bytes | bytearray | memoryview | BinaryIO | Image.Image

# Pillow's own default. Its global is never changed, because other code may rely on it.
MAX_PIXELS = 178_956_970

_BYTES = "the given bytes"


def read_photo(
    source: ImageSource,
    *,
    max_pixels: int = MAX_PIXELS,
    frame: int | None = None,
    drop_metadata: bool = False,
    name: str | None = None,
) -> Photo:
    """Read one picture, upright, with its own depth and its metadata.

    Args:
        source: path of a regular file, its bytes, a binary file object (read to its end, left open), or a
            Pillow image (left unchanged).
        max_pixels: larger pictures are refused from their header.
        frame: which picture of an animated or multi-page file, 0 = first; None refuses such files.
        drop_metadata: leave out EXIF, XMP, texts and resolution. The orientation is still applied and the colour
            profile kept.
        name: what messages call the picture; None takes its path.

    Raises:
        ImageReadError: missing, not a regular file, or damaged.
        NotAnImageError: an unknown format, or several frames and none chosen.
        ImageTooLargeError: more than `max_pixels`, or than memory holds.
        ArrayError: a float picture with NaN, infinite or out-of-range values.
        MissingExtraError: HEIC without the `heif` extra.
    """
    return _read(source, Reading(name or name_of(source), max_pixels, frame, drop_metadata=drop_metadata))


def read_plain(source: ImageSource, *, max_pixels: int = MAX_PIXELS, name: str | None = None) -> Photo:
    """Read one picture for its numbers alone, as masks need it: no metadata, no colour profile, no frames."""
    return _read(source, Reading(name or name_of(source), max_pixels, drop_metadata=True, as_mask=True))


def count_pixels(path: str | os.PathLike[str], *, frame: int | None = None) -> int | None:
    """Return how many pixels a picture file has, as its header says; None if it is not a picture that can be read.

    Of an animated or multi-page file, the chosen frame counts.
    """
    try:
        _read(path, _Measuring(name_of(path), 0, frame))
    except _Measured as found:
        return found.pixels
    except ShadowMaskFormerError:
        pass
    return None


class _Measured(Exception):  # noqa: N818  an answer, not an error
    def __init__(self, pixels: int) -> None:
        self.pixels = pixels


class _Measuring(Reading):
    """Stops a decoder at the point where it knows the size, before it decodes a pixel."""

    def check_size(self, width: int, height: int) -> None:
        raise _Measured(width * height)


def name_of(source: ImageSource) -> str:
    """Return what messages call the source."""
    if isinstance(source, (str, os.PathLike)):
        return shown(source)
    if isinstance(source, (bytes, bytearray, memoryview)):
        return _BYTES
    path = path_of(source)
    if path is not None:
        return shown(path)
    return "the given image" if isinstance(source, Image.Image) else "the given file object"


def path_of(source: Any) -> str | os.PathLike[str] | None:
    """Return the path that a source is, or that it was opened from as Pillow images and files know; else None."""
    if isinstance(source, (str, os.PathLike)):
        return local_path(source)
    path = getattr(source, "filename" if isinstance(source, Image.Image) else "name", None)
    # Python calls standard input `<stdin>`.
    return path if isinstance(path, str) and path and not path.startswith("<") else None


def local_path(source: str | os.PathLike[str]) -> str | os.PathLike[str]:
    """Return the path; raise ImageReadError for none, and for a URL, because nothing here uses the network."""
    if source == "":
        raise ImageReadError("the name of a picture is empty", "give the path of a picture")
    if isinstance(source, str) and "://" in source[:12]:
        raise ImageReadError(f"{shown(source)}: URLs are not fetched", "download the picture first")
    return source


def _read(source: ImageSource, reading: Reading) -> Photo:
    try:
        if isinstance(source, Image.Image):
            if reading.frame is not None:
                raise ConfigError("{frame} is for files; a Pillow image is the picture that it shows", "use its seek()")
            # Pillow calls a phone's multi-picture JPEG MPO.
            format = "JPEG" if source.format == "MPO" else source.format or "PNG"
            return _upright(from_pillow(source, reading), format if format in FORMATS else "PNG", reading)
        data, format = load_file(source, reading.name)
        stored = _decoded(data, format, reading)
        if isinstance(source, (str, os.PathLike)):
            expected = format_of_path(source)
            if expected not in (None, format):
                stored = stored.with_warning(
                    f"{reading.name}: named like {expected.label} but holds {format.label}; read by its content"
                )
        photo = _upright(stored, format.name, reading)
        return photo if reading.drop_metadata or reading.frame is not None else replace(photo, file=data)
    except MemoryError as error:
        raise ImageTooLargeError.for_memory(reading.name) from error


def load_file(
    source: str | os.PathLike[str] | bytes | bytearray | memoryview | BinaryIO, name: str
) -> tuple[bytes, Format]:
    """Return the bytes of a picture file, which messages call `name`, and their format; see `read_photo`."""
    if isinstance(source, (str, os.PathLike)):
        return _load_path(source, name)
    in_memory = isinstance(source, (bytes, bytearray, memoryview))
    data = bytes(source) if in_memory else _read_file_object(source, name)
    return data, _recognised(data, name)


def _read_file_object(file: BinaryIO, name: str) -> bytes:
    if not hasattr(file, "read"):
        raise ArrayError(f"the picture is a {type(file).__name__}", "give a path, bytes, a file or a Pillow image")
    try:
        data: Any = file.read()
        if data == b"" and getattr(file, "seekable", bool)():
            # It was written or read just before, and stands at its end.
            file.seek(0)
            data = file.read()
    except (OSError, ValueError) as error:
        # A closed file raises ValueError.
        raise ImageReadError(f"{name}: cannot be read ({error})", "open it again") from error
    if not isinstance(data, bytes):
        raise ImageReadError(f"{name}: returns {type(data).__name__}, not bytes", "open it in mode 'rb'")
    return data


def _load_path(path: str | os.PathLike[str], name: str) -> tuple[bytes, Format]:
    if Path(local_path(path)).suffix.lower() in RAW_ENDINGS:
        raise camera_raw(name)
    try:
        # Non-blocking, and checked after opening: a FIFO must not block, nor replace the file after the check.
        descriptor = os.open(path, os.O_RDONLY | getattr(os, "O_NONBLOCK", 0) | getattr(os, "O_BINARY", 0))
        kind = os.fstat(descriptor).st_mode
        if not stat.S_ISREG(kind):
            os.close(descriptor)
            what = "a folder" if stat.S_ISDIR(kind) else "not a regular file"
            raise ImageReadError(f"{name}: {what}", "give the path of a picture")
        with os.fdopen(descriptor, "rb") as file:
            # Recognised from its start, so that a film of 50 GB is not read only to be refused.
            start = file.read(SNIFFED_BYTES)
            format = _recognised(start, name)
            return start + file.read(), format
    except FileNotFoundError as error:
        raise ImageReadError(f"{name}: no such file", "check its name and folder") from error
    except OSError as error:
        raise ImageReadError(f"{name}: cannot be read ({error.strerror or error})", "check its permissions") from error
    except ValueError as error:
        raise ImageReadError(f"{name}: not a valid file name ({error})") from error


def _recognised(start: bytes, name: str) -> Format:
    format = sniff(start)
    if format is not None:
        return format
    if not start:
        raise NotAnImageError(f"{name} {'are' if name == _BYTES else 'is'} empty", "copy the picture again")
    raise NotAnImageError(f"{name}: not a picture ({describe_other(start)}); expected {listed(FORMATS.values())}")


def _decoded(data: bytes, format: Format, reading: Reading) -> Stored:
    try:
        return format.decode(data, reading)
    except ShadowMaskFormerError:
        raise
    except Image.DecompressionBombError as error:
        raise ImageTooLargeError(f"{reading.name}: too many pixels ({error})", "scale it down first") from error
    except DECODER_ERRORS as error:
        raise ImageReadError(
            f"{reading.name}: damaged or incomplete {format.label} ({error})", "copy it again"
        ) from error


def _upright(stored: Stored, format: str, reading: Reading) -> Photo:
    """Turn a decoded picture upright, split off its alpha and check its metadata."""
    name, about, warnings = reading.name, stored.metadata, [*stored.warnings]
    if stored.array.dtype.kind == "f":
        check_levels(stored.array, name)
    exif, orientation = _checked_exif(about.exif, name, warnings)
    array = np.ascontiguousarray(_turned(stored.array, orientation))
    if array.ndim == 2:
        array = array[..., None]
    gray = array.shape[2] < 3
    alpha = np.ascontiguousarray(array[..., -1]) if array.shape[2] in (2, 4) else None
    pixels = np.repeat(array[..., :1], 3, axis=2) if gray else np.ascontiguousarray(array[..., :3])
    if reading.drop_metadata:
        # Compression details are kept: they reveal nothing, and the output should match the source.
        about = replace(about, xmp=None, dpi=None)
    return Photo(
        pixels=pixels,
        alpha=alpha,
        gray=gray,
        format=format,
        metadata=replace(
            about,
            exif=exif.upright(*pixels.shape[:2]) if exif and not reading.drop_metadata else None,
            icc=None if reading.as_mask else _checked_icc(about.icc, gray, name, warnings),
            xmp=upright_xmp(about.xmp) if about.xmp and orientation != 1 else about.xmp,
            dpi=(about.dpi[1], about.dpi[0]) if about.dpi and orientation > 4 else about.dpi,
        ),
        warnings=tuple(warnings),
        name=name,
    )


def _checked_exif(exif: bytes | None, name: str, warnings: list[str]) -> tuple[ExifBlock | None, int]:
    """Return the block, unless it is damaged, and the orientation to apply."""
    if exif is None:
        return None, 1
    try:
        block = ExifBlock(exif)
        orientation = block.orientation
    except BadExifError as error:
        warnings.append(f"{name}: EXIF left out because it is damaged ({error}); the picture is not rotated")
        return None, 1
    if 1 <= orientation <= 8:
        return block, orientation
    warnings.append(f"{name}: EXIF orientation {orientation} does not exist; the picture is not rotated")
    return block, 1


def _checked_icc(icc: bytes | None, gray: bool, name: str, warnings: list[str]) -> bytes | None:
    """Return the profile, or None if it is damaged or for other pixels."""
    if icc is None:
        return None
    space, expected = icc_colour_space(icc), "GRAY" if gray else "RGB"
    if space == expected:
        return icc
    why = "is damaged" if space is None else f"is for {space}, the pixels are {expected}"
    warnings.append(f"{name}: colour profile left out because it {why}; taken as sRGB")
    return None


def _turned(array: NDArray[Any], orientation: int) -> NDArray[Any]:
    """Return the array upright, given its EXIF orientation (Exif 2.32, tag 274)."""
    if orientation > 4:
        array = array.swapaxes(0, 1)
    if orientation in (3, 4, 7, 8):
        array = array[::-1]
    if orientation in (2, 3, 6, 7):
        array = array[:, ::-1]
    return array
