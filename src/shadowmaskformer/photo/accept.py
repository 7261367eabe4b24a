"""Turn every kind of picture that callers pass in (file, Pillow image, array or tensor) into a `Photo`."""

from __future__ import annotations

import os
from typing import Any

import numpy as np
from numpy.typing import NDArray
from PIL import Image

from shadowmaskformer.arrays import check_levels
from shadowmaskformer.errors import ArrayError
from shadowmaskformer.photo.picture import Photo
from shadowmaskformer.photo.read import MAX_PIXELS, read_photo


def as_photo(image: Any, *, max_pixels: int = MAX_PIXELS, frame: int | None = None) -> Photo:
    """Return any accepted picture as a photo.

    Args:
        image: a path, bytes, file object, Pillow image, array (H, W, 3) or tensor (3, H, W), RGB.
        max_pixels: refuse larger ones.
        frame: which picture of an animated or multi-page file.
    """
    if isinstance(image, Photo):
        return image
    if is_file(image) or isinstance(image, Image.Image):
        return read_photo(image, max_pixels=max_pixels, frame=frame)
    if is_tensor(image):
        return photo_from_array(array_of(image))
    if hasattr(image, "__array_interface__"):
        return photo_from_array(np.asarray(image))
    raise ArrayError(f"image is a {type(image).__name__}", "give a path, bytes, Pillow image, array or tensor")


def is_tensor(value: object) -> bool:
    """Return whether `value` is a PyTorch tensor, without importing PyTorch."""
    return any(kind.__module__.partition(".")[0] == "torch" for kind in type(value).__mro__)


def is_file(value: object) -> bool:
    """Return whether `value` holds an encoded picture: a path, bytes or a file object."""
    return isinstance(value, str | os.PathLike | bytes | bytearray | memoryview) or hasattr(value, "read")


def array_of(tensor: Any) -> NDArray[Any]:
    """Return a tensor (3, H, W), (1, H, W), (4, H, W) or (H, W) as an array with its channels last."""
    if tensor.ndim not in (2, 3) or (tensor.ndim == 3 and tensor.shape[0] not in (1, 3, 4)):
        raise ArrayError(f"tensor is {tuple(tensor.shape)}", "give RGB as (3, height, width), channels first")
    return channels_last(tensor)


def channels_last(tensor: Any) -> NDArray[Any]:
    """Return a tensor, (H, W) or (C, H, W), as an array with its channels last."""
    tensor = tensor.detach().cpu()
    # Half precision, of which NumPy knows only one kind, as float32.
    array = (tensor.float() if tensor.is_floating_point() and tensor.element_size() == 2 else tensor).numpy()
    return np.moveaxis(array, 0, -1) if array.ndim == 3 else array


def photo_from_array(array: NDArray[Any]) -> Photo:
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
