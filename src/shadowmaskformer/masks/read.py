"""From whatever was given to a mask, float32 (H, W) in [0, 1], 1 = shadow, and what there is to say about it."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from shadowmaskformer.errors import ArrayError, MaskError
from shadowmaskformer.masks.shape import Mask, grow, resize, shrink
from shadowmaskformer.photo import MAX_PIXELS, ImageSource, name_of, read_plain

# Levels this near to black or white are compression noise: JPEG rings up to here around a hard edge.
_NOISE = np.float32(16 / 255)
_FAINTEST = 0.15

# Channels this far apart are still one gray to JPEG's rounding of colour.
_GRAY_TOLERANCE = 12 / 255

# Sides of bands and pictures when brightness on both sides of a border is compared.
_LOOK_SIDE, _LOOK_BAND = 256, 4


def read_mask(source: ImageSource, *, max_pixels: int = MAX_PIXELS) -> tuple[NDArray[np.float32], list[str]]:
    """Read a mask of any depth, upright, with its levels as stored.

    Args:
        source: as for `read_photo`.
        max_pixels: as for `read_photo`.

    Returns:
        Mask (H, W), [0, 1], 1 = shadow; and one line per thing worth telling.

    Raises:
        MaskError: it is a picture, not a mask.
    """
    name = name_of(source)
    # Colour profiles and text say nothing about a mask, and must not stop it from being read.
    photo = read_plain(source, max_pixels=max_pixels)
    layers: NDArray[Any] = photo.pixels[..., :1] if photo.gray else photo.pixels
    if photo.alpha is not None:
        layers = np.concatenate((layers, photo.alpha[..., None]), axis=-1)
    mask, warnings = interpret(layers, name=name)
    return mask, [*photo.warnings, *warnings]


def as_mask(array: NDArray[Any]) -> Mask:
    """The array as a mask.

    Args:
        array: bool; uint8 with 0/1 or 0/255 or levels between; uint16; or float in [0, 1]. Shape (H, W),
            (H, W, 1), (H, W, 3) with equal channels, or with one more channel for alpha, as a painted layer
            has it: alpha is the mask where the colour says nothing.

    Returns:
        (H, W), [0, 1], 1 = shadow; always a new array.

    Raises:
        ArrayError: wrong shape, type or values.
        MaskError: a picture, not a mask.
    """
    return interpret(array)[0]


def interpret(array: NDArray[Any], *, name: str = "mask") -> tuple[Mask, list[str]]:
    """As `as_mask`, calling the mask `name` in messages, with one line for each guess that was made."""
    array = np.asarray(array)
    if array.ndim == 2:
        array = array[..., None]
    if array.ndim != 3 or array.shape[2] > 4 or 0 in array.shape:
        hint = "; move channels last" if array.ndim == 3 and array.shape[0] <= 4 < array.shape[2] else ""
        raise ArrayError(f"{name}: array is {array.shape}; expected (height, width) or (height, width, channels){hint}")
    # Channel by channel: numpy is many times slower across a last axis of three.
    colours = [np.ascontiguousarray(channel) for channel in np.moveaxis(_levels(array, name), 2, 0)]
    alpha = colours.pop() if len(colours) in (2, 4) else None
    if alpha is None or alpha.min() == 1:
        return _one_channel(colours, name), []
    if _spread(colours, alpha > 0) <= _GRAY_TOLERANCE:
        return alpha, [f"{name}: its colour says nothing, so its transparency is used as the mask"]
    # Unpainted is transparent, whatever colour lies beneath.
    return _one_channel([channel * alpha for channel in colours], name), []


def _levels(array: NDArray[Any], name: str) -> NDArray[np.float32]:
    """Any supported dtype to float32 in [0, 1]."""
    kind = array.dtype.kind
    if kind == "b":
        return array.astype(np.float32)
    if kind == "f":
        bad = int(array.size - np.count_nonzero(np.isfinite(array)))
        if bad:
            raise ArrayError(f"{name}: {bad} of {array.size} values are NaN or infinite; replace them first")
        low, high = float(array.min()), float(array.max())
        if low < 0 or high > 1:
            raise ArrayError(f"{name}: floats from {low:g} to {high:g}; expected 0 to 1: divide by {_top(high)}")
        return array.astype(np.float32)
    if kind not in "iu":
        raise ArrayError(f"{name}: dtype {array.dtype}; expected bool, uint8, uint16 or float")
    low, high = int(array.min()), int(array.max())
    top = int(np.iinfo(array.dtype).max) if array.dtype.name in ("uint8", "uint16") else _top(high)
    if low < 0 or high > top:
        raise ArrayError(f"{name}: {array.dtype} from {low} to {high}; expected bool, uint8, uint16 or float")
    colour = array[..., :-1] if array.shape[2] in (2, 4) else array
    if colour.max() <= 1 and high > 1 and array.shape[2] in (2, 4):
        # 0/1 colours beside an alpha of 0 to `top`.
        levels = array.astype(np.float32)
        levels[..., -1] /= top
        return levels
    # Masks are often saved as the numbers 0 and 1, or as 0 and 255 in 16 bits.
    if high <= 1:
        top = 1
    elif top == 65535 and high == 255 and not np.any((array != 0) & (array != 255)):
        top = 255
    return np.divide(array, np.float32(top), dtype=np.float32)


def _top(high: float) -> int:
    """The usual scale whose values go up to `high`."""
    return 1 if high <= 1 else 255 if high <= 255 else 65535


def _spread(colours: list[Mask], where: NDArray[np.bool_]) -> float:
    """Largest difference of levels within one channel, over the pixels of `where`; negative when it has none."""
    return max(float(channel.max(where=where, initial=0) - channel.min(where=where, initial=1)) for channel in colours)


def _one_channel(colours: list[Mask], name: str) -> Mask:
    if len(colours) == 1:
        return colours[0]
    red, green, blue = colours
    highest, lowest = np.maximum(np.maximum(red, green), blue), np.minimum(np.minimum(red, green), blue)
    # A few stray pixels are compression; colour all over is a photograph.
    if float(np.mean(highest - lowest > _GRAY_TOLERANCE)) <= 0.001:
        return np.clip((red + green + blue) / np.float32(3), 0, 1)
    painted = highest > 0
    if not painted.all() and _spread(colours, painted) <= _GRAY_TOLERANCE:
        # One colour on black, as label pictures have it.
        return painted.astype(np.float32)
    raise MaskError(f"{name}: a picture, not a mask; expected white (shadow) on black, in gray")


def snap(mask: Mask) -> Mask:
    """Levels near 0 and 1 become 0 and 1, those between are stretched to meet them: no step appears.

    >>> snap(np.array([[0.0, 0.05, 0.5, 0.95, 1.0]], np.float32)).tolist()
    [[0.0, 0.0, 0.5, 1.0, 1.0]]
    """
    stretched = (mask - _NOISE) / (1 - 2 * _NOISE)
    return np.clip(stretched, 0, 1, out=stretched)


def strengthen(mask: Mask) -> tuple[Mask, str | None]:
    """A mask that is nowhere more than half full, such as a layer painted half transparent, made full.

    What is hardly there stays so: that is a camera's noise, not somebody's hand.

    Returns:
        The mask, and a line for the user when it was changed.

    >>> strengthen(np.array([[0.0, 0.2, 0.4]], np.float32))
    (array([[0. , 0.5, 1. ]], dtype=float32), 'the mask is nowhere fuller than 40 %: taken as full there')
    """
    most = float(mask.max())
    if not _FAINTEST < most <= 0.5:
        return mask, None
    return mask / np.float32(most), f"the mask is nowhere fuller than {100 * most:.0f} %: taken as full there"


def fit(mask: Mask, height: int, width: int) -> tuple[Mask, str | None]:
    """The mask at the photo's size.

    Args:
        mask: (h, w), [0, 1].
        height: rows of the photo.
        width: its columns.

    Returns:
        Mask (height, width), [0, 1]; and a line for the user when it had to be resized.

    Raises:
        MaskError: other proportions than the photo's.
    """
    rows, columns = mask.shape
    if (rows, columns) == (height, width):
        return mask, None
    sizes = f"mask is {columns}x{rows}, photo is {width}x{height}"
    if not _same_aspect(rows, columns, height, width):
        turned = _same_aspect(columns, rows, height, width)
        remedy = "it seems turned by a quarter: rotate it" if turned else "save the mask at the photo's size"
        raise MaskError(f"{sizes} (width x height); {remedy}")
    return resize(mask, height, width), f"{sizes}: the mask was resized"


def _same_aspect(rows: int, columns: int, height: int, width: int) -> bool:
    """True when one size could be the other scaled and rounded to whole pixels."""
    ratio = (rows * width) / (columns * height)
    # Half a pixel on either side of the smaller, and what a network's multiples of 8 add to a photo.
    return abs(ratio - 1) <= max(0.005, 1 / min(rows, columns, height, width))


def describe(mask: Mask, photo: NDArray[np.float32]) -> list[str]:
    """What a user should know about this mask on this photo, one line each.

    Args:
        mask: (H, W), [0, 1].
        photo: RGB, (H, W, 3), [0, 1].

    Raises:
        MaskError: the mask is the photo itself.
    """
    if not mask.any():
        return ["the mask is empty: there is nothing to remove, the photo stays as it is"]
    if _is_the_photo(mask, photo):
        raise MaskError("the mask is a picture, not a mask: it is the photo itself; expected white on black")
    if mask.min() > 0.5:
        return ["the mask covers the whole photo: there is no lit area to compare with"]
    if looks_inverted(mask, photo):
        return ["the mask looks inverted (it marks the brighter side of its border); if so, --invert-mask"]
    return []


def _small(mask: Mask, photo: NDArray[np.float32]) -> tuple[Mask, Mask]:
    """Mask and luma, both thinned to a few hundred pixels a side."""
    step = max(1, max(mask.shape) // _LOOK_SIDE)
    return mask[::step, ::step], photo[::step, ::step].mean(axis=2, dtype=np.float32)


def _is_the_photo(mask: Mask, photo: NDArray[np.float32]) -> bool:
    """True when levels between black and white prevail and follow the photo's brightness."""
    small, luma = _small(mask, photo)
    between = float(np.mean((small > _NOISE) & (small < 1 - _NOISE)))
    if between < 0.5 or small.std() < 1e-3 or luma.std() < 1e-3:
        return False
    return float(np.corrcoef(small.ravel(), luma.ravel())[0, 1]) > 0.95


def looks_inverted(mask: Mask, photo: NDArray[np.float32]) -> bool:
    """True when, along the mask's border, its inside is clearly brighter than its outside.

    Args:
        mask: (H, W), [0, 1].
        photo: RGB, (H, W, 3), [0, 1].
    """
    small, luma = _small(mask, photo)
    inside = (small > 0.5).astype(np.float32)
    inner = (inside - shrink(inside, _LOOK_BAND)) > 0
    outer = (grow(inside, _LOOK_BAND) - inside) > 0
    if not inner.any() or not outer.any():
        return False
    # Medians: a few bright things just inside a shadow must not tip it.
    return float(np.median(luma[inner])) > 1.15 * float(np.median(luma[outer])) + 1 / 255
