"""A correction found on a reduced copy, applied to the full-size photo tile by tile.

Light is smooth and may stay coarse. The shadow's edge may not: the depth of the penumbra is read from the distance to
the edge at each of the photo's own pixels (`Light.relit`). Nothing of the photo's size is held besides its levels, and
tiles without shadow cost nothing.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import nullcontext
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from shadowmaskformer.arrays import Floats, from_float, places, sample, to_float
from shadowmaskformer.light.correction import Correction
from shadowmaskformer.light.relight import Light

_TILE_PIXELS = 1 << 16  # enough to keep numpy busy, few enough to stay in the cache
_SMALLEST_TILE = 1 << 10
_NO_THREAD = "can't start new thread"

Tile = tuple[slice, slice]


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
        threads: int = 1,
        progress: Callable[[float], None] = lambda share: None,
    ) -> NDArray[Any]:
        """Return the restored photo.

        Where memory is short, it goes on with smaller and smaller tiles, one at a time.

        Args:
            levels: the photo's pixels, (H, W, 3), of any supported type.
            weight: how much of the restored photo each pixel takes, (h, w) of any size, [0, 1]; None for all of it.
            mask: of any size, [0, 1]; pixels take at least this much.
            threads: how many tiles to work on at once.
            progress: told the share of the photo that is restored, 0 to 1.

        Returns:
            As `levels`; bit for bit the same where the weight is 0.

        Raises:
            MemoryError: there is none left for the smallest tile, or for the result.
        """
        result = levels.copy()
        if self.light is None and self.network is None:
            return result
        shares = [plane for plane in (weight, mask) if plane is not None] if weight is not None else []
        pixels = _TILE_PIXELS
        while True:
            try:
                self._fill(result, levels, shares, pixels, threads, progress)
                return result
            except (MemoryError, RuntimeError) as error:
                # A thread for which there is no memory is a RuntimeError without a class of its own.
                if isinstance(error, RuntimeError) and str(error) != _NO_THREAD:
                    raise
                # Tiles that are done come out the same again, because each is made from the photo's own levels.
                pixels, threads = pixels // 2, 1
                if pixels < _SMALLEST_TILE:
                    raise

    def _fill(
        self,
        result: NDArray[Any],
        levels: NDArray[Any],
        shares: list[Floats],
        pixels: int,
        threads: int,
        progress: Callable[[float], None],
    ) -> None:
        """Restore those tiles of `levels` into `result` that take any share of the restored photo."""
        tiles = list(_tiles(levels.shape[0], levels.shape[1], pixels))

        def fill(tile: Tile) -> None:
            self._fill_tile(result, levels, shares, tile)

        with ThreadPoolExecutor(threads) if threads > 1 else nullcontext() as pool:
            for done, _ in enumerate(pool.map(fill, tiles) if pool else map(fill, tiles), start=1):
                progress(done / len(tiles))

    def _fill_tile(self, result: NDArray[Any], levels: NDArray[Any], shares: list[Floats], tile: Tile) -> None:
        size = (levels.shape[0], levels.shape[1])
        if not shares:
            result[tile] = from_float(self._restored(to_float(levels[tile]), tile, size), result.dtype)
            return
        seen = [each for each in shares if _part_of(each, tile, size).any()]
        if not seen:
            return
        share = np.maximum.reduce([_enlarged(each, tile, size) for each in seen])[:, :, None]
        before = to_float(levels[tile])
        after = self._restored(before, tile, size)
        np.clip(after, 0, 1, out=after)
        after -= before
        after *= share
        after += before
        np.copyto(result[tile], from_float(after, result.dtype), where=share > 0)

    def _restored(self, photo: Floats, tile: Tile, size: tuple[int, int]) -> Floats:
        """Return the part `photo` of a picture of `size` restored, not clamped, as a new array."""
        if self.light:
            photo = self.light.relit(photo, *_places(self.size, tile, size))
            photo = np.clip(photo, 0, 1, out=photo) if self.network else photo
        if self.network:
            gain = _enlarged(self.network.gain, tile, size)
            gain *= photo
            gain += _enlarged(self.network.offset, tile, size)
            photo = gain
        return photo


def _tiles(height: int, width: int, pixels: int) -> Iterator[Tile]:
    """Yield parts of a picture with at most `pixels` pixels each, wider than tall."""
    wide = min(width, max(1, round((4 * pixels) ** 0.5)))
    tall = max(1, pixels // wide)
    for top in range(0, height, tall):
        for left in range(0, width, wide):
            yield slice(top, min(top + tall, height)), slice(left, min(left + wide, width))


def _places(small: tuple[int, ...], tile: Tile, size: tuple[int, int]) -> tuple[Floats, Floats]:
    """Return where the rows and columns of a tile of a picture of `size` lie in a copy of the size `small`."""
    rows, columns = (places(small[axis], size[axis], tile[axis]) for axis in (0, 1))
    return rows, columns


def _part_of(planes: Floats, tile: Tile, size: tuple[int, int]) -> Floats:
    """Return the part of `planes` that a tile is interpolated from."""
    rows, columns = (
        slice(max(int(np.floor(each[0])), 0), int(np.floor(each[-1])) + 2) for each in _places(planes.shape, tile, size)
    )
    return planes[rows, columns]


def _enlarged(planes: Floats, tile: Tile, size: tuple[int, int]) -> Floats:
    """Return `planes`, (h, w) or (h, w, C), at the pixels of a tile of a picture of `size`."""
    rows, columns = _places(planes.shape, tile, size)
    return sample(planes, rows, columns) if planes.ndim == 3 else sample(planes[:, :, None], rows, columns)[:, :, 0]
