from __future__ import annotations

import io
import os
import pickle
import subprocess
import sys
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from PIL import Image

import shadowmaskformer
from pictures import encoded, opened
from shadowmaskformer.detect.detector import ShadowDetector
from shadowmaskformer.detect.hints import Hint
from shadowmaskformer.errors import (
    ArrayError,
    ConfigError,
    ImageReadError,
    ImageTooLargeError,
    MaskError,
    NoShadowError,
    OutputError,
    WeightsError,
)
from shadowmaskformer.photo.picture import Photo
from shadowmaskformer.removal.job import Removal, compare, default_output
from shadowmaskformer.removal.remover import ShadowRemover


@pytest.fixture(scope="module")
def relighter() -> ShadowRemover:
    return ShadowRemover(method="relight")


@pytest.fixture(scope="module")
def remover(tiny_weights: Path) -> ShadowRemover:
    return ShadowRemover(tiny_weights)


def png(array: np.ndarray) -> bytes:
    buffer = io.BytesIO()
    Image.fromarray(array).save(buffer, "PNG")
    return buffer.getvalue()


def test_pixels_outside_the_mask_and_its_border_stay_unchanged(
    remover: ShadowRemover, photo: np.ndarray, mask: np.ndarray
):
    result = remover.remove(photo, mask, feather_px=2)
    far = np.ones(mask.shape, bool)
    far[8 - 6 : 24 + 6, 12 - 6 : 36 + 6] = False
    assert np.array_equal(result[far], photo[far])
    assert not np.array_equal(result[12:20, 16:32], photo[12:20, 16:32])


@pytest.mark.parametrize("format", ["JPEG", "PNG", "WEBP"])
def test_empty_mask_gives_the_file_back_bit_for_bit(relighter: ShadowRemover, photo: np.ndarray, format: str):
    buffer = io.BytesIO()
    Image.fromarray(photo).save(buffer, format, quality=85)
    assert relighter.remove(buffer.getvalue(), np.zeros((32, 48), np.uint8)) == buffer.getvalue()


@pytest.mark.parametrize("opacity", [60, 102])
def test_layer_painted_half_transparent_is_taken_as_full(
    relighter: ShadowRemover, photo: np.ndarray, mask: np.ndarray, opacity: int
):
    painted = np.zeros((*mask.shape, 4), np.uint8)
    painted[mask > 0] = (255, 0, 0, opacity)
    removal = relighter.remove_from_photo(Photo(photo), painted)
    assert np.array_equal(removal.after.pixels, relighter.remove(photo, mask))
    assert [line for line in removal.warnings if "scaled up to full strength" in line]


def test_relight_brightens_the_shadow_towards_its_surroundings(
    relighter: ShadowRemover, photo: np.ndarray, mask: np.ndarray
):
    result = relighter.remove(photo, mask).astype(float)
    lit = photo[mask == 0].mean()
    assert abs(result[12:20, 16:32].mean() - lit) < 0.4 * abs(photo[12:20, 16:32].mean() - lit)


def test_doubles_outside_the_mask_keep_all_their_digits(
    relighter: ShadowRemover, rng: np.random.Generator, mask: np.ndarray
):
    given = rng.random((32, 48, 3))
    result = relighter.remove(given, mask, feather_px=2)
    assert np.array_equal(result[:2], given[:2])


def test_half_precision_tensors_of_both_kinds_work(relighter: ShadowRemover, photo: np.ndarray, mask: np.ndarray):
    torch = pytest.importorskip("torch")
    given = torch.from_numpy(photo).permute(2, 0, 1) / 255
    for dtype in (torch.float16, torch.bfloat16):
        result = relighter.remove(given.to(dtype), torch.from_numpy(mask / 255).to(dtype))
        assert result.dtype == dtype


def test_progress_is_counted_by_what_is_done(relighter: ShadowRemover):
    photo, mask = np.full((1600, 900, 3), 120, np.uint8), np.zeros((1600, 900), np.uint8)
    photo[400:1200, 300:600], mask[400:1200, 300:600] = 60, 255
    shares: list[float] = []
    relighter.remove_file(encoded(photo, "BMP"), mask, exact_mask=True, progress=shares.append)
    assert shares == sorted(shares)
    assert len(shares) > 5
    assert shares[0] < 0.2 < 0.8 < shares[-1] < 1


def test_correct_refuses_pictures_of_two_sizes(relighter: ShadowRemover):
    with pytest.raises(ArrayError, match="of one size"):
        relighter.correct(np.zeros((64, 96, 3), np.float32), np.zeros((10, 96), np.float32))


