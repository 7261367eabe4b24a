"""The floor that a few constants describe: shadow light turned back into sunlight from what the photo itself shows.

Everything is measured in the logarithm of light (`tone.py`), where a shadow takes the same from every material. How
much it took, per channel, shaded and lit patches of like material tell (`patches.py`); it is kept in the cells of a
grid over the picture.

How softly the shadow ends is measured too. Wherever the edge passes through a cell, the mean of a band inside and the
mean of a band outside make one *pair*. How far the light has fallen from the lit to the shaded band, as a
function of the distance to the mask's edge, gives the penumbra's profile, in every cell its own: a shadow is
sharp where it touches what casts it and softens with the distance. If the middle of the whole shadow's profile
lies off the edge, the mask was drawn too wide or too narrow, and the bands are measured again from where the
edge should be. A pixel of depth `k` in the penumbra has lost `k` times the light, in the logarithm.

The last touches (`finish.py`) change the light that is given back a little from pixel to pixel.

The constants here were chosen on the training part of SRD; lengths are fractions of the picture's size.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

import numpy as np

from shadowmaskformer.arrays import box_mean, sample
from shadowmaskformer.errors import ArrayError
from shadowmaskformer.light.correction import Correction
from shadowmaskformer.light.finish import finish
from shadowmaskformer.light.patches import Falls, measure_falls
from shadowmaskformer.light.tone import brightened, brighter, log_light

RULE = 9
"""Counts up when `relight` answers otherwise: networks that start from its picture are trained on one rule."""

_CELLS = 20  # along the picture's side
_EDGE = 8 / 256  # nearer to the edge than this a band counts less: the penumbra lies there
_BAND = 24 / 256  # how far from the edge the bands reach
_PENUMBRA = 14 / 256  # how far from the edge the shadow may still fade
_SOFT, _SOFTEST = 1.2, 1.8  # how many times as far from its edge a soft shadow is measured, at least and at most
_NEARLY, _CLEAR = 0.9, 0.8  # a shadow is as soft as the depth `_NEARLY` lies inside the edge, in `_CLEAR` times `_EDGE`
_TOO_WIDE = 3 / 256  # a mask drawn wider than this is measured a second time from the true edge
_WHOLE = 0.5  # how strongly a cell's penumbra is drawn towards the whole shadow's
_SOFTENED = 2  # pixels beside the edge in which it is found between the pixels
_FAINT = 0.05  # depth up to which a photo stays as it was; from twice that on the correction counts in full


def relight(photo: np.ndarray, mask: np.ndarray) -> Correction:
    """Return the correction that gives the masked shadow the light of its surroundings.

    Args:
        photo: RGB float32, (H, W, 3), [0, 1].
        mask: float32, (H, W), [0, 1]; above 0.5 is shadow.

    Returns:
        Gain and offset of the photo's size; exactly 1 and 0 beyond the penumbra, and everywhere where the
        mask is empty.
    """
    light = measure(photo, mask)
    return light.correction(photo) if light else Correction.identity(*mask.shape)


def start_light(photo: np.ndarray, mask: np.ndarray) -> Correction:
    """Return `relight` held to [0, 1]: the picture that `mape-physical` shows the network and lets it correct."""
    return relight(photo, mask).clamped(photo)


@dataclass(frozen=True)
class _Grid:
    """Square cells over a picture, or over the part of it around the shadow."""

    cell_of_pixel: np.ndarray  # (H, W), row * columns + column
    rows: int
    columns: int
    side: float  # of the square with the whole picture's area: the unit of all lengths

    @classmethod
    def over(cls, shape: tuple[int, ...], side: float) -> _Grid:
        height, width = shape
        cell = max(side / _CELLS, 1.0)
        row, column = (np.arange(length) / cell for length in (height, width))
        row, column = row.astype(np.intp), column.astype(np.intp)
        columns = int(column[-1]) + 1
        return cls(row[:, None] * columns + column, int(row[-1]) + 1, columns, side)

    def places(self, cells: np.ndarray) -> np.ndarray:
        """Return where the middles of the chosen cells (rows, columns) lie, (N, 2), in picture sides."""
        return (np.argwhere(cells) + 0.5) / _CELLS

    def sums(self, values: Iterable[np.ndarray], weight: np.ndarray, pixels: np.ndarray) -> np.ndarray:
        """Return per cell the weighted sum of each of C `values` and of the weight: (rows, columns, C + 1)."""
        cell, count = self.cell_of_pixel[pixels], self.rows * self.columns
        planes = [np.bincount(cell, column * weight, count) for column in values]
        planes.append(np.bincount(cell, weight, count))
        return np.stack(planes, axis=-1).reshape(self.rows, self.columns, -1)


@dataclass(frozen=True)
class _Pairs:
    """What both sides of the edge show, one row for each cell that the edge passes."""

    cells: np.ndarray  # (rows, columns), True where there is a pair
    shaded: np.ndarray  # (N, 3), logarithm of light
    lit: np.ndarray  # (N, 3), likewise


@dataclass(frozen=True, eq=False)
class Light:
    """What was measured in one picture: the light that the shadow took, and how its edge runs.

    It is small and smooth, so that a picture of any size can be relit by what was measured on a reduced copy.

    Attributes:
        size: height and width of the picture that was measured.
        box: the part of it that changes.
        grid: cells over the box.
        lost: logarithm of the light that the shadow took in the middle of each cell, (rows, columns, 3).
        profiles: share of the shadow's depth across the edge in each cell, (rows, columns, 2 R).
        distance: distance of the box's pixels to the shadow's edge, positive inside.
        finish: factor by which the light that the box's pixels get back is changed in the end, (H, W, 1 or 3).
    """

    size: tuple[int, int]
    box: tuple[slice, slice]
    grid: _Grid
    lost: np.ndarray
    profiles: np.ndarray
    distance: np.ndarray
    finish: np.ndarray

    def correction(self, photo: np.ndarray) -> Correction:
        """Return the correction of `photo`, the picture that was measured."""
        correction = Correction.identity(*self.size)
        rows, columns = (np.arange(each.stop - each.start, dtype=np.float32) for each in self.box)
        found = brightened(photo[self.box], self._added(self.distance, rows, columns))
        correction.gain[self.box], correction.offset[self.box] = found.gain, found.offset
        return correction

    def relit(self, photo: np.ndarray, rows: np.ndarray, columns: np.ndarray) -> np.ndarray:
        """Return part of a picture relit, at its own resolution.

        Args:
            photo: RGB float32, (N, M, 3), [0, 1], of any size.
            rows: where its N rows lie between the rows of the measured picture.
            columns: the same for its M columns.
        """
        inside: list[slice] = []
        for places, each, length in zip((rows, columns), self.box, self.size, strict=True):
            # A larger picture's outermost pixels lie beyond the middles of the measured ones.
            first = each.start if each.start > 0 else -np.inf
            last = each.stop - 1 if each.stop < length else np.inf
            found = np.flatnonzero((places >= first) & (places <= last))
            inside.append(slice(int(found[0]), int(found[-1]) + 1) if found.size else slice(0, 0))
        part = tuple(inside)
        rows, columns = rows[part[0]] - self.box[0].start, columns[part[1]] - self.box[1].start
        result = photo.copy()
        if len(rows) and len(columns):
            distance = sample(self.distance[:, :, None], rows, columns)[:, :, 0]
            result[part] = brighter(photo[part], self._added(distance, rows, columns))
        return result

    def weight(self) -> np.ndarray:
        """Return how much of a corrected photo each measured pixel takes, (height, width), [0, 1].

        The light decides where the photo changes, not the mask, which is rarely drawn to the pixel: all of the shadow
        that was found, wherever the mask ends.
        """
        weight = np.zeros(self.size, np.float32)
        rows, columns = (np.arange(each.stop - each.start, dtype=np.float32) for each in self.box)
        depth = _depth(self.distance, rows, columns, self.profiles, self.grid)
        weight[self.box] = np.clip(depth / np.float32(_FAINT) - 1, 0, 1)
        return weight

    def _added(self, distance: np.ndarray, rows: np.ndarray, columns: np.ndarray) -> np.ndarray:
        """Return the light to give back, (N, M, 3), at the given distances and places of the box."""
        added = _enlarge(self.lost, self.grid, rows, columns)
        added *= _depth(distance, rows, columns, self.profiles, self.grid)[:, :, None]
        added *= sample(self.finish, rows, columns)
        return added


def measure(photo: np.ndarray, mask: np.ndarray) -> Light | None:
    """Measure the light on both sides of the shadow's edge; arguments as for `relight`. None without a shadow.

    A shadow that turns out to be soft is measured again, further away from its edge: nearer, all is half in the light.
    """
    size = _checked_size(photo, mask)
    if not (mask > 0.5).any():
        return None
    return _measure(photo, mask, size)


def _measure(photo: np.ndarray, mask: np.ndarray, size: tuple[int, int], softness: float | None = None) -> Light:
    """Measure the light as far from the edge as suits a shadow of `softness`; None finds out how soft it is."""
    side, far = _side(size), softness or 1.0
    reach = int(np.ceil(max(_BAND, _PENUMBRA) * far * side)) + 1
    box = _box_around(mask > 0.5, reach)
    seen, marked = photo[box], mask[box]
    light = log_light(seen)
    grid = _Grid.over(marked.shape, side)
    distance = _signed_distance(marked, reach)
    pairs = _edge_pairs(seen, distance, grid, far)
    whole, profiles = _penumbra(light, distance, pairs, grid, far)
    astray = _edge_astray(whole, grid)
    if astray and (distance > astray).any():
        distance = distance - np.float32(astray)
        pairs = _edge_pairs(seen, distance, grid, far)
        whole, profiles = _penumbra(light, distance, pairs, grid, far)
    inner = float(np.interp(_NEARLY, whole, _middles(whole)))
    found = min(inner / (_CLEAR * _EDGE * side), _SOFTEST)
    if softness is None and found > _SOFT:
        return _measure(photo, mask, size, found)
    falls = measure_falls(seen, light, distance, side, edge=_EDGE * far)
    cells, rough = _loss_per_cell(light, distance, falls, grid)
    rows, columns = map(np.arange, distance.shape)
    depth, lost = _depth(distance, rows, columns, profiles, grid), _enlarge(cells, grid, rows, columns)
    everywhere = np.ones((grid.rows, grid.columns), bool)
    limit = falls.brightest(grid.places(everywhere)).reshape(grid.rows, grid.columns, 1).astype(np.float32)
    limit, rough = (_enlarge(each, grid, rows, columns)[:, :, 0] for each in (limit, rough))
    touches = finish(seen, light, depth, lost, limit, rough, side)
    return Light(size, box, grid, cells, profiles, distance, touches)


def _edge_pairs(photo: np.ndarray, distance: np.ndarray, grid: _Grid, softness: float) -> _Pairs:
    edge, band = _EDGE * softness * grid.side, _BAND * softness * grid.side
    means: list[np.ndarray] = []
    weights: list[np.ndarray] = []
    for inwards in (distance, -distance):
        near = (inwards > 0) & (inwards <= band)
        trust = np.square(np.square(np.minimum(inwards[near] / edge, 1)))
        sums = _sum_of_neighbours(grid.sums(photo[near].T, trust, near))
        means.append(sums[:, :, :3] / np.maximum(sums[:, :, 3:], 1e-6))
        weights.append(sums[:, :, 3])
    weight = np.minimum(*weights)
    cells = weight > edge
    shaded, lit = log_light(means[0][cells]), log_light(means[1][cells])
    return _Pairs(cells, shaded, lit)


def _loss_per_cell(light: np.ndarray, distance: np.ndarray, falls: Falls, grid: _Grid) -> tuple[np.ndarray, np.ndarray]:
    """Return the light that the shadow took, (rows, columns, 3), and how much rougher it is than lit ground, (…, 1)."""
    shadow = distance > 0
    sums = grid.sums(light[shadow].T, np.ones(int(shadow.sum())), shadow)
    # The penumbra reaches into cells without shadow: they take the colour of their neighbours.
    for _ in range(2):
        sums = np.where(sums[:, :, 3:] > 0, sums, _sum_of_neighbours(sums))
    wanted = sums[:, :, 3] > 0
    means = sums[wanted][:, :3] / sums[wanted][:, 3:]
    loss = np.zeros((grid.rows, grid.columns, 3), np.float32)
    rough = np.zeros((grid.rows, grid.columns, 1), np.float32)
    loss[wanted], rough[wanted, 0] = falls.at(grid.places(wanted), means)
    return loss, rough


def _penumbra(
    light: np.ndarray, distance: np.ndarray, pairs: _Pairs, grid: _Grid, softness: float
) -> tuple[np.ndarray, np.ndarray]:
    """Return the share of the shadow's depth, [0, 1], in steps of a pixel across the edge: the profiles.

    The least-squares share of the way from the lit to the shaded light, made to rise from 0 outside to 1
    inside. One profile is the whole shadow's, (2 R,); each cell has its own, (rows, columns, 2 R), which it
    shares with its neighbours and which is the whole shadow's where they show little of the edge.
    """
    reach = int(np.ceil(_PENUMBRA * softness * grid.side))
    abrupt = np.repeat([0.0, 1.0], reach)
    near = np.abs(distance) < reach
    sides = np.zeros((grid.rows, grid.columns, 6), np.float32)
    sides[pairs.cells] = np.column_stack([pairs.lit, pairs.shaded - pairs.lit])
    cell = grid.cell_of_pixel[near]
    lit, fall = np.hsplit(sides.reshape(-1, 6)[cell], 2)
    step = cell * len(abrupt) + np.floor(distance[near]).astype(np.intp) + reach
    fallen, full = (
        np.bincount(step, np.einsum("nc,nc->n", change, fall), grid.rows * grid.columns * len(abrupt)).reshape(
            grid.rows, grid.columns, -1
        )
        for change in (light[near] - lit, fall)
    )
    whole = _rising(fallen.sum(axis=(0, 1)), full.sum(axis=(0, 1)), abrupt, 1e-3)
    return whole, _rising(_sum_of_neighbours(fallen), _sum_of_neighbours(full), whole, _WHOLE * grid.side)


def _rising(fallen: np.ndarray, full: np.ndarray, usual: np.ndarray, trust: float) -> np.ndarray:
    """Return `fallen / full` drawn towards the `usual` profile, rising from 0 to 1 along the last axis."""
    share = np.clip((fallen + trust * usual) / (full + trust), 0, 1)
    share = (np.maximum.accumulate(share, -1) + np.minimum.accumulate(share[..., ::-1], -1)[..., ::-1]) / 2
    padded = np.concatenate([share[..., :1], share, share[..., -1:]], axis=-1)
    share = 0.25 * padded[..., :-2] + 0.5 * share + 0.25 * padded[..., 2:]
    share[..., 0], share[..., -1] = 0, 1
    return share


def _edge_astray(profile: np.ndarray, grid: _Grid) -> float:
    """Return how many pixels too far out the mask's edge lies, beyond what the bands tolerate.

    A mask a little too wide does no harm, and moving its edge would bring the bands nearer to the penumbra; one too
    narrow leaves shadow in the lit band.
    """
    astray = float(np.interp(0.5, profile, _middles(profile)))
    return min(astray, 0.0) + max(astray - _TOO_WIDE * grid.side, 0.0)


def _depth(
    distance: np.ndarray, rows: np.ndarray, columns: np.ndarray, profiles: np.ndarray, grid: _Grid
) -> np.ndarray:
    """Return how much of the shadow's full depth each pixel has, (N, M) float32, [0, 1]."""
    depth = (distance > 0).astype(np.float32)
    reach = profiles.shape[2] // 2
    row, column = np.nonzero(np.abs(distance) < reach)
    if not row.size:
        return depth
    tall = sample(
        profiles.astype(np.float32), _place(rows, grid.rows, grid.side), np.arange(grid.columns, dtype=np.float32)
    )
    across = _place(columns, grid.columns, grid.side)[column]
    along = np.clip(distance[row, column] + np.float32(reach - 0.5), 0, 2 * reach - 1)
    left, before = across.astype(np.intp), along.astype(np.intp)
    right, after = np.minimum(left + 1, grid.columns - 1), np.minimum(before + 1, 2 * reach - 1)
    towards = along - before
    here, there = (tall[row, at, before] * (1 - towards) + tall[row, at, after] * towards for at in (left, right))
    depth[row, column] = here + (across - left) * (there - here)
    return depth


