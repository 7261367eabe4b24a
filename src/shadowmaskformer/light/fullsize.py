"""A correction found on a reduced copy, applied to the full-size photo strip by strip.

Light is smooth and may stay coarse. The shadow's edge may not: the depth of the penumbra is read from the distance to
the edge at each of the photo's own pixels (`Light.relit`). Nothing of the photo's size is held besides its levels.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from shadowmaskformer.arrays import Floats, from_float, places, sample, to_float
from shadowmaskformer.light.correction import Correction
from shadowmaskformer.light.relight import Light

_STRIP_PIXELS = 1 << 18  # enough to keep numpy busy, few enough to stay in the cache


@dataclass(frozen=True, eq=False)
class Restoration:
    """How to restore a photo: relight it, then correct the relit photo as the network says; either may be missing.

    Attributes:
        size: height and width of the reduced copy on which this was found.
        light: the measured light, or None to start from the photo as it is.
        network: the correction of the relit photo, of any size, or None.
    """

    size: tuple[int, int]
    light: Light | None = None
    network: Correction | None = None

    def correction(self, photo: Floats) -> Correction:
        """Return both steps as one correction of the reduced copy `photo`, (h, w, 3) of `size`."""
        relit = self.light.correction(photo).clamped(photo) if self.light else Correction.identity(*self.size)
        return relit.then(self.network.resized(*self.size)) if self.network else relit

    def apply(
        self,
        levels: NDArray[Any],
        weight: Floats | None = None,
        mask: Floats | None = None,
        *,
        progress: Callable[[float], None] = lambda share: None,
    ) -> NDArray[Any]:
        """Return the restored photo.

        Args:
            levels: the photo's pixels, (H, W, 3), of any supported type.
            weight: how much of the restored photo each pixel takes, (h, w) of any size, [0, 1]; None for all of it.
            mask: (H, W), [0, 1]; pixels take at least this much.
            progress: told the share of the photo that is restored, 0 to 1.

        Returns:
            As `levels`; bit for bit the same where the weight is 0.
        """
        height, width = levels.shape[:2]
        result = levels.copy()
        strip = max(1, _STRIP_PIXELS // width)
        for first in range(0, height, strip):
            progress(first / height)
            rows = slice(first, min(first + strip, height))
            share = self._share(rows, height, width, weight, mask)
            columns = slice(0, width) if share is None else _extent(share)
            if columns is None:
                continue
            before = to_float(levels[rows, columns])
            after = self._restored(before, rows, columns, height, width)
            if share is None:
                result[rows, columns] = from_float(after, result.dtype)
                continue
            part = share[:, columns, None]
            np.clip(after, 0, 1, out=after)
            after -= before
            after *= part
            after += before
            np.copyto(result[rows, columns], from_float(after, result.dtype), where=part > 0)
        return result

    def _share(self, rows: slice, height: int, width: int, weight: Floats | None, mask: Floats | None) -> Floats | None:
        if weight is None:
            return None
        small = weight[:, :, None]
        share = sample(small, places(small.shape[0], height)[rows], places(small.shape[1], width))[:, :, 0]
        return share if mask is None else np.maximum(share, mask[rows], out=share)

    def _restored(self, photo: Floats, rows: slice, columns: slice, height: int, width: int) -> Floats:
        if self.light:
            ys, xs = places(self.size[0], height)[rows], places(self.size[1], width)[columns]
            photo = self.light.relit(photo, ys, xs)
            photo = np.clip(photo, 0, 1, out=photo) if self.network else photo
        if self.network:
            planes = np.concatenate([self.network.gain, self.network.offset], axis=2)
            ys, xs = places(planes.shape[0], height)[rows], places(planes.shape[1], width)[columns]
            both = sample(planes, ys, xs)
            photo = both[:, :, :3] * photo + both[:, :, 3:]
        return photo


def _extent(share: Floats) -> slice | None:
    """Return the columns in which anything changes."""
    changed = np.flatnonzero(share.any(axis=0))
    return slice(int(changed[0]), int(changed[-1]) + 1) if changed.size else None