def test_correct_takes_arrays_alone(relighter: ShadowRemover):
    with pytest.raises(ArrayError, match="photo is a str, mask a str; give float arrays"):
        relighter.correct("photo.jpg", "mask.png")  # type: ignore[arg-type]


def test_mask_of_no_known_kind_is_named(relighter: ShadowRemover, photo: np.ndarray):
    with pytest.raises(ArrayError, match="mask: is a list"):
        relighter.remove(photo, [[0, 1]])


@pytest.mark.parametrize("threads", [0, -1, 1_000_000])
def test_absurd_numbers_of_threads_are_refused(threads: int):
    with pytest.raises(ConfigError, match="threads"):
        ShadowRemover(method="relight", threads=threads)


def test_pillow_result_can_be_saved_with_its_exif(relighter: ShadowRemover, photo: np.ndarray, mask: np.ndarray):
    exif = Image.Exif()
    exif[0x8298] = "me"
    buffer = io.BytesIO()
    Image.fromarray(photo).save(buffer, "JPEG", exif=exif)
    result = relighter.remove(Image.open(buffer), mask)
    saved = io.BytesIO()
    result.save(saved, "JPEG", exif=result.info["exif"])
    assert Image.open(saved).getexif()[0x8298] == "me"


def test_gif_comes_back_as_png(relighter: ShadowRemover, photo: np.ndarray, mask: np.ndarray, tmp_path: Path):
    Image.fromarray(photo).save(tmp_path / "photo.gif")
    result = relighter.remove(tmp_path / "photo.gif", mask)
    assert result == tmp_path / "photo-no-shadow.png"
    with Image.open(result) as image:
        assert image.format == "PNG"


def test_comparison_of_a_panorama_fits_a_jpeg(relighter: ShadowRemover):
    wide = Photo(np.zeros((4, 30_000, 3), np.uint8))
    strip = Image.open(io.BytesIO(compare(Removal(wide, np.zeros((4, 30_000), np.float32), after=wide))))
    assert strip.width < 65_500


@pytest.mark.parametrize("dtype", [np.uint8, np.uint16, np.float32, np.float64])
def test_arrays_come_back_as_they_were_given(
    relighter: ShadowRemover, photo: np.ndarray, mask: np.ndarray, dtype: type
):
    scale = {np.uint8: 1, np.uint16: 257}.get(dtype, 1 / 255)
    given = (photo.astype(np.float64) * scale).astype(dtype)
    kept = given.copy()
    result = relighter.remove(given, mask)
    assert result.dtype == given.dtype
    assert result.shape == given.shape
    assert np.array_equal(given, kept)
    if dtype is np.uint16:
        assert result.max() > 255


@pytest.mark.parametrize("shape", [(32, 48), (32, 48, 1), (32, 48, 4)])
def test_gray_and_alpha_arrays_keep_their_shape(
    relighter: ShadowRemover, photo: np.ndarray, mask: np.ndarray, shape: tuple[int, ...]
):
    channels = 1 if len(shape) == 2 else shape[2]
    given = np.dstack([photo, np.full((32, 48), 77, np.uint8)])[..., :channels].reshape(shape)
    result = relighter.remove(given, mask)
    assert result.shape == shape
    if channels == 4:
        assert (result[..., 3] == 77).all()


def test_gray_floats_outside_the_mask_stay_unchanged(remover: ShadowRemover, photo: np.ndarray, mask: np.ndarray):
    given = photo[..., 0].astype(np.float32) / 255
    result = remover.remove(given, mask, feather_px=2)
    assert np.array_equal(result[:2], given[:2])
    assert not np.array_equal(result[12:20, 16:32], given[12:20, 16:32])


def test_odd_memory_layouts_work(relighter: ShadowRemover, photo: np.ndarray, mask: np.ndarray):
    expected = relighter.remove(photo, mask)
    strided = np.repeat(photo, 2, axis=1)[:, ::2]
    strided.flags.writeable = False
    assert np.array_equal(relighter.remove(strided, mask), expected)
    swapped = (photo.astype(np.uint16) * 257).astype(">u2")
    assert np.array_equal(relighter.remove(swapped, mask), relighter.remove(swapped.astype(np.uint16), mask))


@pytest.mark.parametrize(
    ("array", "message"),
    [
        (np.zeros((3, 32, 48), np.uint8), "channels last"),
        (np.zeros((32, 48, 5), np.uint8), "height, width, 3"),
        (np.zeros((0, 48, 3), np.uint8), "height, width, 3"),
        (np.zeros((32, 48, 3), np.int32), "int32"),
        (np.full((32, 48, 3), np.nan), "NaN"),
        (np.full((32, 48, 3), 200.0), "200"),
    ],
)
def test_unusable_arrays_are_refused(relighter: ShadowRemover, mask: np.ndarray, array: np.ndarray, message: str):
    with pytest.raises(ArrayError, match=message):
        relighter.remove(array, mask)


