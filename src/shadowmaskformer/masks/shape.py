"""The shape of masks: resize, grow, shrink, feather.

Everything here is numpy and leaves its arguments unchanged. Growing costs about log2(pixels) passes, softening four,
whatever the distance.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
from numpy.typing import NDArray

from shadowmaskformer.errors import MaskError

Mask = NDArray[np.float32]


def invert(mask: Mask) -> Mask:
    """Shadow and light exchanged."""
    return np.subtract(np.float32(1), mask)


def resize(mask: Mask, height: int, width: int) -> Mask:
    """Resize along each axis: averages of areas when it shrinks, linear between pixel centres when it grows.

    Args:
        mask: (h, w), [0, 1].
        height: new rows.
        width: new columns.

    Returns:
        (height, width), [0, 1].
    """
    # Columns first where that leaves less to do for the rows, and through copies that read memory in order.
    columns = np.ascontiguousarray(_resize_rows(np.ascontiguousarray(mask.T), width).T)
    return _settled(_resize_rows(columns, height))


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


def _settled(mask: Mask) -> Mask:
    """The mask with the last digits of sums and averages taken off: zero is 0 and one is 1."""
    mask[mask < 1e-6] = 0
    mask[mask > 1 - 1e-6] = 1
    return mask


def grow(mask: Mask, px: float) -> Mask:
    """The highest level within about `px` pixels: the mask, larger on all sides.

    The neighbourhood is the octagon nearest to a circle. Beyond the frame there is nothing to grow from.

    Args:
        mask: (H, W), [0, 1].
        px: distance, rounded to whole pixels; at least 0.
    """
    radius = _radius(px, "grow")
    return _near_mask(mask, radius, lambda part: _grow_octagon(_lean(part), radius))


def shrink(mask: Mask, px: float) -> Mask:
    """The lowest level within about `px` pixels: the mask, smaller on all sides but the frame.

    Args:
        mask: (H, W), [0, 1].
        px: distance, rounded to whole pixels; at least 0.
    """
    radius = _radius(px, "shrink")
    return _near_mask(mask, radius, lambda part: invert(_grow_octagon(_lean(invert(part)), radius)))


def feather(mask: Mask, px: float) -> Mask:
    """The mask with its borders softened into ramps that reach `px` pixels to either side.

    Args:
        mask: (H, W), [0, 1].
        px: half width of the ramp, rounded to whole pixels; at least 0. Where the mask is 0 or 1 all around
            to this distance, it stays exactly so.
    """
    radius = _radius(px, "feather")
    return _near_mask(mask, radius, lambda part: _blur(part, radius))


def blend_weight(mask: Mask, *, grow_px: float, feather_px: float) -> Mask:
    """How much of the result to take over the photo at each pixel.

    Args:
        mask: (H, W), [0, 1].
        grow_px: distance by which the mask is grown first.
        feather_px: half width of the soft border, laid wholly outside the grown mask.

    Returns:
        (H, W), [0, 1]: exactly 1 where the mask is 1, exactly 0 farther than `grow_px + 2 * feather_px`
        (along rows and columns) from all of the mask, at least the mask everywhere; softness is kept.
    """
    wider, softer = _radius(grow_px, "grow"), _radius(feather_px, "feather")

    def weigh(part: Mask) -> Mask:
        grown = _grow_square(_grow_octagon(_lean(part), wider), softer)
        return np.maximum(_blur(grown, softer), part)

    return _near_mask(mask, wider + 2 * softer, weigh)


def _radius(px: float, what: str) -> int:
    if not 0 <= px < 1e5:
        raise MaskError(f"cannot {what} a mask by {px} pixels; expected 0 or more")
    return round(px)


def _near_mask(mask: Mask, reach: int, work: Callable[[Mask], NDArray[Any]]) -> Mask:
    """The result of `work`, done only where the mask or anything within `reach` of it is not 0.

    Shadows cover a small part of most photos. `work` must turn zeros all around into zeros.
    """
    result = np.zeros(mask.shape, np.float32)
    rows, columns = np.flatnonzero(mask.any(axis=1)), np.flatnonzero(mask.any(axis=0))
    if rows.size:
        # One more than the reach, so that what `work` sees at its frame is 0 unless the photo ends there.
        box = (
            slice(max(rows[0] - reach - 1, 0), rows[-1] + reach + 2),
            slice(max(columns[0] - reach - 1, 0), columns[-1] + reach + 2),
        )
        result[box] = work(mask[box])
    return result


def _lean(mask: Mask) -> NDArray[Any]:
    """As booleans where these say the same: a quarter of the memory to move."""
    truth = mask == 1
    return truth if np.array_equal(truth, mask != 0) else mask


def _grow_octagon(values: NDArray[Any], radius: int) -> NDArray[Any]:
    # A regular octagon is a square widened by a diamond; its straight sides are tan(22.5°) of its radius.
    side = round(radius * (2**0.5 - 1))
    return _grow_diamond(_grow_square(values, side), radius - side)


def _grow_square(values: NDArray[Any], radius: int) -> NDArray[Any]:
    """Highest level in the square of side 2 radius + 1."""
    for down, right in ((1, 0), (0, 1)):
        reach = 0
        while reach < radius:
            # Shifting a window of reach r by r + 1 leaves no gap. (2 r + 1 would not either, but by way of
            # pixels on the other side, and these may lie beyond the frame.)
            step = min(reach + 1, radius - reach)
            shift = (step * down, step * right)
            values = _highest_of_shifts(values, (shift, (-shift[0], -shift[1])))
            reach += step
    return values


def _grow_diamond(values: NDArray[Any], radius: int) -> NDArray[Any]:
    """Highest level within `radius` steps along rows and columns."""
    reach = 0
    while reach < radius:
        # Half of its own reach: what is new lies farther than that along one axis, so that the way to it
        # never turns back and never leaves the frame.
        step = min((reach + 1) // 2 or 1, radius - reach)
        values = _highest_of_shifts(values, ((step, 0), (-step, 0), (0, step), (0, -step)))
        reach += step
    return values


def _highest_of_shifts(values: NDArray[Any], shifts: tuple[tuple[int, int], ...]) -> NDArray[Any]:
    """Pixelwise maximum of the array and its shifted copies; nothing comes in from beyond the frame."""
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
    """Mean over a square window that falls off towards its rim and reaches `radius` pixels."""
    blurred = values.astype(np.float32)
    # Two boxes make a ramp without corners; together they reach exactly `radius`.
    for box in (radius - radius // 2, radius // 2):
        if box:
            _box_down(blurred, box)
            _box_across(blurred, box)
    return _settled(blurred)


def _box_down(values: Mask, radius: int) -> None:
    """Replace each row by the mean of rows i - radius to i + radius; the frame's rows repeat beyond it.

    A running sum, row by row: numpy's cumulative sum down the columns would miss the cache at each step.
    """
    padded = np.pad(values, ((radius + 1, radius), (0, 0)), mode="edge")
    size = 2 * radius + 1
    # float64, because thousands of additions and subtractions have to cancel out.
    total = padded[:size].sum(axis=0, dtype=np.float64)
    for row in range(values.shape[0]):
        total += padded[row + size]
        total -= padded[row]
        np.divide(total, size, out=values[row], casting="same_kind")


def _box_across(values: Mask, radius: int) -> None:
    """Replace each column by the mean of columns j - radius to j + radius; the frame's columns repeat."""
    size = 2 * radius + 1
    # In strips, for the sums to stay in the cache.
    for first in range(0, values.shape[0], 64):
        strip = values[first : first + 64]
        padded = np.pad(strip, ((0, 0), (radius + 1, radius)), mode="edge")
        total = np.cumsum(padded, axis=1, dtype=np.float64)
        np.divide(total[:, size:] - total[:, :-size], size, out=strip, casting="same_kind")
