"""The last touches to a relit shadow: what light alone does not put right.

Sun from one side models every grain of the ground, light from the whole sky does not, so the contrast of fine texture
is raised a little, where it is strong enough to be texture and not noise. What would come out brighter than the lit
ground around it was lit already: it gets less light, down to none.

And a relit pixel is only as good as the level it comes from. In the dark one level more or less is a lot of light, in
colour above all, and so is one pixel more or less along a sharp edge. How far each pixel may be off is known, so it is
drawn towards the mean around it, to which good pixels count more, the more doubtful it is and the plainer the ground:
the noise of a deep shadow and the line along its edge go, texture stays.

Some noise cannot be known in advance: strongly compressed, the dark is off by many levels. It shows in the end, because
the shadow comes out rougher than lit ground of like material. There texture is lowered to little more than that.

Constants were compared on the training part of SRD; for most of them pairs from other cameras were scored beside it.
"""

from __future__ import annotations

import numpy as np

from shadowmaskformer.arrays import box_mean
from shadowmaskformer.light.tone import BLACK, SHOULDER, WHITE

_GRAIN = 0.0014  # how fine texture is that sunlight raises, as a share of the picture's side
_RAISED = 0.9  # by what share, were it not for the next two
_NOISE, _STRONG = 0.1, 0.2  # at these contrasts, in the logarithm of light, half is left: less of noise, less of print
_SPECK = 0.003  # how far around it a pixel is averaged to see whether it is too bright
_TOO_BRIGHT = 0.02  # how much brighter than the lit ground that is, in the logarithm of light
_LIT = 0.7  # how much brighter than lit ground a single pixel comes out, at least, that was lit already
_ROUGH = 0.3  # how much stronger than that of lit ground texture may be, in its logarithm

_AROUND = 0.014  # how far around it a doubtful pixel looks
_LEVEL = np.float32(1 / 255)  # how far a level may be off
_COLOUR = np.float32(2)  # times as far in what red and blue differ from green by: JPEG keeps less of it
_SHARP = np.float32(0.3)  # share of its depth that a shadow gains from one pixel to the next at a sharp edge
_PLAIN, _PLAIN_COLOUR = 0.05, 0.02  # contrast of plain ground, in the logarithm of light


def finish(
    photo: np.ndarray,
    light: np.ndarray,
    depth: np.ndarray,
    lost: np.ndarray,
    limit: np.ndarray,
    rough: np.ndarray,
    side: float,
) -> np.ndarray:
    """Return the factor by which to change the light given back, (H, W, 3), or (H, W, 1) in small pictures.

    Pictures too small for fine texture have averaged most of their noise away, and stay as they are.

    Args:
        photo: RGB, (H, W, 3), [0, 1].
        light: its logarithm of light.
        depth: of the shadow, (H, W), [0, 1].
        lost: logarithm of the light that the shadow took, (H, W, 3).
        limit: logarithm of the light of the brightest lit ground around, (H, W).
        rough: by how much the shadow's texture is stronger than that of lit ground like it, logarithm, (H, W).
        side: of the square with the whole picture's area, in pixels.
    """
    given = depth[:, :, None] * lost
    amount = given.mean(axis=2)
    grain, around = round(_GRAIN * side), max(round(_AROUND * side), 1)
    bright = light.mean(axis=2) + amount
    relit = np.minimum(bright, WHITE)
    excess = np.maximum(_blurred(relit, max(round(_SPECK * side), 1)) - limit - np.float32(_TOO_BRIGHT), 0)
    if not grain:
        return _factor(-excess, amount)[:, :, None]
    change = depth * (_raised(relit, grain) - _roughness(relit, rough, around))
    change -= np.maximum(excess, _sunlit(bright - limit, amount))
    factor = _factor(change, amount)[:, :, None]
    given *= factor
    return factor * _factor(_calmed(photo, light + given, depth, lost, around), given)


def _raised(relit: np.ndarray, grain: int) -> np.ndarray:
    """Return by how much to raise the texture of a picture's logarithm of light."""
    texture = relit - _blurred(relit, grain)
    strength = np.square(texture)
    strength *= np.float32(_RAISED) / ((strength + np.float32(_NOISE**2)) * (1 + strength / np.float32(_STRONG**2)))
    return texture * strength


def _roughness(relit: np.ndarray, rough: np.ndarray, radius: int) -> np.ndarray:
    """Return by how much to lower the texture of a picture's logarithm of light that is too rough."""
    if rough.max() <= _ROUGH:
        return np.zeros_like(relit)
    kept = np.exp(np.minimum(np.float32(_ROUGH) - rough, 0))
    return (1 - kept) * (relit - box_mean(relit, radius))


def _sunlit(over: np.ndarray, amount: np.ndarray) -> np.ndarray:
    """Return `over`, the logarithm of light beyond that of lit ground, of those pixels that were lit already.

    Those are brighter by what the shadow did not take from them; what is brighter still is white print.
    """
    lit = np.clip(over / np.float32(_LIT) - 1, 0, 1)
    return np.where(over < amount + np.float32(_LIT / 2), lit * over, 0)


def _calmed(photo: np.ndarray, relit: np.ndarray, depth: np.ndarray, lost: np.ndarray, radius: int) -> np.ndarray:
    """Return the change that draws each pixel of the relit logarithm of light towards its surroundings."""
    rise = np.hypot(*_slopes(depth))
    # The doubt about a soft edge is a smooth one, which this does not help.
    rise *= np.minimum(rise / _SHARP, 1)
    red, green, blue = (np.minimum(relit[:, :, channel], WHITE) for channel in range(3))
    doubts = [_level_doubt(photo[:, :, channel]) for channel in range(3)]
    astray = [np.square(rise * lost[:, :, channel]) for channel in range(3)]
    change = np.empty_like(relit)
    change[:, :, 1] = _drawn(green, doubts[1] + astray[1], radius, _PLAIN)
    for channel, colour in ((0, red), (2, blue)):
        doubt = _COLOUR**2 * (doubts[channel] + doubts[1]) + astray[channel]
        change[:, :, channel] = change[:, :, 1] + _drawn(colour - green, doubt, radius, _PLAIN_COLOUR)
    return change


def _level_doubt(levels: np.ndarray) -> np.ndarray:
    """Return the variance of the logarithm of light behind a channel's levels."""
    return np.square(_LEVEL / (levels + BLACK) + _LEVEL * SHOULDER / (1 - SHOULDER * levels))


def _drawn(plane: np.ndarray, doubt: np.ndarray, radius: int, plain: float) -> np.ndarray:
    """Return the change that draws a plane towards its mean around each pixel, as far as the variance `doubt` says."""
    trust = np.reciprocal(doubt + np.float32(plain**2))
    total = box_mean(trust, radius)
    off = plane - box_mean(trust * plane, radius) / total
    texture = np.maximum(box_mean(trust * (np.square(off) - doubt), radius) / total, np.float32(plain**2))
    return -off * doubt / (texture + doubt)


def _slopes(plane: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Return how a plane changes from pixel to pixel, down and across."""
    padded = np.pad(plane, 1, mode="edge")
    return (padded[2:, 1:-1] - padded[:-2, 1:-1]) / 2, (padded[1:-1, 2:] - padded[1:-1, :-2]) / 2


def _factor(change: np.ndarray, given: np.ndarray) -> np.ndarray:
    """Return the factor on the light given back that changes the relit picture by `change`."""
    return 1 + np.clip(change / np.maximum(given, np.float32(1e-3)), -1, 1)


def _blurred(plane: np.ndarray, radius: int) -> np.ndarray:
    return box_mean(box_mean(plane, radius), radius)
