"""From a photo's levels to light and back: one tone curve for all cameras.

A shadow divides light, and a camera turns light into levels by a curve that lifts the dark and presses the bright
together. In the logarithm of light, what a shadow takes is the same number for bright and dark texture, so one
number per channel says all: black stays black, fine contrast is right without being guessed, and a bright pixel
is not driven far beyond white. `light = (x + BLACK) / (1 - SHOULDER * x)` is as good a curve as any on SRD's pairs,
and needs no roots or powers.
"""

from __future__ import annotations

import numpy as np

from shadowmaskformer.light.correction import Correction

BLACK = np.float32(0.02)
"""Level, of [0, 1], that noise and stray light add: keeps the logarithm of black finite."""
SHOULDER = np.float32(0.8)
"""How strongly bright levels are pressed together: 0 not at all, 1 so that no amount of light exceeds white."""

WHITE = np.log((1 + BLACK) / (1 - SHOULDER))
"""Logarithm of the light behind the brightest level."""


def log_light(levels: np.ndarray) -> np.ndarray:
    """Return the logarithm of the light behind `levels`, [0, 1].

    >>> bool(np.allclose(np.exp(log_light(np.float32([0, 0.5, 1]))), [0.02, 0.52 / 0.6, 5.1]))
    True
    """
    return np.log((levels + BLACK) / (1 - SHOULDER * levels))


def brighter(
    photo: np.ndarray, added: np.ndarray, *, black: np.float32 = BLACK, shoulder: np.float32 = SHOULDER
) -> np.ndarray:
    """Return `photo` with more light, as `brightened` describes, pixel by pixel and not clamped."""
    light = (photo + black) / (1 - shoulder * photo)
    light *= np.exp(added)
    return np.where(added == 0, photo, (light - black) / (1 + shoulder * light))


def brightened(photo: np.ndarray, added: np.ndarray) -> Correction:
    """Return the correction that gives each pixel more light.

    The gain is the curve's slope at the pixel, so that detail which a larger picture has there keeps its contrast.

    Args:
        photo: RGB float32, (H, W, 3), [0, 1].
        added: float32, (H, W, 3), logarithm of the factor by which light grows; exactly 0 changes no bit.
    """
    factor = np.exp(added)
    pressed = 1 - SHOULDER * photo
    light = factor * (photo + BLACK) / pressed
    spread = 1 + SHOULDER * light
    gain = factor * np.square((1 + SHOULDER * BLACK) / (pressed * spread))
    offset = (light - BLACK) / spread - gain * photo
    same = added == 0
    gain[same], offset[same] = 1, 0
    return Correction(gain, offset)
