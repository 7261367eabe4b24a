from __future__ import annotations

import io
import struct
import sys
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import tifffile
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray
from PIL import Image, ImageCms

from pictures import SIZE, picture
from shadowmaskformer.errors import ArrayError, ConfigError, MissingExtraError, OutputError
from shadowmaskformer.photo import Metadata, Photo, choose_format, encode_photo, encoding_losses, read_photo
from shadowmaskformer.photo.blocks import jpeg_blocks, png_chunk, png_chunks

FORMATS = ["JPEG", "PNG", "WEBP", "TIFF", "BMP", "AVIF", "HEIF"]
XMP = b'<x:xmpmeta xmlns:x="adobe:ns:meta/">a note</x:xmpmeta>'
SRGB = ImageCms.ImageCmsProfile(ImageCms.createProfile("sRGB")).tobytes()


def levels(dtype: Any, channels: int = 3) -> NDArray[Any]:
    if dtype == np.uint8:
        return picture(channels)
    if dtype == np.uint16:
        return picture(channels).astype(np.uint16) * 251 + 7
    return picture(channels).astype(np.float32) / np.float32(255)


def rough_jpeg(channels: int, **options: int) -> bytes:
    """A JPEG full of noise, in gray (one channel) or in colour."""
    noise = np.random.default_rng(0).normal(0, 12, (*SIZE, channels))
    buffer = io.BytesIO()
    Image.fromarray(np.clip(picture() + noise, 0, 255).astype(np.uint8)).save(buffer, "JPEG", **options)
    return buffer.getvalue()


def camera_exif() -> bytes:
    exif = Image.Exif()
    exif[0x0112] = 1
    exif[0x010F] = "Camera Maker"
    exif[0x8298] = "Somebody"
    exif[0x0132] = "2024:05:06 07:08:09"
    exif.get_ifd(0x8769)[0x829A] = 0.008
    exif.get_ifd(0x8769)[0x9003] = "2024:05:06 07:08:09"
    exif.get_ifd(0x8825)[1] = "N"
    exif.get_ifd(0x8825)[2] = (48.0, 8.0, 1.5)
    return exif.tobytes()[6:]


def full_photo(dtype: Any = np.uint8, *, gray: bool = False, alpha: bool = False) -> Photo:
    layers = levels(dtype, 4)
    pixels = np.repeat(layers[..., :1], 3, axis=2) if gray else layers[..., :3].copy()
    return Photo(
        pixels,
        layers[..., 3].copy() if alpha else None,
        gray=gray,
        metadata=Metadata(exif=camera_exif(), icc=None if gray else SRGB, xmp=XMP, dpi=(300, 300)),
    )


# Round trips


@pytest.mark.parametrize("alpha", [False, True])
@pytest.mark.parametrize("gray", [False, True])
@pytest.mark.parametrize(
    ("format", "dtype"),
    [("PNG", np.uint8), ("PNG", np.uint16), ("TIFF", np.uint8), ("TIFF", np.uint16), ("TIFF", np.float32)],
)
def test_formats_without_loss_give_back_every_level(format: str, dtype: Any, gray: bool, alpha: bool) -> None:
    photo = full_photo(dtype, gray=gray, alpha=alpha)
    assert encoding_losses(photo, format) == []
    again = read_photo(encode_photo(photo, format=format))
    assert again.format == format
    assert again.gray == gray
    assert again.pixels.dtype == dtype
    np.testing.assert_array_equal(again.pixels, photo.pixels)
    if photo.alpha is None:
        assert again.alpha is None
    else:
        np.testing.assert_array_equal(again.alpha, photo.alpha)
    assert again.warnings == ()


def test_16_bit_levels_above_255_survive_in_png_and_tiff() -> None:
    photo = full_photo(np.uint16)
    for format in ("PNG", "TIFF"):
        again = read_photo(encode_photo(photo, format=format)).pixels
        assert again.max() > 50_000
        assert np.unique(again & 0xFF).size > 100