def _middles(profile: np.ndarray) -> np.ndarray:
    return np.arange(len(profile)) - len(profile) // 2 + 0.5


def _signed_distance(mask: np.ndarray, reach: int) -> np.ndarray:
    """Return the distance to the mask's edge, (H, W) pixels, positive inside, up to `reach`.

    Beside the edge it is read between the pixels, from the slope of the softened mask: a larger picture is relit by
    it, and would show the stairs of this one.
    """
    shadow = mask > 0.5
    inside, outside = _distance_within(shadow, reach), _distance_within(~shadow, reach)
    distance = np.where(shadow, inside - np.float32(0.5), np.float32(0.5) - outside)
    if min(mask.shape) < 2:
        return distance
    soft = box_mean(mask, _SOFTENED)
    down, across = np.gradient(soft)
    slope = np.hypot(down, across)
    beside = (np.abs(distance) < _SOFTENED) & (slope > 0.1)
    low, high = np.where(shadow, 0, -_SOFTENED), np.where(shadow, _SOFTENED, 0)
    distance[beside] = np.clip((soft[beside] - 0.5) / slope[beside], low[beside], high[beside])
    return distance


def _distance_within(region: np.ndarray, reach: int) -> np.ndarray:
    """Return each pixel's distance to the nearest pixel outside `region`, at most `reach` + 1."""
    height, width = region.shape
    column = np.arange(width, dtype=np.int32)
    before = np.maximum.accumulate(np.where(region, -width - reach, column), axis=1)
    after = np.minimum.accumulate(np.where(region, 2 * width + reach, column)[:, ::-1], axis=1)[:, ::-1]
    along = np.minimum(np.minimum(column - before, after - column), reach + 1)
    # 16 bits, half the memory to move, hold the sum of two squares up to a reach of 180.
    squared = np.square(along).astype(np.uint16 if reach <= 180 else np.int32)
    nearest = squared.copy()
    shifted = np.empty_like(squared)
    for step in range(1, min(reach, height - 1) + 1):
        np.add(squared, step * step, out=shifted)
        np.minimum(nearest[step:], shifted[:-step], out=nearest[step:])
        np.minimum(nearest[:-step], shifted[step:], out=nearest[:-step])
    return np.minimum(np.sqrt(nearest, dtype=np.float32), np.float32(reach + 1))


