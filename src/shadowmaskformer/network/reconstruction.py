"""The network's scale and its soft reconstruction `J = K·s − B + s`.

Each is one formula over arrays, NumPy or PyTorch alike: the network, the removal task and exports share them.
"""

from __future__ import annotations

from typing import Any

Array = Any
"""A NumPy array or a PyTorch tensor."""


def scaled(picture: Array) -> Array:
    """Return a picture in [0, 1] in the network's scale, [-1, 1].

    >>> scaled(0.0), scaled(1.0)
    (-1.0, 1.0)
    """
    return 2 * picture - 1


def unscaled(picture: Array) -> Array:
    """Return the inverse of `scaled`."""
    return (picture + 1) / 2


def reconstruct(gain: Array, offset: Array, start: Array) -> Array:
    """Return `J = K·s − B + s`, the paper's soft reconstruction.

    Args:
        gain: K, one channel.
        offset: B, three channels.
        start: s, the picture that the network corrects, three channels in [-1, 1].
    """
    return gain * start - offset + start


def affine(gain: Array, offset: Array) -> tuple[Array, Array]:
    """Return factor and term of the same reconstruction for pictures in [0, 1].

    With `s = 2·start − 1` and `J = 2·restored − 1`, the formula is `restored = (1 + K)·start − (K + B) / 2`.

    >>> factor, term = affine(0.5, 0.2)
    >>> round(factor * 0.3 + term, 12) == round(unscaled(reconstruct(0.5, 0.2, scaled(0.3))), 12)
    True
    """
    return 1 + gain, -(gain + offset) / 2
