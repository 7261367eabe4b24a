"""EXIF and XMP blocks: orientation, and what describes the photograph.

EXIF is patched in place, never rewritten: a rewrite moves the maker's notes, whose offsets count from the
block's start, and cameras' own software then no longer reads them.
"""

from __future__ import annotations

import math
import re
import struct
from typing import Any

from PIL import Image

from shadowmaskformer.photo.blocks import DECODER_ERRORS

EXIF_PREFIX = b"Exif\0\0"

# A block this large holds no camera data; JPEG could not carry it and others have no use for it.
MAX_EXIF_BYTES = 1 << 20

_ORIENTATION, _WIDTH, _HEIGHT = 0x0112, 0xA002, 0xA003
_EXIF_IFD, _GPS_IFD, _INTEROP_IFD = 0x8769, 0x8825, 0xA005
_TYPE_BYTES = {1: 1, 2: 1, 3: 2, 4: 4, 5: 8, 6: 1, 7: 1, 8: 2, 9: 4, 10: 8, 11: 4, 12: 8, 13: 4}

# Tags of a TIFF's own directory that describe the photograph rather than how its pixels are stored.
DESCRIPTIVE_TAGS = (270, 271, 272, 274, 305, 306, 315, 316, 33432)


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


def resolution(info: dict[Any, Any]) -> tuple[float, float] | None:
    """Dots per inch from Pillow's `info`; None when absent or nonsense."""
    try:
        horizontal, vertical = (float(value) for value in info["dpi"])
    except (KeyError, TypeError, ValueError, ZeroDivisionError):
        return None
    if not all(math.isfinite(value) and 0 < value < 1e5 for value in (horizontal, vertical)):
        return None
    return horizontal, vertical