@pytest.mark.parametrize("dtype", [np.uint8, np.uint16])
@pytest.mark.parametrize("format", FORMATS)
def test_exif_profile_xmp_and_resolution_survive(format: str, dtype: Any) -> None:
    if format == "HEIF":
        pytest.importorskip("pillow_heif")
    photo = full_photo(dtype)
    about = read_photo(encode_photo(photo, format=format)).metadata
    if format == "BMP":
        assert about.exif is None
        assert about.dpi == pytest.approx((300, 300), abs=0.1)
        return
    assert about.icc == SRGB
    assert about.xmp == XMP
    if format in ("JPEG", "PNG", "TIFF"):
        assert about.dpi == pytest.approx((300, 300), abs=0.1)
    assert about.exif is not None
    exif = Image.Exif()
    exif.load(about.exif)
    assert exif[0x010F] == "Camera Maker"
    assert exif[0x8298] == "Somebody"
    assert exif[0x0132] == "2024:05:06 07:08:09"
    assert float(exif.get_ifd(0x8769)[0x829A]) == pytest.approx(0.008)
    assert exif.get_ifd(0x8769)[0x9003] == "2024:05:06 07:08:09"
    assert exif.get_ifd(0x8825)[1] == "N"
    assert [float(value) for value in exif.get_ifd(0x8825)[2]] == [48.0, 8.0, 1.5]


def test_exif_survives_a_second_trip_byte_for_byte() -> None:
    photo = full_photo()
    for format in ("JPEG", "PNG", "WEBP"):
        once = read_photo(encode_photo(photo, format=format))
        assert once.metadata.exif == camera_exif()


def test_other_programs_read_our_16_bit_tiff() -> None:
    data = encode_photo(full_photo(np.uint16, alpha=True), format="TIFF")
    with tifffile.TiffFile(io.BytesIO(data)) as file:
        page: Any = file.pages.first
        np.testing.assert_array_equal(page.asarray()[..., :3], levels(np.uint16))
        assert page.tags["ExifTag"].value["ExposureTime"]
        assert page.tags["Make"].value == "Camera Maker"
        tags = [tag.code for tag in page.tags]
    assert tags == sorted(tags)


def test_pillow_reads_our_8_bit_tiff_with_its_tags() -> None:
    image = Image.open(io.BytesIO(encode_photo(full_photo(), format="TIFF")))
    np.testing.assert_array_equal(np.array(image), picture())
    assert image.getexif()[0x010F] == "Camera Maker"
    assert image.info["icc_profile"] == SRGB


@settings(max_examples=25, deadline=None)
@given(
    st.integers(1, 9), st.integers(1, 9), st.booleans(), st.booleans(),
    st.sampled_from(["uint8", "uint16", "float32"]), st.integers(0, 99),
)  # fmt: skip
def test_any_photo_survives_tiff(height: int, width: int, gray: bool, alpha: bool, dtype: str, seed: int) -> None:
    values = np.random.default_rng(seed).random((height, width, 4), np.float32)
    if dtype != "float32":
        values = (values * np.iinfo(dtype).max).astype(dtype)
    pixels = np.repeat(values[..., :1], 3, axis=2) if gray else values[..., :3]
    photo = Photo(pixels, values[..., 3] if alpha else None, gray=gray)
    again = read_photo(encode_photo(photo, format="TIFF"))
    np.testing.assert_array_equal(again.pixels, pixels)
    assert again.gray == gray
    assert (again.alpha is not None) == alpha


def test_alpha_survives_where_the_format_has_it() -> None:
    photo = full_photo(alpha=True)
    for format in ("WEBP", "AVIF"):
        alpha = read_photo(encode_photo(photo, format=format)).alpha
        assert alpha is not None
        assert photo.alpha is not None
        assert np.abs(alpha.astype(int) - photo.alpha).max() <= 4


def test_gray_jpeg_stays_gray() -> None:
    again = read_photo(encode_photo(full_photo(gray=True), format="JPEG"))
    assert again.gray


def test_a_gray_photo_that_got_colour_is_written_by_its_luma() -> None:
    photo = replace(full_photo(gray=True), pixels=np.full((*SIZE, 3), (255, 0, 0), np.uint8))
    np.testing.assert_array_equal(read_photo(encode_photo(photo, format="PNG")).pixels, 76)


def test_a_gray_profile_is_not_attached_to_three_channels() -> None:
    photo = full_photo(gray=True)
    photo = replace(photo, metadata=replace(photo.metadata, icc=b"a profile for one channel"))
    (line,) = encoding_losses(photo, "WEBP")
    assert "colour profile" in line
    assert read_photo(encode_photo(photo, format="WEBP")).warnings == ()


# JPEG and WebP


