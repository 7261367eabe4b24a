"""Structural similarity: MATLAB's volume version and the 2-D ones of scikit-image.

SSIM (Wang et al., IEEE TIP 13(4), 2004, Eq. 13) of two pictures x, y, at every pixel:
`(2 μx μy + C1)(2 σxy + C2) / ((μx² + μy² + C1)(σx² + σy² + C2))`, C1 = (0.01 R)², C2 = (0.03 R)²,
R = 1 the range; the score is the map's mean.
"""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
from numpy.typing import NDArray

from shadowmaskformer.arrays import Doubles
from shadowmaskformer.errors import ArrayError
from shadowmaskformer.metrics.fidelity import Regions

_RADIUS = 5
_BELL = np.exp(-(np.arange(-_RADIUS, _RADIUS + 1) ** 2) / (2 * 1.5**2))
_GAUSSIAN = _BELL / _BELL.sum()
_BLOCK = 32


def ssim_volume(result: NDArray, truth: NDArray) -> float:
    """Return SSIM of two pictures taken as H×W×3 volumes, as MATLAB's `ssim(result, truth)` on an RGB array.

    11×11×11 Gaussian, σ = 1.5, replicated border: with three channels the window mixes colours, which is why
    this differs from the mean over channels.

    Args:
        result: (H, W, C), [0, 1].
        truth: as `result`.

    >>> picture = np.linspace(0, 1, 12 * 16 * 3).reshape(12, 16, 3)
    >>> ssim_volume(picture, picture)
    1.0
    """
    return float(_ssim_map(*_moments(result, truth)).mean())


def ssim_volume_regions(result: NDArray, truth: NDArray, shadow: NDArray) -> Regions:
    """Return `ssim_volume` of the pictures times the shadow region, times the lit region, and as they are.

    Blurring is linear, so the lit moments are those of the frame minus those of the shadow: two blurs do.

    Args:
        result: (H, W, C), [0, 1].
        truth: as `result`.
        shadow: (H, W), bool.
    """
    region = shadow[..., None].astype(np.float64)
    whole = _moments(result, truth)
    inside = _moments(result * region, truth * region)
    shadow_map, lit_map, all_map = _ssim_map(*inside), _ssim_map(*(whole - inside)), _ssim_map(*whole)
    return Regions(float(shadow_map.mean()), float(lit_map.mean()), float(all_map.mean()))


def ssim_uniform(result: NDArray, truth: NDArray, *, peak: float = 1.0) -> float:
    """Return scikit-image's 2-D SSIM: 7×7 box, sample covariance, border cropped, channels averaged.

    Args:
        result: (H, W) or (H, W, C), [0, 1], at least 7 pixels each way.
        truth: as `result`.
        peak: range R of the values. Scripts that leave it to scikit-image get 2 for float pictures.

    >>> ssim_uniform(np.eye(9), np.eye(9))
    1.0
    """
    x, y = _pair(result, truth)
    if min(x.shape[:2]) < 7:
        raise ArrayError(f"pictures are {x.shape[0]}x{x.shape[1]}; the 7x7 window of SSIM needs at least 7x7")
    moments = np.stack([x, y, x * x, y * y, x * y])
    for axis in (1, 2):
        total = np.cumsum(moments, axis=axis)
        total = np.concatenate([np.zeros_like(np.take(total, [0], axis=axis)), total], axis=axis)
        size = total.shape[axis]
        moments = np.take(total, range(7, size), axis=axis) - np.take(total, range(size - 7), axis=axis)
    # 49 samples, of which one degree of freedom went into the mean.
    return float(_ssim_map(*(moments / 49), sample=49 / 48, peak=peak).mean())


def _moments(result: NDArray, truth: NDArray) -> Doubles:
    """Return blurred x, y, x², y², xy of two volumes: (5, C, H, W)."""
    x, y = _pair(result, truth)
    if x.ndim != 3:
        raise ArrayError(f"a volume is (H, W, C); got shape {x.shape}")
    blurred = _blur(_products(x, y))
    channels = x.shape[2]
    mixed = _band(channels) @ blurred.reshape(5, channels, -1)
    return mixed.reshape(blurred.shape)


def _ssim_map(
    mx: Doubles,
    my: Doubles,
    xx: Doubles,
    yy: Doubles,
    xy: Doubles,
    sample: float = 1.0,
    peak: float = 1.0,
) -> Doubles:
    c1, c2 = (0.01 * peak) ** 2, (0.03 * peak) ** 2
    mxy, squares = mx * my, mx * mx + my * my
    numerator = (2 * mxy + c1) * (2 * sample * (xy - mxy) + c2)
    return numerator / ((squares + c1) * (sample * (xx + yy - squares) + c2))


def _products(x: Doubles, y: Doubles) -> Doubles:
    """Return x, y, x², y², xy of two (H, W, C) pictures, as planes: (5, C, H, W)."""
    x, y = np.moveaxis(x, -1, 0), np.moveaxis(y, -1, 0)
    return np.stack([x, y, x * x, y * y, x * y])


def _blur(planes: Doubles) -> Doubles:
    """Return a Gaussian blur over height and width of (…, H, W), replicated border.

    A matrix product per block of 32 lines: 42 multiplications an output instead of H or W, and BLAS does them.
    """
    height, width = planes.shape[-2:]
    rows, columns = np.empty_like(planes), np.empty_like(planes)
    for band, first, last, start, stop in _blocks(height):
        rows[..., start:stop, :] = band @ planes[..., first:last, :]
    for band, first, last, start, stop in _blocks(width):
        columns[..., start:stop] = rows[..., first:last] @ band.T
    return columns


def _blocks(length: int) -> Iterator[tuple[Doubles, int, int, int, int]]:
    """Yield parts of the blur's matrix: `band` turns lines first:last into blurred lines start:stop."""
    for start in range(0, length, _BLOCK):
        stop = min(start + _BLOCK, length)
        first, last = max(start - _RADIUS, 0), min(stop + _RADIUS, length)
        yield _band(length, start, stop)[:, first:last], first, last, start, stop


def _band(length: int, start: int = 0, stop: int | None = None) -> Doubles:
    """Return rows start:stop of the (length, length) matrix that blurs a line with a replicated border.

    In full, the matrix of a large photo's side has hundreds of megabytes.

    >>> _band(3).sum(axis=1).round(12).tolist()
    [1.0, 1.0, 1.0]
    """
    offsets = np.arange(-_RADIUS, _RADIUS + 1)
    lines = np.arange(start, length if stop is None else stop)[:, None]
    band = np.zeros((len(lines), length))
    np.add.at(band, (lines - start, np.clip(lines + offsets, 0, length - 1)), _GAUSSIAN)
    return band


def _pair(result: NDArray, truth: NDArray) -> tuple[Doubles, Doubles]:
    if result.shape != truth.shape or result.ndim not in (2, 3) or 0 in result.shape:
        raise ArrayError(f"result is {result.shape}, truth is {truth.shape}; give two pictures of one shape")
    return np.asarray(result, dtype=np.float64), np.asarray(truth, dtype=np.float64)
