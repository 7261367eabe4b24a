"""Restore arrays, tensors and Pillow images, and give back the kind that came in."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
from numpy.typing import NDArray
from PIL import Image

from shadowmaskformer.arrays import from_float, gray_levels
from shadowmaskformer.errors import ArrayError
from shadowmaskformer.photo import EXIF_PREFIX, Photo
from shadowmaskformer.photo.accept import array_of, photo_from_array

Restore = Callable[[Photo], Photo]


def restore_array(array: NDArray[Any], restore: Restore) -> NDArray[Any]:
    """Restore an array; shape and type stay."""
    return _array_like(array, restore(photo_from_array(array)))


def restore_tensor(tensor: Any, restore: Restore) -> Any:
    """Restore a tensor (3, H, W), (1, H, W), (4, H, W) or (H, W); shape, type and device stay."""
    result = restore_array(array_of(tensor), restore)
    moved = np.ascontiguousarray(np.moveaxis(result, -1, 0) if tensor.ndim == 3 else result)
    return tensor.new_tensor(moved)


def restore_pillow(image: Image.Image, photo: Photo, restore: Restore, *, drop_metadata: bool = False) -> Image.Image:
    """Restore a Pillow image, of which `photo` was read; it keeps its metadata unless they are to be dropped."""
    return _pillow_like({} if drop_metadata else image.info, restore(photo))


def masks_of_batch(mask: Any, count: int) -> list[Any]:
    """Return a mask for each of `count` pictures: one for all, or (B, H, W) or (B, 1, H, W).

    A mask for all may have channels, first or last. (3, H, W) for three pictures is a mask for each.
    """
    dimensions = getattr(mask, "ndim", 0)
    several = dimensions == 3 and mask.shape[2] > 4 and (len(mask) == count or len(mask) not in (1, 3))
    if dimensions == 4 or several:
        if len(mask) != count:
            raise ArrayError(f"{len(mask)} masks for {count} pictures", "give one for each, or one for all")
        return [each[0] if dimensions == 4 else each for each in mask]
    return [mask] * count


def _array_like(array: NDArray[Any], photo: Photo) -> NDArray[Any]:
    pixels = photo.pixels
    if photo.gray:
        pixels = gray_levels(photo.pixels)
        pixels = pixels if array.ndim == 2 else pixels[..., None]
    elif photo.alpha is not None:
        pixels = np.dstack((pixels, photo.alpha))
    if array.dtype.kind == "f":
        # Doubles keep the digits that the photo's single precision has not, where nothing was blended.
        return np.where(pixels == array.astype(np.float32), array, pixels.astype(array.dtype))
    return pixels.astype(array.dtype)


def _pillow_like(info: dict[Any, Any], photo: Photo) -> Image.Image:
    if photo.pixels.dtype != np.uint8:
        levels = gray_levels(photo.pixels) if photo.gray else from_float(photo.as_float())
        result = Image.fromarray(levels)
    else:
        colour = gray_levels(photo.pixels) if photo.gray else photo.pixels
        result = Image.fromarray(colour)
        if photo.alpha is not None:
            result.putalpha(Image.fromarray(photo.alpha))
    result.info.update(info)
    # What this key says of a palette or a colour is in the alpha channel now.
    result.info.pop("transparency", None)
    metadata = photo.metadata
    exif = EXIF_PREFIX + metadata.exif if metadata.exif else None
    for key, block in (("exif", exif), ("icc_profile", metadata.icc), ("xmp", metadata.xmp)):
        result.info.pop(key, None)
        if block:
            result.info[key] = block
    return result
