"""Score the picture that a user gets: the rule behind the protocol `as-used`.

The published protocols score the network's answer over the whole frame. A user gets something else: the answer
blended into the photo, which does not change outside the shadow. This rule compares that picture with the truth in the
photo's own light (`data.adjust`), at the photo's size, so that a change of daylight between the two shots of a pair
does not count. Masks are rarely exact, so the mask that a method gets can be changed first.
"""

from __future__ import annotations

import math
import re
from dataclasses import dataclass
from typing import Literal, NamedTuple, get_args

import numpy as np
from numpy.typing import NDArray

from shadowmaskformer.arrays import Doubles, Floats, Levels
from shadowmaskformer.errors import ConfigError
from shadowmaskformer.masks import grow, shrink
from shadowmaskformer.metrics import gray

EDGE = 0.02
"""Half width of the band around the mask's edge, as a share of the picture's width."""
INSIDE = 0.006
"""How far the inside of a shadow lies from its edge, likewise: what is left of an outline is not fine contrast."""
DETAIL_PX = 2.0
"""Standard deviation of the blur that separates fine contrast from the rest, in pixels."""
FEWEST = 100
"""Fewer pixels than this inside the shadow say nothing about its contrast."""

ChangeKind = Literal["shrink", "grow", "shift"]
_CHANGE = re.compile(rf"({'|'.join(get_args(ChangeKind))}):(\d+(?:\.\d+)?)%")


@dataclass(frozen=True)
class MaskChange:
    """A mask drawn wrong: too small, too large, or moved to the right.

    Attributes:
        kind: `shrink`, `grow` or `shift`.
        percent: how far, in percent of the picture's width.
    """

    kind: ChangeKind
    percent: float

    @classmethod
    def parse(cls, text: str) -> MaskChange:
        """Return the change that `text` names.

        >>> MaskChange.parse("shrink:2%")
        MaskChange(kind='shrink', percent=2.0)
        """
        match = _CHANGE.fullmatch(text.replace(" ", ""))
        kind = next((kind for kind in get_args(ChangeKind) if match and match[1] == kind), None)
        if match is None or kind is None or not 0 < float(match[2]) <= 50:
            raise ConfigError(f"no mask error {text!r}; write shrink:2%, grow:2% or shift:2%, in percent of the width")
        return cls(kind, float(match[2]))

    def __str__(self) -> str:
        return f"{self.kind} {self.percent:g} %"

    def apply(self, mask: Levels) -> Levels:
        """Return the changed mask.

        Args:
            mask: (H, W), 255 = shadow.

        >>> MaskChange("shift", 25).apply(np.array([[0, 255, 0, 0]], np.uint8)).tolist()
        [[0, 0, 255, 0]]
        """
        px = round(self.percent / 100 * mask.shape[1])
        if self.kind == "shift":
            # A shadow that runs out of the frame still does so after the shift.
            return np.pad(mask, ((0, 0), (px, 0)), mode="edge")[:, : mask.shape[1]]
        soft = mask.astype(np.float32) / np.float32(255)
        changed = shrink(soft, px) if self.kind == "shrink" else grow(soft, px)
        return np.round(changed * 255).astype(np.uint8)


class UsedScores(NamedTuple):
    """One picture as its user gets it.

    Attributes:
        shadow: PSNR over the pixels of the shadow, dB.
        lit: over the others.
        all: over the frame.
        edge: over the band around the mask's edge.
        contrast: fine contrast inside the shadow as a share of the truth's; NaN where the shadow is too small.
    """

    shadow: float
    lit: float
    all: float
    edge: float
    contrast: float


@dataclass(frozen=True)
class UsedRegions:
    """Where a picture is scored; all (H, W), bool.

    Attributes:
        shadow: the mask above one half.
        edge: within 2 % of the width of its edge.
        inside: the shadow, a little away from its edge.
    """

    shadow: NDArray[np.bool_]
    edge: NDArray[np.bool_]
    inside: NDArray[np.bool_]

    @classmethod
    def of(cls, mask: Levels) -> UsedRegions:
        """Return the regions of a mask, (H, W), 255 = shadow."""
        shadow = mask > 127
        soft, width = shadow.astype(np.float32), mask.shape[1]
        band, margin = max(1, round(EDGE * width)), max(1, round(INSIDE * width))
        edge = (grow(soft, band) > 0) & ~(shrink(soft, band) > 0)
        return cls(shadow, edge, shrink(soft, margin) > 0)


def used_scores(result: Doubles, truth: Doubles, regions: UsedRegions) -> UsedScores:
    """Return the scores of one result.

    Args:
        result: RGB as a user gets it, (H, W, 3), [0, 1].
        truth: in the photo's own light, as `result`.
        regions: of the true mask.
    """
    error = np.square(result - truth).mean(axis=-1)
    shadow, edge = regions.shadow, regions.edge
    return UsedScores(
        *(_psnr(error[region]) for region in (shadow, ~shadow, np.ones_like(shadow), edge)),
        contrast=_contrast(result, truth, regions.inside),
    )


def _psnr(errors: Doubles) -> float:
    """Return PSNR over a region's own pixels, which large and small shadows share; NaN for an empty region."""
    if not errors.size:
        return math.nan
    mean = float(errors.mean())
    return -10 * math.log10(mean) if mean > 0 else math.inf


def _contrast(result: Doubles, truth: Doubles, inside: NDArray[np.bool_]) -> float:
    if inside.sum() < FEWEST:
        return math.nan
    spreads = [float(_detail(gray(picture))[inside].std()) for picture in (result, truth)]
    return spreads[0] / spreads[1] if spreads[1] > 0 else math.nan


def _detail(plane: Doubles) -> Doubles:
    """Return `plane` without its Gaussian blur."""
    radius = round(3 * DETAIL_PX)
    bell = np.exp(-(np.arange(-radius, radius + 1) ** 2) / (2 * DETAIL_PX**2))
    blurred = plane
    for axis in (0, 1):
        padding = [(0, 0), (0, 0)]
        padding[axis] = (radius, radius)
        padded, length = np.pad(blurred, padding, mode="edge"), plane.shape[axis]
        blurred = np.zeros_like(plane)
        for step, weight in enumerate(bell / bell.sum()):
            shifted = padded[step : step + length] if axis == 0 else padded[:, step : step + length]
            blurred += weight * shifted
    return plane - blurred


def worst_tenth(psnr_shadow: Floats | Doubles) -> float:
    """Return the mean of the worst tenth of the values, of at least one; NaN where there is none.

    >>> worst_tenth(np.arange(20.0))
    0.5
    """
    known = np.sort(psnr_shadow[np.isfinite(psnr_shadow)])
    return float(known[: max(1, len(known) // 10)].mean()) if known.size else math.nan
