"""Synthetic pictures and their files, shared by several tests."""

from __future__ import annotations

import io
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import tifffile
from numpy.typing import NDArray
from PIL import Image, ImageCms

SIZE = (32, 48)


def picture(channels: int = 3, seed: int = 0) -> NDArray[np.uint8]:
    """Smooth enough for JPEG, different in every channel and corner."""
    y, x = np.mgrid[: SIZE[0], : SIZE[1]]
    planes = [120 + 90 * np.sin(y / 9 + c + seed) * np.cos(x / 13 - c) for c in range(channels)]
    return np.stack(planes, axis=2).astype(np.uint8)


def encoded(image: Image.Image | NDArray[Any], format: str = "PNG", **options: Any) -> bytes:
    buffer = io.BytesIO()
    image = image if isinstance(image, Image.Image) else Image.fromarray(image)
    image.save(buffer, format, **options)
    return buffer.getvalue()


def tiff(array: NDArray[Any], **options: Any) -> bytes:
    buffer = io.BytesIO()
    tifffile.imwrite(buffer, array, metadata=None, **options)
    return buffer.getvalue()


def exif_block(orientation: Any = 6) -> bytes:
    exif = Image.Exif()
    exif[0x0112] = orientation
    exif[0x010F] = "Camera Maker"
    return exif.tobytes()


@cache  # the profile holds the second of its creation
def srgb_profile() -> bytes:
    return ImageCms.ImageCmsProfile(ImageCms.createProfile("sRGB")).tobytes()


def opened(path: Path) -> Image.Image:
    """Return the picture, decoded, with its file closed: what is left open is an error in the tests."""
    with Image.open(path) as image:
        image.load()
    return image
