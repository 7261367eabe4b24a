"""The shadow mask of a pair that has none: where the clean picture is brighter than the shadow picture.

A shadow divides light, so it is a constant in the logarithm: `log(clean) - log(shadow)` is one threshold away
from a mask, whatever the surface's colour. The threshold is a share of the picture's own shadow depth, so that
faint shadows are found and strong ones do not include the haze around them. That depth is a median, because a shadow
looks deepest in dark joints between tiles, which say little about the tiles. Pairs are never perfectly aligned, and
JPEG noise is large in the dark. The difference is therefore averaged over a few pixels first, specks are removed by a
majority vote, and the mask is grown over the penumbra.

The constants were chosen so that the unrestored pictures of SRD's test split score as close as possible to the
published rows (S and NS under the 256 x 256 rule), without looking at the result of any method.
"""

from __future__ import annotations

import numpy as np

from shadowmaskformer.arrays import Floats, box_mean
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
PENUMBRA = 0.06
"""How far a soft border may reach in `derive_depth`, likewise."""
HAZE = np.float32(0.2)
"""Share of the depth that is no shadow in `derive_depth`: the light of the two shots differs a little everywhere."""
RULE = (2, SHARE, DEEPEST, CORE, FAINTEST, FLOOR, SMOOTHING, VOTE, GROWTH)
"""The rule's version and all constants of `derive_mask`: a mask depends on the pair and on these alone."""


def derive_mask(shadow: Floats, clean: Floats) -> Floats:
    """Return where `shadow` is in shadow, from its difference to `clean`.

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
    umbra, _ = _umbra_and_depth(shadow, clean)
    return grow(umbra, GROWTH * min(umbra.shape))


def derive_depth(shadow: Floats, clean: Floats) -> Floats:
    """Return how deep in shadow each pixel of `shadow` is, as a share of the shadow's own depth.

    Args:
        shadow: RGB with the shadow, (H, W, 3), [0, 1].
        clean: the same view without it, as `shadow`.

    Returns:
        (H, W), [0, 1]: 1 in the umbra, 0.5 on the border of `derive_mask` or further out where the penumbra is wide.

    >>> clean = np.full((32, 48, 3), 0.8, np.float32)
    >>> shadow = clean.copy()
    >>> shadow[:, :16] *= 0.4
    >>> depth = derive_depth(shadow, clean)
    >>> float(depth[:, :15].min().round(2)), float(depth[:, 17:].max())
    (1.0, 0.0)
    """
    umbra, depth = _umbra_and_depth(shadow, clean)
    side = min(umbra.shape)
    border = box_mean(grow(umbra, GROWTH * side), round(0.5 * VOTE * side))
    around = box_mean(grow(umbra, PENUMBRA * side), round(VOTE * side))
    return np.maximum(border, around * np.clip((depth - HAZE) / (1 - HAZE), 0, 1))


def _umbra_and_depth(shadow: Floats, clean: Floats) -> tuple[Floats, Floats]:
    """Return where the shadow has its full depth, 0 or 1, and the depth itself, [0, 1], (H, W) each."""
    if shadow.shape != clean.shape or shadow.ndim != 3 or shadow.shape[2] != 3:
        raise ArrayError(
            f"a pair of RGB pictures of one size is needed, got {shadow.shape} and {clean.shape}",
            "resize one to the other first",
        )
    side = min(shadow.shape[:2])
    # The mean over channels is that of three ratios: a shadow lit by blue sky shows in red and green.
    lit, shaded = (np.multiply.reduce([p[..., c] + np.float32(FLOOR) for c in range(3)]) for p in (clean, shadow))
    ratio = np.log(lit / shaded) / 3
    smooth = box_mean(box_mean(ratio, round(SMOOTHING * side)), round(SMOOTHING * side))
    core = smooth[smooth > max(FAINTEST, CORE * float(np.percentile(smooth, DEEPEST)))]
    threshold = max(FAINTEST, SHARE * float(np.median(core))) if core.size else np.inf
    vote = box_mean((smooth > threshold).astype(np.float32), round(VOTE * side)) > 0.5
    return vote.astype(np.float32), np.clip(smooth / np.float32(threshold), 0, 1)
