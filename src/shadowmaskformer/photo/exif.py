"""The blocks beside the pixels: EXIF, ICC, XMP, PNG chunks, and what a JPEG tells about its own quality.

EXIF is patched in place, never rewritten: a rewrite moves the maker's notes, whose offsets count from the
block's start, and cameras' own software then no longer reads them.
"""

from __future__ import annotations

import io
import math
import re
import struct
import zlib
from collections.abc import Collection, Iterable, Iterator
from typing import Any

import numpy as np
from PIL import Image

EXIF_PREFIX = b"Exif\0\0"
PNG_SIGNATURE = b"\x89PNG\r\n\x1a\n"

PNG_TEXTS = (b"tEXt", b"zTXt", b"iTXt")
_PNG_COLOURS = (b"gAMA", b"cHRM", b"sRGB", b"cICP")
# EXIF and XMP are read from these, and written in their own way.
_PNG_TEXTS_READ = (b"XML:com.adobe.xmp\0", b"Raw profile type exif\0")

_PHOTOSHOP = b"Photoshop 3.0\0"
_THUMBNAILS = (0x0409, 0x040C)

# A block this large holds no camera data; JPEG could not carry it and others have no use for it.
MAX_EXIF_BYTES = 1 << 20

_ORIENTATION, _WIDTH, _HEIGHT = 0x0112, 0xA002, 0xA003
_EXIF_IFD, _GPS_IFD, _INTEROP_IFD = 0x8769, 0x8825, 0xA005
_TYPE_BYTES = {1: 1, 2: 1, 3: 2, 4: 4, 5: 8, 6: 1, 7: 1, 8: 2, 9: 4, 10: 8, 11: 4, 12: 8, 13: 4}

# Tags of a TIFF's own directory that describe the photograph rather than how its pixels are stored.
DESCRIPTIVE_TAGS = (270, 271, 272, 274, 305, 306, 315, 316, 33432)

# What Pillow, tifffile and the codecs are known to raise on damaged or hostile bytes.
DECODER_ERRORS = (
    OSError, SyntaxError, ValueError, TypeError, LookupError, AttributeError, EOFError,
    ArithmeticError, RuntimeError, struct.error, zlib.error,
)  # fmt: skip


class BadExifError(ValueError):
    """The EXIF block cannot be trusted; says why."""


class _ExifBlock:
    """An EXIF block whose numbers can be read and overwritten where they are."""

    def __init__(self, block: bytes) -> None:
        if len(block) > MAX_EXIF_BYTES:
            raise BadExifError(f"{len(block)} bytes")
        self.data = bytearray(block)
        self.order = {b"II*\0": "<", b"MM\0*": ">"}.get(block[:4], "")
        if not self.order:
            raise BadExifError("no TIFF header")
        self.first = self.number(4, "I")
        self.entries = self.directory(self.first)

    def number(self, at: int, kind: str) -> int:
        try:
            return int(struct.unpack_from(self.order + kind, self.data, at)[0])
        except struct.error as error:
            raise BadExifError("ends early") from error

    def directory(self, at: int) -> dict[int, tuple[int, int, int]]:
        """Tag to (type, count, position of the value) of the directory at `at`."""
        if at < 8:
            raise BadExifError("directory overlaps the header")
        entries: dict[int, tuple[int, int, int]] = {}
        for index in range(self.number(at, "H")):
            entry = at + 2 + 12 * index
            tag, kind, count = (
                self.number(entry, "H"),
                self.number(entry + 2, "H"),
                self.number(entry + 4, "I"),
            )
            size = _TYPE_BYTES.get(kind, 1) * count
            position = entry + 8 if size <= 4 else self.number(entry + 8, "I")
            if position + size > len(self.data):
                raise BadExifError(f"tag {tag} points outside the block")
            entries[tag] = (kind, count, position)
        return entries

    def write(self, entry: tuple[int, int, int], value: int) -> None:
        kind, _, position = entry
        if kind in (3, 4):
            struct.pack_into(self.order + ("H" if kind == 3 else "I"), self.data, position, value)

    @property
    def orientation(self) -> int:
        if _ORIENTATION not in self.entries:
            return 1
        kind, count, position = self.entries[_ORIENTATION]
        value = self.number(position, "H" if kind == 3 else "I") if kind in (3, 4) and count == 1 else 0
        if not 1 <= value <= 8:
            raise BadExifError(f"orientation {value}, expected 1 to 8")
        return value


def without_prefix(exif: bytes) -> bytes:
    """The EXIF block without the marker that JPEG and some WebP writers put before it."""
    return exif.removeprefix(EXIF_PREFIX)