@pytest.mark.parametrize("quality", [30, 75, 90, 97])
@pytest.mark.parametrize("subsampling", [0, 1, 2])
def test_a_jpegs_quality_and_subsampling_are_recognised(quality: int, subsampling: int) -> None:
    buffer = io.BytesIO()
    Image.fromarray(picture()).save(buffer, "JPEG", quality=quality, subsampling=subsampling)
    photo = read_photo(buffer.getvalue())
    assert photo.metadata.jpeg_quality == pytest.approx(quality, abs=1)
    assert photo.metadata.jpeg_subsampling == subsampling
    again = read_photo(encode_photo(photo))
    assert again.metadata.jpeg_quality == pytest.approx(quality if quality >= 90 else 95, abs=1)
    assert again.metadata.jpeg_subsampling == subsampling


@pytest.mark.parametrize("subsampling", [0, 2])
def test_a_good_jpeg_written_again_keeps_more_pixels_than_a_finer_one_would(subsampling: int) -> None:
    photo = read_photo(rough_jpeg(1, quality=91, subsampling=subsampling))
    changed, finer = (
        np.any(read_photo(encode_photo(photo, quality=quality)).pixels != photo.pixels, axis=2).mean()
        for quality in (None, 95)
    )
    assert changed < 0.7 * finer
    assert changed < (0.4 if subsampling else 0.1)


def test_jpeg_comment_and_caption_survive() -> None:
    caption = b"Photoshop 3.0\x008BIM\x04\x04\0\0\0\0\0\x0c\x1c\x02x\0\x07A beach"
    segment = b"\xff\xed" + struct.pack(">H", len(caption) + 2) + caption
    buffer = io.BytesIO()
    Image.fromarray(picture()).save(buffer, "JPEG", extra=segment, comment=b"by me")
    photo = read_photo(buffer.getvalue())
    again = Image.open(io.BytesIO(encode_photo(photo)))
    assert again.info["comment"] == b"by me"
    assert ("APP13", caption) in again.applist
    assert encoding_losses(photo) == []
    assert [line for line in encoding_losses(photo, "PNG") if "texts" in line]
    thumbnail = b"8BIM\x04\x0c\0\0\0\0\0\x04tiny"
    block = photo.metadata.blocks
    assert jpeg_blocks([("APP13", caption + thumbnail), ("COM", b"by me")]) == block
    stripped = read_photo(buffer.getvalue(), drop_metadata=True)
    assert b"beach" not in encode_photo(stripped)


@pytest.mark.parametrize("dtype", [np.uint8, np.uint16])
def test_png_texts_and_the_meaning_of_its_colours_survive(dtype: Any) -> None:
    plain = encode_photo(Photo(picture().astype(dtype)))
    chunks = {b"gAMA": struct.pack(">I", 100_000), b"cHRM": bytes(32), b"tEXt": b"Copyright\0me"}
    tagged = plain[:33] + b"".join(png_chunk(*each) for each in chunks.items()) + plain[33:]
    again = dict(png_chunks(encode_photo(read_photo(tagged))))
    assert {kind: again.get(kind) for kind in chunks} == chunks
    stripped = dict(png_chunks(encode_photo(read_photo(tagged, drop_metadata=True))))
    assert b"tEXt" not in stripped
    assert not [line for line in encoding_losses(read_photo(tagged, drop_metadata=True), "BMP") if "texts" in line]
    assert stripped[b"gAMA"] == chunks[b"gAMA"]


@pytest.mark.parametrize("subsampling", [0, 2])
def test_writing_a_jpeg_again_loses_nothing_visible(subsampling: int) -> None:
    photo = read_photo(rough_jpeg(3, quality=85, subsampling=subsampling))
    again = read_photo(encode_photo(photo))
    error = again.pixels.astype(float) - photo.pixels
    assert 10 * np.log10(255**2 / np.mean(error**2)) > 40


def test_other_photos_become_jpeg_with_full_chroma() -> None:
    about = read_photo(encode_photo(full_photo(), format="JPEG")).metadata
    assert about.jpeg_subsampling == 0
    assert about.jpeg_quality == 95


def test_a_given_quality_is_used() -> None:
    photo = full_photo()
    assert read_photo(encode_photo(photo, format="JPEG", quality=40)).metadata.jpeg_quality == 40
    for format in ("JPEG", "WEBP", "AVIF"):
        assert len(encode_photo(photo, format=format, quality=20)) < len(encode_photo(photo, format=format))


@pytest.mark.parametrize("quality", [0, 101, -5])
def test_an_impossible_quality_is_refused(quality: int) -> None:
    with pytest.raises(ConfigError, match="1 to 100"):
        encode_photo(full_photo(), format="JPEG", quality=quality)


