"""Fast reading of data-set pictures: 8-bit RGB and masks.

`photo` keeps the depth, colour profile and metadata of a user's photograph. Training reads thousands of plain pictures
and needs none of that.
"""

from __future__ import annotations

from collections.abc import Generator
from contextlib import contextmanager, suppress
from pathlib import Path

import numpy as np
from PIL import Image, ImageOps, UnidentifiedImageError

from shadowmaskformer import masks
from shadowmaskformer.arrays import Floats, Levels, from_float
from shadowmaskformer.errors import ArrayError, ImageReadError, MaskError, first_line
from shadowmaskformer.photo import DECODER_ERRORS

FORMATS = ("JPEG", "PNG", "TIFF", "BMP", "WEBP")


def read_rgb(path: Path, *, upright: bool = False) -> Levels:
    """Return the picture in `path`, (H, W, 3), as stored or `upright`: pairs agree in pixels, not in rotation tags."""
    with _opened(path) as image:
        if upright:
            with suppress(*DECODER_ERRORS):  # a damaged EXIF block: as stored
                image = ImageOps.exif_transpose(image)
        return np.asarray(image.convert("RGB"))


def read_dataset_mask(path: Path) -> Levels:
    """Return the mask in `path`, (H, W), 255 = shadow, without JPEG noise around 0 and 255; soft edges stay.

    It may be saved as 0 and 1, in a colour, in a palette or as transparency.
    """
    with _opened(path) as image:
        if image.mode == "P":
            image = image.convert("RGBA" if image.has_transparency_data else "RGB")
        if image.mode in ("LA", "RGBA") and image.getextrema()[-1] == (0, 0):
            image = image.convert(image.mode[:-1])  # a layer forgotten, not a mask of nothing
        values = np.asarray(image.convert("L"))
        if image.mode in ("LA", "RGB", "RGBA", "I;16", "I", "F"):
            with suppress(ArrayError, MaskError):
                values = from_float(masks.interpret(np.asarray(image))[0])
    if values.max() == 1:
        values = values * np.uint8(255)
    return np.where(values < 16, 0, np.where(values > 239, 255, values)).astype(np.uint8)


def size_of(path: Path) -> tuple[int, int]:
    """Return height and width, from the header alone."""
    with _opened(path) as image:
        return image.height, image.width


def gray_thumbnail(path: Path, side: int) -> Floats:
    """Return the picture's luminance averaged down to `side` x `side`, [0, 255]."""
    # Float and a triangle filter: rounding and a box filter's phase differ between sizes of one picture.
    with _opened(path) as image:
        gray = image.convert("L").convert("F")
    return np.asarray(gray.resize((side, side), Image.Resampling.BILINEAR), np.float32)


def gray_draft(path: Path, side: int) -> Floats:
    """Return the picture's luminance at `side` x `side`, decoded as coarsely as the file allows, [0, 255]."""
    with _opened(path) as image:
        image.draft("L", (side, side))
        small = image.convert("L").resize((side, side), Image.Resampling.BILINEAR)
    return np.asarray(small, np.float32)


def resize(picture: Levels, height: int, width: int) -> Levels:
    """Return `picture`, (H, W) or (H, W, 3), at another size: bicubic, antialiased when it shrinks."""
    if picture.shape[:2] == (height, width):
        return picture
    return np.asarray(Image.fromarray(picture).resize((width, height), Image.Resampling.BICUBIC))


@contextmanager
def _opened(path: Path) -> Generator[Image.Image]:
    """Yield the picture in `path`; errors of its decoder name the file."""
    try:
        with Image.open(path, formats=FORMATS) as image:
            yield image
    except (*DECODER_ERRORS, Image.DecompressionBombError) as error:
        raise _unreadable(path, error) from error


def _unreadable(path: Path, error: Exception) -> ImageReadError:
    reason = "not a picture" if isinstance(error, UnidentifiedImageError) else first_line(error)
    return ImageReadError(f"{path}: {reason}", "copy it again")
