"""Truth in the light of the shadow picture, as ISTD+ has it.

ISTD's clean pictures were taken at another moment, so their colours differ from the shadow pictures' outside
the shadow too. Le & Samaras (ICCV 2019) fit, per channel, a line that takes the clean picture's non-shadow
pixels to the shadow picture's, and apply it to the whole clean picture.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from shadowmaskformer.arrays import Floats, box_mean
from shadowmaskformer.data.layouts import Triplet
from shadowmaskformer.data.pictures import read_dataset_mask, read_rgb
from shadowmaskformer.errors import ShadowMaskFormerError

MARGIN = 0.02
"""Share of the shorter side around the mask that is left out: penumbra belongs to neither side."""
ENOUGH = 200
"""Fewer lit pixels than this cannot carry a line; the clean picture is then left as it is."""
RULE = (1, MARGIN, ENOUGH)
"""The rule's version and all constants: adjusted truth depends on the pair, its mask and these alone."""


def adjust_clean(shadow: Floats, clean: Floats, mask: Floats) -> Floats:
    """Return `clean` with each channel changed by the line that brings it to `shadow` outside the mask.

    Args:
        shadow: RGB, (H, W, 3), [0, 1].
        clean: as `shadow`.
        mask: (H, W), [0, 1], 1 = shadow.

    Returns:
        RGB, (H, W, 3), [0, 1].

    >>> rng = np.random.default_rng(0)
    >>> shadow = rng.uniform(0.2, 0.8, (24, 36, 3)).astype(np.float32)
    >>> clean = shadow * 0.9 + 0.05
    >>> bool(np.abs(adjust_clean(shadow, clean, np.zeros((24, 36), np.float32)) - shadow).max() < 1e-5)
    True
    """
    lit = lit_pixels(mask)
    if lit.sum() < ENOUGH:
        return clean
    adjusted = np.empty_like(clean)
    for channel in range(3):
        x = clean[..., channel][lit].astype(np.float64)
        y = shadow[..., channel][lit].astype(np.float64)
        spread = x.var()
        # A channel without contrast determines a shift only.
        gain = ((x - x.mean()) * (y - y.mean())).mean() / spread if spread > 1e-6 else 1.0
        adjusted[..., channel] = clean[..., channel] * gain + (y.mean() - gain * x.mean())
    return np.clip(adjusted, 0.0, 1.0)


def lit_pixels(mask: Floats) -> NDArray[np.bool_]:
    """Return the pixels that are surely outside the shadow, (H, W): none of the mask is within the margin."""
    return box_mean((mask > 0).astype(np.float32), max(1, round(MARGIN * min(mask.shape)))) < 1e-6


def looks_adjusted(triplets: Sequence[Triplet], sample: int = 12) -> bool:
    """Return whether clean pictures already have the light of the shadow pictures, as those of ISTD+ do.

    A fitted line leaves no mean difference per channel; ISTD's own pictures differ by several levels.
    """
    shifts: list[float] = []
    masked = [t for t in triplets if t.mask is not None]
    for triplet in masked[:: max(1, len(masked) // sample)][:sample]:
        try:
            shadow, clean = (read_rgb(p).astype(np.float32) for p in (triplet.shadow, triplet.clean))
            lit = lit_pixels(read_dataset_mask(triplet.mask).astype(np.float32)) if triplet.mask else None
        except ShadowMaskFormerError:
            continue
        if lit is not None and shadow.shape == clean.shape and lit.shape == shadow.shape[:2] and lit.any():
            shifts.append(float(np.abs((shadow - clean)[lit].mean(axis=0)).max()))
    return bool(shifts) and float(np.median(shifts)) < 1.0
