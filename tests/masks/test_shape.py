from __future__ import annotations

import io
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp
from numpy.typing import NDArray
from PIL import Image

from shadowmaskformer import masks
from shadowmaskformer.errors import ArrayError, MaskError

SIZE = (32, 48)
soft_masks = hnp.arrays(
    np.float32, st.tuples(st.integers(1, 12), st.integers(1, 17)), elements=st.floats(0, 1, width=32)
)
hard_masks = hnp.arrays(np.bool_, st.tuples(st.integers(1, 12), st.integers(1, 17))).map(
    lambda mask: mask.astype(np.float32)
)
distances = st.integers(0, 9)


def square(value: float = 1.0) -> NDArray[np.float32]:
    mask = np.zeros(SIZE, np.float32)
    mask[12:20, 16:30] = value
    return mask


def octagon(radius: int) -> NDArray[np.bool_]:
    """The neighbourhood of `grow`, by its definition: a square widened by a diamond."""
    side = round(radius * (2**0.5 - 1))
    y, x = np.mgrid[-radius : radius + 1, -radius : radius + 1]
    return np.maximum(abs(y) - side, 0) + np.maximum(abs(x) - side, 0) <= radius - side


def grown_by_definition(mask: NDArray[np.float32], radius: int) -> NDArray[np.float32]:
    near = octagon(radius)
    padded = np.pad(mask, radius)
    windows = np.lib.stride_tricks.sliding_window_view(padded, near.shape)
    return np.where(near, windows, 0).max(axis=(2, 3))


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
    with pytest.raises(MaskError, match=rf"48x32, photo is {size[1]}x{size[0]}") as caught:
        masks.fit(square(), *size)
    assert "rotate" not in str(caught.value)


def test_a_turned_mask_gets_a_hint() -> None:
    with pytest.raises(MaskError, match="turned by a quarter"):
        masks.fit(square(), 48, 32)


@given(soft_masks, st.integers(1, 20), st.integers(1, 20))
def test_resizing_stays_within_the_levels(mask: NDArray[np.float32], height: int, width: int) -> None:
    resized = masks.resize(mask, height, width)
    assert resized.shape == (height, width)
    assert resized.min() >= mask.min() - 1e-6
    assert resized.max() <= mask.max() + 2e-6


@given(hard_masks, st.integers(1, 4))
def test_shrinking_by_a_whole_number_takes_the_mean_of_each_block(mask: NDArray[np.float32], factor: int) -> None:
    large = np.kron(mask, np.ones((factor, factor), np.float32))
    np.testing.assert_allclose(masks.resize(large, *mask.shape), mask, atol=1e-6)


def test_resizing_a_full_mask_leaves_it_exactly_full() -> None:
    for size in ((7, 11), (100, 131)):
        np.testing.assert_array_equal(masks.resize(np.ones(SIZE, np.float32), *size), 1)


# Growing, shrinking, feathering


@settings(max_examples=60)
@given(soft_masks, distances)
def test_growing_takes_the_highest_level_of_the_octagon(mask: NDArray[np.float32], radius: int) -> None:
    np.testing.assert_array_equal(masks.grow(mask, radius), grown_by_definition(mask, radius))


@pytest.mark.parametrize("radius", [1, 2, 5, 11, 24])
def test_the_octagon_is_close_to_a_circle(radius: int) -> None:
    mask = np.zeros((60, 80), np.float32)
    mask[30, 40] = 1
    y, x = np.mgrid[:60, :80]
    distance = np.hypot(y - 30, x - 40)
    grown = masks.grow(mask, radius)
    assert np.all(grown[distance <= 0.9 * radius] == 1)
    assert np.all(grown[distance > 1.13 * radius + 0.5] == 0)
    assert grown[30, 40 + radius] == 1
    assert grown[30, 41 + radius] == 0


@given(soft_masks, distances)
def test_shrinking_is_growing_the_rest(mask: NDArray[np.float32], radius: int) -> None:
    expected = 1 - grown_by_definition(1 - mask, radius)
    np.testing.assert_allclose(masks.shrink(mask, radius), expected, atol=1e-7)


def test_a_mask_does_not_shrink_away_from_the_frame() -> None:
    mask = np.zeros(SIZE, np.float32)
    mask[:10] = 1
    shrunk = masks.shrink(mask, 4)
    np.testing.assert_array_equal(shrunk[:6], 1)
    np.testing.assert_array_equal(shrunk[6:], 0)


@given(soft_masks, distances)
def test_feathering_stays_within_the_levels_and_reaches_no_farther_than_told(
    mask: NDArray[np.float32], radius: int
) -> None:
    soft = masks.feather(mask, radius)
    assert soft.shape == mask.shape
    assert soft.min() >= max(mask.min() - 1e-5, 0)
    assert soft.max() <= min(mask.max() + 1e-5, 1)


