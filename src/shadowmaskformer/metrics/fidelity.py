"""Errors of a restored picture (Lab MAE, Lab RMSE, PSNR) and of a mask (balance error rate) against the truth."""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from shadowmaskformer.arrays import Doubles
from shadowmaskformer.errors import ArrayError


class Regions(NamedTuple):
    """One measure over the shadow pixels, the lit pixels and the whole frame: S / NS / All."""

    shadow: float
    lit: float
    all: float


def absolute_error(result_lab: NDArray, truth_lab: NDArray) -> Doubles:
    """Return |ΔL| + |Δa| + |Δb| of each pixel, (H, W): **summed** over the channels, as in the field's scripts.

    >>> absolute_error(np.array([[[50.0, 1, 2]]]), np.array([[[52.0, 0, 0]]])).tolist()
    [[5.0]]
    """
    _same_shape(result_lab, truth_lab)
    return np.abs(np.asarray(result_lab, np.float64) - truth_lab).sum(axis=-1)


def squared_error(result_lab: NDArray, truth_lab: NDArray) -> Doubles:
    """Return ΔL² + Δa² + Δb² of each pixel, (H, W).

    >>> squared_error(np.array([[[50.0, 1, 2]]]), np.array([[[52.0, 0, 0]]])).tolist()
    [[9.0]]
    """
    _same_shape(result_lab, truth_lab)
    return ((np.asarray(result_lab, np.float64) - truth_lab) ** 2).sum(axis=-1)


def region_mean(error: NDArray, weight: NDArray | None = None) -> float:
    """Return the mean of an (H, W) error map over a region: Σ w·e / Σ w; NaN where the region is empty.

    Args:
        error: (H, W).
        weight: (H, W), bool or [0, 1]; None is the whole frame.

    >>> region_mean(np.array([[1.0, 3.0]]), np.array([[False, True]]))
    3.0
    """
    if weight is None:
        return float(error.mean())
    total = float(np.sum(weight, dtype=np.float64))
    return float((error * weight).sum() / total) if total > 0 else math.nan


def lab_mae(result_lab: NDArray, truth_lab: NDArray, weight: NDArray | None = None) -> float:
    """Return the mean of `absolute_error` over a region: what shadow removal papers print as "RMSE".

    >>> lab_mae(np.zeros((2, 3, 3)), np.ones((2, 3, 3)))
    3.0
    """
    return region_mean(absolute_error(result_lab, truth_lab), weight)


def lab_rmse(result_lab: NDArray, truth_lab: NDArray, weight: NDArray | None = None) -> float:
    """Return the true root mean square of the Lab difference over pixels **and** channels: sqrt(mean Δ²).

    >>> lab_rmse(np.zeros((2, 3, 3)), np.full((2, 3, 3), 2.0))
    2.0
    """
    return math.sqrt(region_mean(squared_error(result_lab, truth_lab), weight) / 3)


def psnr(result: NDArray, truth: NDArray, weight: NDArray | None = None) -> float:
    """Return the peak signal-to-noise ratio in dB: 10·log10(1 / mean((x − y)²)); inf where the two are equal.

    For a region both pictures are multiplied by it and the mean still runs over the **whole frame**, as the
    field's scripts do: the smaller the region, the higher its PSNR.

    Args:
        result: (H, W, C), [0, 1].
        truth: as `result`.
        weight: (H, W), bool or [0, 1]; None is the whole frame.

    >>> psnr(np.zeros((4, 6, 3)), np.full((4, 6, 3), 0.1))
    20.0
    """
    _same_shape(result, truth)
    difference = np.asarray(result, np.float64) - truth
    if weight is not None:
        difference = difference * np.asarray(weight, np.float64)[..., None]
    mean_square = float(np.mean(difference**2))
    return -10 * math.log10(mean_square) if mean_square > 0 else math.inf


def balance_error_rate(predicted: NDArray, truth: NDArray) -> float:
    """Return the balance error rate in percent: 100·(1 − ½(TP/P + TN/N)) (Vicente et al., ECCV 2016).

    Args:
        predicted: (H, W), bool or [0, 1]; shadow is above 0.5.
        truth: as `predicted`.

    Returns:
        0 for a perfect mask, 50 for a guess; NaN where the truth has only one class.

    >>> truth = np.array([[True, True, False, False]])
    >>> balance_error_rate(np.array([[True, False, False, False]]), truth)
    25.0
    """
    if predicted.shape != truth.shape or truth.ndim != 2:
        raise ArrayError(f"masks are {predicted.shape} and {truth.shape}; give two (H, W) of one shape")
    found, shadow = predicted > 0.5, truth > 0.5
    positives, negatives = int(shadow.sum()), int((~shadow).sum())
    if not positives or not negatives:
        return math.nan
    hit, correct = int((found & shadow).sum()), int((~found & ~shadow).sum())
    return 100 * (1 - 0.5 * (hit / positives + correct / negatives))


def _same_shape(result: NDArray, truth: NDArray) -> None:
    if result.shape != truth.shape or result.ndim != 3 or 0 in result.shape:
        raise ArrayError(f"result is {result.shape}, truth is {truth.shape}; give two (H, W, C) of one size")
