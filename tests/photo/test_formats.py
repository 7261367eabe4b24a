from __future__ import annotations

import struct
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

from shadowmaskformer import photo
from shadowmaskformer.errors import ConfigError, ImageReadError, ImageTooLargeError, NotAnImageError
from shadowmaskformer.photo.decode import Reading, Stored
from shadowmaskformer.photo.formats import FORMATS, Format


def test_every_row_is_whole() -> None:
    endings = [ending for format in FORMATS.values() for ending in format.endings]
    assert len(endings) == len(set(endings))
    assert photo.endings() == set(endings)
    for name, format in FORMATS.items():
        assert format.name == name
        assert all(ending.startswith(".") and ending == ending.lower() for ending in format.endings)
        assert photo.find_format(name) is photo.find_format(format.label) is format
        assert photo.format_of_path(f"a/b{format.endings[0].upper()}") is format
        assert format.encode or (format.exif, format.icc, format.xmp, format.lossy) == ("none", False, False, False)


# A new format is one row and its decoder


def decode_farbfeld(data: bytes, reading: Reading) -> Stored:
    """A toy: farbfeld has a header of 16 bytes, then 16-bit RGBA."""
    width, height = struct.unpack_from(">II", data, 8)
    reading.check_size(width, height)
    return Stored(np.frombuffer(data, ">u2", width * height * 4, 16).reshape(height, width, 4).astype(np.uint16))


def encode_farbfeld(picture: photo.Photo, layers: NDArray[Any], quality: int | None) -> bytes:
    opaque = np.full((*layers.shape[:2], 1), 65535, np.uint16)
    layers = layers if layers.shape[2] == 4 else np.concatenate((layers, opaque), axis=2)
    return b"farbfeld" + struct.pack(">II", picture.width, picture.height) + layers.astype(">u2").tobytes()


FARBFELD = Format(
    name="FARBFELD",
    label="farbfeld",
    endings=(".ff",),
    recognise=lambda start: start.startswith(b"farbfeld"),
    decode=decode_farbfeld,
    depths=("uint16",),
    alpha=True,
)


def test_a_row_and_its_decoder_are_a_new_format(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    layers = np.random.default_rng(0).integers(0, 65536, (32, 48, 4), np.uint16)
    path = tmp_path / "beach.ff"
    path.write_bytes(b"farbfeld" + struct.pack(">II", 48, 32) + layers.astype(">u2").tobytes())
    monkeypatch.setitem(FORMATS, "FARBFELD", FARBFELD)
    found = photo.read_photo(path)
    assert found.format == "FARBFELD"
    assert found.warnings == ()
    np.testing.assert_array_equal(found.pixels, layers[..., :3])
    np.testing.assert_array_equal(found.alpha, layers[..., 3])
    assert ".ff" in photo.endings()
    with pytest.raises(ImageTooLargeError, match=r"beach\.ff: 48x32"):
        photo.read_photo(path, max_pixels=1000)
    with pytest.raises(ImageReadError, match="damaged or incomplete farbfeld"):
        photo.read_photo(path.read_bytes()[:500])
    with pytest.raises(NotAnImageError, match="HEIC or farbfeld"):
        photo.read_photo(b"words")
    # Without an encoder it is only read.
    assert photo.choose_format("FARBFELD")[0].name == "PNG"
    with pytest.raises(ConfigError, match="cannot write 'ff'"):
        photo.encode_photo(found, format="ff")
    monkeypatch.setitem(FORMATS, "FARBFELD", replace(FARBFELD, encode=encode_farbfeld))
    assert photo.encode_photo(found) == photo.file_of(found) == path.read_bytes()
    assert photo.encoding_losses(found) == []
    assert photo.encoding_losses(photo.Photo(np.zeros((1, 1, 3), np.uint8)), "ff") == []
