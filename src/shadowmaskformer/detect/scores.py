"""How well a mask agrees with the right one, and the click that a patient user would make next."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from shadowmaskformer.arrays import box_mean
from shadowmaskformer.detect.hints import Hint

Flags = NDArray[np.bool_]


@dataclass(frozen=True)
class Counts:
    """Pixels, as shares of the picture: found and right, missed, found and wrong, and rightly left alone."""

    hit: float
    missed: float
    false: float
    clear: float

    @classmethod
    def sum(cls, counts: Iterable[Counts]) -> Counts:
        """Return the counts of all pictures together, as published balance error rates are."""
        return cls(*np.sum([(c.hit, c.missed, c.false, c.clear) for c in counts], axis=0).tolist())

    @property
    def ber(self) -> float:
        """Balance error rate, [0, 1]: the mean of the shares of shadow missed and of light taken for shadow.

        >>> Counts(hit=0.2, missed=0.2, false=0.0, clear=0.6).ber
        0.25
        """
        shadow, light = self.hit + self.missed, self.false + self.clear
        return ((self.missed / shadow if shadow else 0.0) + (self.false / light if light else 0.0)) / 2

    @property
    def iou(self) -> float:
        """Intersection over union, [0, 1]; 1 where there is nothing and nothing was found."""
        union = self.hit + self.missed + self.false
        return self.hit / union if union else 1.0

    @property
    def found(self) -> float:
        """Share of the picture that was found."""
        return self.hit + self.false


def count(found: Flags, wanted: Flags) -> Counts:
    """Compare two masks of one size, (H, W)."""
    hit, false = float((found & wanted).mean()), float((found & ~wanted).mean())
    missed = float((~found & wanted).mean())
    return Counts(hit, missed, false, 1 - hit - false - missed)


def next_click(found: Flags, wanted: Flags) -> Hint | None:
    """Return a click deep inside the largest error, in the pixels of the masks; None when all is right."""
    wrong = (found != wanted).astype(np.float32)
    if not wrong.any():
        return None
    # The pixel whose neighbourhood is wrong the furthest around.
    inside = wrong.copy()
    for radius in (1, 2, 4, 8, 16, 32):
        deeper = wrong * (box_mean(wrong, radius) > 0.75)
        if not deeper.any():
            break
        inside = deeper * box_mean(wrong, radius)
    row, column = np.unravel_index(int(np.argmax(inside)), inside.shape)
    return Hint.click(float(column) + 0.5, float(row) + 0.5, bool(wanted[row, column]))
