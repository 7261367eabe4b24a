"""What a user marks on a photo, and how a network is shown it."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

import numpy as np

from shadowmaskformer.arrays import Floats
from shadowmaskformer.errors import ConfigError

RADIUS = 0.025
"""Half the width of a click or stroke as the network sees it, as a share of the picture's side."""

Point = tuple[float, float]


@dataclass(frozen=True)
class Hint:
    """Something that a user marked, in the pixels of the upright photo: x to the right, y down.

    Attributes:
        points: one: a click; several: a stroke through them; of a box, two opposite corners.
        shadow: False says that this is not shadow.
        is_box: whether it is a box around a shadow.
    """

    points: tuple[Point, ...]
    shadow: bool = True
    is_box: bool = False

    def __post_init__(self) -> None:
        points = tuple((float(x), float(y)) for x, y in self.points)
        object.__setattr__(self, "points", points)
        if not points or not all(math.isfinite(number) for point in points for number in point):
            raise ConfigError(f"a hint at {points} is no place", "give x and y in pixels of the photo")
        if self.is_box and (len(points) != 2 or not self.shadow):
            raise ConfigError("a box holds a shadow and has two corners", "give left, top, right and bottom")

    @classmethod
    def click(cls, x: float, y: float, shadow: bool = True) -> Hint:
        """Return a click: there is shadow here, or there is not."""
        return cls(((x, y),), shadow)

    @classmethod
    def stroke(cls, points: Iterable[Point], shadow: bool = True) -> Hint:
        """Return a stroke through `points`."""
        return cls(tuple(points), shadow)

    @classmethod
    def box(cls, left: float, top: float, right: float, bottom: float) -> Hint:
        """Return a box around a shadow."""
        return cls(((left, top), (right, bottom)), is_box=True)

    def scaled(self, across: float, down: float) -> Hint:
        """Return the hint for a copy of the photo whose pixels are `across` times as many, and `down`."""
        return Hint(tuple((x * across, y * down) for x, y in self.points), self.shadow, self.is_box)

    def drawn(self, height: int, width: int) -> Floats:
        """Return where the hint lies, (height, width), [0, 1]: a disk, a stroke or a box with soft borders."""
        rows, columns = np.mgrid[:height, :width].astype(np.float32) + np.float32(0.5)
        if self.is_box:
            (left, right), (top, bottom) = (sorted(edges) for edges in zip(*self.points, strict=True))
            inside = np.minimum(np.minimum(columns - left, right - columns), np.minimum(rows - top, bottom - rows))
            return np.clip(inside + 0.5, 0, 1).astype(np.float32)
        radius = max(1.5, RADIUS * math.sqrt(height * width))
        nearest = np.full((height, width), np.inf, np.float32)
        for start, end in zip(self.points, (*self.points[1:], self.points[-1]), strict=True):
            nearest = np.minimum(nearest, _distance(columns, rows, start, end))
        return np.clip(radius + 0.5 - nearest, 0, 1).astype(np.float32)


def _distance(columns: Floats, rows: Floats, start: Point, end: Point) -> Floats:
    """Return how far each pixel is from the line between two points."""
    across, down = end[0] - start[0], end[1] - start[1]
    length = across * across + down * down
    along = ((columns - start[0]) * across + (rows - start[1]) * down) / length if length else np.float32(0)
    along = np.clip(along, 0, 1)
    return np.hypot(columns - start[0] - along * across, rows - start[1] - along * down).astype(np.float32)


def draw_hints(hints: Sequence[Hint], height: int, width: int) -> Floats:
    """Return where hints say shadow, and where not, as the network sees them, (height, width, 2), [0, 1].

    Boxes are no part of it: a network sees them as a rough mask.
    """
    drawn = np.zeros((height, width, 2), np.float32)
    for hint in hints:
        if not hint.is_box:
            plane = drawn[..., 0 if hint.shadow else 1]
            np.maximum(plane, hint.drawn(height, width), out=plane)
    return drawn
