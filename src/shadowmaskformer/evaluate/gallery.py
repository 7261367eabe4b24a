"""Small copies of scored pictures, kept while scoring, so that a report need not restore or decode them again."""

from __future__ import annotations

import io
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray
from PIL import Image

from shadowmaskformer.arrays import Levels
from shadowmaskformer.errors import OutputError
from shadowmaskformer.evaluate.protocols import as_uint8

SIDE = 320
"""Longer side of a copy, in pixels: a little more than a report shows."""


def small_copy(picture: NDArray[Any], size: tuple[int, int] | None = None) -> bytes:
    """Return a picture for print as a JPEG file.

    Args:
        picture: (H, W, 3) or (H, W), uint8, uint16 or float in [0, 1].
        size: height and width to stretch it to; None keeps its shape, with the longer side at most 320.
    """
    rows, columns = size or copy_size(picture.shape)
    # Averaged when it shrinks, linear when it grows.
    image = Image.fromarray(as_uint8(picture)).resize((columns, rows), Image.Resampling.BILINEAR)
    stream = io.BytesIO()
    image.save(stream, "JPEG", quality=92, subsampling=0)
    return stream.getvalue()


def copy_size(shape: tuple[int, ...]) -> tuple[int, int]:
    """Return height and width of the copy of a picture.

    >>> copy_size((480, 640, 3))
    (240, 320)
    """
    scale = min(1.0, SIDE / max(shape[:2]))
    return max(1, round(shape[0] * scale)), max(1, round(shape[1] * scale))


def read_copy(copy: bytes) -> Levels:
    """Return the pixels of a small copy, (h, w, 3) or (h, w)."""
    with Image.open(io.BytesIO(copy)) as image:
        return np.asarray(image)


class Gallery:
    """Small copies in a folder, by picture and by what they show ("photo", "truth", "mask" or a method's key)."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder

    def put(self, what: str, name: str, copy: bytes) -> None:
        """Keep a copy."""
        path = self._path(what, name)
        try:
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_bytes(copy)
        except OSError as error:
            raise OutputError(f"cannot write {path}: {error.strerror}", "choose another {output}") from error

    def get(self, what: str, name: str) -> Levels | None:
        """Return a copy, (h, w, 3) or (h, w); None where there is none."""
        try:
            return read_copy(self._path(what, name).read_bytes())
        except OSError:
            return None

    def _path(self, what: str, name: str) -> Path:
        return self.folder / what / f"{name}.jpg"
