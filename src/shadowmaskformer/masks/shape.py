"""The shape of masks: resize, grow, shrink, feather.

Everything here is numpy and leaves its arguments unchanged. Growing by n pixels takes about log2(n) passes, feathering
four.
"""

from __future__ import annotations

from collections.abc import Callable
from numbers import Real
from typing import Any

import numpy as np
from numpy.typing import NDArray

from shadowmaskformer.arrays import average_down, box_mean
from shadowmaskformer.errors import ConfigError

Mask = NDArray[np.float32]

MAX_DISTANCE = 10_000
"""Largest distance in pixels by which a mask can be grown, shrunk or feathered."""


def check_distance(px: object, option: str, *, shrinks: bool = False) -> None:
    """Raise ConfigError unless `px` is a number of pixels up to `MAX_DISTANCE`.

    Args:
        px: the given value.
        option: its name, such as `grow_px` or `feather_px`.
        shrinks: whether negative distances are allowed.

    >>> check_distance(-3, "feather_px")
    Traceback (most recent call last):
    shadowmaskformer.errors.ConfigError: -3 is not a valid distance; give feather_px a number from 0 to 10000
    """
    low = -MAX_DISTANCE if shrinks else 0
    # NaN fails the comparison.
    if isinstance(px, bool) or not isinstance(px, Real) or not low <= float(px) <= MAX_DISTANCE:
        shown = repr(px) if isinstance(px, str) else px
        remedy = f"give {{{option}}} a number from {low} to {MAX_DISTANCE}"
        raise ConfigError(f"{shown} is not a valid distance", remedy)


def invert(mask: Mask) -> Mask:
    """Return the mask with shadow and light exchanged."""
    return np.subtract(np.float32(1), mask)


def resize(mask: Mask, height: int, width: int) -> Mask:
    """Return the mask at another size: area averages to shrink an axis, linear interpolation to enlarge it.

    Args:
        mask: (h, w), [0, 1].
        height: new rows.
        width: new columns.

    Returns:
        (height, width), [0, 1].
    """
    # Through contiguous copies, so that memory is read in order.
    columns = np.ascontiguousarray(_resize_rows(np.ascontiguousarray(mask.T), width).T)
    return _rounded_off(_resize_rows(columns, height))


def resize_with_photo(mask: Mask, height: int, width: int) -> Mask:
    """Return the mask at the size of a copy of its photo: one that `average_down` made stays aligned with it.

    Args:
        mask: (h, w), [0, 1].
        height: rows of the copy.
        width: columns of the copy.

    Returns:
        (height, width), [0, 1].
    """
    if height <= mask.shape[0] and width <= mask.shape[1]:
        return average_down(mask, height, width)
    return resize(mask, height, width)


def _resize_rows(values: Mask, count: int) -> Mask:
    rows = values.shape[0]
    if count == rows:
        return values
    resized = np.empty((count, values.shape[1]), np.float32)
    scale = rows / count
    for row in range(count):
        if scale > 1:
            low, high = row * scale, min((row + 1) * scale, rows)
            first, last = int(low), min(int(np.ceil(high)), rows)
            weights = np.minimum(np.arange(first, last) + 1, high) - np.maximum(np.arange(first, last), low)
        else:
            centre = min(max((row + 0.5) * scale - 0.5, 0), rows - 1)
            first, last = int(centre), min(int(centre) + 2, rows)
            weights = np.array([1 - (centre - first), centre - first])[: last - first]
        np.matmul((weights / weights.sum()).astype(np.float32), values[first:last], out=resized[row])
    return resized


def _rounded_off(mask: Mask) -> Mask:
    """Return the mask with rounding errors near 0 and 1 removed; changes its argument."""
    mask[mask < 1e-6] = 0
    mask[mask > 1 - 1e-6] = 1
    return mask


def grow(mask: Mask, px: float) -> Mask:
    """Return the mask made larger on all sides: the highest level within about `px` pixels.

    The neighbourhood is the octagon closest to a circle. Nothing grows in from outside the frame.

    Args:
        mask: (H, W), [0, 1].
        px: distance, at least 0; rounded to whole pixels.
    """
    radius = _radius(px, "px")
    return _near_mask(mask, radius, lambda part: _grow_octagon(_as_bool_if_hard(part), radius))


def shrink(mask: Mask, px: float) -> Mask:
    """Return the mask made smaller on all sides except at the frame: the lowest level within about `px` pixels.

    Args:
        mask: (H, W), [0, 1].
        px: distance, at least 0; rounded to whole pixels.
    """
    radius = _radius(px, "px")
    return _near_mask(mask, radius, lambda part: invert(_grow_octagon(_as_bool_if_hard(invert(part)), radius)))


