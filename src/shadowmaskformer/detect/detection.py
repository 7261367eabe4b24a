"""The result of a detection: the depth of the shadows in a photo, and the shadows one by one."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace

import numpy as np
from numpy.typing import NDArray

from shadowmaskformer.arrays import Floats
from shadowmaskformer.errors import ConfigError
from shadowmaskformer.masks.parts import label
from shadowmaskformer.masks.shape import grow

LEVEL = 0.5
"""Where the depth is above this there is shadow."""
SMALLEST = 0.0005
"""Parts smaller than this share of the photo are no shadows of their own."""
SUREST = 0.86
"""A part that is nowhere deeper than this is no shadow."""
PENUMBRA = 0.02
"""How far the soft border of a shadow may reach, as a share of the photo's side."""


@dataclass(frozen=True, eq=False)
class Shadow:
    """One connected shadow.

    Attributes:
        number: counted from 1, the largest first.
        share: of the photo, 0 to 1.
        box: left, top, right and bottom, in the photo's pixels.
    """

    number: int
    share: float
    box: tuple[int, int, int, int]
    _all: Floats = field(repr=False)
    _numbers: NDArray[np.int32] = field(repr=False)

    def mask(self) -> Floats:
        """Return the depth of this shadow alone, (h, w), of the detection's size."""
        return np.where(self._numbers == self.number, self._all, np.float32(0))


@dataclass(frozen=True, eq=False)
class Detection:
    """The shadows in a photo.

    Attributes:
        size: height and width of the photo.
        mask: how deep in shadow each pixel of a reduced copy is, (h, w), [0, 1].
        shadows: the connected shadows, largest first.
        note: what was done to a given mask, in one line; empty where there was none.
    """

    size: tuple[int, int]
    mask: Floats = field(repr=False)
    shadows: tuple[Shadow, ...]
    note: str = ""

    @property
    def share(self) -> float:
        """Share of the photo in shadow, 0 to 1."""
        return sum(shadow.share for shadow in self.shadows)

    def only(self, *numbers: int) -> Floats:
        """Return the depth of some of the shadows, by their numbers, (h, w), [0, 1]."""
        known = {shadow.number: shadow for shadow in self.shadows}
        for number in numbers:
            if number not in known:
                upto = (
                    f"choose from 1 to {len(known)}"
                    if len(known) > 1
                    else "there is only one"
                    if known
                    else "there are none"
                )
                raise ConfigError(f"there is no shadow {number}", upto)
        result = np.zeros_like(self.mask)
        for number in numbers:
            np.maximum(result, known[number].mask(), out=result)
        return result

    def choose(self, *numbers: int) -> Detection:
        """Return only some of the shadows, by their numbers, as a detection."""
        shadows = tuple(shadow for shadow in self.shadows if shadow.number in numbers)
        return replace(self, mask=self.only(*numbers), shadows=shadows)

    def __str__(self) -> str:
        if not self.shadows:
            return "no shadow found"
        many = "1 shadow" if len(self.shadows) == 1 else f"{len(self.shadows)} shadows"
        return f"{many} found, {100 * self.share:.0f} % of the photo"


def tell_apart(
    depth: Floats,
    size: tuple[int, int],
    note: str = "",
    kept: Sequence[tuple[int, int]] = (),
    *,
    whole: bool = False,
) -> Detection:
    """Return the connected shadows of a depth, and the depth without what belongs to none.

    Args:
        depth: (h, w), [0, 1].
        size: height and width of the photo.
        note: see `Detection`.
        kept: places, row and column, whose shadow counts however small it is.
        whole: the depth is a user's mask, so all of it is meant.
    """
    labels, count = label(depth > LEVEL)
    areas = np.bincount(labels.ravel(), minlength=count + 1)[1:]
    deepest = np.zeros(count + 1, np.float32)
    np.maximum.at(deepest, labels.ravel(), depth.ravel())
    large = (areas >= max(4, SMALLEST * depth.size)) & (deepest[1:] >= SUREST)
    for row, column in kept:
        if number := labels[row, column]:
            large[number - 1] = True
    # Numbers fall with the area, so that those which are left stay in order.
    renumbered = np.zeros(count + 1, np.int32)
    renumbered[1:][large] = np.arange(1, int(large.sum()) + 1)
    inside = renumbered[labels]
    around = grow(inside.astype(np.float32), PENUMBRA * depth.size**0.5).astype(np.int32)
    numbers = np.where(inside > 0, inside, around)
    mask = depth if whole else np.where(numbers > 0, depth, np.float32(0))
    down, across = size[0] / depth.shape[0], size[1] / depth.shape[1]
    shadows: list[Shadow] = []
    for number, area in enumerate(areas[large], start=1):
        rows, columns = (np.flatnonzero((inside == number).any(axis=axis)) for axis in (1, 0))
        box = (columns[0] * across, rows[0] * down, (columns[-1] + 1) * across, (rows[-1] + 1) * down)
        left, top, right, bottom = (round(float(edge)) for edge in box)
        shadows.append(Shadow(number, float(area) / depth.size, (left, top, right, bottom), mask, numbers))
    return Detection(size, mask, tuple(shadows), note)
