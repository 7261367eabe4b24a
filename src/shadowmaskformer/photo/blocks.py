"""The blocks that JPEG and PNG files keep beside their pixels, ICC profiles, and JPEG quantisation tables."""

from __future__ import annotations

import io
import struct
import zlib
from collections.abc import Collection, Iterable, Iterator
from typing import Any

import numpy as np

PNG_SIGNATURE = b"\x89PNG\r\n\x1a\n"
PNG_TEXTS = (b"tEXt", b"zTXt", b"iTXt")
IPTC = 33723
"""Tag of a TIFF that holds caption, copyright and the like."""
XMP_KEYWORD = "XML:com.adobe.xmp"

_PNG_COLOURS = (b"gAMA", b"cHRM", b"sRGB", b"cICP")
# Texts that hold EXIF and XMP, which are kept separately.
_PNG_METADATA_TEXTS = (XMP_KEYWORD.encode() + b"\0", b"Raw profile type exif\0")

_PHOTOSHOP = b"Photoshop 3.0\0"
_THUMBNAILS = (0x0409, 0x040C)

# What Pillow, tifffile and the codecs are known to raise on damaged or hostile bytes.
DECODER_ERRORS = (
    OSError, SyntaxError, ValueError, TypeError, LookupError, AttributeError, EOFError,
    ArithmeticError, RuntimeError, struct.error, zlib.error,
)  # fmt: skip

# Luminance quantisation of ITU-T T.81, table K.1, row by row.
_T81_LUMINANCE = np.array([
    16, 11, 10, 16, 24, 40, 51, 61, 12, 12, 14, 19, 26, 58, 60, 55, 14, 13, 16, 24, 40, 57, 69, 56,
    14, 17, 22, 29, 51, 87, 80, 62, 18, 22, 37, 56, 68, 109, 103, 77, 24, 35, 55, 64, 81, 104, 113, 92,
    49, 64, 78, 87, 103, 121, 120, 101, 72, 92, 95, 98, 112, 100, 103, 99,
])  # fmt: skip


def icc_colour_space(icc: bytes) -> str | None:
    """Return the colour space of an ICC profile ("RGB", "GRAY", "CMYK", "Lab"), or None if it is damaged."""
    from PIL import ImageCms

    try:
        profile: Any = ImageCms.ImageCmsProfile(io.BytesIO(icc)).profile
        return str(profile.xcolor_space).strip()
    except (*DECODER_ERRORS, ImageCms.PyCMSError):
        return None


# JPEG


def jpeg_quality(table: Iterable[int]) -> int:
    """Return the quality, 1 to 100, at which libjpeg's luminance table is closest to `table` (64 steps, any order).

    Cameras use their own tables, so the sums of the steps are compared.
    """
    quality = np.arange(1, 101)
    scale = np.where(quality < 50, 5000 // quality, 200 - 2 * quality)
    steps = np.clip((_T81_LUMINANCE[None, :] * scale[:, None] + 50) // 100, 1, 255)  # (100, 64)
    return int(quality[np.abs(steps.sum(axis=1) - sum(table)).argmin()])


def jpeg_blocks(segments: Iterable[tuple[str, bytes]]) -> bytes:
    """Return a JPEG's comments and IPTC blocks as its file stores them, from Pillow's list of segments.

    >>> jpeg_blocks([("APP0", b"JFIF"), ("COM", b"by me")])
    b'\\xff\\xfe\\x00\\x07by me'
    """
    blocks = b""
    for name, payload in segments:
        marker = {"COM": b"\xff\xfe", "APP13": b"\xff\xed"}.get(name)
        kept = _without_thumbnail(payload) if name == "APP13" else payload
        if marker and kept:
            blocks += marker + struct.pack(">H", len(kept) + 2) + kept
    return blocks


def _without_thumbnail(block: bytes) -> bytes:
    """Return a Photoshop block without its thumbnails, which still show the shadow."""
    if not block.startswith(_PHOTOSHOP):
        return b""
    kept, at = _PHOTOSHOP, len(_PHOTOSHOP)
    while block[at : at + 4] == b"8BIM" and at + 12 <= len(block):
        named = at + 6 + (block[at + 6] + 2) // 2 * 2  # the name and its length, padded to an even count
        if named + 4 > len(block):
            break
        size = int.from_bytes(block[named : named + 4], "big")
        end = named + 4 + size + size % 2
        if int.from_bytes(block[at + 4 : at + 6], "big") not in _THUMBNAILS:
            kept += block[at:end]
        at = end
    return kept if len(kept) > len(_PHOTOSHOP) else b""


# PNG


def png_chunks(data: bytes) -> Iterator[tuple[bytes, bytes]]:
    """Yield the chunks of a PNG in order, as (type, payload); stop where the file ends."""
    at = len(PNG_SIGNATURE)
    while at + 12 <= len(data):
        length, kind = struct.unpack_from(">I4s", data, at)
        yield kind, data[at + 8 : at + 8 + length]
        at += 12 + length


def png_chunk(kind: bytes, payload: bytes) -> bytes:
    """Return one PNG chunk with its length and checksum."""
    return struct.pack(">I", len(payload)) + kind + payload + struct.pack(">I", zlib.crc32(kind + payload))


def png_without(data: bytes, kinds: Collection[bytes]) -> bytes:
    """Return the PNG without its chunks of these kinds."""
    kept = [data[: len(PNG_SIGNATURE)]]
    at = len(PNG_SIGNATURE)
    while at + 12 <= len(data):
        length, kind = struct.unpack_from(">I4s", data, at)
        if kind not in kinds:
            kept.append(data[at : at + 12 + length])
        at += 12 + length
    return b"".join(kept)


def has_readable_profile(png: bytes) -> bool:
    """Return True when the PNG's colour profile unpacks to at most a megabyte, which is Pillow's limit."""
    for kind, payload in png_chunks(png):
        if kind == b"iCCP":
            try:
                unpacker = zlib.decompressobj()
                unpacker.decompress(payload[payload.index(b"\0") + 2 :], 1 << 20)
                return not unpacker.unconsumed_tail
            except (ValueError, zlib.error):
                return False
    return False


def png_blocks(data: bytes) -> bytes:
    """Return a PNG's texts and the chunks that define its colours, without EXIF and XMP."""
    return b"".join(
        png_chunk(kind, payload)
        for kind, payload in png_chunks(data)
        if kind in _PNG_COLOURS or (kind in PNG_TEXTS and not payload.startswith(_PNG_METADATA_TEXTS))
    )


def png_with_blocks(png: bytes, blocks: bytes) -> bytes:
    """Return the PNG with chunks inserted after its header."""
    header_end = len(PNG_SIGNATURE) + 25  # IHDR: 4 length, 4 type, 13 payload, 4 checksum
    return png[:header_end] + blocks + png[header_end:]


def holds_text(blocks: bytes) -> bool:
    """Return True when blocks from `png_blocks` or `jpeg_blocks`, or a TIFF's IPTC, hold text."""
    return blocks.startswith((b"\xff", b"\x1c")) or any(kind in blocks for kind in PNG_TEXTS)