def test_a_lossless_webp_stays_lossless() -> None:
    buffer = io.BytesIO()
    Image.fromarray(picture()).save(buffer, "WEBP", lossless=True)
    photo = read_photo(buffer.getvalue())
    assert photo.metadata.lossless
    np.testing.assert_array_equal(read_photo(encode_photo(photo)).pixels, picture())


def test_heic_is_written_through_its_extra(monkeypatch: pytest.MonkeyPatch) -> None:
    pytest.importorskip("pillow_heif")
    again = read_photo(encode_photo(full_photo(), format="HEIF"))
    assert again.format == "HEIF"
    assert np.abs(again.pixels.astype(int) - picture()).max() < 24
    monkeypatch.setitem(sys.modules, "pillow_heif", None)
    with pytest.raises(MissingExtraError, match=r"shadowmaskformer\[heif\]"):
        encode_photo(full_photo(), format="HEIF")


# What a format cannot hold


def test_16_bits_to_jpeg_warn_and_round() -> None:
    photo = full_photo(np.uint16)
    (line,) = encoding_losses(photo, "JPEG")
    assert "8 bits" in line
    assert "PNG or TIFF" in line
    again = read_photo(encode_photo(photo, format="JPEG"))
    assert np.abs(again.as_float() - photo.as_float()).max() < 0.05


def test_floats_to_png_warn_and_take_16_bits() -> None:
    photo = full_photo(np.float32)
    (line,) = encoding_losses(photo, "PNG")
    assert "16 bits" in line
    again = read_photo(encode_photo(photo, format="PNG"))
    assert again.pixels.dtype == np.uint16
    np.testing.assert_allclose(again.as_float(), photo.as_float(), atol=1 / 65535)


@pytest.mark.parametrize("format", ["JPEG", "BMP"])
def test_transparency_is_laid_over_white_with_a_warning(format: str) -> None:
    photo = Photo(np.zeros((*SIZE, 3), np.uint8), np.zeros(SIZE, np.uint8))
    (line,) = encoding_losses(photo, format)
    assert "laid over white" in line
    np.testing.assert_array_equal(read_photo(encode_photo(photo, format=format)).pixels, 255)


def test_exif_too_long_for_jpeg_warns_and_is_left_out() -> None:
    photo = full_photo()
    photo = replace(photo, metadata=replace(photo.metadata, exif=camera_exif() + bytes(70_000)))
    (line,) = encoding_losses(photo, "JPEG")
    assert "EXIF" in line
    assert read_photo(encode_photo(photo, format="JPEG")).metadata.exif is None


@pytest.mark.parametrize("format", FORMATS)
@pytest.mark.filterwarnings("ignore::UserWarning:PIL")  # Pillow reports the damage in its own way
def test_exif_with_a_damaged_part_is_copied_or_left_out_but_never_stops_the_photo(format: str) -> None:
    if format == "HEIF":
        pytest.importorskip("pillow_heif")
    # The camera's directory lies beyond the end of the block.
    block = b"II*\0" + struct.pack("<IH", 8, 1) + struct.pack("<HHII", 0x8769, 4, 1, 5000) + bytes(4)
    photo = replace(full_photo(), metadata=Metadata(exif=block))
    again = read_photo(encode_photo(photo, format=format))
    if format in ("JPEG", "PNG", "WEBP"):
        assert again.metadata.exif == block
        assert encoding_losses(photo, format) == []
    assert again.pixels.shape == photo.pixels.shape


