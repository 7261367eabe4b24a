"""Align a coarse depth with the edges of the photo: a guided filter whose lines are fitted on a small copy.

Within a neighbourhood, the depth is assumed to be a linear function of the photo's colours (He, Sun, Tang: Guided Image
Filtering). Its edges then lie where the photo has them. A shadow divides light, so colours are taken in the logarithm.
"""

from __future__ import annotations

import numpy as np

from shadowmaskformer.arrays import Floats, average_down, box_mean, fit_pixels, places, sample

FITTED_PIXELS = 320 * 320
"""The lines are fitted on a copy of about this size: they are smooth."""
REACH = 0.02
"""Radius of the neighbourhood, as a share of the picture's side."""
SMOOTHNESS = 1e-2
"""How little the colours may vary, in squared logarithm, before they say nothing about the depth."""
FLOOR = 8 / 255
"""Added before the logarithm: noise in black is no edge."""


def refine(photo: Floats, depth: Floats) -> Floats:
    """Return the depth at the photo's size with its edges on the photo's.

    Args:
        photo: RGB, (H, W, 3), [0, 1].
        depth: (h, w) of any size, [0, 1].

    Returns:
        (H, W), [0, 1].
    """
    height, width = photo.shape[:2]
    rows, columns = fit_pixels(height, width, FITTED_PIXELS)
    guide = np.log(photo + np.float32(FLOOR))
    small = average_down_log(photo, rows, columns)
    coarse = enlarge(depth[..., None], rows, columns)[..., 0]
    radius = max(1, round(REACH * (rows * columns) ** 0.5))
    slopes, offset = _fit_lines(small, coarse, radius)
    lines = enlarge(np.concatenate([slopes, offset[..., None]], axis=2), height, width)
    refined = lines[..., 3]
    for channel in range(3):
        refined = refined + lines[..., channel] * guide[..., channel]
    return np.clip(refined, 0, 1)


def average_down_log(photo: Floats, rows: int, columns: int) -> Floats:
    """Return the logarithm of the photo reduced to a size."""
    return np.log(average_down(photo, rows, columns) + np.float32(FLOOR))


def enlarge(planes: Floats, height: int, width: int) -> Floats:
    """Return planes (h, w, C) at another size, linearly interpolated."""
    return sample(planes, places(planes.shape[0], height), places(planes.shape[1], width))


def _fit_lines(guide: Floats, depth: Floats, radius: int) -> tuple[Floats, Floats]:
    """Return slopes (h, w, 3) and offset (h, w): around each pixel, depth is slopes · guide + offset."""

    def mean(plane: Floats) -> Floats:
        return box_mean(plane, radius)

    channels = [np.ascontiguousarray(guide[..., channel]) for channel in range(3)]
    means, level = [mean(channel) for channel in channels], mean(depth)
    together = [mean(channels[i] * depth) - means[i] * level for i in range(3)]
    spread = {(i, j): mean(channels[i] * channels[j]) - means[i] * means[j] for i in range(3) for j in range(i, 3)}
    a, b, c = (spread[i, i] + np.float32(SMOOTHNESS) for i in range(3))
    d, e, f = spread[0, 1], spread[0, 2], spread[1, 2]
    # The inverse of the symmetric matrix ((a, d, e), (d, b, f), (e, f, c)), by its cofactors.
    p, q, r = b * c - f * f, e * f - d * c, d * f - e * b
    s, t, u = a * c - e * e, d * e - a * f, a * b - d * d
    determinant = a * p + d * q + e * r
    x, y, z = together
    rows = ((p, q, r), (q, s, t), (r, t, u))
    slopes = [np.asarray((i * x + j * y + k * z) / determinant, np.float32) for i, j, k in rows]
    offset = np.asarray(level - sum(slopes[i] * means[i] for i in range(3)), np.float32)
    # Each pixel takes the mean of the lines of all neighbourhoods that it belongs to.
    return np.stack([mean(slope) for slope in slopes], axis=2), mean(offset)
