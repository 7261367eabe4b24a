from __future__ import annotations

import io
import os
import struct
import subprocess
import sys
import zlib
from contextlib import suppress
from pathlib import Path
from typing import Any

import imagecodecs
import numpy as np
import pytest
import tifffile
from PIL import Image, ImageFile, PngImagePlugin

from pictures import SIZE, encoded, exif_block, picture, srgb_profile, tiff
from shadowmaskformer.errors import (
    ArrayError,
    ImageReadError,
    ImageTooLargeError,
    MissingExtraError,
    NotAnImageError,
)
from shadowmaskformer.masks import read_mask
from shadowmaskformer.photo import Metadata, count_pixels, encode_photo, encoding_losses, read_photo
from shadowmaskformer.photo.blocks import png_chunk

FORMATS = ["JPEG", "PNG", "WEBP", "TIFF", "BMP", "GIF", "AVIF"]


def with_chunk(png: bytes, kind: bytes, payload: bytes) -> bytes:
    return png[:33] + png_chunk(kind, payload) + png[33:]


# What can be given


def test_refused_folders_leave_no_descriptor_open(tmp_path: Path) -> None:
    def count() -> int:
        return len(list(Path("/proc/self/fd").iterdir())) if sys.platform == "linux" else 0

    before = count()
    for _ in range(20):
        with pytest.raises(ImageReadError, match="a folder"):
            read_photo(tmp_path)
    assert count() == before


def test_dropping_metadata_keeps_the_colours() -> None:
    exif = Image.Exif()
    exif[0x8298] = "me"
    for format in ("PNG", "JPEG", "WEBP", "TIFF"):
        photo = read_photo(encoded(picture(), format, icc_profile=srgb_profile(), exif=exif), drop_metadata=True)
        assert photo.metadata.icc == srgb_profile()
        assert photo.metadata.exif is None


def test_cmyk_whose_profile_converts_nothing_is_read_by_formula() -> None:
    profile = bytearray(srgb_profile())
    profile[16:20] = b"CMYK"  # the header says so, the tables do not
    inks = Image.fromarray(picture()).convert("CMYK")
    photo = read_photo(encoded(inks, "JPEG", icc_profile=bytes(profile)))
    assert photo.pixels.shape == (*SIZE, 3)
    assert [line for line in photo.warnings if "plain formula" in line]


@pytest.mark.parametrize("format", FORMATS)
def test_each_format_is_read_by_content(format: str) -> None:
    photo = read_photo(encoded(picture(), format))
    assert photo.format == format
    assert photo.pixels.shape == (*SIZE, 3)
    assert photo.pixels.dtype == np.uint8
    assert photo.warnings == ()
    assert not photo.gray
    assert photo.alpha is None
    tolerance = 24 if format in ("JPEG", "WEBP", "AVIF", "GIF") else 0
    assert np.abs(photo.pixels.astype(int) - picture()).max() <= tolerance


def test_paths_bytes_file_objects_and_pillow_images_give_the_same_photo(tmp_path: Path) -> None:
    data = encoded(picture())
    path = tmp_path / "ä b\n.png"
    path.write_bytes(data)
    stream = io.BytesIO(data)
    for source in (path, str(path), data, bytearray(data), memoryview(data), stream, Image.open(io.BytesIO(data))):
        photo = read_photo(source)
        assert photo.format == "PNG"
        np.testing.assert_array_equal(photo.pixels, picture())
    assert not stream.closed


def test_a_name_that_is_not_utf8_works(tmp_path: Path) -> None:
    path = os.fsdecode(os.fsencode(tmp_path) + b"/\xff.png")
    Path(path).write_bytes(encoded(picture()))
    assert read_photo(path).width == 48
    Path(path).write_bytes(b"text")
    with pytest.raises(NotAnImageError) as caught:
        read_photo(path)
    str(caught.value).encode("utf-8")


def test_a_text_file_object_is_refused() -> None:
    with pytest.raises(ImageReadError, match="mode 'rb'"):
        read_photo(io.StringIO("text"))  # type: ignore[arg-type]


def test_a_closed_file_object_is_an_error_of_ours(tmp_path: Path) -> None:
    path = tmp_path / "photo.png"
    path.write_bytes(encoded(picture()))
    file = path.open("rb")
    file.close()
    with pytest.raises(ImageReadError, match=r"photo\.png: cannot be read .*closed file.*open it again"):
        read_photo(file)


def test_warnings_carry_the_name_of_the_photo(tmp_path: Path) -> None:
    path = tmp_path / "beach.png"
    path.write_bytes(encoded(picture(), "PNG", icc_profile=b"broken"))
    with path.open("rb") as file, Image.open(path) as image:
        for source, name in (
            (path, str(path)),
            (file, str(path)),
            (image, str(path)),
            (path.read_bytes(), "the given"),
        ):
            photo = read_photo(source)
            assert photo.name.startswith(name)
            assert len(photo.warnings) == 1
            assert all(line.startswith(photo.name) for line in (*photo.warnings, *encoding_losses(photo, "BMP")))
    photo = read_photo(path, name="holiday 3")
    assert photo.warnings[0].startswith("holiday 3: ")


def test_floats_run_from_0_to_1() -> None:
    photo = read_photo(encoded(np.array([[[0, 51, 255]]], np.uint8)))
    np.testing.assert_allclose(photo.as_float(), [[[0, 0.2, 1]]], atol=1e-7)
    assert photo.as_float().dtype == np.float32