def exif_orientation(exif: bytes) -> int:
    """Orientation 1 to 8 of an EXIF block; 1 when it has none.

    Raises:
        BadExifError: the block is damaged, huge, or its orientation is not 1 to 8.
    """
    return _ExifBlock(exif).orientation


def upright_exif(exif: bytes, height: int, width: int) -> bytes:
    """The block for upright pixels: orientation 1, size as given, no thumbnail, all else byte for byte.

    The thumbnail goes because it shows the photo as it was: sideways, and with its shadow.
    """
    block = _ExifBlock(exif)
    if _ORIENTATION in block.entries:
        block.write(block.entries[_ORIENTATION], 1)
    next_directory = block.first + 2 + 12 * block.number(block.first, "H")
    if next_directory + 4 <= len(block.data):
        struct.pack_into(block.order + "I", block.data, next_directory, 0)
    if _EXIF_IFD in block.entries:
        try:
            camera = block.directory(block.number(block.entries[_EXIF_IFD][2], "I"))
        except BadExifError:
            # Cut-off maker's notes are common and harm nobody; the size tags are a courtesy.
            camera = {}
        for tag, value in ((_WIDTH, width), (_HEIGHT, height)):
            if tag in camera:
                block.write(camera[tag], value)
    return bytes(block.data)


def upright_xmp(xmp: bytes) -> bytes:
    """The XMP packet with its copy of the orientation reset to 1.

    >>> upright_xmp(b'<x tiff:Orientation="6"/>')
    b'<x tiff:Orientation="1"/>'
    """
    return re.sub(rb'(tiff:Orientation(?:="|>))[0-9]', rb"\g<1>1", xmp)


def descriptive_exif(source: Image.Exif, offset: int = 8) -> bytes | None:
    """EXIF made of the tags that describe the photograph, camera data and position, without storage tags.

    A TIFF keeps both kinds in one directory, so its EXIF has to be picked out.

    Args:
        source: tags of a TIFF or of an EXIF block.
        offset: where in the final file the directory will stand, 8 bytes of header before it not counted.

    Raises:
        BadExifError: a tag cannot be read.
    """
    own = Image.Exif()
    own.endian = "<"
    try:
        for tag in DESCRIPTIVE_TAGS:
            if tag in source:
                own[tag] = source[tag]
        for tag in (_EXIF_IFD, _GPS_IFD):
            if tag in source and (directory := source.get_ifd(tag)):
                # Without the interoperability directory: it would be kept as an offset into the old file.
                own[tag] = {key: value for key, value in directory.items() if key != _INTEROP_IFD}
        return without_prefix(own.tobytes(offset)) if len(own) else None
    except DECODER_ERRORS as error:
        raise BadExifError(str(error)) from error


def can_be_rewritten(exif: bytes) -> bool:
    """True when all of an EXIF block can be read, as formats need that do not store it byte for byte."""
    try:
        tags = Image.Exif()
        tags.load(exif)
        descriptive_exif(tags)
    except DECODER_ERRORS:
        return False
    return True


def tiff_with_exif(tiff: bytes, exif: bytes) -> bytes:
    """A little-endian TIFF with the tags of an EXIF block added to its first directory.

    The block and a longer directory are appended and the header is pointed at it; offsets in a TIFF count
    from the file's start, so that all that was there stays valid.
    """
    tags = Image.Exif()
    tags.load(exif)
    data = bytearray(tiff + b"\0" * (len(tiff) % 2))
    start = len(data)
    block = descriptive_exif(tags, start)
    if block is None:
        return tiff
    data += block[8:]  # the directory and its values, without the header before them
    data += b"\0" * (len(data) % 2)
    first = int(struct.unpack_from("<I", data, 4)[0])
    # Sorted by tag, as the format demands; where both have one, the picture's own structure wins.
    merged = dict(sorted((_tiff_entries(data, start) | _tiff_entries(data, first)).items()))
    struct.pack_into("<I", data, 4, len(data))
    return bytes(data) + struct.pack("<H", len(merged)) + b"".join(merged.values()) + b"\0\0\0\0"


def _tiff_entries(data: bytearray, at: int) -> dict[int, bytes]:
    """Tag to raw 12-byte entry of the little-endian directory at `at`."""
    count = int(struct.unpack_from("<H", data, at)[0])
    entries = (bytes(data[at + 2 + 12 * i : at + 14 + 12 * i]) for i in range(count))
    return {int.from_bytes(entry[:2], "little"): entry for entry in entries}


