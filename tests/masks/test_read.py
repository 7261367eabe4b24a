from __future__ import annotations

import io
from pathlib import Path
from typing import Any

import imagecodecs
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp
from numpy.typing import NDArray
from PIL import Image

from pictures import SIZE, encoded, exif_block, picture, srgb_profile, tiff
from shadowmaskformer import masks
from shadowmaskformer.errors import ArrayError, ImageTooLargeError, MaskError, said
from shadowmaskformer.masks import read_mask

soft_masks = hnp.arrays(
    np.float32, st.tuples(st.integers(1, 12), st.integers(1, 17)), elements=st.floats(0, 1, width=32)
)
hard_masks = hnp.arrays(np.bool_, st.tuples(st.integers(1, 12), st.integers(1, 17))).map(
    lambda mask: mask.astype(np.float32)
)


def square(value: float = 1.0) -> NDArray[np.float32]:
    mask = np.zeros(SIZE, np.float32)
    mask[12:20, 16:30] = value
    return mask


# Files


def shape_mask() -> NDArray[np.bool_]:
    mask = np.zeros(SIZE, bool)
    mask[8:20, 10:30] = True
    return mask


@pytest.mark.parametrize(
    "data",
    [
        encoded((shape_mask() * 255).astype(np.uint8)),
        encoded(shape_mask().astype(np.uint8)),
        encoded(Image.fromarray(shape_mask())),
        encoded(np.repeat((shape_mask() * 255).astype(np.uint8)[..., None], 3, axis=2)),
        bytes(imagecodecs.png_encode((shape_mask() * 65535).astype(np.uint16))),
        tiff(shape_mask().astype(np.float32)),
        encoded((shape_mask() * 255).astype(np.uint8), "BMP"),
        encoded((shape_mask() * 255).astype(np.uint8), "GIF"),
    ],
    ids=["8-bit", "0/1", "1-bit", "RGB", "16-bit", "float", "BMP", "GIF"],
)
def test_masks_of_every_kind_are_read(data: bytes) -> None:
    mask, warnings = read_mask(data)
    assert mask.dtype == np.float32
    np.testing.assert_array_equal(mask, shape_mask())
    assert warnings == []


def test_a_painted_layer_is_read_by_its_alpha_with_a_warning() -> None:
    layer = np.zeros((*SIZE, 4), np.uint8)
    layer[shape_mask()] = (255, 0, 0, 255)
    mask, warnings = read_mask(encoded(layer))
    np.testing.assert_array_equal(mask, shape_mask())
    (line,) = warnings
    assert "transparency" in line


def test_a_soft_mask_keeps_its_levels() -> None:
    levels = picture()[..., 0]
    np.testing.assert_allclose(read_mask(encoded(levels))[0] * 255, levels, atol=1e-4)


def test_a_mask_is_turned_upright_like_its_photo() -> None:
    mask, _ = read_mask(encoded((shape_mask() * 255).astype(np.uint8), "PNG", exif=exif_block(6)))
    np.testing.assert_array_equal(mask, np.rot90(shape_mask(), -1))


def test_a_photo_given_as_mask_is_refused_by_name(tmp_path: Path) -> None:
    path = tmp_path / "photo.jpg"
    path.write_bytes(encoded(picture(), "JPEG"))
    with pytest.raises(MaskError, match=r"photo\.jpg: a picture, not a mask"):
        read_mask(path)


def test_a_profile_on_a_mask_does_not_matter() -> None:
    _, warnings = read_mask(encoded((shape_mask() * 255).astype(np.uint8), "PNG", icc_profile=srgb_profile()))
    assert warnings == []


# Arrays that are masks


@pytest.mark.parametrize(
    ("array", "level"),
    [
        (square().astype(bool), 1.0),
        (square().astype(np.uint8), 1.0),
        ((square() * 255).astype(np.uint8), 1.0),
        ((square() * 128).astype(np.uint8), 128 / 255),
        (square().astype(np.uint16), 1.0),
        ((square() * 65535).astype(np.uint16), 1.0),
        ((square() * 255).astype(np.uint16), 1.0),
        ((square() * 1000).astype(np.uint16), 1000 / 65535),
        (square().astype(np.int64), 1.0),
        ((square() * 255).astype(np.int64), 1.0),
        (square(0.25), 0.25),
        (square(0.25).astype(np.float64), 0.25),
        (square(0.25).astype(np.float16), 0.25),
        (square()[..., None], 1.0),
        (np.repeat((square() * 255).astype(np.uint8)[..., None], 3, axis=2), 1.0),
    ],
)
def test_any_kind_of_number_becomes_a_mask(array: NDArray[Any], level: float) -> None:
    mask = masks.as_mask(array)
    assert mask.dtype == np.float32
    np.testing.assert_allclose(mask, square(level), atol=1e-6)


