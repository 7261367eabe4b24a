"""Bulk reading of data-set pictures: 8-bit RGB and masks, nothing else.

`imageio` keeps depth, colour profile and metadata of a user's photograph; training reads thousands of plain
pictures and wants none of that.
"""

from __future__ import annotations

from pathlib import Path

import numpy as np
from numpy.typing import NDArray
from PIL import Image, UnidentifiedImageError

from shadowmaskformer.errors import ImageReadError

FORMATS = ("JPEG", "PNG", "TIFF", "BMP", "WEBP")
# All that Pillow is known to raise on damaged files.
_READ_ERRORS = (OSError, UnidentifiedImageError, ValueError, SyntaxError, Image.DecompressionBombError)


def read_rgb(path: Path) -> NDArray[np.uint8]:
    """The picture in `path`, (H, W, 3), as stored: pairs agree in pixels, not in rotation tags."""
    return np.asarray(_read(path, "RGB"))


def read_mask(path: Path) -> NDArray[np.uint8]:
    """The mask in `path`, (H, W), 255 = shadow; JPEG noise around 0 and 255 is gone, soft edges stay."""
    values = np.asarray(_read(path, "L"))
    return np.where(values < 16, 0, np.where(values > 239, 255, values)).astype(np.uint8)


def size_of(path: Path) -> tuple[int, int]:
    """Height and width, from the header alone."""
    try:
        with Image.open(path, formats=FORMATS) as image:
            return image.height, image.width
    except _READ_ERRORS as error:
        raise _unreadable(path, error) from error


def gray_thumbnail(path: Path, side: int) -> NDArray[np.float32]:
    """The picture's luminance averaged down to `side` x `side`, float, [0, 255]."""
    # Float and a triangle filter: rounding and a box filter's phase differ between sizes of one picture.
    return np.asarray(_read(path, "L").convert("F").resize((side, side), Image.Resampling.BILINEAR), np.float32)


def gray_draft(path: Path, side: int) -> NDArray[np.float32]:
    """The picture's luminance at `side` x `side`, decoded as coarsely as the file allows; float, [0, 255]."""
    try:
        with Image.open(path, formats=FORMATS) as image:
            image.draft("L", (side, side))
            small = image.convert("L").resize((side, side), Image.Resampling.BILINEAR)
    except _READ_ERRORS as error:
        raise _unreadable(path, error) from error
    return np.asarray(small, np.float32)


def resize(picture: NDArray[np.uint8], height: int, width: int) -> NDArray[np.uint8]:
    """`picture`, (H, W) or (H, W, 3), at another size; bicubic, widened when shrinking."""
    if picture.shape[:2] == (height, width):
        return picture
    return np.asarray(Image.fromarray(picture).resize((width, height), Image.Resampling.BICUBIC))


def _read(path: Path, mode: str) -> Image.Image:
    try:
        with Image.open(path, formats=FORMATS) as image:
            return image.convert(mode)
    except _READ_ERRORS as error:
        raise _unreadable(path, error) from error


def _unreadable(path: Path, error: Exception) -> ImageReadError:
    reason = "not a picture" if isinstance(error, UnidentifiedImageError) else str(error).splitlines()[0]
    return ImageReadError(f"{path}: {reason}; copy it again")
