"""Bulk reading of data-set pictures: 8-bit RGB and masks, nothing else.

`imageio` keeps depth, colour profile and metadata of a user's photograph; training reads thousands of plain
pictures and wants none of that.
"""

from __future__ import annotations

from pathlib import Path

import numpy as np
from numpy.typing import NDArray
from PIL import Image, ImageOps, UnidentifiedImageError

from shadowmaskformer import masks
from shadowmaskformer.errors import ArrayError, ImageReadError, MaskError
from shadowmaskformer.photo import from_float

FORMATS = ("JPEG", "PNG", "TIFF", "BMP", "WEBP")
# All that Pillow is known to raise on damaged files.
_READ_ERRORS = (OSError, UnidentifiedImageError, ValueError, SyntaxError, Image.DecompressionBombError)


def read_rgb(path: Path, *, upright: bool = False) -> NDArray[np.uint8]:
    """The picture in `path`, (H, W, 3), as stored: pairs agree in pixels, not in rotation tags; or `upright`."""
    image = _read(path)
    return np.asarray((ImageOps.exif_transpose(image) if upright else image).convert("RGB"))


def read_mask(path: Path) -> NDArray[np.uint8]:
    """The mask in `path`, (H, W), 255 = shadow; JPEG noise around 0 and 255 is gone, soft edges stay.

    Also where it is saved as 0 and 1, in a colour, in a palette or as transparency.
    """
    image = _read(path)
    if image.mode in ("1", "L"):
        values = np.asarray(image.convert("L"))
        values = values * np.uint8(255) if values.max() == 1 else values
    else:
        if image.mode == "P":
            image = image.convert("RGBA" if image.has_transparency_data else "RGB")
        try:
            values = from_float(masks.interpret(np.asarray(image))[0])
        except (ArrayError, MaskError):
            values = np.asarray(image.convert("L"))
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
    return np.asarray(_read(path).convert("L").convert("F").resize((side, side), Image.Resampling.BILINEAR), np.float32)


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


def _read(path: Path) -> Image.Image:
    try:
        with Image.open(path, formats=FORMATS) as image:
            image.load()
            return image
    except _READ_ERRORS as error:
        raise _unreadable(path, error) from error


def _unreadable(path: Path, error: Exception) -> ImageReadError:
    reason = "not a picture" if isinstance(error, UnidentifiedImageError) else str(error).splitlines()[0]
    return ImageReadError(f"{path}: {reason}; copy it again")
