"""EXIF blocks, and the orientation in XMP.

EXIF is patched in place, never rewritten. A rewrite would move the maker's notes, whose offsets count from the
start of the block, and camera software could no longer read them.
"""

from __future__ import annotations

import re
import struct
from typing import NamedTuple

from PIL import Image

from shadowmaskformer.photo.blocks import DECODER_ERRORS

EXIF_PREFIX = b"Exif\0\0"

# A larger block holds no camera data, and JPEG could not store it.
MAX_EXIF_BYTES = 1 << 20

_ORIENTATION, _WIDTH, _HEIGHT = 0x0112, 0xA002, 0xA003
_EXIF_IFD, _GPS_IFD, _INTEROP_IFD = 0x8769, 0x8825, 0xA005
_SHORT, _LONG = 3, 4
_TYPE_BYTES = {1: 1, 2: 1, 3: 2, 4: 4, 5: 8, 6: 1, 7: 1, 8: 2, 9: 4, 10: 8, 11: 4, 12: 8, 13: 4}

# Tags of a TIFF directory that describe the photograph rather than how its pixels are stored.
DESCRIPTIVE_TAGS = (270, 271, 272, 274, 305, 306, 315, 316, 33432)


class BadExifError(ValueError):
    """The EXIF block is damaged; the message says where."""


class _Entry(NamedTuple):
    """One tag: its type, number of values, and the positions of its 12-byte entry and of its value."""

    kind: int
    length: int
    at: int
    value_at: int


class ExifBlock:
    """An EXIF block whose numbers can be read and overwritten in place.

    Args:
        block: the block without prefix.

    Raises:
        BadExifError: the block is damaged or huge.
    """

    def __init__(self, block: bytes) -> None:
        if len(block) > MAX_EXIF_BYTES:
            raise BadExifError(f"{len(block)} bytes")
        self._data = bytearray(block)
        self._order = {b"II*\0": "<", b"MM\0*": ">"}.get(block[:4], "")
        if not self._order:
            raise BadExifError("no TIFF header")
        self._first = self._number(4, "I")
        self._entries = self._directory(self._first)

    @property
    def orientation(self) -> int:
        """The orientation as stored: 1 when the block has none, 0 when it is not a number."""
        entry = self._entries.get(_ORIENTATION)
        if entry is None:
            return 1
        if entry.kind not in (_SHORT, _LONG) or entry.length != 1:
            return 0
        return self._number(entry.value_at, "H" if entry.kind == _SHORT else "I")

    def upright(self, height: int, width: int) -> bytes:
        """Return the block for upright pixels: orientation 1, this size, no thumbnail; the rest is unchanged.

        The thumbnail is unlinked because it shows the photo as it was, sideways and with its shadow.
        """
        entry = self._entries.get(_ORIENTATION)
        if entry is not None and self.orientation != 1:
            # The whole entry is replaced, because its type may be wrong too.
            struct.pack_into(self._order + "HHIHH", self._data, entry.at, _ORIENTATION, _SHORT, 1, 1, 0)
        next_directory = self._first + 2 + 12 * self._number(self._first, "H")
        if next_directory + 4 <= len(self._data):
            struct.pack_into(self._order + "I", self._data, next_directory, 0)
        if _EXIF_IFD in self._entries:
            try:
                camera = self._directory(self._number(self._entries[_EXIF_IFD].value_at, "I"))
            except BadExifError:
                # Truncated maker's notes are common and harmless, and the size tags are optional.
                camera = {}
            for tag, value in ((_WIDTH, width), (_HEIGHT, height)):
                if tag in camera:
                    self._write(camera[tag], value)
        return bytes(self._data)

    def _number(self, at: int, kind: str) -> int:
        try:
            return int(struct.unpack_from(self._order + kind, self._data, at)[0])
        except struct.error as error:
            raise BadExifError("ends early") from error

    def _directory(self, at: int) -> dict[int, _Entry]:
        if at < 8:
            raise BadExifError("directory overlaps the header")
        entries: dict[int, _Entry] = {}
        for index in range(self._number(at, "H")):
            entry = at + 2 + 12 * index
            tag, kind, count = (
                self._number(entry, "H"),
                self._number(entry + 2, "H"),
                self._number(entry + 4, "I"),
            )
            size = _TYPE_BYTES.get(kind, 1) * count
            value_at = entry + 8 if size <= 4 else self._number(entry + 8, "I")
            if value_at + size > len(self._data):
                raise BadExifError(f"tag {tag} points outside the block")
            entries[tag] = _Entry(kind, count, entry, value_at)
        return entries

    def _write(self, entry: _Entry, value: int) -> None:
        if entry.kind in (_SHORT, _LONG):
            struct.pack_into(self._order + ("H" if entry.kind == _SHORT else "I"), self._data, entry.value_at, value)


def upright_xmp(xmp: bytes) -> bytes:
    """Return the XMP packet with its copy of the orientation reset to 1.

    >>> upright_xmp(b'<x tiff:Orientation="6"/>')
    b'<x tiff:Orientation="1"/>'
    """
    return re.sub(rb'(tiff:Orientation(?:="|>))[0-9]', rb"\g<1>1", xmp)


def descriptive_exif(source: Image.Exif, offset: int = 8) -> bytes | None:
    """Return EXIF made of the tags that describe the photograph, its camera and position, without storage tags.

    A TIFF keeps both kinds of tags in one directory, so its EXIF has to be picked out.

    Args:
        source: tags of a TIFF or of an EXIF block.
        offset: position of the directory in the final file, without the 8-byte header.

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
                # The interoperability directory is left out: Pillow would keep it as an offset into the old file.
                own[tag] = {key: value for key, value in directory.items() if key != _INTEROP_IFD}
        return own.tobytes(offset).removeprefix(EXIF_PREFIX) if len(own) else None
    except DECODER_ERRORS as error:
        raise BadExifError(str(error)) from error


def can_be_rewritten(exif: bytes) -> bool:
    """Return True when every tag of the block is readable, which formats need that do not store it byte for byte."""
    try:
        tags = Image.Exif()
        tags.load(exif)
        descriptive_exif(tags)
    except DECODER_ERRORS:
        return False
    return True


def tiff_with_exif(tiff: bytes, exif: bytes) -> bytes:
    """Return a little-endian TIFF with the tags of an EXIF block added to its first directory.

    The block and a longer directory are appended, and the header is pointed at the directory. Offsets in a TIFF
    count from the start of the file, so the existing ones stay valid.
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
    # Sorted by tag, as the format requires. Where both have a tag, the TIFF's own value wins.
    merged = dict(sorted((_tiff_entries(data, start) | _tiff_entries(data, first)).items()))
    struct.pack_into("<I", data, 4, len(data))
    return bytes(data) + struct.pack("<H", len(merged)) + b"".join(merged.values()) + b"\0\0\0\0"


def _tiff_entries(data: bytearray, at: int) -> dict[int, bytes]:
    """Return the little-endian directory at `at` as a map from tag to raw 12-byte entry."""
    count = int(struct.unpack_from("<H", data, at)[0])
    entries = (bytes(data[at + 2 + 12 * i : at + 14 + 12 * i]) for i in range(count))
    return {int.from_bytes(entry[:2], "little"): entry for entry in entries}
