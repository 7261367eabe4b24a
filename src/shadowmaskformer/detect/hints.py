"""The marks that a user makes on a photo, and how a network sees them."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from shadowmaskformer.arrays import Floats, to_float
from shadowmaskformer.errors import ConfigError

RADIUS = 0.025
"""Half the width of a click or stroke as the network sees it, as a share of the picture's side."""
COPIED = 0.12
"""Scribbles that differ less from the photo, of levels [0, 1], are the photo itself, saved as JPEG perhaps."""

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
        try:
            points = tuple((float(x), float(y)) for x, y in self.points)
        except (TypeError, ValueError):
            points = ()
        if not points or not all(math.isfinite(number) for point in points for number in point):
            raise ConfigError(f"a hint at {self.points} is no place", "give x and y in pixels of the photo")
        object.__setattr__(self, "points", points)
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
        """Return the hint for a copy of the photo that is scaled by `across` and `down`."""
        return Hint(tuple((x * across, y * down) for x, y in self.points), self.shadow, self.is_box)

    def mirrored(self, width: float) -> Hint:
        """Return the hint for the mirror image of a photo that is `width` pixels wide."""
        return Hint(tuple((width - x, y) for x, y in self.points), self.shadow, self.is_box)

    def drawn(self, height: int, width: int) -> Floats:
        """Return where the hint lies, (height, width), [0, 1]: a disk, a stroke or a box with soft borders."""
        plane = np.zeros((height, width), np.float32)
        if self.is_box:
            (left, right), (top, bottom) = (sorted(edges) for edges in zip(*self.points, strict=True))
            rows, columns = np.ogrid[0.5:height, 0.5:width]
            across, down = np.minimum(columns - left, right - columns), np.minimum(rows - top, bottom - rows)
            return np.clip(np.minimum(across, down) + 0.5, 0, 1).astype(np.float32)
        radius = max(1.5, RADIUS * math.sqrt(height * width))
        for start, end in zip(self.points, (*self.points[1:], self.points[-1]), strict=True):
            _draw_line(plane, start, end, radius)
        return plane


def _draw_line(plane: Floats, start: Point, end: Point, radius: float) -> None:
    """Draw a line with round ends into `plane`, (H, W)."""
    (left, right), (top, bottom) = (sorted(edges) for edges in zip(start, end, strict=True))
    first_row, first_column = max(0, int(top - radius - 1)), max(0, int(left - radius - 1))
    part = plane[first_row : max(0, int(bottom + radius + 2)), first_column : max(0, int(right + radius + 2))]
    rows, columns = np.ogrid[: part.shape[0], : part.shape[1]]
    y, x = rows + (first_row + 0.5 - start[1]), columns + (first_column + 0.5 - start[0])
    across, down = end[0] - start[0], end[1] - start[1]
    length = across * across + down * down
    along = np.clip((x * across + y * down) / length, 0, 1) if length else 0.0
    distance = np.hypot(x - along * across, y - along * down)
    np.maximum(part, np.clip(radius + 0.5 - distance, 0, 1), out=part, casting="same_kind")


def read_scribbles(picture: NDArray[Any], photo: NDArray[Any] | None = None) -> tuple[Hint, ...]:
    """Return the hints that a picture of scribbles holds: green says shadow, red says that there is none.

    Args:
        picture: RGB or RGBA levels, (H, W, 3) or (H, W, 4), of the photo's size; the rest black, gray, transparent, or
            a copy of the photo.
        photo: RGB levels of the photo; what scribbles on a copy of it have in common with it is no scribble.

    Raises:
        ConfigError: nothing in it is green or red.
    """
    levels = to_float(picture)
    strength = levels[..., 3] if picture.shape[2] == 4 else np.float32(1)
    red, green, blue = (levels[..., channel] * strength for channel in range(3))
    drawn = np.bool_(True)
    if photo is not None and photo.shape[:2] == picture.shape[:2]:
        drawn = np.abs(levels[..., :3] - to_float(photo)).max(axis=2) > COPIED
    hints: list[Hint] = []
    for shadow, mine, other in ((True, green, red), (False, red, green)):
        painted = (mine > np.maximum(other, blue) + 0.3) & drawn
        # A click in each cell that is painted: the network sees the line again.
        step = max(1, round(RADIUS * math.sqrt(painted.size)))
        for row in range(0, painted.shape[0], step):
            for column in np.flatnonzero(painted[row : row + step].any(axis=0))[::step]:
                inside = np.flatnonzero(painted[row : row + step, column])
                hints.append(Hint.click(float(column) + 0.5, row + float(inside[len(inside) // 2]) + 0.5, shadow))
    if not hints:
        raise ConfigError("nothing in the scribbles is green or red", "paint shadow in green, and what is none in red")
    return tuple(hints)


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
