"""Pictures as arrays: levels and floats, gray, sizes."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from shadowmaskformer.errors import ArrayError

Floats = NDArray[np.float32]
"""Pictures, masks and planes to compute with."""
Doubles = NDArray[np.float64]
"""The same where published numbers depend on the last digits."""
Levels = NDArray[np.uint8]
"""Pictures and masks of 8 bits, [0, 255]."""

_BYTES = np.dtype(np.uint8)
ROUNDING = 1e-4
"""How far beyond [0, 1] floats may lie; results are held to it in the end."""
_STRIP = 64  # rows: on a large photo, moving whole intermediate arrays would cost more than the arithmetic
_CACHED = 200 * 200  # pixels of a plane whose sums fit into a core's cache


def check_pixels(pixels: NDArray[Any]) -> None:
    """Raise ArrayError unless `pixels` is RGB, (H, W, 3), uint8, uint16 or float32 with no side of 0."""
    if pixels.ndim != 3 or pixels.shape[2] != 3 or 0 in pixels.shape:
        raise ArrayError(f"pixels are {pixels.shape}; expected (height, width, 3), RGB, no side 0")
    if pixels.dtype.name not in ("uint8", "uint16", "float32"):
        raise ArrayError(f"pixels are {pixels.dtype}; expected uint8, uint16 or float32")


def check_levels(values: NDArray[Any], name: str) -> None:
    """Raise ArrayError unless all the floats in `values` are finite and, except for rounding, in [0, 1]."""
    bad = int(values.size - np.count_nonzero(np.isfinite(values)))
    if bad:
        raise ArrayError(f"{name}: {bad} of {values.size} values are NaN or infinite; replace them first")
    low, high = float(values.min()), float(values.max())
    if low < -ROUNDING or high > 1 + ROUNDING:
        remedy = "rescale them" if high > 2 or low < -1 else "clip or rescale them"
        raise ArrayError(f"{name}: values from {low:.4g} to {high:.4g}; floats must lie in 0 to 1: {remedy}")


def to_float(pixels: NDArray[Any]) -> NDArray[np.float32]:
    """Integer levels to float32 in [0, 1]; floats keep their values.

    >>> to_float(np.array([0, 51, 255], np.uint8)).tolist()
    [0.0, 0.20000000298023224, 1.0]
    """
    if pixels.dtype.kind == "u":
        # Divided, not multiplied by 1/255: the nearest float, from which the level comes back.
        return np.divide(pixels, np.float32(np.iinfo(pixels.dtype).max), dtype=np.float32)
    return np.ascontiguousarray(pixels, np.float32)


def from_float(values: NDArray[Any], dtype: np.dtype[Any] = _BYTES) -> NDArray[Any]:
    """Floats to `dtype`, clamped to [0, 1] and rounded to the nearest level.

    >>> from_float(np.array([-1.0, 0.5, 2.0])).tolist()
    [0, 128, 255]
    """
    if values.dtype.kind != "f":
        values = to_float(values)
    if dtype.kind == "f":
        return np.clip(values, 0, 1).astype(dtype)
    top = np.float32(np.iinfo(dtype).max)
    levels = np.empty(values.shape, dtype)
    for first in range(0, len(values), _STRIP):
        strip = np.clip(values[first : first + _STRIP], 0, 1)
        strip *= top
        strip += np.float32(0.5)
        levels[first : first + _STRIP] = strip
    return levels


def gray_levels(pixels: NDArray[Any]) -> NDArray[Any]:
    """One channel from three: theirs, bit for bit, where all agree, else their luma (ITU-R BT.601).

    >>> gray_levels(np.array([[[7, 7, 7], [255, 0, 0]]], np.uint8)).tolist()
    [[7, 76]]
    """
    red = pixels[..., 0]
    agree = (red == pixels[..., 1]) & (red == pixels[..., 2])
    if agree.all():
        return red
    luma = to_float(pixels) @ np.array([0.299, 0.587, 0.114], np.float32)
    return np.where(agree, red, from_float(luma, pixels.dtype))


def fit_pixels(height: int, width: int, pixels: int) -> tuple[int, int]:
    """The size of a picture reduced to about `pixels` pixels; its own if it has no more.

    >>> fit_pixels(480, 640, 120 * 160), fit_pixels(480, 640, 10**6)
    ((120, 160), (480, 640))
    """
    scale = min(1.0, (pixels / (height * width)) ** 0.5)
    return max(1, round(height * scale)), max(1, round(width * scale))


def average_down(planes: NDArray[Any], height: int, width: int) -> Floats:
    """Average levels or floats, (H, W, C) or (H, W), down to a smaller size, as float32 in [0, 1].

    In strips: a large photo is never held as floats. Pixels count whole, for the output pixel that holds their middle;
    along an axis that does not shrink, the nearest pixel is repeated.
    """
    if planes.shape[:2] == (height, width):
        return to_float(planes)
    channels = planes[..., None] if planes.ndim == 2 else planes
    rows, columns, depth = channels.shape
    tops, lefts = _first_pixels(rows, height), _first_pixels(columns, width)
    tall, wide = (np.maximum(np.diff(first, append=size), 1) for first, size in ((tops, rows), (lefts, columns)))
    whole = channels.dtype.kind == "u"
    top = np.iinfo(channels.dtype).max if whole else 1
    # The narrowest types that hold the sums: adding up moves memory, and little else.
    narrow = top * int(tall.max()) <= np.iinfo(np.uint16).max
    down = np.dtype(np.float64 if not whole else np.uint16 if narrow else np.uint32)
    across = np.dtype(np.float64 if not whole else np.uint32 if narrow else np.uint64)
    reduced = np.empty((height, width, depth), np.float32)
    sums = np.empty((min(_STRIP, height), columns * depth), down)
    for first in range(0, height, _STRIP):
        last = min(first + _STRIP, height)
        for row in range(first, last):
            lines = channels[tops[row] : tops[row] + tall[row]].reshape(tall[row], -1)
            np.add.reduce(lines, axis=0, dtype=down, out=sums[row - first])
        strip = sums[: last - first].reshape(-1, columns, depth)
        weights = (tall[first:last, None] * wide * float(top)).astype(np.float32)
        np.divide(np.add.reduceat(strip, lefts, axis=1, dtype=across), weights[..., None], out=reduced[first:last])
    return reduced[..., 0] if planes.ndim == 2 else reduced


def _first_pixels(size: int, count: int) -> NDArray[np.intp]:
    """Return the first of the pixels on a line of `size` whose middles lie in each of `count` parts."""
    return np.minimum((np.arange(count) * (size / count) + 0.5).astype(np.intp), size - 1)


def sample(planes: Floats, rows: Floats, columns: Floats) -> Floats:
    """Read planes (h, w, C) between their pixels, linearly; beyond their border they repeat.

    Args:
        planes: float32, (h, w, C).
        rows: places along the height, in pixels; 0 is the middle of the first.
        columns: the same along the width.

    Returns:
        (len(rows), len(columns), C) float32.

    >>> sample(np.array([[[0.0], [1.0]]], np.float32), np.zeros(1), np.array([-1, 0.25, 1]))[0, :, 0].tolist()
    [0.0, 0.25, 1.0]
    """
    for axis, places in enumerate((rows, columns)):
        end = planes.shape[axis] - 1
        places = np.clip(places, 0, end)
        before = places.astype(np.intp)
        shares = (places - before).astype(np.float32)
        if not shares.any():
            planes = planes.take(before, axis)
            continue
        shares = shares[:, None, None] if axis == 0 else shares[:, None]
        low = planes.take(before, axis)
        high = planes.take(np.minimum(before + 1, end), axis)
        high -= low
        high *= shares
        high += low
        planes = high
    return planes


def places(size: int, of: int, part: slice | None = None) -> Floats:
    """Return where the middles of `of` pixels, or of a part of them, lie on a line of `size` pixels of the same length.

    >>> places(2, 4).tolist(), places(2, 4, slice(1, 3)).tolist()
    ([-0.25, 0.25, 0.75, 1.25], [0.25, 0.75])
    """
    first, last = (0, of) if part is None else (part.start, part.stop)
    return ((np.arange(first, last) + 0.5) * (size / of) - 0.5).astype(np.float32)


def box_mean(plane: Floats, radius: int) -> Floats:
    """Return the average of each pixel's square neighbourhood of `2 * radius + 1`, borders replicated.

    Args:
        plane: (H, W), any range.
        radius: pixels; 0 returns `plane`.

    >>> box_mean(np.array([[0.0, 0.0, 3.0]], np.float32), 1).tolist()
    [[0.0, 1.0, 2.0]]
    """
    if radius <= 0:
        return plane
    size = 2 * radius + 1
    averaged = np.empty(plane.shape, np.float32)
    padded = np.pad(plane, ((radius + 1, radius), (0, 0)), mode="edge")
    # Sums are float64, because thousands of additions and subtractions have to cancel out.
    if plane.size < _CACHED:
        sums = np.cumsum(padded, axis=0, dtype=np.float64)
        np.divide(sums[size:] - sums[:-size], size, out=averaged, casting="same_kind")
    else:
        # Row by row: NumPy's cumulative sum down the columns of a large plane misses the cache at each step.
        total = padded[:size].sum(axis=0, dtype=np.float64)
        for row in range(plane.shape[0]):
            total += padded[row + size]
            total -= padded[row]
            np.divide(total, size, out=averaged[row], casting="same_kind")
    # In strips, for the sums to stay in the cache.
    for first in range(0, plane.shape[0], _STRIP):
        strip = averaged[first : first + _STRIP]
        sums = np.cumsum(np.pad(strip, ((0, 0), (radius + 1, radius)), mode="edge"), axis=1, dtype=np.float64)
        np.divide(sums[:, size:] - sums[:, :-size], size, out=strip, casting="same_kind")
    return averaged