def test_every_kind_of_image_comes_back_as_that_kind(
    relighter: ShadowRemover, photo: np.ndarray, mask: np.ndarray, tmp_path: Path
):
    expected = relighter.remove(photo, mask)
    as_bytes = relighter.remove(png(photo), png(mask))
    assert np.array_equal(np.asarray(Image.open(io.BytesIO(as_bytes))), expected)
    as_pillow = relighter.remove(Image.fromarray(photo), Image.fromarray(mask))
    assert isinstance(as_pillow, Image.Image)
    assert np.array_equal(np.asarray(as_pillow), expected)
    source = tmp_path / "a b.png"
    source.write_bytes(png(photo))
    written = relighter.remove(source, mask)
    assert written == default_output(source)
    assert np.array_equal(np.asarray(Image.open(written)), expected)
    file = io.BytesIO(png(photo))
    assert relighter.remove(file, mask) == as_bytes
    assert not file.closed


def test_tensors_come_back_as_tensors(relighter: ShadowRemover, photo: np.ndarray, mask: np.ndarray):
    torch = pytest.importorskip("torch")
    tensor = torch.from_numpy(photo).permute(2, 0, 1)
    result = relighter.remove(tensor, torch.from_numpy(mask))
    assert result.dtype == torch.uint8
    assert np.array_equal(result.permute(1, 2, 0).numpy(), relighter.remove(photo, mask))


def test_addresses_are_refused(relighter: ShadowRemover, mask: np.ndarray):
    with pytest.raises(ImageReadError, match="download"):
        relighter.remove("https://example.org/photo.jpg", mask)


def test_empty_mask_gives_the_photo_back_bit_for_bit(remover: ShadowRemover, photo: np.ndarray, mask: np.ndarray):
    removal = remover.remove_from_photo(Photo(photo), np.zeros_like(mask))
    assert np.array_equal(removal.after.pixels, photo)
    assert any("empty" in line for line in removal.warnings)


def test_mask_of_another_size_is_fitted_or_refused(relighter: ShadowRemover, photo: np.ndarray, mask: np.ndarray):
    removal = relighter.remove_from_photo(Photo(photo), np.kron(mask, np.ones((2, 2), np.uint8)))
    assert removal.mask.shape == (32, 48)
    assert any("96" in line for line in removal.warnings)
    with pytest.raises(MaskError):
        relighter.remove(photo, mask[:, :20])


def test_a_photo_without_shadow_says_what_to_do(relighter: ShadowRemover):
    bright = np.full((40, 60, 3), 200, np.uint8)
    with pytest.raises(NoShadowError, match="no shadow found; paint a mask, or say where it is with hints") as error:
        relighter.remove(bright)
    assert error.value.exit_code == 4
    assert "--hint" in error.value.said("command")


def test_inverting_no_mask_is_refused(relighter: ShadowRemover, photo: np.ndarray):
    with pytest.raises(ConfigError, match="no mask to invert"):
        relighter.remove(photo, invert_mask=True)


def finds(depth: np.ndarray) -> Any:
    """A detector whose network finds this depth, whatever it is shown."""

    class Finds(ShadowDetector):
        def __init__(self) -> None: ...

        def _look(self, photo: np.ndarray, hints: object = (), mask: object = None) -> np.ndarray:
            return depth.astype(np.float32)

    return Finds()


def test_without_a_mask_the_shadows_are_found(photo: np.ndarray, mask: np.ndarray):
    relighter = ShadowRemover(method="relight")
    relighter.detector = finds(mask / 255)
    removal = relighter.remove_from_photo(Photo(photo))
    assert removal.detection is not None
    assert [shadow.box for shadow in removal.detection.shadows] == [(12, 8, 36, 24)]
    np.testing.assert_array_equal(removal.mask, mask / 255)
    assert removal.after.pixels[12:20, 16:32].mean() > 1.5 * photo[12:20, 16:32].mean()
    np.testing.assert_array_equal(removal.after.pixels[:2], photo[:2])


def test_a_mask_much_too_small_is_snapped_unless_it_is_exact(photo: np.ndarray, mask: np.ndarray):
    relighter = ShadowRemover(method="relight")
    mask, rough = np.zeros_like(mask), np.zeros_like(mask)
    mask[12:18, 8:40] = 255
    rough[13:17, 9:39] = 255
    relighter.detector = finds(mask / 255)
    snapped = relighter.remove_from_photo(Photo(photo), rough)
    assert (snapped.mask != mask / 255).sum() <= 4  # the corners are further away than the sides
    assert any("the mask was widened" in line for line in snapped.warnings)
    exact = relighter.remove_from_photo(Photo(photo), rough, exact_mask=True)
    np.testing.assert_array_equal(exact.mask, rough / 255)
    assert exact.detection is None
    assert exact.warnings == ()


