"""Measures of shadow removal, as pure float64 functions: formula, shape contract and citation with each.

`score` gives the reference rule's S / NS / All numbers of one picture; `shadowmaskformer.evaluate` builds the
named protocols from the parts.
"""

from shadowmaskformer.metrics.colour import gray, lab_d50, lab_d65, lab_opencv
from shadowmaskformer.metrics.fidelity import (
    Regions,
    absolute_error,
    balance_error_rate,
    lab_mae,
    lab_rmse,
    psnr,
    region_mean,
    squared_error,
)
from shadowmaskformer.metrics.resize import imresize, resize_area, resize_nearest
from shadowmaskformer.metrics.scores import Scores, score
from shadowmaskformer.metrics.structure import ssim_uniform, ssim_volume, ssim_volume_regions

__all__ = [
    "Regions",
    "Scores",
    "absolute_error",
    "balance_error_rate",
    "gray",
    "imresize",
    "lab_d50",
    "lab_d65",
    "lab_mae",
    "lab_opencv",
    "lab_rmse",
    "psnr",
    "region_mean",
    "resize_area",
    "resize_nearest",
    "score",
    "squared_error",
    "ssim_uniform",
    "ssim_volume",
    "ssim_volume_regions",
]
