"""One number per method from one row per picture: mean or pooled, with a bootstrap interval."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from shadowmaskformer.arrays import Doubles
from shadowmaskformer.evaluate.as_used import worst_tenth
from shadowmaskformer.evaluate.protocols import PictureScores, Protocol
from shadowmaskformer.metrics import Regions

MEASURES = ("error", "psnr", "ssim")
REGIONS = ("shadow", "lit", "all")
RESAMPLES = 2000


@dataclass(frozen=True)
class Estimate:
    """A number over a set of pictures.

    Attributes:
        value: mean, or pooled value; NaN where no picture has one.
        low: lower end of the 95 % bootstrap interval over pictures.
        high: upper end.
        used: pictures that entered.
        left_out: pictures whose value is n/a (empty region) or infinite (perfect match).
    """

    value: float
    low: float
    high: float
    used: int
    left_out: int


@dataclass(frozen=True)
class Summary:
    """All numbers of one method on one subset under one protocol; keys are (measure, region).

    `edge`, `contrast`, `contrast_median` and `worst_tenth` belong to protocol `as-used` and are NaN elsewhere.
    """

    protocol: Protocol
    estimates: dict[tuple[str, str], Estimate]
    pictures: int
    edge: float = math.nan
    contrast: float = math.nan
    contrast_median: float = math.nan
    worst_tenth: float = math.nan

    def value(self, measure: str, region: str) -> float:
        """Return one number: `measure` of MEASURES over `region` of REGIONS."""
        return self.estimates[measure, region].value


def summarise(protocol: Protocol, rows: Sequence[PictureScores], seed: int = 0) -> Summary:
    """Combine pictures as the protocol says.

    PSNR and SSIM are always averaged per image; only the error pools.
    """
    estimates = {}
    for region in REGIONS:
        weights = _column([row.weights for row in rows], region)
        for measure in MEASURES:
            values = _column([getattr(row, measure) for row in rows], region)
            if protocol.all_only and region != "all":
                estimates[measure, region] = Estimate(math.nan, math.nan, math.nan, 0, len(rows))
            elif measure == "error" and protocol.pooled:
                estimates[measure, region] = estimate(values, weights, square=protocol.error == "rmse", seed=seed)
            else:
                # An empty region has an SSIM of 1 and an infinite PSNR, which mean nothing.
                present = np.where(weights > 0, values, np.nan)
                estimates[measure, region] = estimate(present, seed=seed)
    if not protocol.as_used:
        return Summary(protocol, estimates, len(rows))
    edges, contrasts = (np.array([getattr(row, name) for row in rows], np.float64) for name in ("edge", "contrast"))
    known = contrasts[np.isfinite(contrasts)]
    return Summary(
        protocol,
        estimates,
        len(rows),
        edge=estimate(edges, seed=seed).value,
        contrast=estimate(contrasts, seed=seed).value,
        contrast_median=float(np.median(known)) if known.size else math.nan,
        worst_tenth=worst_tenth(_column([row.psnr for row in rows], "shadow")),
    )


def estimate(values: Doubles, weights: Doubles | None = None, *, square: bool = False, seed: int = 0) -> Estimate:
    """Return the weighted mean over pictures, with a percentile bootstrap; n/a and inf are kept out.

    Args:
        values: (N,), one per picture; NaN and inf are left out and counted.
        weights: (N,), pixels of each picture; None weighs all alike.
        square: combine squares and take the root at the end, as a pooled RMSE does.
        seed: of the bootstrap.

    >>> estimate(np.array([1.0, 3.0, np.inf]))
    Estimate(value=2.0, low=1.0, high=3.0, used=2, left_out=1)
    >>> estimate(np.array([1.0, 3.0]), np.array([3.0, 1.0])).value
    1.5
    """
    finite = np.isfinite(values) & (np.ones(len(values), bool) if weights is None else weights > 0)
    used = int(finite.sum())
    if not used:
        return Estimate(math.nan, math.nan, math.nan, 0, len(values))
    kept = values[finite] ** 2 if square else values[finite]
    weight = np.ones(used) if weights is None else weights[finite]
    counts = np.random.default_rng(seed).multinomial(used, np.full(used, 1 / used), size=RESAMPLES)
    value = (kept * weight).sum() / weight.sum()
    resampled = (counts @ (kept * weight)) / (counts @ weight)
    low, high = np.percentile(resampled, (2.5, 97.5))
    if square:
        value, low, high = np.sqrt((value, low, high))
    return Estimate(float(value), float(low), float(high), used, len(values) - used)


def _column(regions: Sequence[Regions], region: str) -> Doubles:
    return np.array([getattr(item, region) for item in regions], dtype=np.float64)