@pytest.mark.parametrize("exact", [False, True])
def test_hints_change_a_given_mask(photo: np.ndarray, mask: np.ndarray, exact: bool):
    relighter = ShadowRemover(method="relight")
    depth = np.zeros(mask.shape, np.float32)
    depth[4:12, 4:20] = depth[24:30, 26:46] = 1
    relighter.detector = finds(depth)
    drawn = np.zeros_like(mask)
    drawn[4:12, 4:20] = drawn[20:22, 2:4] = drawn[12:20, 30:46] = 255  # one of them tiny, one that is no shadow

    def used(*hints: Hint) -> np.ndarray:
        return relighter.remove_from_photo(Photo(photo), drawn, hints=hints, exact_mask=exact).mask > 0.5

    changed = used(Hint.click(38, 16, shadow=False), Hint.click(36, 27))
    assert not changed[13:19, 31:45].any()
    assert changed[24:30, 26:46].all()
    assert changed[4:12, 4:20].all()
    assert changed[20:22, 2:4].all()
    boxed = used(Hint.box(2, 2, 22, 14))
    assert boxed[4:12, 4:20].all()
    assert not boxed[:, 28:].any()


def test_growing_comes_after_finding(photo: np.ndarray, mask: np.ndarray):
    relighter = ShadowRemover(method="relight")
    relighter.detector = finds(mask / 255)
    assert relighter.remove_from_photo(Photo(photo), grow_px=2).mask.sum() > mask.sum() / 255


def test_a_remover_makes_its_detector_once_and_keeps_it_when_pickled(relighter: ShadowRemover):
    assert relighter.detector is relighter.detector
    copy = pickle.loads(pickle.dumps(relighter))
    assert isinstance(copy.detector, ShadowDetector)


