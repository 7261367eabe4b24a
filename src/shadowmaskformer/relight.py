"""The floor that needs no learning: shadow light turned back into sunlight from what the mask's edge shows.

On both sides of a shadow's edge lies mostly the same material in two lights. The picture is cut into a grid
of cells; wherever the edge passes, the mean colours of a band inside and a band outside make one *pair*.
Pairs that disagree with the rest (the edge of the shadow was also the edge of a thing) lose their weight.
Every shadowed cell then takes the pairs that are near it and whose shaded colour resembles its own: that
gives its own `w` and `b` of the paper's model, `I_free = w * I_shadow + b`, per channel.

How softly the shadow ends is measured too: the mean brightness between the two bands as a function of the
distance to the mask's edge gives the penumbra's profile, also when the mask was drawn a little too wide or
too narrow. Inside the penumbra the two lights mix, `I = (1 - k) * I_free + k * (I_free - b) / w`.

All constants were chosen on the training part of SRD at 256x256; lengths are fractions of the picture's size.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from .correction import Correction
from .errors import ArrayError

FALLBACK_GAIN = 2.5
"""The paper's w1: what a shadow is taken to cost where the picture does not tell."""

_WORKING_SIDE = 1024  # pixels; larger pictures are measured on a reduced copy
_CELLS = 32  # per side of the grid
_EDGE = 4 / 256  # nearer to the edge than this a band counts less: the penumbra lies there
_BAND = 16 / 256  # how far from the edge the bands reach
_PENUMBRA = 10 / 256  # how far from the edge the shadow may still fade
_OUTLIER = 0.3  # log ratio by which a pair may differ from the rest before it loses its weight
_NEAR = 0.15  # distance, in picture sides, at which a pair's weight has fallen to a quarter
_ALIKE = 0.15  # colour distance at which a pair's weight has fallen to a quarter
# Cameras compress highlights: across a shadow's edge contrast grows less than brightness does. With the
# slope at this share of the brightness ratio, `b` carries the rest.
_CONTRAST = 0.6
_DARK = 0.02  # keeps ratios of nearly black colours finite


