"""sRGB to CIE L*a*b*, with each white point that the field's scripts use.

L* runs from 0 to 100. Values outside [0, 1], which bicubic resizing leaves at edges, continue the linear part
of both curves below 0 and the power part above 1.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from shadowmaskformer.arrays import Doubles

# Linear sRGB to XYZ. D50: the sRGB primaries adapted by Bradford (ICC profile connection space; the matrix of
# Lindbloom's table "sRGB, D50"). D65: IEC 61966-2-1.
_XYZ_D50 = np.array(
    [[0.4360747, 0.3850649, 0.1430804], [0.2225045, 0.7168786, 0.0606169], [0.0139322, 0.0971045, 0.7141733]]
)
_XYZ_D65 = np.array([[0.412453, 0.357580, 0.180423], [0.212671, 0.715160, 0.072169], [0.019334, 0.119193, 0.950227]])
_WHITE_D50 = np.array([0.9642, 1.0, 0.8251])
_WHITE_OPENCV = np.array([0.950456, 1.0, 1.088754])
_WHITE_D65_CIE = np.array([0.95047, 1.0, 1.08883])

GRAY_BT601 = np.array([0.299, 0.587, 0.114])
"""Weights of OpenCV's `RGB2GRAY`."""


def lab_d50(rgb: NDArray) -> Doubles:
    """Return Lab under D50, as MATLAB's `applycform(…, makecform('srgb2lab'))`: the field's reference.

    Args:
        rgb: sRGB, (…, 3), [0, 1].

    Returns:
        L*, a*, b*, (…, 3), float64.

    >>> lab_d50(np.array([1.0, 0.0, 0.0])).round(1).tolist()
    [54.3, 80.8, 69.9]
    """
    return _lab(rgb, _XYZ_D50, _WHITE_D50)


def lab_opencv(rgb: NDArray) -> Doubles:
    """Return Lab under D65 with OpenCV's white, as `cv2.cvtColor` gives for float pictures; shapes as `lab_d50`.

    >>> lab_opencv(np.array([1.0, 0.0, 0.0])).round(1).tolist()
    [53.2, 80.1, 67.2]
    """
    return _lab(rgb, _XYZ_D65, _WHITE_OPENCV)


def lab_d65(rgb: NDArray) -> Doubles:
    """Return Lab under CIE D65 (2° observer), as scikit-image's `rgb2lab`; shapes as `lab_d50`.

    >>> lab_d65(np.array([0.5, 0.5, 0.5])).round(1).tolist()
    [53.4, -0.0, 0.0]
    """
    return _lab(rgb, _XYZ_D65, _WHITE_D65_CIE)


def gray(rgb: NDArray) -> Doubles:
    """Return luma by BT.601, as OpenCV's `RGB2GRAY`: (…, 3) to (…).

    >>> gray(np.array([[1.0, 0.0, 0.0], [0.0, 1.0, 0.0]])).tolist()
    [0.299, 0.587]
    """
    return np.asarray(rgb, dtype=np.float64) @ GRAY_BT601


def _lab(rgb: NDArray, to_xyz: Doubles, white: Doubles) -> Doubles:
    rgb = np.asarray(rgb, dtype=np.float64)
    # IEC 61966-2-1: the curve's two pieces meet at 0.04045.
    linear = np.where(rgb > 0.04045, ((np.maximum(rgb, 0.04045) + 0.055) / 1.055) ** 2.4, rgb / 12.92)
    xyz = linear @ (to_xyz.T / white)
    # CIE 15: cube root above (6/29)^3, its tangent below.
    f = np.where(xyz > (6 / 29) ** 3, np.cbrt(xyz), xyz * (841 / 108) + 4 / 29)
    x, y, z = f[..., 0], f[..., 1], f[..., 2]
    return np.stack([116 * y - 16, 500 * (x - y), 200 * (y - z)], axis=-1)
