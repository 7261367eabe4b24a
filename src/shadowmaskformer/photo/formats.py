"""The file formats that are read and written, one row each in `FORMATS`.

To add a format, add a row here and a decoder in `decode.py`. To write the format too, add an encoder in `encode.py`.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

from numpy.typing import NDArray

from shadowmaskformer.photo import decode, encode
from shadowmaskformer.photo.blocks import PNG_SIGNATURE
from shadowmaskformer.photo.decode import Reading, Stored
from shadowmaskformer.photo.picture import Photo

Decoder = Callable[[bytes, Reading], Stored]
Encoder = Callable[[Photo, NDArray[Any], int | None], bytes]

SNIFFED_BYTES = 512
"""A file's format is recognised from this many bytes at its start."""

RAW_ENDINGS = frozenset((".arw", ".cr2", ".cr3", ".dng", ".nef", ".nrw", ".orf", ".pef", ".raf", ".rw2", ".srw"))
"""Camera raw files. Many are TIFFs in structure, whose first picture is only a thumbnail."""

_BMP_HEADER_BYTES = {12, 40, 52, 56, 64, 108, 124}
_AVIF_BRANDS = {b"avif", b"avis"}
_HEIF_BRANDS = {b"heic", b"heix", b"heim", b"heis", b"hevc", b"hevx", b"mif1", b"msf1"}
_OTHER_FILES = {
    b"%PDF": "PDF", b"%!PS": "PostScript", b"8BPS": "Photoshop", b"SIMPLE": "FITS", b"PK\x03\x04": "ZIP",
    b"\0\0\0\x0cjP  ": "JPEG 2000", b"\0\0\0\x0cJXL ": "JPEG XL", b"\xff\x0a": "JPEG XL",
}  # fmt: skip


@dataclass(frozen=True, kw_only=True)
class Format:
    """One file format.

    Attributes:
        name: its key in `FORMATS`, which is Pillow's name.
        label: how messages write it.
        endings: endings of file names, lower case with the dot; new files get the first.
        recognise: whether a file that starts with these bytes has this format.
        decode: from the whole file to its array and metadata.
        encode: from a photo, its layers and a quality (None chooses) to the file; None if it is only read.
        depths: dtypes that it stores; photos of another depth are converted to the last one.
        alpha: whether it stores transparency.
        gray: whether it stores pictures of one channel.
        lossy: whether `quality` matters.
        exif: "copied" byte for byte, "rewritten" tag by tag, or "none".
        icc: whether it stores colour profiles.
        xmp: whether it stores XMP.
        block_bytes: length of the longest EXIF or XMP block with its prefix; None if unlimited.
        longest_side: most pixels along one side; None if unlimited.
    """

    name: str
    label: str
    endings: tuple[str, ...]
    recognise: Callable[[bytes], bool]
    decode: Decoder
    encode: Encoder | None = None
    depths: tuple[Literal["uint8", "uint16", "float32"], ...] = ("uint8",)
    alpha: bool = False
    gray: bool = False
    lossy: bool = False
    exif: Literal["copied", "rewritten", "none"] = "none"
    icc: bool = False
    xmp: bool = False
    block_bytes: int | None = None
    longest_side: int | None = None


def _starts_with(*magic: bytes) -> Callable[[bytes], bool]:
    return lambda start: start.startswith(magic)


def _is_bmp(start: bytes) -> bool:
    return start.startswith(b"BM") and int.from_bytes(start[14:18], "little") in _BMP_HEADER_BYTES


def _has_brand(brands: set[bytes]) -> Callable[[bytes], bool]:
    """Return a test for the brands that an ISO media file (AVIF, HEIC) lists at its start."""

    def recognise(start: bytes) -> bool:
        if start[4:8] != b"ftyp":
            return False
        end = min(int.from_bytes(start[:4], "big"), 64)
        return not brands.isdisjoint(start[at : at + 4] for at in (8, *range(16, end, 4)))

    return recognise