def relight(photo: np.ndarray, mask: np.ndarray) -> Correction:
    """Return the correction that gives the masked shadow the light of its surroundings.

    Args:
        photo: RGB float32, (H, W, 3), [0, 1].
        mask: float32, (H, W), [0, 1]; above 0.5 is shadow.

    Returns:
        Gain and offset of the photo's size; exactly 1 and 0 beyond the penumbra, and everywhere where the
        mask is empty.
    """
    height, width = _checked_size(photo, mask)
    if not (mask > 0.5).any():
        return Correction.identity(height, width)
    factor = -(-max(height, width) // _WORKING_SIDE)
    if factor == 1:
        return _relight(photo, mask > 0.5)
    return _relight(_reduced(photo, factor), _reduced(mask, factor) > 0.5).resized(height, width)


def estimate_light(photo: np.ndarray, mask: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Return one `w` and one `b` per channel for the whole shadow: `I_free = w * I_shadow + b`.

    Args:
        photo: RGB float32, (H, W, 3), [0, 1].
        mask: float32, (H, W), [0, 1]; above 0.5 is shadow.

    Returns:
        Gain (3,) and offset (3,), float32; the paper's 2.5 and 0 where the edge tells nothing.
    """
    height, width = _checked_size(photo, mask)
    factor = -(-max(height, width) // _WORKING_SIDE)
    if factor > 1:
        photo, mask = _reduced(photo, factor), _reduced(mask, factor)
    shadow = mask > 0.5
    pairs = _edge_pairs(photo, shadow, _signed_distance(shadow, _reach(shadow.shape)))
    if not len(pairs.weight):
        return np.full(3, FALLBACK_GAIN, np.float32), np.zeros(3, np.float32)
    share = pairs.weight / pairs.weight.sum()
    return _affine(share @ pairs.shaded, share @ pairs.lit)


@dataclass(frozen=True)
class _Pairs:
    """Mean colours on both sides of the edge, one row for each cell that the edge passes."""

    cell: np.ndarray  # (N, 2), row and column in the grid
    shaded: np.ndarray  # (N, 3), [0, 1]
    lit: np.ndarray  # (N, 3), [0, 1]
    weight: np.ndarray  # (N,), how far to trust the pair


def _relight(photo: np.ndarray, shadow: np.ndarray) -> Correction:
    distance = _signed_distance(shadow, _reach(shadow.shape))
    pairs = _edge_pairs(photo, shadow, distance)
    gain, offset = _light_per_cell(photo, shadow, pairs)
    light = _enlarge(np.concatenate([gain, offset], axis=2), *shadow.shape)
    gain, offset = light[:, :, :3], light[:, :, 3:]
    depth = _penumbra(photo, distance, pairs)[:, :, None]
    mixed = 1 / (1 - depth + depth / gain)
    return Correction(mixed, mixed * (depth / gain) * offset)


def _affine(shaded: np.ndarray, lit: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Return `w` and `b` that lead from the shaded to the lit colours, (..., 3) each."""
    gain = np.maximum(_CONTRAST * (lit + _DARK) / (shaded + _DARK), 1).astype(np.float32)
    return gain, (lit - gain * shaded).astype(np.float32)


def _edge_pairs(photo: np.ndarray, shadow: np.ndarray, distance: np.ndarray) -> _Pairs:
    edge, band = (length * _side(shadow.shape) for length in (_EDGE, _BAND))
    cell_of_pixel, rows, columns = _grid(shadow.shape)
    means: list[np.ndarray] = []
    weights: list[np.ndarray] = []
    for inwards in (distance, -distance):
        near = (inwards > 0) & (inwards <= band)
        trust = np.minimum(inwards[near] / edge, 1) ** 4
        sums = _cell_sums(photo[near], trust, cell_of_pixel[near], rows, columns)
        sums = _sum_of_neighbours(sums)
        means.append(sums[:, :, :3] / np.maximum(sums[:, :, 3:], 1e-6))
        weights.append(sums[:, :, 3])
    weight = np.minimum(*weights)
    known = weight > edge
    shaded, lit, weight = means[0][known], means[1][known], weight[known]
    return _Pairs(np.argwhere(known), shaded, lit, _without_outliers(shaded, lit, weight))


def _without_outliers(shaded: np.ndarray, lit: np.ndarray, weight: np.ndarray) -> np.ndarray:
    """Return the weights (N,) after a few steps towards the ratio on which most of the edge agrees."""
    ratio = np.log((lit + _DARK) / (shaded + _DARK))
    trusted = weight
    for _ in range(5 if len(weight) else 0):
        centre = trusted @ ratio / trusted.sum()
        trusted = weight / (1 + np.mean((ratio - centre) ** 2, axis=1) / _OUTLIER**2) ** 2
    return trusted


def _light_per_cell(photo: np.ndarray, shadow: np.ndarray, pairs: _Pairs) -> tuple[np.ndarray, np.ndarray]:
    """Return gain and offset of the grid, (rows, columns, 3) each, from near pairs of similar colour."""
    cell_of_pixel, rows, columns = _grid(shadow.shape)
    if not len(pairs.weight):
        shape = (rows, columns, 3)
        return np.full(shape, FALLBACK_GAIN, np.float32), np.zeros(shape, np.float32)
    sums = _cell_sums(photo[shadow], np.ones(np.count_nonzero(shadow)), cell_of_pixel[shadow], rows, columns)
    # Cells without shadow still light the penumbra's outer half: they take the colour of their neighbours.
    for _ in range(2):
        around = _sum_of_neighbours(sums)
        sums = np.where(sums[:, :, 3:] > 0, sums, around)
    wanted = sums[:, :, 3] > 0
    colour = sums[wanted][:, :3] / sums[wanted][:, 3:]
    size = np.array([rows, columns], np.float32)
    apart = _squared_distances(np.argwhere(wanted) / size, pairs.cell / size) / _NEAR**2
    unlike = _squared_distances(colour, pairs.shaded) / _ALIKE**2
    share = pairs.weight.astype(np.float32) / np.square((1 + apart) * (1 + unlike))
    share /= share.sum(axis=1, keepdims=True)
    gain, offset = np.ones((rows, columns, 3), np.float32), np.zeros((rows, columns, 3), np.float32)
    gain[wanted], offset[wanted] = _affine(share @ pairs.shaded, share @ pairs.lit)
    return gain, offset


def _penumbra(photo: np.ndarray, distance: np.ndarray, pairs: _Pairs) -> np.ndarray:
    """Return how much of the shadow's full depth each pixel has, (H, W), [0, 1]."""
    reach = int(np.ceil(_PENUMBRA * _side(distance.shape)))
    steps = np.arange(-reach, reach + 1)
    near = np.abs(distance) <= reach
    depth = (distance > 0).astype(np.float32)
    profile = (steps > 0).astype(np.float64)
    if len(pairs.weight):
        cell_of_pixel, rows, columns = _grid(distance.shape)
        both = np.zeros((rows, columns, 7))
        both[pairs.cell[:, 0], pairs.cell[:, 1]] = np.column_stack(
            [pairs.shaded, pairs.lit, pairs.weight > 0]
        )
        here = both.reshape(-1, 7)[cell_of_pixel[near]]
        rise = (here[:, 3:6] - here[:, :3]) * here[:, 6:]
        step = np.rint(distance[near]).astype(np.intp) + reach
        lit = np.bincount(step, np.sum((photo[near] - here[:, :3]) * rise, axis=1), len(steps))
        full = np.bincount(step, np.sum(rise * rise, axis=1), len(steps))
        known = full > 1e-4
        profile[known] = np.clip(1 - lit[known] / full[known], 0, 1)
        profile = np.clip((profile - 0.05) / 0.9, 0, 1)
        profile = (np.maximum.accumulate(profile) + np.minimum.accumulate(profile[::-1])[::-1]) / 2
    profile[0], profile[-1] = 0, 1
    depth[near] = np.interp(distance[near], steps, profile)
    return depth


def _signed_distance(shadow: np.ndarray, reach: int) -> np.ndarray:
    """Return the distance to the mask's edge, (H, W) pixels, positive inside, exact up to `reach`."""
    inside, outside = _distance_within(shadow, reach), _distance_within(~shadow, reach)
    return np.where(shadow, inside - np.float32(0.5), np.float32(0.5) - outside)


def _distance_within(region: np.ndarray, reach: int) -> np.ndarray:
    """Return each pixel's distance to the nearest pixel outside `region`, at most `reach` + 1."""
    height, width = region.shape
    column = np.arange(width, dtype=np.int32)
    before = np.maximum.accumulate(np.where(region, -width - reach, column), axis=1)
    after = np.minimum.accumulate(np.where(region, 2 * width + reach, column)[:, ::-1], axis=1)[:, ::-1]
    along = np.minimum(np.minimum(column - before, after - column), reach + 1)
    squared = np.square(along)
    nearest = squared.copy()
    for step in range(1, min(reach, height - 1) + 1):
        np.minimum(nearest[step:], squared[:-step] + step * step, out=nearest[step:])
        np.minimum(nearest[:-step], squared[step:] + step * step, out=nearest[:-step])
    return np.minimum(np.sqrt(nearest.astype(np.float32)), np.float32(reach + 1))


def _grid(shape: tuple[int, ...]) -> tuple[np.ndarray, int, int]:
    """Return the flat cell index of every pixel (H, W), the number of rows and of columns of cells."""
    height, width = shape
    rows, columns = min(_CELLS, height), min(_CELLS, width)
    row, column = np.arange(height) * rows // height, np.arange(width) * columns // width
    return row[:, None] * columns + column, rows, columns


def _cell_sums(
    colour: np.ndarray, weight: np.ndarray, cell: np.ndarray, rows: int, columns: int
) -> np.ndarray:
    """Return per cell the weighted sums of R, G, B and the weight's sum, (rows, columns, 4)."""
    planes = [np.bincount(cell, colour[:, channel] * weight, rows * columns) for channel in range(3)]
    planes.append(np.bincount(cell, weight, rows * columns))
    return np.stack(planes, axis=-1).reshape(rows, columns, 4)


def _sum_of_neighbours(cells: np.ndarray) -> np.ndarray:
    """Return the sum over each cell and the eight around it."""
    padded = np.pad(cells, ((1, 1), (1, 1), (0, 0)))
    rows = padded[:-2] + padded[1:-1] + padded[2:]
    return rows[:, :-2] + rows[:, 1:-1] + rows[:, 2:]


def _squared_distances(these: np.ndarray, those: np.ndarray) -> np.ndarray:
    """Return |a - b|² for every row a of `these` and b of `those`, (N, M) float32."""
    these, those = these.astype(np.float32), those.astype(np.float32)
    squares = np.sum(these**2, axis=1)[:, None] + np.sum(those**2, axis=1)
    return np.maximum(squares - 2 * (these @ those.T), 0)


def _enlarge(cells: np.ndarray, height: int, width: int) -> np.ndarray:
    """Return a grid (rows, columns, C) of cell values as a smooth picture (height, width, C), bilinear."""
    rows, columns, _ = cells.shape
    tall = np.tensordot(_bilinear(height, rows), cells, axes=1)
    return np.matmul(_bilinear(width, columns), tall)


def _bilinear(size: int, cells: int) -> np.ndarray:
    """Return the weights (size, cells) with which each pixel sees the centres of the cells."""
    centre = (np.arange(size, dtype=np.float32) + 0.5) * (cells / size) - 0.5
    centre = np.clip(centre, 0, cells - 1)
    return np.maximum(1 - np.abs(centre[:, None] - np.arange(cells, dtype=np.float32)), 0)


def _reduced(picture: np.ndarray, factor: int) -> np.ndarray:
    """Return the picture averaged over square blocks; the last ones repeat the border to be whole."""
    height, width = picture.shape[:2]
    bottom, right = -height % factor, -width % factor
    padded = np.pad(picture, ((0, bottom), (0, right)) + ((0, 0),) * (picture.ndim - 2), mode="edge")
    blocks = padded.reshape(-(-height // factor), factor, -(-width // factor), factor, *picture.shape[2:])
    return blocks.mean(axis=(1, 3), dtype=np.float32)


def _side(shape: tuple[int, ...]) -> float:
    """Return the side of the square with the picture's area: the unit of all lengths."""
    return max(float(np.sqrt(shape[0] * shape[1])), 1.0)


def _reach(shape: tuple[int, ...]) -> int:
    return int(np.ceil(max(_BAND, _PENUMBRA) * _side(shape))) + 1


def _checked_size(photo: np.ndarray, mask: np.ndarray) -> tuple[int, int]:
    if photo.ndim != 3 or photo.shape[2] != 3 or photo.dtype != np.float32:
        raise ArrayError(f"photo is {photo.dtype} of shape {photo.shape}; expected float32 RGB (H, W, 3)")
    if mask.shape != photo.shape[:2]:
        raise ArrayError(
            f"mask is {mask.shape}, photo is {photo.shape[:2]}; resize the mask to the photo's size"
        )
    return photo.shape[0], photo.shape[1]
