from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp
from numpy.typing import NDArray

from shadowmaskformer import masks
from shadowmaskformer.arrays import average_down
from shadowmaskformer.errors import ConfigError

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


@given(soft_masks, st.integers(1, 20), st.integers(1, 20))
def test_resizing_stays_within_the_levels(mask: NDArray[np.float32], height: int, width: int) -> None:
    resized = masks.resize(mask, height, width)
    assert resized.shape == (height, width)
    assert resized.min() >= mask.min() - 1e-6
    assert resized.max() <= mask.max() + 2e-6


@given(soft_masks, st.integers(1, 20), st.integers(1, 20))
def test_with_its_photo_a_mask_shrinks_as_photos_do(mask: NDArray[np.float32], height: int, width: int) -> None:
    shrinks = height <= mask.shape[0] and width <= mask.shape[1]
    expected = average_down(mask, height, width) if shrinks else masks.resize(mask, height, width)
    assert np.array_equal(masks.resize_with_photo(mask, height, width), expected)


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
def test_feathering_stays_within_the_levels(mask: NDArray[np.float32], radius: int) -> None:
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
@pytest.mark.parametrize("px", [-3, float("nan"), float("inf"), 1e9, "3", None, True])
def test_impossible_distances_are_refused(call: Any, px: Any) -> None:
    with pytest.raises(ConfigError, match="not a valid distance; give px a number from 0 to 10000"):
        call(square(), px)


@pytest.mark.parametrize("option", ["grow_px", "feather_px"])
@pytest.mark.parametrize("px", [-3, float("nan"), float("inf"), 1e9, "3"])
def test_an_impossible_distance_is_refused_by_the_name_of_its_option(option: str, px: Any) -> None:
    given = {"grow_px": 0, "feather_px": 0} | {option: px}
    with pytest.raises(ConfigError, match=f"^{px!r} is .* give {option} a number from 0 to 10000") as caught:
        masks.blend_weight(square(), **given)
    assert f"--{option.removesuffix('_px')} a number" in caught.value.said("command")


@pytest.mark.parametrize("px", [2, 2.4, np.int64(2), np.float32(2), np.uint8(2)])
def test_any_kind_of_number_is_a_distance(px: Any) -> None:
    np.testing.assert_array_equal(masks.grow(square(), px), masks.grow(square(), 2))


def test_a_distance_larger_than_the_picture_works() -> None:
    np.testing.assert_array_equal(masks.grow(square(), 1000), 1)
    assert masks.feather(square(), 1000).max() < 1


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


def test_inverting_twice_gives_the_mask_back() -> None:
    np.testing.assert_array_equal(masks.invert(masks.invert(square(0.25))), square(0.25))