@pytest.mark.parametrize("size", [(1, 1), (1, 300), (300, 1)])
@pytest.mark.parametrize("format", FORMATS)
def test_pictures_of_one_pixel_width_are_read(size: tuple[int, int], format: str) -> None:
    assert read_photo(encoded(np.full((*size, 3), 90, np.uint8), format)).pixels.shape == (*size, 3)


# What cannot


@pytest.mark.parametrize("address", ["https://example.org/a.jpg", "file:///a.jpg"])
def test_addresses_are_not_fetched(address: str) -> None:
    with pytest.raises(ImageReadError, match="download"):
        read_photo(address)


def test_a_missing_file_is_named(tmp_path: Path) -> None:
    with pytest.raises(ImageReadError, match=r"gone\.jpg: no such file; check its name"):
        read_photo(tmp_path / "gone.jpg")


def test_a_folder_is_refused(tmp_path: Path) -> None:
    with pytest.raises(ImageReadError, match="folder"):
        read_photo(tmp_path)


@pytest.mark.skipif(not hasattr(os, "mkfifo"), reason="no FIFOs on this system")
def test_a_fifo_neither_hangs_nor_is_read(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe.png")
    with pytest.raises(ImageReadError, match="not a regular file"):
        read_photo(tmp_path / "pipe.png")


@pytest.mark.skipif(not Path("/dev/zero").exists(), reason="no device files on this system")
def test_a_device_is_refused() -> None:
    with pytest.raises(ImageReadError, match="not a regular file"):
        read_photo("/dev/zero")


@pytest.mark.skipif(not hasattr(os, "geteuid") or os.geteuid() == 0, reason="root may read everything")
def test_a_file_without_permission_is_named(tmp_path: Path) -> None:
    path = tmp_path / "secret.png"
    path.write_bytes(encoded(picture()))
    path.chmod(0)
    with pytest.raises(ImageReadError, match="secret"):
        read_photo(path)


def test_a_name_with_a_zero_byte_is_refused() -> None:
    with pytest.raises(ImageReadError, match="file name"):
        read_photo("a\0b.png")


@pytest.mark.parametrize(
    ("data", "found"),
    [
        (b"just some words", "text"),
        (b"<!DOCTYPE html><html></html>", "HTML"),
        (b'<?xml version="1.0"?><svg xmlns="http://www.w3.org/2000/svg"/>', "SVG"),
        (b"%PDF-1.7\n", "PDF"),
        (b"%!PS-Adobe-3.0 EPSF-3.0\n", "PostScript"),
        (b"8BPS\0\x01", "Photoshop"),
        (b"SIMPLE  =                    T", "FITS"),
        (b"PK\x03\x04....", "ZIP"),
        (bytes(range(256)), "unknown content"),
        (b"BM, which starts like a bitmap", "text"),
    ],
)
@pytest.mark.parametrize("way", ["bytes", "path"])
def test_other_files_are_refused_by_name_of_what_they_are(data: bytes, found: str, way: str, tmp_path: Path) -> None:
    source: Any = data
    if way == "path":
        source = tmp_path / "photo.jpg"
        source.write_bytes(data)
    with pytest.raises(NotAnImageError, match=rf"{found}.*expected JPEG, PNG"):
        read_photo(source)


def test_nothing_at_all_is_called_empty(tmp_path: Path) -> None:
    path = tmp_path / "photo.jpg"
    path.write_bytes(b"")
    for source, message in (
        (b"", "the given bytes are empty"),
        (io.BytesIO(), "the given file object is empty"),
        (path, r"photo\.jpg is empty"),
    ):
        with pytest.raises(NotAnImageError, match=f"{message}; copy the picture again$"):
            read_photo(source)
    with pytest.raises(NotAnImageError, match=r"^standard input is empty; copy"):
        read_photo(b"", name="standard input")


def test_formats_that_pillow_knows_but_we_do_not_trust_are_refused() -> None:
    for format in ("PPM", "TGA", "PCX", "ICO", "SGI"):
        with pytest.raises(NotAnImageError):
            read_photo(encoded(picture(), format))


def test_camera_raw_is_not_mistaken_for_its_thumbnail(tmp_path: Path) -> None:
    dng = tiff(picture(), photometric="rgb", extratags=[(50706, "B", 4, b"\1\4\0\0", True)])
    with pytest.raises(NotAnImageError, match="raw"):
        read_photo(dng)
    path = tmp_path / "photo.NEF"
    path.write_bytes(tiff(picture(), photometric="rgb"))
    with pytest.raises(NotAnImageError, match="raw"):
        read_photo(path)


@pytest.mark.parametrize("part", [0.3, 0.6, 0.95])
@pytest.mark.parametrize("format", ["JPEG", "JPEG progressive", "PNG", "WEBP", "TIFF", "BMP", "GIF", "AVIF", "HEIF",
                                    "PNG 16", "TIFF 16", "TIFF 16 deflated"])  # fmt: skip
def test_a_truncated_file_is_reported_not_filled_with_gray(format: str, part: float) -> None:
    noise = np.random.default_rng(0).integers(0, 65536, (*SIZE, 3), dtype=np.uint16)
    if format == "PNG 16":
        data = bytes(imagecodecs.png_encode(noise))
    elif format.startswith("TIFF 16"):
        data = tiff(noise, photometric="rgb", compression="zlib" if "defl" in format else None)
    elif format == "HEIF":
        data = heic(Image.fromarray((noise >> 8).astype(np.uint8)))
    else:
        name, _, progressive = format.partition(" ")
        data = encoded((noise >> 8).astype(np.uint8), name, **({"progressive": True} if progressive else {}))
    with pytest.raises(ImageReadError, match="copy it again"):
        read_photo(data[: int(len(data) * part)])


def test_a_jpeg_that_lost_its_middle_but_not_its_end_mark_is_reported() -> None:
    data = encoded(np.random.default_rng(0).integers(0, 256, (96, 64, 3), dtype=np.uint8), "JPEG")
    photo = read_photo(data[: len(data) // 2] + b"\xff\xd9")
    assert any("the bottom is plain gray" in line for line in photo.warnings)


def test_the_switch_for_truncated_files_stays_off() -> None:
    assert ImageFile.LOAD_TRUNCATED_IMAGES is False


def test_damage_inside_a_png_is_reported() -> None:
    data = bytearray(encoded(np.random.default_rng(0).integers(0, 256, (*SIZE, 3), dtype=np.uint8)))
    data[len(data) // 2] ^= 0xFF
    with pytest.raises(ImageReadError, match="copy it again"):
        read_photo(bytes(data))


@pytest.mark.parametrize("format", FORMATS)
@pytest.mark.filterwarnings("ignore::UserWarning:PIL")  # Pillow reports the damage in its own way
def test_damaged_bytes_raise_only_our_errors(format: str) -> None:
    data = encoded(picture(), format)
    random = np.random.default_rng(1)
    for _ in range(60):
        broken = bytearray(data)
        for at in random.integers(0, min(len(data), 400), 4):
            broken[at] = random.integers(0, 256)
        with suppress(ImageReadError, NotAnImageError, ImageTooLargeError, ArrayError):
            read_photo(bytes(broken))


def test_a_wrong_extension_is_read_by_content_with_a_warning(tmp_path: Path) -> None:
    path = tmp_path / "photo.png"
    path.write_bytes(encoded(picture(), "JPEG"))
    photo = read_photo(path)
    assert photo.format == "JPEG"
    assert photo.warnings == (f"{path}: named like PNG but holds JPEG; read by its content",)


def test_what_hangs_on_a_polyglot_is_gone_after_encoding() -> None:
    photo = read_photo(encoded(picture(), "JPEG") + b"PK\x03\x04 evil.zip")
    assert b"evil" not in encode_photo(photo)


# Size


def packed_zeros(count: int) -> bytes:
    """A zlib stream of `count` zeros, made by repeating one block instead of compressing them all."""
    packer = zlib.compressobj(9, zlib.DEFLATED, -15)
    block = packer.compress(bytes(count // 1000)) + packer.flush(zlib.Z_FULL_FLUSH)
    return b"\x78\x01" + block * 1000 + b"\x03\0" + struct.pack(">HH", count % 65521, 1)


BOMB = """
import resource, sys
from shadowmaskformer.errors import ImageTooLargeError
from shadowmaskformer.photo import read_photo
try:
    read_photo(sys.argv[1])  # brings in what is imported late
except Exception:
    pass
before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
for path in sys.argv[2:]:
    try:
        read_photo(path)
    except ImageTooLargeError as error:
        assert "raise max_pixels" in str(error) or "exceeds" in str(error), error
    else:
        raise SystemExit(path)
print(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before)
"""


def growth_in_kilobytes(*paths: Path) -> int:
    """Memory that refusing the pictures took, measured in a process of its own."""
    tame = paths[0].with_name("tame.tif")
    tame.write_bytes(tiff(picture(), photometric="rgb"))
    command = [sys.executable, "-c", BOMB, str(tame), *map(str, paths)]
    return int(subprocess.run(command, capture_output=True, text=True, check=True).stdout)


@pytest.mark.skipif(sys.platform != "linux", reason="ru_maxrss is in kilobytes on Linux only")
def test_headers_that_announce_too_much_are_refused_with_flat_memory(tmp_path: Path) -> None:
    side = 65000
    jpeg = bytearray(encoded(picture(), "JPEG"))
    struct.pack_into(">HH", jpeg, jpeg.index(b"\xff\xc0") + 5, side, side)
    gif = bytearray(encoded(picture(), "GIF"))
    struct.pack_into("<HH", gif, 6, side, side)
    bmp = bytearray(encoded(picture(), "BMP"))
    struct.pack_into("<ii", bmp, 18, side, side)
    tif = bytearray(tiff(picture(), photometric="rgb"))
    with tifffile.TiffFile(io.BytesIO(bytes(tif))) as file:
        page: Any = file.pages.first
        for tag in ("ImageWidth", "ImageLength"):
            struct.pack_into("<H", tif, page.tags[tag].valueoffset, side)
    webp = bytearray(encoded(picture(4), "WEBP", lossless=True, exif=exif_block()))
    assert webp[12:16] == b"VP8X"
    webp[24:30] = (16382).to_bytes(3, "little") * 2
    paths = [tmp_path / name for name in ("a.jpg", "a.gif", "a.bmp", "a.tif", "a.webp")]
    for path, data in zip(paths, (jpeg, gif, bmp, tif, webp), strict=True):
        path.write_bytes(data)
    assert growth_in_kilobytes(*paths) < 20_000


@pytest.mark.skipif(sys.platform != "linux", reason="ru_maxrss is in kilobytes on Linux only")
@pytest.mark.parametrize("bits", [1, 8])
def test_a_bomb_of_20000_by_20000_is_refused_with_flat_memory(bits: int, tmp_path: Path) -> None:
    header = struct.pack(">IIBBBBB", 20000, 20000, bits, 0 if bits == 1 else 2, 0, 0, 0)
    row_bytes = 1 + (20000 // 8 if bits == 1 else 20000 * 3)
    path = tmp_path / "bomb.png"
    chunks = png_chunk(b"IHDR", header) + png_chunk(b"IDAT", packed_zeros(row_bytes * 20000))
    path.write_bytes(b"\x89PNG\r\n\x1a\n" + chunks + png_chunk(b"IEND", b""))
    # The decoded picture would take 1.2 GB (1-bit: 50 MB as stored, 400 MB as gray).
    assert growth_in_kilobytes(path) < 20_000


@pytest.mark.parametrize("format", ["JPEG", "PNG", "WEBP", "TIFF", "BMP", "GIF", "AVIF", "HEIF", "TIFF 16", "Pillow"])
def test_more_pixels_than_allowed_are_refused_with_the_remedy(format: str) -> None:
    source: Any
    if format == "TIFF 16":
        source = tiff(picture().astype(np.uint16), photometric="rgb")
    elif format == "HEIF":
        source = heic(Image.fromarray(picture()))
    elif format == "Pillow":
        source = Image.fromarray(picture())
    else:
        source = encoded(picture(), format)
    with pytest.raises(ImageTooLargeError, match=r"48x32 = 1,536 pixels.*1,535 allowed; .*raise max_pixels"):
        read_photo(source, max_pixels=1535)
    assert read_photo(source, max_pixels=1536).width == 48


def test_pillows_global_limit_is_neither_changed_nor_in_the_way(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Image, "MAX_IMAGE_PIXELS", 100)
    for format in ("JPEG", "PNG", "TIFF", "BMP", "AVIF"):
        assert read_photo(encoded(picture(), format)).width == 48
    assert Image.MAX_IMAGE_PIXELS == 100


def test_memory_running_out_is_reported_as_too_large(monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(*_: Any) -> None:
        raise MemoryError

    monkeypatch.setattr(ImageFile.ImageFile, "load", fail)
    with pytest.raises(ImageTooLargeError, match="memory"):
        read_photo(encoded(picture()))


# Blocks beside the pixels


@pytest.mark.parametrize("kind", ["zTXt", "iTXt", "iCCP"])
def test_a_png_whose_text_swells_is_refused_but_readable_without(kind: str) -> None:
    swollen = zlib.compress(b"\0" * 5_000_000)
    payload = {"zTXt": b"a\0\0", "iTXt": b"a\0\1\0\0\0", "iCCP": b"a\0\0"}[kind] + swollen
    data = with_chunk(encoded(picture()), kind.encode(), payload)
    with pytest.raises(ImageReadError, match="drop_metadata=True"):
        read_photo(data)
    np.testing.assert_array_equal(read_photo(data, drop_metadata=True).pixels, picture())


def test_64_megabytes_of_text_are_refused_but_readable_without() -> None:
    data = encoded(picture())
    chunk = png_chunk(b"zTXt", b"a\0\0" + zlib.compress(b"x" * 1_000_000))
    data = data[:33] + chunk * 70 + data[33:]
    with pytest.raises(ImageReadError, match="drop_metadata=True"):
        read_photo(data)
    np.testing.assert_array_equal(read_photo(data, drop_metadata=True).pixels, picture())


@pytest.mark.parametrize("orientation", range(1, 9))
@pytest.mark.parametrize("format", ["JPEG", "PNG", "WEBP", "TIFF", "AVIF", "PNG 16", "TIFF 16"])
def test_every_orientation_is_turned_upright_and_reset(orientation: int, format: str) -> None:
    # What each orientation does to an upright picture before it is stored; Exif 2.32, tag 274.
    stored = [
        lambda a: a, lambda a: a[:, ::-1], lambda a: a[::-1, ::-1], lambda a: a[::-1],
        lambda a: a.swapaxes(0, 1), lambda a: np.rot90(a), lambda a: a.swapaxes(0, 1)[::-1, ::-1],
        lambda a: np.rot90(a, -1),
    ][orientation - 1](picture())  # fmt: skip
    stored = np.ascontiguousarray(stored)
    block = exif_block(orientation)
    if format == "PNG 16":
        data = with_chunk(bytes(imagecodecs.png_encode(stored.astype(np.uint16) * 257)), b"eXIf", block[6:])
    elif format == "TIFF 16":
        data = tiff(stored.astype(np.uint16) * 257, photometric="rgb", extratags=[(274, "H", 1, orientation, True)])
    else:
        data = encoded(stored, format, exif=block)
    photo = read_photo(data)
    assert photo.pixels.shape == (*SIZE, 3)
    assert np.abs(photo.as_float() * 255 - picture()).max() < 24
    assert photo.warnings == ()
    again = read_photo(encode_photo(photo))
    assert again.pixels.shape == (*SIZE, 3)
    assert again.metadata.exif is not None
    tags = Image.Exif()
    tags.load(again.metadata.exif)
    assert tags.get(0x0112, 1) == 1
    if format != "TIFF 16":
        assert tags[0x010F] == "Camera Maker"


@pytest.mark.parametrize("orientation", [0, 9, 500])
def test_an_impossible_orientation_is_ignored_and_the_rest_of_exif_kept(orientation: int) -> None:
    photo = read_photo(encoded(picture(), "JPEG", exif=exif_block(orientation)), name="beach.jpg")
    assert photo.pixels.shape == (*SIZE, 3)
    assert photo.warnings == (f"beach.jpg: EXIF orientation {orientation} does not exist; the picture is not rotated",)
    again = read_photo(encode_photo(photo))
    assert again.warnings == ()
    assert again.metadata.exif is not None
    tags = Image.Exif()
    tags.load(again.metadata.exif)
    assert (tags[0x0112], tags[0x010F]) == (1, "Camera Maker")


def test_an_orientation_that_is_no_number_is_ignored_and_the_rest_of_exif_kept() -> None:
    text = struct.pack("<HHII", 0x0112, 2, 20, 40) + struct.pack(
        "<HHII", 0x010F, 2, 4, int.from_bytes(b"Ada\0", "little")
    )
    block = (b"II*\0" + struct.pack("<IH", 8, 2) + text + bytes(4)).ljust(40, b"\0") + b"sideways".ljust(20, b"\0")
    photo = read_photo(encoded(picture(), "JPEG", exif=b"Exif\0\0" + block))
    assert any("orientation" in line for line in photo.warnings)
    assert photo.metadata.exif is not None
    tags = Image.Exif()
    tags.load(photo.metadata.exif)
    assert (tags[0x0112], tags[0x010F]) == (1, "Ada")


@pytest.mark.parametrize(
    "block",
    [
        b"not a tiff header",
        b"II*\0\xff\xff\xff\x7f",
        b"II*\0\x08\0\0\0\xff\xff" + b"\1" * 20,
        b"MM\0*\0\0\0\x08\0\1\x01\x0f\0\2\0\0\xff\xff\0\0\0\x64",
        b"II*\0\0\0\0\0",
        b"II*\0\x08\0\0\0\0\0" + b"\0" * (2 << 20),
    ],
    ids=["words", "offset", "entries", "value", "loop", "huge"],
)
@pytest.mark.parametrize("format", ["JPEG", "PNG", "WEBP", "PNG 16"])
@pytest.mark.filterwarnings("ignore::UserWarning:PIL")  # Pillow reports the damage in its own way
def test_damaged_or_huge_exif_is_dropped_with_a_warning(block: bytes, format: str) -> None:
    if format == "JPEG":
        if len(block) > 60_000:
            pytest.skip("a JPEG cannot hold it")
        data = encoded(picture(), "JPEG", exif=b"Exif\0\0" + block)
    elif format == "WEBP":
        data = encoded(picture(), "WEBP", exif=block)
    elif format == "PNG":
        data = with_chunk(encoded(picture()), b"eXIf", block)
    else:
        data = with_chunk(bytes(imagecodecs.png_encode(picture().astype(np.uint16))), b"eXIf", block)
    photo = read_photo(data)
    assert photo.pixels.shape == (*SIZE, 3)
    assert photo.metadata.exif is None
    assert any("EXIF left out" in line for line in photo.warnings)


def test_the_sideways_thumbnail_with_its_shadow_is_unlinked_and_the_maker_note_stays_in_place() -> None:
    entries = [(0x0112, 3, 1, 6), (0x8769, 4, 1, 50)]
    block = b"II*\0" + struct.pack("<IH", 8, 2)
    block += b"".join(struct.pack("<HHII", *entry) for entry in entries) + struct.pack("<I", 200)
    block = block.ljust(50, b"\0") + struct.pack("<H", 3)
    block += struct.pack("<HHII", 0x927C, 7, 20, 120) + struct.pack("<HHII", 0xA002, 4, 1, 48)
    block += struct.pack("<HHII", 0xA003, 4, 1, 32) + b"\0\0\0\0"
    block = block.ljust(120, b"\0") + b"maker's private note".ljust(80, b"\0")
    block += struct.pack("<HHHIII", 1, 0x0103, 3, 1, 6, 0)
    exif = read_photo(encoded(picture(), "JPEG", exif=b"Exif\0\0" + block)).metadata.exif
    assert exif is not None
    assert exif[120:140] == b"maker's private note"
    assert struct.unpack_from("<I", exif, 34) == (0,)
    # Width and height of the upright picture, 48 by 32 turned.
    assert struct.unpack_from("<I", exif, 52 + 12 + 8) == (32,)
    assert struct.unpack_from("<I", exif, 52 + 24 + 8) == (48,)


def test_exif_hidden_in_a_pngs_text_is_found() -> None:
    block = exif_block(6)
    text = PngImagePlugin.PngInfo()
    text.add_text("Raw profile type exif", f"\nexif\n{len(block):8}\n{block.hex()}\n", zip=True)
    assert read_photo(encoded(picture(), "PNG", pnginfo=text)).pixels.shape == (48, 32, 3)


def test_the_orientation_in_xmp_is_reset_with_the_other() -> None:
    xmp = b'<x:xmpmeta xmlns:x="adobe:ns:meta/"><a tiff:Orientation="6"/></x:xmpmeta>'
    photo = read_photo(encoded(picture(), "JPEG", exif=exif_block(6), xmp=xmp))
    assert photo.metadata.xmp == xmp.replace(b'"6"', b'"1"')


def test_dropped_metadata_still_turn_the_picture_upright() -> None:
    photo = read_photo(encoded(picture(), "PNG", exif=exif_block(6), dpi=(300, 300)), drop_metadata=True)
    assert photo.pixels.shape == (48, 32, 3)
    assert photo.metadata == Metadata()


def test_dropped_metadata_do_not_cost_quality() -> None:
    data = encoded(picture(), "JPEG", quality=98, subsampling=1, exif=exif_block(1))
    about = read_photo(data, drop_metadata=True).metadata
    assert about.exif is None
    assert about.jpeg_quality == pytest.approx(98, abs=1)
    assert about.jpeg_subsampling == 1


@pytest.mark.parametrize("profile", [b"broken", srgb_profile()[:200]])
def test_a_broken_profile_is_taken_as_srgb_and_dropped(profile: bytes) -> None:
    photo = read_photo(encoded(picture(), "PNG", icc_profile=profile))
    np.testing.assert_array_equal(photo.pixels, picture())
    assert photo.metadata.icc is None
    assert any("colour profile left out" in line for line in photo.warnings)


def test_a_profile_for_other_channels_is_dropped() -> None:
    photo = read_photo(encoded(picture()[..., 0], "PNG", icc_profile=srgb_profile()))
    assert photo.metadata.icc is None
    assert any("is for RGB, the pixels are GRAY" in line for line in photo.warnings)


def test_pixels_with_a_profile_are_kept_as_stored() -> None:
    photo = read_photo(encoded(picture(), "PNG", icc_profile=srgb_profile()))
    np.testing.assert_array_equal(photo.pixels, picture())
    assert photo.metadata.icc == srgb_profile()
    assert photo.warnings == ()


# Colour models and depths


def test_cmyk_becomes_srgb_with_a_warning() -> None:
    ink = np.zeros((*SIZE, 4), np.uint8)
    ink[:, 24:] = (0, 255, 255, 0)
    for format in ("JPEG", "TIFF"):
        photo = read_photo(
            encoded(Image.fromarray(ink, "CMYK"), format, **({"quality": 95} if format == "JPEG" else {}))
        )
        assert np.all(photo.pixels[:, :20] > 245)
        assert np.all(photo.pixels[:, 30:, 0] > 245)
        assert np.all(photo.pixels[:, 30:, 1:] < 10)
        assert any("CMYK converted to sRGB" in line for line in photo.warnings)


def test_lab_becomes_srgb_with_a_warning() -> None:
    lab = Image.fromarray(np.full((*SIZE, 3), (128, 0, 0), np.uint8), "LAB")
    photo = read_photo(encoded(lab, "TIFF"))
    # L* = 50.2 is sRGB gray 119 (CIE 15, IEC 61966-2-1).
    np.testing.assert_allclose(photo.pixels, 119, atol=2)
    assert any("LAB converted to sRGB" in line for line in photo.warnings)


def test_gray_pictures_are_rgb_inside_and_remembered() -> None:
    gray = picture()[..., 0]
    photo = read_photo(encoded(gray))
    assert photo.gray
    np.testing.assert_array_equal(photo.pixels, np.repeat(gray[..., None], 3, axis=2))


def test_one_bit_pictures_are_black_and_white() -> None:
    bits = picture()[..., 0] > 120
    photo = read_photo(encoded(Image.fromarray(bits)))
    assert photo.gray
    np.testing.assert_array_equal(photo.pixels[..., 1], bits * np.uint8(255))


def test_palettes_become_rgb() -> None:
    image = Image.fromarray(picture()).quantize(16)
    np.testing.assert_array_equal(read_photo(encoded(image)).pixels, np.array(image.convert("RGB")))


def test_a_palette_with_transparency_keeps_it() -> None:
    image = Image.fromarray(picture()).quantize(16)
    photo = read_photo(encoded(image, "PNG", transparency=3))
    assert photo.alpha is not None
    np.testing.assert_array_equal(photo.alpha == 0, np.array(image) == 3)


@pytest.mark.parametrize("channels", [2, 4])
def test_alpha_is_set_aside(channels: int) -> None:
    layers = picture(channels)
    photo = read_photo(encoded(layers))
    assert photo.gray == (channels == 2)
    assert photo.alpha is not None
    np.testing.assert_array_equal(photo.alpha, layers[..., -1])
    np.testing.assert_array_equal(photo.pixels[..., 0], layers[..., 0])


@pytest.mark.parametrize("channels", [1, 2, 3, 4])
def test_16_bit_png_keeps_its_levels(channels: int) -> None:
    layers = picture(channels).astype(np.uint16) * 251 + 7
    photo = read_photo(bytes(imagecodecs.png_encode(layers[..., 0] if channels == 1 else layers)))
    assert photo.pixels.dtype == np.uint16
    np.testing.assert_array_equal(photo.pixels[..., 0], layers[..., 0])
    if channels >= 3:
        np.testing.assert_array_equal(photo.pixels, layers[..., :3])
    if channels in (2, 4):
        assert photo.alpha is not None
        np.testing.assert_array_equal(photo.alpha, layers[..., -1])


@pytest.mark.parametrize("options", [
    {}, {"byteorder": ">"}, {"planarconfig": "separate"}, {"compression": "lzw", "predictor": True},
    {"tile": (16, 16)}, {"bigtiff": True}, {"compression": "zstd"},
])  # fmt: skip
@pytest.mark.parametrize("dtype", [np.uint8, np.uint16, np.float32, np.float16])
def test_tiff_of_any_layout_keeps_its_levels(options: dict[str, Any], dtype: Any) -> None:
    if dtype is np.float16 and options.get("predictor"):
        pytest.skip("float16 has no such predictor")
    scale = {np.uint8: 255, np.uint16: 65535}.get(dtype, 1)
    rgb = (picture() / 255 * scale).astype(dtype)
    stored = np.ascontiguousarray(np.moveaxis(rgb, 2, 0)) if "planarconfig" in options else rgb
    photo = read_photo(tiff(stored, photometric="rgb", **options))
    assert photo.pixels.dtype == (dtype if scale > 1 else np.float32)
    np.testing.assert_array_equal(photo.pixels, rgb)


def test_a_deep_tiff_where_white_is_zero_is_inverted() -> None:
    gray = picture()[..., 0].astype(np.uint16) * 257
    photo = read_photo(tiff(gray, photometric="miniswhite"))
    np.testing.assert_array_equal(photo.pixels[..., 0], 65535 - gray)


@pytest.mark.parametrize("bits", [10, 12, 14])
def test_a_tiff_of_odd_depth_is_scaled_to_16_bits(bits: int) -> None:
    white = 2**bits - 1
    rgb = picture().astype(np.uint16) * white // 255
    rgb[0, 0] = white
    expected = np.rint(rgb * (65535 / white)).astype(np.uint16)
    np.testing.assert_array_equal(read_photo(tiff(rgb, photometric="rgb", bitspersample=bits)).pixels, expected)
    inverted = read_photo(tiff(rgb[..., 0], photometric="miniswhite", bitspersample=bits))
    np.testing.assert_array_equal(inverted.pixels[..., 0], 65535 - expected[..., 0])


def test_colours_stored_times_alpha_are_divided_by_it() -> None:
    layers = np.full((*SIZE, 4), (10000, 20000, 0, 32768), np.uint16)
    photo = read_photo(tiff(layers, photometric="rgb", extrasamples=["assocalpha"]))
    np.testing.assert_allclose(photo.pixels[0, 0], (20000, 40000, 0), atol=2)


def test_float_tiff_with_holes_is_refused_with_their_count() -> None:
    values = np.full((*SIZE, 3), 0.5, np.float32)
    values[0, :2, 0] = np.nan
    values[0, 2, 0] = np.inf
    with pytest.raises(ArrayError, match="3 of 4608 values are NaN or infinite"):
        read_photo(tiff(values, photometric="rgb"))


def test_float_tiff_outside_0_to_1_is_refused() -> None:
    with pytest.raises(ArrayError, match="0 to 1"):
        read_photo(tiff(picture().astype(np.float32), photometric="rgb"))


def test_a_tiff_of_many_channels_is_refused() -> None:
    with pytest.raises(NotAnImageError, match="9 channels"):
        read_photo(tiff(np.zeros((*SIZE, 9), np.uint8), photometric="minisblack", planarconfig="contig"))


def test_a_tiff_whose_tiles_are_a_bomb_is_refused() -> None:
    data = bytearray(tiff(picture(), photometric="rgb", tile=(16, 16)))
    with tifffile.TiffFile(io.BytesIO(bytes(data))) as file:
        page: Any = file.pages.first
        places = [page.tags[tag].valueoffset for tag in ("TileWidth", "TileLength")]
    for place in places:
        struct.pack_into("<H", data, place, 65520)
    with pytest.raises(ImageTooLargeError, match="65520x65520"):
        read_photo(bytes(data))


def test_32_bit_integers_are_refused_with_the_remedy() -> None:
    with pytest.raises(NotAnImageError, match="8 or 16 bits"):
        read_photo(tiff(picture().astype(np.uint32), photometric="rgb"))


@pytest.mark.parametrize("mode", ["I;16", "I", "F"])
def test_deep_pillow_images_keep_their_levels(mode: str) -> None:
    levels = picture()[..., 0].astype(np.uint16) * 257
    image = {
        "I;16": Image.fromarray(levels), "I": Image.fromarray(levels.astype(np.int32)),
        "F": Image.fromarray(levels.astype(np.float32) / 65535),
    }[mode]  # fmt: skip
    photo = read_photo(image)
    np.testing.assert_allclose(photo.as_float()[..., 0], levels / 65535, atol=1e-7)


def test_a_pillow_image_is_left_as_it_is() -> None:
    image = Image.fromarray(np.zeros((*SIZE, 4), np.uint8), "CMYK")
    image.info["icc_profile"] = b"broken"
    read_photo(image)
    assert image.mode == "CMYK"
    assert image.info == {"icc_profile": b"broken"}


# Several pictures in one file


@pytest.mark.parametrize("format", ["GIF", "PNG", "WEBP", "TIFF", "TIFF 16", "PNG 16"])
def test_of_an_animation_a_frame_has_to_be_chosen(format: str) -> None:
    # Flat frames: neither a palette nor lossy coding changes them much.
    levels = [20 * i + 10 for i in range(12)]
    frames = [np.full((*SIZE, 3), level, np.uint8) for level in levels]
    if format == "TIFF 16":
        data = tiff(np.stack(frames).astype(np.uint16) * 257, photometric="rgb")
    elif format == "PNG 16":
        data = bytes(imagecodecs.apng_encode(np.stack(frames).astype(np.uint16) * 257))
    else:
        images = [Image.fromarray(frame) for frame in frames]
        data = encoded(images[0], format, save_all=True, append_images=images[1:])
    with pytest.raises(NotAnImageError, match=r"has 12 (frames|pages); pick one with frame=0…11"):
        read_photo(data)
    for frame in (0, 3, 11):
        np.testing.assert_allclose(read_photo(data, frame=frame).as_float() * 255, levels[frame], atol=3)
    for frame in (-1, 12):
        with pytest.raises(NotAnImageError, match=rf"(frame|page) {frame} does not exist.*has 12 .*frame=0…11"):
            read_photo(data, frame=frame)
    with pytest.raises(NotAnImageError, match="save the mask as a single picture"):
        read_mask(data)


def test_a_frame_of_a_single_picture_does_not_exist() -> None:
    with pytest.raises(NotAnImageError, match="frame 3 does not exist; the file has 1 frame; leave frame out"):
        read_photo(encoded(picture()), frame=3)
    assert read_photo(encoded(picture()), frame=0).width == 48


def test_a_preview_page_is_not_a_picture_of_its_own() -> None:
    buffer = io.BytesIO()
    with tifffile.TiffWriter(buffer) as writer:
        writer.write(picture(), photometric="rgb", metadata=None)
        writer.write(picture()[::4, ::4].copy(), photometric="rgb", subfiletype=1, metadata=None)
    assert read_photo(buffer.getvalue()).pixels.shape == (*SIZE, 3)


@pytest.mark.parametrize(("kinds", "alpha"), [((0, 2), 200), ((2, 0), 100), ((0,), None), ((0, 0), None)])
def test_alpha_is_told_from_other_channels(kinds: tuple[int, ...], alpha: int | None) -> None:
    channels = [np.full(SIZE, level, np.uint8) for level in (10, 20, 30, 100, 200)[: 3 + len(kinds)]]
    photo = read_photo(tiff(np.dstack(channels), photometric="rgb", extrasamples=kinds))
    assert photo.pixels[0, 0].tolist() == [10, 20, 30]
    assert (None if photo.alpha is None else int(photo.alpha[0, 0])) == alpha
    assert any("neither colours nor transparency" in line for line in photo.warnings)


def test_the_captions_of_a_tiff_are_kept_or_said_to_be_lost() -> None:
    iptc = b"\x1c\x02\x78\x00\x05beach"
    photo = read_photo(tiff(np.zeros((*SIZE, 3), np.uint8), photometric="rgb", extratags=[(33723, 7, 10, iptc, True)]))
    assert read_photo(encode_photo(photo)).metadata.blocks == iptc
    assert any("texts of a TIFF" in line for line in encoding_losses(photo, "png"))


def test_the_pixels_of_a_chosen_page_are_counted(tmp_path: Path) -> None:
    path = tmp_path / "pages.tif"
    path.write_bytes(tiff(np.zeros((2, *SIZE, 3), np.uint8), photometric="rgb"))
    assert count_pixels(path) is None
    assert count_pixels(path, frame=1) == SIZE[0] * SIZE[1]


def test_of_a_phones_multi_picture_file_the_first_is_taken_with_a_warning() -> None:
    first, second = Image.fromarray(picture()), Image.fromarray(picture(seed=2))
    data = encoded(first, "MPO", save_all=True, append_images=[second])
    photo = read_photo(data)
    assert photo.format == "JPEG"
    assert np.abs(photo.pixels.astype(int) - picture()).max() < 24
    assert any("the first is used" in line for line in photo.warnings)


# HEIC


def heic(image: Image.Image) -> bytes:
    pillow_heif = pytest.importorskip("pillow_heif")
    buffer = io.BytesIO()
    pillow_heif.from_pillow(image).save(buffer, quality=95)
    return buffer.getvalue()


def test_heic_is_read_through_its_extra() -> None:
    photo = read_photo(heic(Image.fromarray(picture())))
    assert photo.format == "HEIF"
    assert np.abs(photo.pixels.astype(int) - picture()).max() < 24


def test_heic_without_its_extra_names_it(monkeypatch: pytest.MonkeyPatch) -> None:
    data = heic(Image.fromarray(picture()))
    monkeypatch.setitem(sys.modules, "pillow_heif", None)
    monkeypatch.setitem(sys.modules, "pillow_heif.as_plugin", None)
    with pytest.raises(MissingExtraError, match=r"shadowmaskformer\[heif\]"):
        read_photo(data)


@pytest.mark.parametrize("format", ["HEIF", "AVIF"])
def test_more_than_8_bits_in_avif_and_heic_are_reported(format: str) -> None:
    deep = picture().astype(np.uint16) * 257
    if format == "AVIF":
        data = bytes(imagecodecs.avif_encode(deep >> 6, bitspersample=10))
    else:
        pillow_heif = pytest.importorskip("pillow_heif")
        buffer = io.BytesIO()
        pillow_heif.encode("RGB;16", (SIZE[1], SIZE[0]), deep.tobytes(), buffer, quality=95)
        data = buffer.getvalue()
    assert any("read with 8" in line for line in read_photo(data).warnings)
