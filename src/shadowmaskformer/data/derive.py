"""The shadow mask of a pair that has none: where the clean picture is brighter than the shadow picture.

A shadow divides light, so it is a constant in the logarithm: `log(clean) - log(shadow)` is one threshold away
from a mask, whatever the surface's colour. The threshold is a share of the picture's own shadow depth, so that
faint shadows are found and strong ones do not drag the haze around them along. That depth is a median: the
darkest joints between tiles, where a shadow looks deepest, do not speak for the tiles. The pair is never perfectly
aligned and JPEG noise is large in the dark: the difference is averaged over a few pixels first, specks are voted
away, and the mask is grown over the penumbra.

The constants were chosen so that the unrestored pictures of SRD's test split score as nearly as possible as
published (S and NS under the 256 x 256 rule); no method's result was looked at.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from shadowmaskformer.errors import ArrayError
from shadowmaskformer.masks.shape import grow

SHARE = 0.8
"""The edge lies where the shadow is this much as deep as in its core, in the logarithm."""
DEEPEST = 98
"""Percentile of the log ratio that is taken for the deepest shadow."""
CORE = 0.3
"""The core is what is deeper than this share of the deepest shadow; its median is the picture's shadow depth."""
FAINTEST = 0.1
"""Log ratio below which nothing is shadow, however faint the picture's shadows are."""
FLOOR = 8 / 255
"""Added to both pictures before the logarithm, so that noise in black does not look like shadow."""
SMOOTHING = 0.004
"""Radius of the average before the threshold, as a share of the picture's shorter side; taken twice."""
VOTE = 0.012
"""Radius of the majority vote after the threshold, likewise."""
GROWTH = 0.018
"""How far the mask is grown in the end, likewise."""
RULE = (2, SHARE, DEEPEST, CORE, FAINTEST, FLOOR, SMOOTHING, VOTE, GROWTH)
"""The rule's version and all constants: a mask depends on the pair and on these alone."""


def derive_mask(shadow: NDArray[np.float32], clean: NDArray[np.float32]) -> NDArray[np.float32]:
    """Where `shadow` is in shadow, judged by its pair.

    Args:
        shadow: RGB with the shadow, (H, W, 3), [0, 1].
        clean: the same view without it, as `shadow`.

    Returns:
        Mask, (H, W), 0 or 1, 1 = shadow.

    >>> clean = np.full((32, 48, 3), 0.8, np.float32)
    >>> shadow = clean.copy()
    >>> shadow[:, :16] *= 0.4
    >>> mask = derive_mask(shadow, clean)
    >>> float(mask[:, :15].mean()), float(mask[:, 17:].mean())
    (1.0, 0.0)
    """
    if shadow.shape != clean.shape or shadow.ndim != 3 or shadow.shape[2] != 3:
        raise ArrayError(
            f"a pair of RGB pictures of one size is needed, got {shadow.shape} and {clean.shape}; "
            "resize one to the other first"
        )
    side = min(shadow.shape[:2])
    # The mean over channels is that of three ratios: a shadow lit by blue sky shows in red and green.
    lit, shaded = (np.multiply.reduce([p[..., c] + np.float32(FLOOR) for c in range(3)]) for p in (clean, shadow))
    ratio = np.log(lit / shaded) / 3
    smooth = box_mean(box_mean(ratio, round(SMOOTHING * side)), round(SMOOTHING * side))
    core = smooth[smooth > max(FAINTEST, CORE * float(np.percentile(smooth, DEEPEST)))]
    threshold = max(FAINTEST, SHARE * float(np.median(core))) if core.size else np.inf
    vote = box_mean((smooth > threshold).astype(np.float32), round(VOTE * side)) > 0.5
    return grow(vote.astype(np.float32), GROWTH * side)


def box_mean(plane: NDArray[np.float32], radius: int) -> NDArray[np.float32]:
    """Average of each pixel's square neighbourhood of `2 * radius + 1`, borders replicated.

    Args:
        plane: (H, W), any range.
        radius: pixels; 0 returns `plane`.

    >>> box_mean(np.array([[0.0, 0.0, 3.0]], np.float32), 1).tolist()
    [[0.0, 1.0, 2.0]]
    """
    if radius <= 0:
        return plane
    width = 2 * radius + 1
    for axis in (0, 1):
        padding = [(0, 0), (0, 0)]
        # One more in front: the difference of running sums then needs no special case at the border.
        padding[axis] = (radius + 1, radius)
        sums = np.pad(plane, padding, mode="edge").cumsum(axis=axis, dtype=np.float64)
        upper = sums[width:] if axis == 0 else sums[:, width:]
        lower = sums[:-width] if axis == 0 else sums[:, :-width]
        plane = ((upper - lower) / width).astype(np.float32)
    return plane