def icc_colour_space(icc: bytes) -> str | None:
    """Colour space of an ICC profile ("RGB", "GRAY", "CMYK", "Lab"); None when the profile is broken."""
    from PIL import ImageCms

    try:
        profile: Any = ImageCms.ImageCmsProfile(io.BytesIO(icc)).profile
        return str(profile.xcolor_space).strip()
    except (*DECODER_ERRORS, ImageCms.PyCMSError):
        return None


def resolution(info: dict[Any, Any]) -> tuple[float, float] | None:
    """Dots per inch from Pillow's `info`; None when absent or nonsense."""
    try:
        horizontal, vertical = (float(value) for value in info["dpi"])
    except (KeyError, TypeError, ValueError, ZeroDivisionError):
        return None
    if not all(math.isfinite(value) and 0 < value < 1e5 for value in (horizontal, vertical)):
        return None
    return horizontal, vertical


# Luminance quantisation of ITU-T T.81, table K.1, row by row.
_T81_LUMINANCE = np.array([
    16, 11, 10, 16, 24, 40, 51, 61, 12, 12, 14, 19, 26, 58, 60, 55, 14, 13, 16, 24, 40, 57, 69, 56,
    14, 17, 22, 29, 51, 87, 80, 62, 18, 22, 37, 56, 68, 109, 103, 77, 24, 35, 55, 64, 81, 104, 113, 92,
    49, 64, 78, 87, 103, 121, 120, 101, 72, 92, 95, 98, 112, 100, 103, 99,
])  # fmt: skip


def jpeg_quality(table: list[int]) -> int:
    """Quality 1 to 100 at which libjpeg's luminance table comes closest to `table` (64 steps, any order).

    Cameras use their own tables; the sum of the steps is what compares across them.
    """
    quality = np.arange(1, 101)
    scale = np.where(quality < 50, 5000 // quality, 200 - 2 * quality)
    steps = np.clip((_T81_LUMINANCE[None, :] * scale[:, None] + 50) // 100, 1, 255)  # (100, 64)
    return int(quality[np.abs(steps.sum(axis=1) - sum(table)).argmin()])


def png_chunks(data: bytes) -> Iterator[tuple[bytes, bytes]]:
    """The chunks of a PNG in order, as (type, payload); ends quietly where the file does."""
    at = len(PNG_SIGNATURE)
    while at + 12 <= len(data):
        length, kind = struct.unpack_from(">I4s", data, at)
        yield kind, data[at + 8 : at + 8 + length]
        at += 12 + length


def png_chunk(kind: bytes, payload: bytes) -> bytes:
    """One PNG chunk with its length and checksum."""
    return struct.pack(">I", len(payload)) + kind + payload + struct.pack(">I", zlib.crc32(kind + payload))


def png_without(data: bytes, kinds: Collection[bytes]) -> bytes:
    """The PNG without its chunks of these kinds."""
    kept = [data[: len(PNG_SIGNATURE)]]
    at = len(PNG_SIGNATURE)
    while at + 12 <= len(data):
        length, kind = struct.unpack_from(">I4s", data, at)
        if kind not in kinds:
            kept.append(data[at : at + 12 + length])
        at += 12 + length
    return b"".join(kept)


def has_readable_profile(png: bytes) -> bool:
    """True when the PNG's colour profile unpacks to at most a megabyte, more than which Pillow refuses."""
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
    """A PNG's chunks that say what its colours mean and what somebody wrote about it, but for EXIF and XMP."""
    return b"".join(
        png_chunk(kind, payload)
        for kind, payload in png_chunks(data)
        if kind in _PNG_COLOURS or (kind in PNG_TEXTS and not payload.startswith(_PNG_TEXTS_READ))
    )


def png_with_blocks(png: bytes, blocks: bytes) -> bytes:
    """The PNG with chunks put behind its header."""
    header_end = len(PNG_SIGNATURE) + 25  # IHDR: 4 length, 4 type, 13 payload, 4 checksum
    return png[:header_end] + blocks + png[header_end:]


def holds_text(blocks: bytes) -> bool:
    """Whether blocks that `png_blocks` or `jpeg_blocks` made hold anything that somebody wrote."""
    return blocks.startswith(b"\xff") or any(kind in blocks for kind in PNG_TEXTS)


def jpeg_blocks(segments: Iterable[tuple[str, bytes]]) -> bytes:
    """A JPEG's comments and IPTC blocks as its file holds them, from Pillow's list of segments.

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
    """A Photoshop block without the small pictures in it, which show the photo as it was, with its shadow."""
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
