"""All of the reference rule's numbers for one picture, in one call."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from shadowmaskformer.errors import ArrayError
from shadowmaskformer.metrics.colour import lab_d50
from shadowmaskformer.metrics.fidelity import Regions, absolute_error, psnr, region_mean
from shadowmaskformer.metrics.structure import ssim_volume_regions


class Scores(NamedTuple):
    """One picture's numbers under the reference rule.

    `mae` is NaN over an empty region; `psnr` is inf where result and truth agree.
    """

    mae: Regions
    psnr: Regions
    ssim: Regions


def score(result: NDArray, truth: NDArray, mask: NDArray) -> Scores:
    """Score one picture by the field's reference rule: D50 Lab MAE, region PSNR, volume SSIM.

    No resizing here: bring all three to the protocol's size first (`imresize`).

    Args:
        result: RGB, (H, W, 3), [0, 1].
        truth: as `result`.
        mask: (H, W); **any** value above 0 is shadow.

    >>> truth = np.full((12, 16, 3), 0.5)
    >>> scores = score(truth, truth, np.eye(12, 16))
    >>> scores.mae.all, scores.psnr.all, scores.ssim.all
    (0.0, inf, 1.0)
    """
    if result.shape != truth.shape or truth.ndim != 3 or mask.shape != truth.shape[:2]:
        raise ArrayError(
            f"result is {result.shape}, truth is {truth.shape}, mask is {mask.shape}; "
            "give two (H, W, 3) pictures and an (H, W) mask of one size"
        )
    result, truth = np.asarray(result, np.float64), np.asarray(truth, np.float64)
    shadow = mask > 0
    lit = ~shadow
    error = absolute_error(lab_d50(result), lab_d50(truth))
    return Scores(
        mae=Regions(region_mean(error, shadow), region_mean(error, lit), region_mean(error)),
        psnr=Regions(psnr(result, truth, shadow), psnr(result, truth, lit), psnr(result, truth)),
        ssim=ssim_volume_regions(result, truth, shadow),
    )
