"""What a user hands in, as a photo or a mask, and the result as the same kind: file, Pillow image, array or tensor."""

from __future__ import annotations

import os
from collections.abc import Callable
from typing import Any

import numpy as np
from numpy.typing import NDArray
from PIL import Image

from shadowmaskformer.arrays import check_levels, from_float, gray_levels
from shadowmaskformer.errors import ArrayError
from shadowmaskformer.photo import EXIF_PREFIX, Photo

Restore = Callable[[Photo], Photo]


def is_tensor(value: object) -> bool:
    """Return whether `value` is a PyTorch tensor, without importing PyTorch."""
    return type(value).__module__.split(".")[0] == "torch"


def is_file(value: object) -> bool:
    """Return whether `value` holds an encoded picture: a path, bytes or a file object."""
    return isinstance(value, str | os.PathLike | bytes | bytearray | memoryview) or hasattr(value, "read")


def restore_array(array: NDArray[Any], restore: Restore) -> NDArray[Any]:
    """Restore an array; shape and type stay."""
    return _array_like(array, restore(_photo_from_array(array)))


def restore_tensor(tensor: Any, restore: Restore) -> Any:
    """Restore a tensor (3, H, W), (1, H, W), (4, H, W) or (H, W); shape, type and device stay."""
    if tensor.ndim not in (2, 3) or (tensor.ndim == 3 and tensor.shape[0] not in (1, 3, 4)):
        raise ArrayError(f"tensor is {tuple(tensor.shape)}", "give RGB as (3, height, width), channels first")
    array = _tensor_array(tensor)
    array = np.moveaxis(array, 0, -1) if tensor.ndim == 3 else array
    result = restore_array(array, restore)
    moved = np.ascontiguousarray(np.moveaxis(result, -1, 0) if tensor.ndim == 3 else result)
    return tensor.new_tensor(moved)


def restore_pillow(image: Image.Image, photo: Photo, restore: Restore) -> Image.Image:
    """Restore a Pillow image, of which `photo` was read; it keeps its metadata."""
    return _pillow_like(image, restore(photo))


def masks_of_batch(mask: Any, count: int) -> list[Any]:
    """Return a mask for each of `count` pictures: one for all, or (B, H, W) or (B, 1, H, W)."""
    dimensions = getattr(mask, "ndim", 0)
    if dimensions == 4 or (dimensions == 3 and mask.shape[0] not in (1, 3)):
        if len(mask) != count:
            raise ArrayError(f"{len(mask)} masks for {count} pictures", "give one for each, or one for all")
        return [each[0] if dimensions == 4 else each for each in mask]
    return [mask] * count


def _tensor_array(tensor: Any) -> NDArray[Any]:
    """Return the tensor's numbers; half precision, of which NumPy knows only one kind, as float32."""
    tensor = tensor.detach().cpu()
    return (tensor.float() if tensor.is_floating_point() and tensor.element_size() == 2 else tensor).numpy()


def _photo_from_array(array: NDArray[Any]) -> Photo:
    """Return an array of any accepted shape and type as a photo; the array stays as it is."""
    if array.ndim not in (2, 3) or 0 in array.shape or (array.ndim == 3 and array.shape[2] not in (1, 3, 4)):
        turned = array.ndim == 3 and array.shape[0] in (1, 3, 4)
        fix = ", channels last: np.moveaxis(array, 0, -1)" if turned else ""
        raise ArrayError(f"array is {array.shape}", f"give RGB as (height, width, 3){fix}")
    if array.dtype.kind == "f":
        check_levels(array, "array")
        values = array.astype(np.float32)
    elif array.dtype.kind == "u" and array.dtype.itemsize in (1, 2):
        values = array.astype(array.dtype.newbyteorder("="))
    else:
        raise ArrayError(f"array is {array.dtype}", "convert it to uint8, uint16 or float in [0, 1]")
    if values.ndim == 2:
        values = values[..., None]
    gray = values.shape[2] == 1
    alpha = values[..., 3] if values.shape[2] == 4 else None
    pixels = np.repeat(values, 3, axis=2) if gray else values[..., :3]
    return Photo(np.ascontiguousarray(pixels), alpha=alpha, gray=gray)


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


def _pillow_like(image: Image.Image, photo: Photo) -> Image.Image:
    if photo.pixels.dtype != np.uint8:
        levels = gray_levels(photo.pixels) if photo.gray else from_float(photo.as_float())
        result = Image.fromarray(levels)
    else:
        colour = gray_levels(photo.pixels) if photo.gray else photo.pixels
        result = Image.fromarray(colour)
        if photo.alpha is not None:
            result.putalpha(Image.fromarray(photo.alpha))
    result.info.update(image.info)
    metadata = photo.metadata
    exif = EXIF_PREFIX + metadata.exif if metadata.exif else None
    for key, block in (("exif", exif), ("icc_profile", metadata.icc), ("xmp", metadata.xmp)):
        result.info.pop(key, None)
        if block:
            result.info[key] = block
    return result
