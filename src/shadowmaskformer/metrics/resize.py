"""The resizers that published scripts use, reproduced to the last bit that matters.

`imresize` is MATLAB's bicubic one, on which the field's reference tables rest. `resize_nearest` and
`resize_area` serve the named variants of the rule.
"""

from __future__ import annotations

from functools import lru_cache

import numpy as np
from numpy.typing import NDArray

from shadowmaskformer.arrays import Doubles
from shadowmaskformer.errors import ArrayError

_BLOCK = 32


def imresize(image: NDArray, height: int, width: int) -> NDArray:
    """Resize as MATLAB's `imresize(image, [height width])` does: bicubic, antialiased when shrinking.

    Kernel of Keys (1981, a = -0.5), widened by the scale when shrinking, weights normalised, symmetric
    border, the dimension with the smaller scale first. A float picture is neither rounded nor clipped, so it
    may leave [0, 1] at edges. A uint8 picture is rounded and clipped after each dimension, as MATLAB does.

    Args:
        image: (H, W) or (H, W, C); uint8, bool (taken as 0 and 255) or float of any range.
        height: rows wanted.
        width: columns wanted.

    Returns:
        (height, width[, C]); uint8 for uint8 and bool input, float64 otherwise.

    >>> imresize(np.array([[0.0, 1.0], [0.0, 1.0]]), 2, 4).round(4).tolist()[0]
    [-0.0938, 0.2031, 0.7969, 1.0938]
    >>> imresize(np.array([[0, 255]], dtype=np.uint8), 1, 4).tolist()
    [[0, 52, 203, 255]]
    """
    _check(image, height, width)
    if image.dtype == np.bool_:
        image = image.astype(np.uint8) * np.uint8(255)
    integer = image.dtype == np.uint8
    out = image.astype(np.float64)
    scales = (height / image.shape[0], width / image.shape[1])
    for axis in sorted((0, 1), key=lambda axis: scales[axis]):  # stable: rows first on a tie
        wanted = (height, width)[axis]
        if wanted != image.shape[axis]:
            out = _apply(cubic_weights(image.shape[axis], wanted), out, axis)
            if integer:
                out = np.clip(np.floor(out + 0.5), 0, 255)
    return out.astype(np.uint8) if integer else out


@lru_cache(maxsize=64)
def cubic_weights(size: int, wanted: int) -> Doubles:
    """Return the (wanted, size) matrix of MATLAB's bicubic resize along one dimension; rows sum to 1.

    >>> cubic_weights(4, 2).round(4).tolist()[0]
    [0.5469, 0.3984, 0.1016, -0.0469]
    """
    scale = wanted / size
    shrink = min(scale, 1.0)
    support = 4.0 / shrink
    # MATLAB counts pixels from 1: output x lies at input x/scale + (1 - 1/scale)/2.
    centre = np.arange(1, wanted + 1) / scale + 0.5 * (1 - 1 / scale)
    taps = np.floor(centre - support / 2)[:, None] + np.arange(int(np.ceil(support)) + 2)
    weights = shrink * _keys(shrink * (centre[:, None] - taps))
    weights /= weights.sum(axis=1, keepdims=True)
    mirrored = np.concatenate([np.arange(size), np.arange(size)[::-1]])
    columns = mirrored[np.mod(taps.astype(np.int64) - 1, 2 * size)]
    matrix = np.zeros((wanted, size))
    np.add.at(matrix, (np.arange(wanted)[:, None], columns), weights)
    matrix.flags.writeable = False
    return matrix


def resize_nearest(image: NDArray, height: int, width: int) -> NDArray:
    """Resize by picking the nearest pixel, as MATLAB's `imresize(…, 'nearest')`; values and type are kept.

    >>> resize_nearest(np.array([[1, 2, 3, 4]]), 1, 2).tolist()
    [[2, 4]]
    """
    _check(image, height, width)
    rows, columns = (
        np.clip(np.floor((np.arange(wanted) + 0.5) * size / wanted), 0, size - 1).astype(np.int64)
        for size, wanted in zip(image.shape[:2], (height, width), strict=True)
    )
    return image[rows[:, None], columns]


def resize_area(image: NDArray, height: int, width: int) -> Doubles:
    """Shrink by averaging the area that each new pixel covers, as OpenCV's `INTER_AREA`.

    A picture smaller than wanted is enlarged linearly, which is what OpenCV falls back to.

    >>> resize_area(np.array([[0.0, 1.0, 2.0]]), 1, 2).round(4).tolist()
    [[0.3333, 1.6667]]
    """
    _check(image, height, width)
    out = image.astype(np.float64)
    for axis, wanted in enumerate((height, width)):
        if wanted != image.shape[axis]:
            out = _apply(_area_weights(image.shape[axis], wanted), out, axis)
    return out


@lru_cache(maxsize=64)
def _area_weights(size: int, wanted: int) -> Doubles:
    if wanted <= size:
        edges = np.arange(wanted + 1) * size / wanted
        pixels = np.arange(size)
        covered = np.minimum(edges[1:, None], pixels + 1) - np.maximum(edges[:-1, None], pixels)
        weights = np.clip(covered, 0, None)
    else:
        centre = np.clip((np.arange(wanted) + 0.5) * size / wanted - 0.5, 0, size - 1)
        weights = np.clip(1 - np.abs(centre[:, None] - np.arange(size)), 0, None)
    return weights / weights.sum(axis=1, keepdims=True)


def _keys(x: Doubles) -> Doubles:
    """Return Keys' cubic convolution kernel with a = -0.5 (IEEE TASSP 29(6), 1981, Eq. 15)."""
    x = np.abs(x)
    near = 1.5 * x**3 - 2.5 * x**2 + 1
    far = -0.5 * x**3 + 2.5 * x**2 - 4 * x + 2
    return np.where(x <= 1, near, np.where(x <= 2, far, 0.0))


def _apply(matrix: Doubles, image: Doubles, axis: int) -> Doubles:
    """Return `matrix` (wanted, size) times `image` (H, W[, C]) along `axis` (0 or 1).

    The matrix is a narrow band, so the product runs over blocks of its rows with the columns that they touch; on
    planes, not pixels, since a product three numbers wide is slow.
    """
    planes = np.ascontiguousarray(np.moveaxis(image, -1, 0)) if image.ndim == 3 else image
    shape = list(planes.shape)
    shape[planes.ndim - 2 + axis] = len(matrix)
    out = np.empty(shape)
    for start in range(0, len(matrix), _BLOCK):
        rows = matrix[start : start + _BLOCK]
        touched = np.flatnonzero(rows.any(axis=0))
        first, last = touched[0], touched[-1] + 1
        if axis == 0:
            out[..., start : start + _BLOCK, :] = rows[:, first:last] @ planes[..., first:last, :]
        else:
            out[..., start : start + _BLOCK] = planes[..., first:last] @ rows[:, first:last].T
    return np.moveaxis(out, 0, -1) if image.ndim == 3 else out


def _check(image: NDArray, height: int, width: int) -> None:
    if image.ndim not in (2, 3) or 0 in image.shape:
        raise ArrayError(f"cannot resize an array of shape {image.shape}; give (H, W) or (H, W, C)")
    if height < 1 or width < 1:
        raise ArrayError(f"cannot resize to {height}x{width}; both must be at least 1")