def feather(mask: Mask, px: float) -> Mask:
    """Return the mask with its borders softened into ramps that reach `px` pixels to either side.

    Args:
        mask: (H, W), [0, 1].
        px: half width of the ramp, at least 0; rounded to whole pixels. A pixel whose surroundings are all 0 or all
            1 to this distance keeps its exact level.
    """
    radius = _radius(px, "px")
    return _near_mask(mask, radius, lambda part: _blur(part, radius))


def blend_weight(mask: Mask, *, grow_px: float, feather_px: float) -> Mask:
    """Return how much of the result each pixel takes; the rest is the photo.

    Args:
        mask: (H, W), [0, 1].
        grow_px: distance by which the mask is grown first.
        feather_px: half width of the soft border, which lies outside the grown mask.

    Returns:
        (H, W), [0, 1], nowhere below the mask: exactly 1 where the mask is 1, and exactly 0 farther than
        `grow_px + 2 * feather_px` from the mask along rows and columns.
    """
    wider, softer = _radius(grow_px, "grow_px"), _radius(feather_px, "feather_px")

    def weigh(part: Mask) -> Mask:
        grown = _grow_square(_grow_octagon(_as_bool_if_hard(part), wider), softer)
        return np.maximum(_blur(grown, softer), part)

    return _near_mask(mask, wider + 2 * softer, weigh)


def _radius(px: float, option: str) -> int:
    check_distance(px, option)
    return round(px)


def _near_mask(mask: Mask, reach: int, work: Callable[[Mask], NDArray[Any]]) -> Mask:
    """Return the result of `work`, computed only within `reach` of the mask.

    Shadows cover a small part of most photos. `work` must return 0 where all within `reach` is 0.
    """
    result = np.zeros(mask.shape, np.float32)
    rows, columns = np.flatnonzero(mask.any(axis=1)), np.flatnonzero(mask.any(axis=0))
    if rows.size:
        # One pixel more than the reach, so that the frame of the box is 0 unless the photo ends there.
        box = (
            slice(max(rows[0] - reach - 1, 0), rows[-1] + reach + 2),
            slice(max(columns[0] - reach - 1, 0), columns[-1] + reach + 2),
        )
        result[box] = work(mask[box])
    return result


def _as_bool_if_hard(mask: Mask) -> NDArray[Any]:
    """Return a mask of 0 and 1 as booleans, which take a quarter of the memory; soft masks unchanged."""
    truth = mask == 1
    return truth if np.array_equal(truth, mask != 0) else mask


def _grow_octagon(values: NDArray[Any], radius: int) -> NDArray[Any]:
    # A regular octagon is a square widened by a diamond. Its straight sides are tan(22.5°) of its radius.
    side = round(radius * (2**0.5 - 1))
    return _grow_diamond(_grow_square(values, side), radius - side)


def _grow_square(values: NDArray[Any], radius: int) -> NDArray[Any]:
    """Return the highest level in the square of side 2 radius + 1."""
    for down, right in ((1, 0), (0, 1)):
        reach = 0
        while reach < radius:
            # Shifting a window of reach r by r + 1 leaves no gap. A shift by 2 r + 1 would leave none either, but
            # it relies on pixels that may lie outside the frame.
            step = min(reach + 1, radius - reach)
            shift = (step * down, step * right)
            values = _highest_of_shifts(values, (shift, (-shift[0], -shift[1])))
            reach += step
    return values


def _grow_diamond(values: NDArray[Any], radius: int) -> NDArray[Any]:
    """Return the highest level within `radius` steps along rows and columns."""
    reach = 0
    while reach < radius:
        # Steps of half the reach: new pixels lie farther than that along one axis, so the path to them never
        # turns back and never leaves the frame.
        step = min((reach + 1) // 2 or 1, radius - reach)
        values = _highest_of_shifts(values, ((step, 0), (-step, 0), (0, step), (0, -step)))
        reach += step
    return values


def _highest_of_shifts(values: NDArray[Any], shifts: tuple[tuple[int, int], ...]) -> NDArray[Any]:
    """Return the pixelwise maximum of the array and its shifted copies; nothing comes in from outside the frame."""
    rows, columns = values.shape
    highest = values.copy()
    for down, right in shifts:
        if abs(down) >= rows or abs(right) >= columns:
            continue
        to = highest[max(down, 0) : rows + min(down, 0), max(right, 0) : columns + min(right, 0)]
        source = values[max(-down, 0) : rows + min(-down, 0), max(-right, 0) : columns + min(-right, 0)]
        np.maximum(to, source, out=to)
    return highest


def _blur(values: NDArray[Any], radius: int) -> Mask:
    """Return the mean over a square window whose weights fall off towards its edge and reach `radius` pixels."""
    # Two boxes make a smooth ramp, and together reach exactly `radius`.
    blurred = box_mean(box_mean(values.astype(np.float32), radius - radius // 2), radius // 2)
    return _rounded_off(blurred)