@pytest.mark.parametrize("shape", [(1, 1), (1, 60), (60, 1), (2, 300)])
def test_extreme_shapes_keep_their_size(remover: ShadowRemover, shape: tuple[int, int], rng: np.random.Generator):
    photo = rng.integers(0, 256, (*shape, 3), np.uint8)
    mask = np.full(shape, 255, np.uint8)
    mask[:, : shape[1] // 2] = 0
    assert remover.remove(photo, mask).shape == photo.shape


def test_large_photos_are_corrected_at_the_working_size(tiny_weights: Path, photo: np.ndarray, mask: np.ndarray):
    big, big_mask = np.kron(photo, np.ones((4, 4, 1), np.uint8)), np.kron(mask, np.ones((4, 4), np.uint8))
    seen: list[tuple[int, ...]] = []
    remover = ShadowRemover(tiny_weights, working_pixels=32 * 48)
    session = remover.session
    assert session is not None
    original = session.run
    session.run = lambda inputs: (seen.append(inputs["photo"].shape), original(inputs))[1]  # type: ignore[method-assign]
    assert remover.remove(big, big_mask).shape == big.shape
    assert seen == [(32, 48, 3)]


def test_raw_output_covers_the_whole_picture(remover: ShadowRemover, photo: np.ndarray, mask: np.ndarray):
    raw = remover.remove(photo, mask, raw=True)
    assert not np.array_equal(raw[0], photo[0])
    assert np.array_equal(remover.remove(photo, mask, raw=True, strength=0), photo)


def test_threads_share_one_remover(remover: ShadowRemover, photo: np.ndarray, mask: np.ndarray):
    expected = remover.remove(photo, mask)
    with ThreadPoolExecutor(4) as pool:
        results = list(pool.map(lambda _: remover.remove(photo, mask), range(12)))
    assert all(np.array_equal(result, expected) for result in results)


def test_unknown_method_and_device_are_named(tiny_weights: Path):
    with pytest.raises(ConfigError, match="magic"):
        ShadowRemover(method="magic")  # type: ignore[arg-type]
    with pytest.raises(ConfigError, match="quantum"):
        ShadowRemover(tiny_weights, runtime="torch", device="quantum")


def test_comparison_shows_three_panels(relighter: ShadowRemover, photo: np.ndarray, mask: np.ndarray):
    strip = Image.open(io.BytesIO(compare(relighter.remove_from_photo(Photo(photo), mask))))
    assert strip.height == 32
    assert strip.width >= 3 * 48


def test_shipped_weights_remove_the_demo_shadow_and_nothing_else():
    assets = Path(shadowmaskformer.__file__).parent / "assets"
    photo, mask = (np.asarray(Image.open(assets / name)) for name in ("demo-photo.jpg", "demo-mask.png"))
    result = shadowmaskformer.remove_shadow(photo, mask)
    shadow = mask > 127
    changed = np.any(result != photo, axis=2)
    assert changed[shadow].mean() > 0.99
    assert changed[~shadow].mean() < 0.15
    lit = photo[~shadow].mean()
    assert abs(result[shadow].mean() - lit) < 0.3 * abs(photo[shadow].mean() - lit)


def test_a_remover_survives_pickling(remover: ShadowRemover, photo: np.ndarray, mask: np.ndarray):
    again = pickle.loads(pickle.dumps(remover))
    assert np.array_equal(again.remove(photo, mask), remover.remove(photo, mask))


def test_output_and_overwrite_in_python(relighter: ShadowRemover, photo: np.ndarray, mask: np.ndarray, tmp_path: Path):
    Image.fromarray(photo).save(tmp_path / "photo.png")
    target = tmp_path / "out.webp"
    assert relighter.remove(tmp_path / "photo.png", mask, output=target) == target
    with pytest.raises(OutputError, match="overwrite=True"):
        relighter.remove(tmp_path / "photo.png", mask, output=target)
    assert relighter.remove(str(tmp_path / "photo.png"), mask, output=target, overwrite=True) == target
    assert opened(target).format == "WEBP"
    assert relighter.remove(png(photo), mask, output=tmp_path, format="jpeg").name == "photo-no-shadow.jpeg"
    assert relighter.remove(png(photo), mask, output=tmp_path).name == "photo-no-shadow.png"
    stream = io.BytesIO(png(photo))
    assert relighter.remove(stream, mask, output=tmp_path, overwrite=True).name == "photo-no-shadow.png"
    with pytest.raises(ConfigError, match="ndarray"):
        relighter.remove(photo, mask, output=target)
    Image.fromarray(mask).save(tmp_path / "mask.png")
    with pytest.raises(OutputError, match=r"mask\.png: the output is the input"):
        relighter.remove(png(photo), tmp_path / "mask.png", output=tmp_path / "mask.png", overwrite=True)


def test_options_of_the_command_work_in_python(relighter: ShadowRemover, photo: np.ndarray, mask: np.ndarray):
    with pytest.raises(ImageTooLargeError):
        relighter.remove(png(photo), mask, max_pixels=100)
    assert Image.open(io.BytesIO(relighter.remove(png(photo), mask, format="jpeg", quality=50))).format == "JPEG"


@pytest.mark.parametrize(
    "options", [{"grow_px": "3"}, {"feather_px": float("nan")}, {"colour": 1}, {"quality": 0}, {"max_pixels": None}]
)
def test_wrong_options_are_named(relighter: ShadowRemover, photo: np.ndarray, mask: np.ndarray, options: dict):
    with pytest.raises(ConfigError, match=next(iter(options))):
        relighter.remove(photo, mask, **options)


def test_strength_takes_a_share_of_the_shadow_away(relighter: ShadowRemover, photo: np.ndarray, mask: np.ndarray):
    before = photo.astype(float)
    full, half = (relighter.remove(photo, mask, strength=each).astype(float) - before for each in (1.0, 0.5))
    assert np.abs(half - full / 2).max() <= 1
    np.testing.assert_array_equal(relighter.remove(photo, mask, strength=0), photo)
    for wrong in (-0.1, 1.5, float("nan"), "1"):
        with pytest.raises(ConfigError, match="strength"):
            relighter.remove(photo, mask, strength=wrong)
    assert np.array_equal(
        relighter.remove(photo, mask, strength=np.float32(0.5)), relighter.remove(photo, mask, strength=0.5)
    )


@pytest.mark.parametrize("option", ["invert_mask", "exact_mask", "raw", "drop_metadata"])
def test_switches_are_true_or_false(relighter: ShadowRemover, photo: np.ndarray, mask: np.ndarray, option: str):
    for wrong in ("false", 1, None):
        with pytest.raises(ConfigError, match=f"{option} is .*True or False"):
            relighter.remove(photo, mask, **{option: wrong})


def test_outputs_other_than_paths_are_refused(relighter: ShadowRemover, photo: np.ndarray, mask: np.ndarray):
    for wrong in (io.BytesIO(), b"out.png"):
        with pytest.raises(ConfigError, match="give a path"):
            relighter.remove(png(photo), png(mask), output=wrong)


def test_floats_may_be_off_by_rounding(relighter: ShadowRemover, photo: np.ndarray, mask: np.ndarray):
    floats, marked = photo / np.float32(255), np.where(mask > 127, np.float32(1), np.float32(0))
    expected = relighter.remove(floats, marked)
    floats[0, 0, 0], marked[16, 20] = np.nextafter(np.float32(1), 2), np.float32(1.00005)
    np.testing.assert_allclose(relighter.remove(floats, marked)[1:], expected[1:], atol=1e-6)
    for wrong in (floats - floats.min() - 0.01, marked * 1.1):
        with pytest.raises(ArrayError, match="clip"):
            relighter.remove(*((wrong, marked) if wrong.ndim == 3 else (floats, wrong)))


def test_threads_must_be_whole(tiny_weights: Path):
    with pytest.raises(ConfigError, match="whole number"):
        ShadowRemover(tiny_weights, threads=1.5)  # type: ignore[arg-type]


def test_relight_refuses_weights():
    with pytest.raises(ConfigError, match="no weights"):
        ShadowRemover("default", method="relight")


def test_each_of_three_tensors_has_its_mask(relighter: ShadowRemover, photo: np.ndarray, mask: np.ndarray):
    torch = pytest.importorskip("torch")
    batch = torch.from_numpy(photo).permute(2, 0, 1)[None].repeat(3, 1, 1, 1)
    several = torch.from_numpy(np.stack([mask, np.zeros_like(mask), mask]))
    assert (relighter.remove(batch, several) != batch).flatten(1).any(1).tolist() == [True, False, True]
    for one in (mask[..., None], np.repeat(mask[None], 3, axis=0).transpose(1, 2, 0), torch.from_numpy(mask)[None]):
        assert bool((relighter.remove(batch, one) != batch).flatten(1).any(1).all())


def test_metadata_of_a_pillow_image_can_be_dropped(relighter: ShadowRemover, photo: np.ndarray, mask: np.ndarray):
    image = Image.fromarray(photo)
    image.info.update(exif=b"Exif\0\0MM\0*\0\0\0\x08\0\0", comment="here")
    assert relighter.remove(image, mask).info["comment"] == "here"
    assert relighter.remove(image, mask, drop_metadata=True).info == {}


def test_shadows_that_were_found_before_are_removed_as_if_found_now(relighter: ShadowRemover):
    photo = np.asarray(Image.open(Path(shadowmaskformer.__file__).parent / "assets/demo-photo.jpg"))
    found = relighter.detector.detect(photo)
    assert np.array_equal(relighter.remove(photo, found), relighter.remove(photo))
    assert np.array_equal(relighter.remove(photo, found.choose(1)), relighter.remove(photo))
    with pytest.raises(MaskError, match="1024x768"):
        relighter.remove(photo[:100], found)
    with pytest.raises(ConfigError, match="hints"):
        relighter.remove(photo, found, hints=[Hint.click(5, 5)])


def test_a_file_object_that_was_just_written_is_read(relighter: ShadowRemover, photo: np.ndarray, mask: np.ndarray):
    files = [io.BytesIO(), io.BytesIO()]
    for file, picture in zip(files, (photo, mask), strict=True):
        Image.fromarray(picture).save(file, "PNG")
    assert relighter.remove(files[0], files[1]) == relighter.remove(files[0], files[1])


def test_a_palette_with_a_transparent_colour_comes_back_whole(
    relighter: ShadowRemover, photo: np.ndarray, mask: np.ndarray
):
    palette = Image.fromarray(photo).quantize(16)
    palette.info["transparency"] = 3
    file = io.BytesIO()
    relighter.remove(palette, mask).convert("RGB").save(file, "PNG")
    assert Image.open(file).info.get("transparency") is None


@pytest.mark.parametrize(
    "wrong",
    [
        lambda: ShadowRemover(3),  # type: ignore[arg-type]
        lambda: ShadowDetector(3),  # type: ignore[arg-type]
        lambda: ShadowRemover(working_pixels="3"),  # type: ignore[arg-type]
        lambda: ShadowRemover(method="relight").correct(pytest.importorskip("torch").ones(3), np.ones((4, 4))),
    ],
)
def test_arguments_of_a_wrong_kind_are_our_errors(wrong: Callable[[], object]):
    with pytest.raises(shadowmaskformer.ShadowMaskFormerError):
        wrong()


def test_tensors_of_other_packages_are_tensors(relighter: ShadowRemover, photo: np.ndarray, mask: np.ndarray):
    torch = pytest.importorskip("torch")

    class Picture(torch.Tensor):
        pass

    picture = torch.from_numpy(photo).permute(2, 0, 1)
    result = relighter.remove(picture.as_subclass(Picture), mask)
    assert torch.equal(torch.as_tensor(result).as_subclass(torch.Tensor), relighter.remove(picture, mask))


@pytest.mark.parametrize("option", [{"frame": 1}, {"format": "png"}, {"quality": 30}])
def test_options_of_files_are_refused_for_decoded_pictures(
    option: dict[str, Any], relighter: ShadowRemover, photo: np.ndarray, mask: np.ndarray
):
    (name,) = option
    for picture in (photo, Image.fromarray(photo)):
        with pytest.raises(ConfigError, match=name):
            relighter.remove(picture, mask, **option)


def test_batches_of_tensors_work(relighter: ShadowRemover, photo: np.ndarray, mask: np.ndarray):
    torch = pytest.importorskip("torch")
    batch = torch.from_numpy(photo).permute(2, 0, 1)[None].repeat(2, 1, 1, 1)
    several = torch.from_numpy(np.stack([mask, np.zeros_like(mask)]))
    result = relighter.remove(batch, several)
    assert np.array_equal(result[0].permute(1, 2, 0).numpy(), relighter.remove(photo, mask))
    assert torch.equal(result[1], batch[1])
    assert torch.equal(relighter.remove(batch, several[:, None]), result)
    with pytest.raises(ArrayError, match=r"\(2, 32, 48\)"):
        relighter.remove(batch[0, :2], several[0])


def test_a_picture_without_a_shadow_stays_as_it_is_in_a_batch(caplog: pytest.LogCaptureFixture):
    torch = pytest.importorskip("torch")
    bare = torch.full((2, 3, 48, 64), 200, dtype=torch.uint8)
    assert torch.equal(ShadowRemover(method="relight").remove(bare), bare)
    assert "picture 2 of 2: no shadow found" in caplog.text


WITHOUT_THREADS = """
import resource, sys
from pathlib import Path
import numpy as np
from shadowmaskformer import ShadowRemover
photo, mask = (np.load(path) for path in sys.argv[1:])
alone = ShadowRemover(threads=1).remove(photo, mask)
held = int(Path("/proc/self/statm").read_text().split()[0]) * resource.getpagesize()
resource.setrlimit(resource.RLIMIT_AS, (held + (256 << 20), -1))
assert np.array_equal(ShadowRemover(threads=3).remove(photo, mask), alone)
"""


@pytest.mark.skipif(not Path("/proc/self/statm").exists(), reason="no figures about a process on this system")
def test_where_memory_allows_no_more_threads_it_goes_on_with_one(photo: np.ndarray, mask: np.ndarray, tmp_path: Path):
    np.save(tmp_path / "photo.npy", photo)
    np.save(tmp_path / "mask.npy", mask)
    # A thread asks for a stack of a gigabyte, which the limit does not leave room for.
    command = ["sh", "-c", 'ulimit -s 1048576 && exec "$@"', "sh", sys.executable, "-c", WITHOUT_THREADS]
    done = subprocess.run(
        [*command, str(tmp_path / "photo.npy"), str(tmp_path / "mask.npy")],
        env={**os.environ, "OPENBLAS_NUM_THREADS": "1"},
        capture_output=True,
        text=True,
        check=False,
    )
    if "ulimit" in done.stderr:
        pytest.skip("the size of stacks is fixed here")
    assert done.returncode == 0, done.stderr


@pytest.mark.parametrize("method", ["network", "relight"])
@pytest.mark.parametrize("argument", [{"runtime": "steam"}, {"device": "banana"}, {"threads": 0}])
def test_arguments_that_mean_nothing_are_named_at_once(method: Any, argument: dict[str, Any]):
    with pytest.raises(ConfigError, match=next(iter(argument))):
        ShadowRemover(method=method, **argument)


def test_weights_without_a_name_are_not_taken_for_the_default():
    with pytest.raises(WeightsError, match=r"holds no model\.safetensors"):
        ShadowRemover("")


def test_warnings_name_the_photo(
    relighter: ShadowRemover, photo: np.ndarray, tmp_path: Path, caplog: pytest.LogCaptureFixture
):
    Image.fromarray(photo).save(tmp_path / "beach.png")
    relighter.remove(tmp_path / "beach.png", np.zeros((32, 48), np.uint8))
    assert "beach.png" in caplog.text


def test_what_comes_back_has_a_short_repr(relighter: ShadowRemover, photo: np.ndarray, mask: np.ndarray):
    removal = relighter.remove_from_photo(Photo(photo), mask)
    assert repr(removal) == "Removal(48x32, 25.0% shadow)"
    assert repr(removal.correction).startswith("Correction(48x32, gain ")
    assert repr(relighter) == "ShadowRemover(method='relight')"


def test_a_large_photo_is_relit_at_its_own_resolution(photo: np.ndarray, mask: np.ndarray):
    big, big_mask = np.kron(photo, np.ones((8, 8, 1), np.uint8)), np.kron(mask, np.ones((8, 8), np.uint8))
    small = ShadowRemover(method="relight", working_pixels=64 * 96)
    full = ShadowRemover(method="relight")
    difference = np.abs(small.remove(big, big_mask).astype(float) - full.remove(big, big_mask))
    assert difference.mean() < 2
    assert np.array_equal(small.remove(big, big_mask)[:8], big[:8])


def test_an_exact_mask_without_feather_is_exact_in_a_large_photo(photo: np.ndarray, mask: np.ndarray):
    relighter = ShadowRemover(method="relight")
    relighter.working_pixels = 16 * 24
    large, marked = (each.repeat(3, axis=0).repeat(3, axis=1) for each in (photo, mask))
    result = relighter.remove(large, marked, exact_mask=True, feather_px=0)
    assert np.array_equal(result[marked == 0], large[marked == 0])
    assert (result[marked > 0] != large[marked > 0]).any()


def test_hints_change_an_exact_mask_only_where_they_lie(
    photo: np.ndarray, mask: np.ndarray, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setattr("shadowmaskformer.detect.detector.WORKING_PIXELS", 16 * 24)
    relighter = ShadowRemover(method="relight")
    large, marked = (each.repeat(3, axis=0).repeat(3, axis=1) for each in (photo, mask))
    height, width = marked.shape
    left = Hint.box(0, 0, width // 2, height)
    found = relighter.find_in_photo(Photo(large), marked, hints=[left], exact_mask=True).mask
    assert found.shape == marked.shape
    inside = np.s_[:, : width // 2 - width // 8]
    assert np.array_equal(found[inside], marked[inside] > 0)
    assert not found[:, -width // 4 :].any()


def test_a_mask_too_thin_for_a_large_photo_is_named(photo: np.ndarray):
    relighter = ShadowRemover(method="relight")
    relighter.working_pixels = 16 * 24
    large = Photo(photo.repeat(4, axis=0).repeat(4, axis=1))
    line = np.zeros((large.height, large.width), np.uint8)
    line[40, 30:90] = 255
    (warning,) = relighter.remove_from_photo(large, line, exact_mask=True).warnings
    assert "too thin" in warning


def test_what_was_found_can_be_read_before_it_is_applied(relighter: ShadowRemover, photo: np.ndarray, mask: np.ndarray):
    found = relighter.find_in_photo(Photo(photo), mask, exact_mask=True)
    assert found.correction is not None
    assert Removal(**vars(found), after=found.before).correction is not None


def test_a_mask_too_small_leaves_no_dark_rim(relighter: ShadowRemover):
    free = np.full((96, 128, 3), 0.6, np.float32) + np.random.default_rng(0).normal(0, 0.01, (96, 128, 3))
    photo = free.astype(np.float32).copy()
    photo[20:76, 30:100] *= 0.5
    mask = np.zeros((96, 128), np.float32)
    mask[23:73, 33:97] = 1
    result = relighter.remove(photo, mask)
    rim = np.zeros_like(mask, bool)
    rim[20:76, 30:100] = True
    rim &= mask == 0
    assert abs(result[rim].mean() - free[rim].mean()) < 0.3 * abs(photo[rim].mean() - free[rim].mean())
    assert np.array_equal(result[:8], photo[:8])


def test_a_file_object_is_not_overwritten_by_its_result(relighter: ShadowRemover, photo: np.ndarray, tmp_path: Path):
    Image.fromarray(photo).save(tmp_path / "photo.png")
    with (tmp_path / "photo.png").open("rb") as file, pytest.raises(OutputError, match="the output is the input"):
        relighter.remove(file, output=tmp_path / "photo.png", overwrite=True)


@pytest.mark.parametrize("scale", [255, np.nan])
def test_correct_takes_levels_from_0_to_1(relighter: ShadowRemover, photo: np.ndarray, mask: np.ndarray, scale: float):
    floats, marked = photo.astype(np.float32) / 255, mask.astype(np.float32) / 255
    for wrong in ((floats * np.float32(scale), marked), (floats, marked * np.float32(scale)), (photo, marked)):
        with pytest.raises(ArrayError, match=r"photo|mask"):
            relighter.correct(*wrong)
    with pytest.raises(ArrayError, match=r"\(0, 4, 3\)"):
        relighter.correct(np.zeros((0, 4, 3), np.float32), np.zeros((0, 4), np.float32))


def test_what_is_no_file_is_named(relighter: ShadowRemover, photo: np.ndarray):
    with pytest.raises(ArrayError, match="the picture is a ndarray"):
        relighter.remove_file(photo)  # type: ignore[arg-type]