@given(hard_masks, distances)
def test_feathering_leaves_even_ground_exactly_as_it_is(mask: NDArray[np.float32], radius: int) -> None:
    soft = masks.feather(mask, radius)
    side = 2 * radius + 1
    padded = np.pad(mask, radius, mode="edge")
    windows = np.lib.stride_tricks.sliding_window_view(padded, (side, side))
    even = windows.min(axis=(2, 3)) == windows.max(axis=(2, 3))
    np.testing.assert_array_equal(soft[even], mask[even])
    assert np.all((soft[~even] > 0) & (soft[~even] < 1)) or radius < 2


def test_a_feathered_edge_is_a_symmetric_ramp() -> None:
    mask = np.zeros((4, 60), np.float32)
    mask[:, 30:] = 1
    ramp = masks.feather(mask, 8)[2]
    assert np.all(np.diff(ramp) >= 0)
    np.testing.assert_allclose(ramp + ramp[::-1], 1, atol=1e-6)
    assert ramp[21] == 0
    assert ramp[22] > 0
    assert ramp[37] < 1
    assert ramp[38] == 1


def test_the_same_ramp_runs_down_and_across() -> None:
    mask = np.random.default_rng(0).random((70, 70)).astype(np.float32)
    np.testing.assert_allclose(masks.feather(mask, 7), masks.feather(mask.T, 7).T, atol=1e-6)


@settings(max_examples=60)
@given(soft_masks, st.integers(0, 4), st.integers(0, 4))
def test_the_blend_weight_covers_the_mask_and_ends_at_its_margin(
    mask: NDArray[np.float32], grow_px: int, feather_px: int
) -> None:
    weight = masks.blend_weight(mask, grow_px=grow_px, feather_px=feather_px)
    assert np.all(weight >= mask)
    assert np.all(weight[mask == 1] == 1)
    reach = grow_px + 2 * feather_px
    padded = np.pad(mask, reach)
    windows = np.lib.stride_tricks.sliding_window_view(padded, (2 * reach + 1, 2 * reach + 1))
    near = windows.max(axis=(2, 3)) > 0
    assert np.all(weight[~near] == 0)
    assert weight.max() <= 1


def test_the_blend_weight_without_margins_is_the_mask() -> None:
    mask = np.random.default_rng(1).random(SIZE).astype(np.float32)
    np.testing.assert_array_equal(masks.blend_weight(mask, grow_px=0, feather_px=0), mask)


def test_soft_masks_stay_soft_in_the_blend() -> None:
    weight = masks.blend_weight(square(0.4), grow_px=2, feather_px=3)
    assert weight.max() == pytest.approx(0.4)


@pytest.mark.parametrize("size", [(1, 1), (1, 40), (40, 1)])
def test_pictures_of_one_pixel_width_work(size: tuple[int, int]) -> None:
    mask = np.ones(size, np.float32)
    for result in (
        masks.grow(mask, 5),
        masks.shrink(mask, 5),
        masks.feather(mask, 5),
        masks.blend_weight(mask, grow_px=3, feather_px=4),
    ):
        np.testing.assert_array_equal(result, mask)


@pytest.mark.parametrize("call", [masks.grow, masks.shrink, masks.feather])
@pytest.mark.parametrize("px", [-1, float("nan"), float("inf")])
def test_impossible_distances_are_refused(call: Any, px: float) -> None:
    with pytest.raises(MaskError, match="pixels; expected 0 or more"):
        call(square(), px)


def test_nothing_changes_its_argument() -> None:
    mask = np.random.default_rng(2).random(SIZE).astype(np.float32)
    photo = np.random.default_rng(3).random((*SIZE, 3)).astype(np.float32)
    before = mask.copy()
    mask.flags.writeable = False
    masks.snap(mask)
    masks.grow(mask, 3)
    masks.shrink(mask, 3)
    masks.feather(mask, 3)
    masks.blend_weight(mask, grow_px=2, feather_px=2)
    masks.resize(mask, 20, 30)
    masks.invert(mask)
    masks.describe(mask, photo)
    np.testing.assert_array_equal(mask, before)


# What users are told


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
    assert "--invert-mask" in line
    assert masks.looks_inverted(masks.invert(square()), shaded(square()))
    assert not masks.looks_inverted(square(), shaded(square()))


def test_a_large_dark_side_does_not_make_a_mask_look_inverted() -> None:
    photo = shaded(square())
    photo[:, 40:] = 0.02
    assert masks.describe(square(), photo) == []


def test_the_gray_photo_itself_is_a_picture_not_a_mask() -> None:
    photo = shaded(square())
    with pytest.raises(MaskError, match="a picture, not a mask"):
        masks.describe(photo.mean(axis=2), photo)


def test_inverting_twice_gives_the_mask_back() -> None:
    np.testing.assert_array_equal(masks.invert(masks.invert(square(0.25))), square(0.25))


def test_noise_is_not_taken_for_a_faint_mask():
    noise = np.random.default_rng(0).uniform(0, 0.1, (32, 48)).astype(np.float32)
    assert masks.strengthen(noise) == (noise, None)
