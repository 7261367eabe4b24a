"""Hints and rough masks as users would give them, to train a detector, and the answers it should then give."""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from shadowmaskformer.arrays import Floats, box_mean
from shadowmaskformer.data.augment import jitter_mask
from shadowmaskformer.detect.hints import Hint, draw_hints
from shadowmaskformer.masks.parts import label
from shadowmaskformer.masks.shape import grow, shrink

UNGUIDED, HINTED = 0.5, 0.75
"""Up to which share of the pictures there is neither hint nor mask, and up to which there is no mask."""
MOST_CLICKS = 5
SPECK = 0.002
"""Share of the picture below which an error is not worth a click."""

Flags = NDArray[np.bool_]


class Guided(NamedTuple):
    """What the network is shown beside the photo, and the right answer.

    Attributes:
        hints: where a user said shadow, and where not, (H, W, 2), [0, 1].
        mask: the mask so far, (H, W), [0, 1].
        depth: the answer, (H, W), [0, 1].
    """

    hints: Floats
    mask: Floats
    depth: Floats


def guide(photo: Floats, depth: Floats, rng: np.random.Generator) -> Guided:
    """Draw hints and a mask so far.

    A mask so far is about the shadows that it touches: the answer leaves out the others.

    Args:
        photo: RGB, (H, W, 3), [0, 1].
        depth: how deep in shadow it is, (H, W), [0, 1].
        rng: all randomness comes from here.
    """
    shape = depth.shape
    nothing, case = np.zeros(shape, np.float32), rng.random()
    if case < UNGUIDED:
        return Guided(np.zeros((*shape, 2), np.float32), nothing, depth)
    if case < HINTED:
        hints = clicks(_dark(photo, depth, rng), depth > 0.5, rng)
        return Guided(draw_hints(hints, *shape), nothing, depth)
    chosen = _choose_parts(depth, rng)
    rough = ROUGHENERS[rng.integers(len(ROUGHENERS))](photo, chosen, rng)
    if not rough.any():
        return Guided(np.zeros((*shape, 2), np.float32), nothing, depth)
    hints = clicks(rough > 0.5, chosen > 0.5, rng) if rng.random() < 0.5 else []
    return Guided(draw_hints(hints, *shape), rough, chosen)


def clicks(found: Flags, wanted: Flags, rng: np.random.Generator) -> list[Hint]:
    """Return clicks, or strokes, into errors of a mask: the larger an error, the likelier."""
    wrong = (found != wanted).astype(np.float32)
    hints: list[Hint] = []
    side = min(wanted.shape)
    rows, columns = np.ogrid[: wanted.shape[0], : wanted.shape[1]]
    for _ in range(int(rng.integers(1, MOST_CLICKS + 1))):
        if wrong.mean() < SPECK:
            break
        # Deep inside of a large error.
        chance = (wrong * box_mean(wrong, max(1, round(rng.uniform(0.02, 0.1) * side))) ** 4).ravel()
        place = int(np.searchsorted(np.cumsum(chance), rng.random() * chance.sum()))
        row, column = divmod(min(place, wrong.size - 1), wanted.shape[1])
        shadow = bool(wanted[row, column])
        points = [(column + 0.5, row + 0.5)]
        if rng.random() < 0.25:
            points += _walk(wanted == shadow, row, column, rng)
        hints.append(Hint.stroke(points, shadow))
        wrong[(rows - row) ** 2 + (columns - column) ** 2 < (0.15 * side) ** 2] = 0
    return hints


def _walk(region: Flags, row: int, column: int, rng: np.random.Generator) -> list[tuple[float, float]]:
    """Return places near the one given that lie in the same region, as do those between them."""
    points: list[tuple[float, float]] = []
    for step in rng.normal(0, 0.08, (int(rng.integers(1, 5)), 2)) * region.shape:
        places = [(int(row + share * step[0]), int(column + share * step[1])) for share in (0.5, 1.0)]
        if all(0 <= r < region.shape[0] and 0 <= c < region.shape[1] and region[r, c] for r, c in places):
            row, column = places[-1]
            points.append((column + 0.5, row + 0.5))
    return points