@pytest.mark.parametrize("shape", [(4,), (3, 32, 48), (32, 48, 5), (0, 48), (1, 2, 3, 4)])
def test_an_array_of_another_shape_is_refused_with_its_shape(shape: tuple[int, ...]) -> None:
    with pytest.raises(ArrayError, match=r"array is \("):
        masks.as_mask(np.zeros(shape, np.float32))


def test_channels_first_get_a_hint() -> None:
    with pytest.raises(ArrayError, match="channels last"):
        masks.as_mask(np.zeros((3, 32, 48), np.float32))


def test_not_finite_levels_are_counted() -> None:
    mask = square()
    mask[0, :3] = np.nan
    mask[1, 0] = np.inf
    with pytest.raises(ArrayError, match="4 of 1536 values"):
        masks.as_mask(mask)


@pytest.mark.parametrize("array", [square() * 255, square() - 0.5])
def test_floats_outside_0_to_1_are_refused(array: NDArray[np.float32]) -> None:
    with pytest.raises(ArrayError, match="expected 0 to 1"):
        masks.as_mask(array)


@pytest.mark.parametrize("array", [-square().astype(np.int32), np.full(SIZE, "x"), square().astype(complex)])
def test_other_types_are_refused(array: NDArray[Any]) -> None:
    with pytest.raises(ArrayError, match="expected bool, uint8"):
        masks.as_mask(array)


@pytest.mark.parametrize("change", ["strided", "read-only", "big-endian"])
def test_awkward_arrays_work_and_stay_unchanged(change: str) -> None:
    array = (square() * 65535).astype(np.uint16)
    if change == "strided":
        array = np.repeat(array, 2, axis=1)[:, ::2]
    elif change == "read-only":
        array.flags.writeable = False
    else:
        array = array.astype(">u2")
    before = array.copy()
    np.testing.assert_array_equal(masks.as_mask(array), square())
    np.testing.assert_array_equal(array, before)


def test_the_result_is_never_the_argument() -> None:
    array = square()
    masks.as_mask(array)[:] = 0.5
    np.testing.assert_array_equal(array, square())


# Painted layers


@pytest.mark.parametrize("colour", [(0, 0, 0), (255, 255, 255), (255, 0, 0)])
def test_of_a_painted_layer_the_alpha_is_used(colour: tuple[int, int, int]) -> None:
    layer = np.zeros((*SIZE, 4), np.uint8)
    layer[..., :3] = colour
    layer[..., 3] = (square() * 200).astype(np.uint8)
    mask, warnings = masks.interpret(layer, name="layer.png")
    np.testing.assert_allclose(mask, square(200 / 255), atol=1e-6)
    assert len(warnings) == 1
    assert "layer.png" in warnings[0]
    assert "transparency" in warnings[0]


def test_an_unpainted_layer_is_an_empty_mask() -> None:
    assert not masks.as_mask(np.zeros((*SIZE, 4), np.uint8)).any()


def test_white_on_black_with_opaque_alpha_is_read_by_its_colour() -> None:
    layer = np.full((*SIZE, 4), 255, np.uint8)
    layer[..., :3] = (square() * 255).astype(np.uint8)[..., None]
    mask, warnings = masks.interpret(layer)
    np.testing.assert_array_equal(mask, square())
    assert not warnings


def test_0_and_1_beside_an_opaque_alpha_are_0_and_1() -> None:
    layer = np.full((*SIZE, 2), 255, np.uint8)
    layer[..., 0] = square().astype(np.uint8)
    np.testing.assert_array_equal(masks.as_mask(layer), square())


def test_transparent_parts_of_a_two_colour_layer_are_no_shadow() -> None:
    layer = np.zeros((*SIZE, 4), np.uint8)
    layer[..., :3] = (square() * 255).astype(np.uint8)[..., None]
    layer[..., 3] = 255
    layer[:16, :, 3] = 0
    expected = square()
    expected[:16] = 0
    np.testing.assert_array_equal(masks.as_mask(layer), expected)


def test_one_colour_on_black_is_a_mask() -> None:
    labels = square()[..., None] * np.array([128, 0, 0])
    np.testing.assert_array_equal(masks.as_mask(labels.astype(np.uint8)), square())


HUES = {"red": (255, 0, 0), "dark green": (0, 128, 0), "yellow": (255, 255, 0), "pink": (255, 105, 180)}


@pytest.mark.parametrize("hue", HUES.values(), ids=HUES)
@pytest.mark.parametrize("format", ["PNG", "JPEG", "JPEG with half the chroma"])
def test_soft_levels_of_one_hue_on_black_are_a_mask(hue: tuple[int, int, int], format: str) -> None:
    soft = masks.feather(masks.grow(square(), 4), 6)
    layer = np.rint(soft[..., None] * np.array(hue)).astype(np.uint8)
    options = {"quality": 85, "subsampling": 2 if "half" in format else 0} if format != "PNG" else {}
    mask, notices = read_mask(encoded(layer, format.split()[0], **options))
    np.testing.assert_allclose(mask, soft, atol=0.01 if format == "PNG" else 0.08)
    assert notices == []