FORMATS: dict[str, Format] = {
    format.name: format
    for format in (
        Format(
            name="JPEG",
            label="JPEG",
            endings=(".jpg", ".jpeg", ".jpe", ".jfif"),
            recognise=_starts_with(b"\xff\xd8\xff"),
            decode=decode.decode_jpeg,
            encode=encode.encode_jpeg,
            gray=True,
            lossy=True,
            exif="copied",
            icc=True,
            xmp=True,
            block_bytes=65_533,
            longest_side=65_500,
        ),
        Format(
            name="PNG",
            label="PNG",
            endings=(".png", ".apng"),
            recognise=_starts_with(PNG_SIGNATURE),
            decode=decode.decode_png,
            encode=encode.encode_png,
            depths=("uint8", "uint16"),
            alpha=True,
            gray=True,
            exif="copied",
            icc=True,
            xmp=True,
        ),
        Format(
            name="WEBP",
            label="WebP",
            endings=(".webp",),
            recognise=lambda start: start.startswith(b"RIFF") and start[8:12] == b"WEBP",
            decode=decode.decode_webp,
            encode=encode.encode_webp,
            alpha=True,
            lossy=True,
            exif="copied",
            icc=True,
            xmp=True,
            longest_side=16_383,
        ),
        Format(
            name="TIFF",
            label="TIFF",
            endings=(".tif", ".tiff"),
            recognise=_starts_with(b"II*\0", b"MM\0*", b"II+\0", b"MM\0+"),
            decode=decode.decode_tiff,
            encode=encode.encode_tiff,
            depths=("uint8", "uint16", "float32"),
            alpha=True,
            gray=True,
            exif="rewritten",
            icc=True,
            xmp=True,
        ),
        Format(
            name="BMP",
            label="BMP",
            endings=(".bmp", ".dib"),
            recognise=_is_bmp,
            decode=decode.decode_bmp,
            encode=encode.encode_bmp,
            gray=True,
        ),
        Format(
            # Only read: its 256 colours would spoil a result.
            name="GIF",
            label="GIF",
            endings=(".gif",),
            recognise=_starts_with(b"GIF87a", b"GIF89a"),
            decode=decode.decode_gif,
        ),
        Format(
            # Before HEIC, whose brands AVIF files list too.
            name="AVIF",
            label="AVIF",
            endings=(".avif",),
            recognise=_has_brand(_AVIF_BRANDS),
            decode=decode.decode_avif,
            encode=encode.encode_avif,
            alpha=True,
            lossy=True,
            exif="rewritten",
            icc=True,
            xmp=True,
        ),
        Format(
            name="HEIF",
            label="HEIC",
            endings=(".heic", ".heif", ".hif"),
            recognise=_has_brand(_HEIF_BRANDS),
            decode=decode.decode_heif,
            encode=encode.encode_heif,
            alpha=True,
            lossy=True,
            exif="rewritten",
            icc=True,
            xmp=True,
        ),
    )
}


def sniff(start: bytes) -> Format | None:
    """Return the format of a file that starts with these bytes, or None if it is none of `FORMATS`.

    >>> [found and found.name for found in (sniff(b"GIF89a"), sniff(b"<svg/>"))]
    ['GIF', None]
    """
    return next((format for format in FORMATS.values() if format.recognise(start)), None)


def describe_other(start: bytes) -> str:
    """Return what a file that `sniff` does not know seems to be.

    >>> describe_other(b"%PDF-1.7"), describe_other(b"Dear diary")
    ('PDF', 'text')
    """
    start = start[:SNIFFED_BYTES].lstrip(b"\xef\xbb\xbf \t\r\n")
    for magic, label in _OTHER_FILES.items():
        if start.startswith(magic):
            return label
    if b"<svg" in start.lower():
        return "SVG"
    if start.lower().startswith((b"<!doctype html", b"<html")):
        return "HTML"
    return "text" if start and b"\0" not in start and start.isascii() else "unknown content"


def find_format(name: str) -> Format | None:
    """Return the format with this name, label or ending in any case, or None.

    >>> [found and found.name for found in map(find_format, ("jpg", ".TIF", "WebP", "psd"))]
    ['JPEG', 'TIFF', 'WEBP', None]
    """
    plain = name.lower().removeprefix(".")
    for format in FORMATS.values():
        if plain in (format.name.lower(), format.label.lower()) or f".{plain}" in format.endings:
            return format
    return None


def format_of_path(path: str | os.PathLike[str]) -> Format | None:
    """Return the format that the ending of a file name stands for, or None.

    >>> format_of_path("a/b.JPG").name, format_of_path("b.txt"), format_of_path("png")
    ('JPEG', None, None)
    """
    ending = Path(path).suffix.lower()
    return next((format for format in FORMATS.values() if ending in format.endings), None)


def endings(names: Iterable[str] | None = None) -> frozenset[str]:
    """Return the endings of picture files, lower case with the dot: of the formats in `names`, or of all.

    >>> sorted(endings(["PNG", "TIFF"]))
    ['.apng', '.png', '.tif', '.tiff']
    """
    chosen = FORMATS.values() if names is None else [FORMATS[name] for name in names]
    return frozenset(ending for format in chosen for ending in format.endings)


def listed(formats: Iterable[Format], last: str = "or") -> str:
    """Return the labels of formats as messages list them.

    >>> listed(FORMATS[name] for name in ("JPEG", "PNG", "WEBP"))
    'JPEG, PNG or WebP'
    """
    *labels, final = [format.label for format in formats]
    return f"{', '.join(labels)} {last} {final}" if labels else final