def _sum_of_neighbours(cells: np.ndarray) -> np.ndarray:
    """Return the sum over each cell and the eight around it."""
    padded = np.pad(cells, ((1, 1), (1, 1), (0, 0)))
    rows = padded[:-2] + padded[1:-1] + padded[2:]
    return rows[:, :-2] + rows[:, 1:-1] + rows[:, 2:]


def _enlarge(cells: np.ndarray, grid: _Grid, rows: np.ndarray, columns: np.ndarray) -> np.ndarray:
    """Return cell values (rows, columns, C) as a smooth picture (N, M, C), bilinear."""
    return sample(cells, _place(rows, grid.rows, grid.side), _place(columns, grid.columns, grid.side))


def _place(pixels: np.ndarray, cells: int, side: float) -> np.ndarray:
    """Return where each pixel lies between the middles of the cells, (N,), [0, cells - 1]."""
    return np.clip((pixels + np.float32(0.5)) / np.float32(max(side / _CELLS, 1.0)) - np.float32(0.5), 0, cells - 1)


def _box_around(shadow: np.ndarray, margin: int) -> tuple[slice, slice]:
    """Return the rows and columns of the shadow and `margin` pixels around it."""
    rows, columns = np.flatnonzero(shadow.any(axis=1)), np.flatnonzero(shadow.any(axis=0))
    return (
        slice(max(int(rows[0]) - margin, 0), min(int(rows[-1]) + margin + 1, shadow.shape[0])),
        slice(max(int(columns[0]) - margin, 0), min(int(columns[-1]) + margin + 1, shadow.shape[1])),
    )


def _side(shape: tuple[int, ...]) -> float:
    """Return the side of the square with the picture's area."""
    return max(float(np.sqrt(shape[0] * shape[1])), 1.0)


def _checked_size(photo: np.ndarray, mask: np.ndarray) -> tuple[int, int]:
    if photo.ndim != 3 or photo.shape[2] != 3 or photo.dtype != np.float32:
        raise ArrayError(f"photo is {photo.dtype} of shape {photo.shape}; expected float32 RGB (H, W, 3)")
    if mask.shape != photo.shape[:2]:
        raise ArrayError(f"mask is {mask.shape}, photo is {photo.shape[:2]}; resize the mask to the photo's size")
    return photo.shape[0], photo.shape[1]