def test_a_photo_in_one_tint_is_a_picture_not_a_mask() -> None:
    gray = picture()[..., :1].astype(float)
    for tint in ((1.0, 0.8, 0.6), (1.0, 0.3, 0.2)):  # sepia, and a darkroom's red with no black in it
        with pytest.raises(MaskError, match="a picture, not a mask"):
            masks.as_mask((gray * np.array(tint)).astype(np.uint8))


def test_a_street_at_night_is_a_picture_not_a_mask() -> None:
    lamp = picture()[..., :1] / 255 * np.array([240, 136, 60])
    lamp[:, :8] = 0  # an eighth of the photo is black
    with pytest.raises(MaskError, match="a picture, not a mask"):
        masks.as_mask(lamp.astype(np.uint8))


def test_two_hues_on_black_are_a_picture_not_a_mask() -> None:
    layer = np.zeros((*SIZE, 3), np.uint8)
    layer[4:12, 4:20, 0] = 255
    layer[16:28, 4:20, 2] = 255
    with pytest.raises(MaskError, match="a picture, not a mask"):
        masks.as_mask(layer)


def test_a_coloured_photo_is_a_picture_not_a_mask() -> None:
    photo = np.random.default_rng(0).integers(0, 256, (*SIZE, 3), dtype=np.uint8)
    with pytest.raises(MaskError, match="a picture, not a mask"):
        masks.as_mask(photo)


# Noise


@given(soft_masks)
def test_snapping_keeps_the_order_of_levels_and_makes_no_step(mask: NDArray[np.float32]) -> None:
    snapped = masks.snap(mask)
    assert snapped.min() >= 0
    assert snapped.max() <= 1
    before, after = np.sort(mask, axis=None), np.sort(snapped, axis=None)
    assert np.all(np.diff(after) >= 0)
    assert np.all(np.diff(after) <= np.diff(before) * 1.2 + 1e-6)


@given(hard_masks)
def test_snapping_leaves_hard_masks_alone(mask: NDArray[np.float32]) -> None:
    np.testing.assert_array_equal(masks.snap(mask), mask)


def test_jpeg_noise_is_snapped_away() -> None:
    buffer = io.BytesIO()
    Image.fromarray((square() * 255).astype(np.uint8)).save(buffer, "JPEG", quality=90)
    noisy = masks.as_mask(np.asarray(Image.open(buffer)))
    assert np.any((noisy > 0) & (noisy < 1))
    snapped = masks.snap(noisy)
    far = masks.grow(square(), 8) == 0
    assert not snapped[far].any()
    np.testing.assert_array_equal(snapped > 0.5, square() > 0.5)


# Fitting to the photo


def test_a_mask_of_the_photos_size_is_passed_on_silently() -> None:
    mask = square()
    fitted, warning = masks.fit(mask, *SIZE)
    assert fitted is mask
    assert warning is None


@pytest.mark.parametrize("size", [(64, 96), (16, 24), (33, 50), (100, 150)])
def test_a_mask_of_the_same_aspect_is_resized_with_a_warning(size: tuple[int, int]) -> None:
    fitted, warning = masks.fit(square(), *size)
    assert fitted.shape == size
    assert warning is not None
    assert "48x32" in warning
    assert f"{size[1]}x{size[0]}" in warning
    assert fitted.mean() == pytest.approx(square().mean(), abs=0.01)


@pytest.mark.parametrize("size", [(32, 32), (48, 96), (1000, 1450)])
def test_a_mask_of_another_aspect_is_refused_with_both_sizes(size: tuple[int, int]) -> None:
    with pytest.raises(MaskError, match=rf"48x32, but the photo is {size[1]}x{size[0]}") as caught:
        masks.fit(square(), *size)
    assert "rotate" not in str(caught.value)


def test_a_turned_mask_gets_a_hint() -> None:
    with pytest.raises(MaskError, match="rotate the mask by a quarter turn"):
        masks.fit(square(), 48, 32)


# Advice


def shaded(mask: NDArray[np.float32]) -> NDArray[np.float32]:
    texture = np.random.default_rng(4).uniform(0.6, 0.8, (*SIZE, 3)).astype(np.float32)
    return texture * (1 - 0.6 * mask[..., None])


def test_a_good_mask_needs_no_words() -> None:
    assert masks.describe(square(), shaded(square())) == []


def test_an_empty_mask_is_reported() -> None:
    (line,) = masks.describe(np.zeros(SIZE, np.float32), shaded(square()))
    assert "empty" in line