def test_what_an_encoder_refuses_is_our_error(monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(*_: Any, **__: Any) -> None:
        raise OSError("encoder error -2")

    monkeypatch.setattr(Image.Image, "save", fail)
    with pytest.raises(OutputError, match="cannot be encoded as JPEG"):
        encode_photo(full_photo(), format="JPEG")


def test_bmp_warns_about_exif_and_profile() -> None:
    lines = encoding_losses(replace(full_photo(), name="beach.png"), "BMP")
    assert len(lines) == 3
    assert all(line.startswith("beach.png: BMP cannot store this") for line in lines)


def test_a_gif_comes_back_as_png() -> None:
    assert read_photo(encode_photo(replace(full_photo(), format="GIF"))).format == "PNG"


@pytest.mark.parametrize("format", ["GIF", "PSD", "", "../x"])
def test_an_unknown_format_is_refused_with_the_known_ones(format: str) -> None:
    with pytest.raises(ConfigError, match="JPEG, PNG, WebP, TIFF"):
        encode_photo(full_photo(), format=format)


@pytest.mark.parametrize(
    ("own", "path", "wanted", "chosen"),
    [
        ("JPEG", None, None, "JPEG"),
        ("JPEG", "folder/result", None, "JPEG"),
        ("TIFF", "v1.2/result", None, "TIFF"),
        ("GIF", "result", None, "PNG"),
        ("JPEG", "result.PNG", None, "PNG"),
        ("JPEG", None, "webp", "WEBP"),
        ("JPEG", "result", "webp", "WEBP"),
        ("PNG", "result.jpeg", "jpg", "JPEG"),
    ],
)
def test_the_format_is_the_wanted_one_or_that_of_the_name_or_the_photos_own(
    own: str, path: str | None, wanted: str | None, chosen: str
) -> None:
    format, notices = choose_format(own, path=path, wanted=wanted)
    assert (format.name, notices) == (chosen, [])


def test_a_format_that_contradicts_the_name_is_used_with_a_warning() -> None:
    format, (notice,) = choose_format("PNG", path="x.png", wanted="jpg")
    assert format.name == "JPEG"
    assert notice.said("command") == (
        "x.png: is written as JPEG, but its name ends in .png; use .jpg, or leave --format out"
    )


@pytest.mark.parametrize("name", ["out.gif", "out.txt", "out.psd"])
def test_a_name_that_cannot_be_written_is_refused_with_what_can(name: str) -> None:
    with pytest.raises(ConfigError, match=rf"out.*: cannot write \{Path(name).suffix} files; choose JPEG, PNG"):
        choose_format("PNG", path=name)


@pytest.mark.parametrize("format", ["jpg", ".jpg", "jpeg", "Jpeg", "tif", "heic"])
def test_a_format_may_be_given_as_an_extension(format: str) -> None:
    assert encoding_losses(full_photo(), format) == []


@pytest.mark.parametrize(("format", "side"), [("JPEG", 65_501), ("WEBP", 16_384)])
def test_a_side_too_long_for_the_format_is_refused(format: str, side: int) -> None:
    with pytest.raises(OutputError, match="too large"):
        encode_photo(Photo(np.zeros((1, side, 3), np.uint8)), format=format)


@pytest.mark.parametrize("size", [(1, 1), (1, 300), (300, 1)])
@pytest.mark.parametrize("format", ["JPEG", "PNG", "WEBP", "TIFF", "BMP", "AVIF"])
def test_photos_of_one_pixel_width_keep_their_size(size: tuple[int, int], format: str) -> None:
    photo = Photo(np.full((*size, 3), 77, np.uint8))
    assert read_photo(encode_photo(photo, format=format)).pixels.shape == (*size, 3)


# Photos


@pytest.mark.parametrize("dtype", [np.uint8, np.uint16, np.float32])
def test_pixels_survive_the_way_to_float_and_back(dtype: Any) -> None:
    photo = full_photo(dtype)
    np.testing.assert_array_equal(photo.with_pixels(photo.as_float()).pixels, photo.pixels)


def test_every_16_bit_level_survives_the_way_to_float_and_back() -> None:
    every = np.arange(65536, dtype=np.uint16).reshape(256, 256, 1).repeat(3, axis=2)
    np.testing.assert_array_equal(Photo(every).with_pixels(Photo(every).as_float()).pixels, every)


def test_results_beyond_the_range_are_clamped() -> None:
    photo = Photo(np.zeros((1, 3, 3), np.uint8))
    values = np.array([[[-1.0] * 3, [0.5] * 3, [7.0] * 3]])
    assert photo.with_pixels(values).pixels[0, :, 0].tolist() == [0, 128, 255]


@pytest.mark.parametrize(
    "pixels",
    [np.zeros(SIZE, np.uint8), np.zeros((3, *SIZE), np.uint8), np.zeros((0, 4, 3), np.uint8),
     np.zeros((*SIZE, 3), np.int32), np.zeros((*SIZE, 3), np.float64)],
)  # fmt: skip
def test_pixels_of_another_shape_or_type_are_refused(pixels: NDArray[Any]) -> None:
    with pytest.raises(ArrayError, match="expected"):
        Photo(pixels)


def test_alpha_of_another_size_is_refused() -> None:
    with pytest.raises(ArrayError, match="alpha"):
        Photo(np.zeros((*SIZE, 3), np.uint8), np.zeros((3, 3), np.uint8))


def test_new_pixels_of_another_size_are_refused() -> None:
    with pytest.raises(ArrayError, match="expected"):
        full_photo().with_pixels(np.zeros((3, 3, 3), np.uint8))