def _dark(photo: Floats, depth: Floats, rng: np.random.Generator) -> Flags:
    """Return what is dark: the mistakes of a detector are dark things taken for shadow, and bright shadows missed."""
    brightness = box_mean(photo.mean(axis=2), max(1, round(0.02 * min(depth.shape))))
    share = float(np.clip(depth.mean() * rng.uniform(0.5, 1.5) + rng.uniform(0, 0.1), 0.01, 0.9))
    return brightness < np.quantile(brightness, share)


def _choose_parts(depth: Floats, rng: np.random.Generator) -> Floats:
    """Return some of the shadows, or all."""
    labels, count = label(depth > 0.5)
    if count < 2 or rng.random() < 0.4:
        return depth
    left_out = rng.random(count + 1) < 0.5
    left_out[0] = False
    if left_out[1:].all():
        left_out[rng.integers(1, count + 1)] = False
    side = min(depth.shape)
    gone = grow(left_out[labels].astype(np.float32), max(1, round(0.02 * side)))
    kept = (labels > 0) & ~left_out[labels]
    return np.where(kept, depth, depth * (1 - gone))


# --- rough masks ------------------------------------------------------------------------------------------------------


def _jittered(photo: Floats, depth: Floats, rng: np.random.Generator) -> Floats:
    return jitter_mask(depth, rng)


def _resized(photo: Floats, depth: Floats, rng: np.random.Generator) -> Floats:
    """Too large or too small, and a little off."""
    mask = (depth > 0.5).astype(np.float32)
    side = min(mask.shape)
    reach = rng.uniform(0, 0.05) * side
    mask = grow(mask, reach) if rng.random() < 0.5 else shrink(mask, reach)
    shift = np.round(rng.normal(0, 0.012, 2) * side).astype(int)
    return np.roll(mask, tuple(shift), (0, 1))


def _boxed(photo: Floats, depth: Floats, rng: np.random.Generator) -> Floats:
    """The box around each shadow, or around all."""
    labels, count = label(depth > 0.5)
    mask = np.zeros(depth.shape, np.float32)
    groups = [labels > 0] if rng.random() < 0.5 else [labels == number for number in range(1, min(count, 4) + 1)]
    for part in groups:
        if part.any():
            rows, columns = np.flatnonzero(part.any(axis=1)), np.flatnonzero(part.any(axis=0))
            wider = rng.uniform(-0.01, 0.04, 4) * min(depth.shape)
            top, left = max(0, int(rows[0] - wider[0])), max(0, int(columns[0] - wider[1]))
            mask[top : int(rows[-1] + 1 + wider[2]), left : int(columns[-1] + 1 + wider[3])] = 1
    return mask


def _blob(photo: Floats, depth: Floats, rng: np.random.Generator) -> Floats:
    """A fat brush over the shadow: no detail left."""
    blurred = box_mean((depth > 0.5).astype(np.float32), max(1, round(rng.uniform(0.02, 0.08) * min(depth.shape))))
    return (blurred > rng.uniform(0.15, 0.6)).astype(np.float32)


def _guessed(photo: Floats, depth: Floats, rng: np.random.Generator) -> Floats:
    """What a detector would take for the shadow: what is dark, around here."""
    near = grow((depth > 0.5).astype(np.float32), round(rng.uniform(0.02, 0.12) * min(depth.shape))) > 0
    return (_dark(photo, depth, rng) & near).astype(np.float32)


ROUGHENERS: tuple[Callable[[Floats, Floats, np.random.Generator], Floats], ...] = (
    _jittered, _resized, _resized, _boxed, _blob, _guessed,
)  # fmt: skip