def test_a_full_mask_is_reported_as_no_lit_area() -> None:
    (line,) = masks.describe(np.ones(SIZE, np.float32), shaded(square()))
    assert "no lit area" in line


def test_an_inverted_mask_is_reported_with_the_option_that_turns_it() -> None:
    (line,) = masks.describe(masks.invert(square()), shaded(square()))
    assert "use invert_mask=True" in line
    assert "use --invert-mask" in said(line, "command")
    assert masks.looks_inverted(masks.invert(square()), shaded(square()))
    assert not masks.looks_inverted(square(), shaded(square()))


def test_a_black_shadow_is_said_to_be_a_guess() -> None:
    photo = shaded(square())
    marked = square() > 0
    photo[marked] = np.where(np.arange(marked.sum()) % 5 < 2, 0.01, photo[marked].T).T
    (line,) = masks.describe(square(), photo, name="yard.jpg")
    assert line == "yard.jpg: 41% of the shadow is black, so what lies there is a guess"


def test_a_large_dark_side_does_not_make_a_mask_look_inverted() -> None:
    photo = shaded(square())
    photo[:, 40:] = 0.02
    assert masks.describe(square(), photo) == []


def test_the_gray_photo_itself_is_a_picture_not_a_mask() -> None:
    photo = shaded(square())
    with pytest.raises(MaskError, match="a picture, not a mask"):
        masks.describe(photo.mean(axis=2), photo)


# Faint masks


def test_a_faint_mask_is_scaled_up_to_full_strength() -> None:
    mask, line = masks.strengthen(square(0.4), name="layer.png")
    np.testing.assert_array_equal(mask, square())
    assert line == "layer.png: never exceeds 40 %; scaled up to full strength"


def test_noise_is_not_taken_for_a_faint_mask() -> None:
    noise = np.random.default_rng(0).uniform(0, 0.1, SIZE).astype(np.float32)
    mask, line = masks.strengthen(noise)
    np.testing.assert_array_equal(mask, noise)
    assert line is None


# All of it, in order


@pytest.mark.parametrize("kind", ["path", "bytes", "file object", "Pillow", "array"])
def test_a_mask_of_any_kind_is_prepared(kind: str, tmp_path: Path) -> None:
    levels = (square() * 255).astype(np.uint8)
    path = tmp_path / "mask.png"
    path.write_bytes(encoded(levels))
    source: Any = {
        "path": path, "bytes": path.read_bytes(), "file object": io.BytesIO(path.read_bytes()),
        "Pillow": Image.fromarray(levels), "array": levels,
    }[kind]  # fmt: skip
    mask, notices = masks.prepare(source, *SIZE)
    np.testing.assert_array_equal(mask, square())
    assert notices == []


@pytest.mark.parametrize("shape", [SIZE, (1, *SIZE)])
def test_a_tensor_is_a_mask(shape: tuple[int, ...]) -> None:
    torch = pytest.importorskip("torch")
    for dtype in (torch.uint8, torch.bool, torch.float64, torch.bfloat16):
        mask, _ = masks.prepare(torch.from_numpy(square().reshape(shape)).to(dtype), *SIZE)
        np.testing.assert_array_equal(mask, square())
    with pytest.raises(ArrayError, match=r"mask: tensor is \(2, 1, 32, 48\); expected \(height, width\)"):
        masks.prepare(torch.zeros(2, 1, *SIZE), *SIZE)


def test_a_mask_is_inverted_before_its_noise_is_removed() -> None:
    levels = np.where(square() > 0, 10, 245).astype(np.uint8)  # black is shadow, with noise
    mask, (line,) = masks.prepare(levels, 64, 96, invert_mask=True)
    np.testing.assert_array_equal(mask, masks.resize(square(), 64, 96))
    assert line == "mask: is 48x32, but the photo is 96x64; the mask was resized"


def test_a_faint_mask_of_another_size_is_reported_once_each_by_its_name(tmp_path: Path) -> None:
    path = tmp_path / "layer.png"
    path.write_bytes(encoded((square(0.4) * 255).astype(np.uint8)))
    for name in (None, "the layer"):
        _, notices = masks.prepare(path, 64, 96, name=name)
        assert [line.removeprefix(f"{name or path}: ")[:5] for line in notices] == ["never", "is 48"]


def test_what_is_no_mask_is_refused() -> None:
    with pytest.raises(MaskError, match="no mask; mark the shadow"):
        masks.prepare(None, *SIZE)
    with pytest.raises(ArrayError, match="is a list; expected a path, bytes"):
        masks.prepare([[0, 1]], *SIZE)
    with pytest.raises(ImageTooLargeError, match="1,000 allowed"):
        masks.prepare(encoded(picture()[..., 0]), *SIZE, max_pixels=1000)
