"""Read a mask, float32 (H, W) in [0, 1], 1 = shadow, from a file, an array or a tensor, and give advice about it."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray
from PIL import Image

from shadowmaskformer.arrays import ROUNDING
from shadowmaskformer.errors import ArrayError, MaskError, Notice
from shadowmaskformer.masks.shape import Mask, grow, invert, resize, shrink
from shadowmaskformer.photo import MAX_PIXELS, ImageSource, name_of, read_plain
from shadowmaskformer.photo.accept import channels_last, is_file, is_tensor

# Levels this close to black or white are compression noise: JPEG rings this far around a hard edge.
_NOISE = np.float32(16 / 255)
_FAINTEST = 0.15

# JPEG's rounding of colour leaves the channels of a gray pixel this far apart.
_GRAY_TOLERANCE = 12 / 255
# The same for a colour at every level between it and black, where chroma is stored at half size.
_HUE_TOLERANCE = 24 / 255

# Size of the reduced pictures in which the two sides of a border are compared, and width of the compared bands.
_COMPARED_SIDE, _COMPARED_BAND = 256, 4
# Below this level nothing is left to bring back; how much of a shadow must be so to say it.
_BLACK, _MUCH_BLACK = 12 / 255, 0.25


def prepare(
    source: Any,
    height: int,
    width: int,
    *,
    invert_mask: bool = False,
    max_pixels: int = MAX_PIXELS,
    name: str | None = None,
) -> tuple[Mask, list[str]]:
    """Return the mask of a photo, ready to use: read, inverted, cleaned of noise and fitted, in this order.

    Args:
        source: a path, bytes, file object or Pillow image; an array as for `as_mask`; or a PyTorch tensor, (H, W) or
            (C, H, W).
        height: rows of the photo.
        width: columns of the photo.
        invert_mask: take black as shadow.
        max_pixels: larger mask files are refused.
        name: what messages call the mask; None takes its path.

    Returns:
        Mask (height, width), [0, 1], 1 = shadow; and one line for each thing that the user should know.

    Raises:
        MaskError: no mask, a picture that is not a mask, or a mask of other proportions than the photo's.
        ArrayError: an array of the wrong shape, type or values.
        ImageReadError, NotAnImageError, ImageTooLargeError: as for `read_photo`.
    """
    mask, notices = _read_any(source, max_pixels, name)
    called = name or (name_of(source) if _holds_a_picture(source) else "mask")
    if invert_mask:
        mask = invert(mask)
    mask, faint = strengthen(snap(mask), name=called)
    mask, resized = fit(mask, height, width, name=called)
    return mask, [*notices, *filter(None, (faint, resized))]


def read_mask(source: ImageSource, *, max_pixels: int = MAX_PIXELS, name: str | None = None) -> tuple[Mask, list[str]]:
    """Read a mask file of any depth, upright, with its levels as stored.

    Args:
        source: as for `read_photo`.
        max_pixels: as for `read_photo`.
        name: as for `read_photo`.

    Returns:
        Mask (H, W), [0, 1], 1 = shadow; and one line for each thing that the user should know.

    Raises:
        MaskError: it is a picture, not a mask.
    """
    # Colour profiles and texts mean nothing in a mask, and must not stop it from being read.
    photo = read_plain(source, max_pixels=max_pixels, name=name)
    layers: NDArray[Any] = photo.pixels[..., :1] if photo.gray else photo.pixels
    if photo.alpha is not None:
        layers = np.concatenate((layers, photo.alpha[..., None]), axis=-1)
    mask, notices = interpret(layers, name=photo.name)
    return mask, [*photo.warnings, *notices]


def as_mask(array: NDArray[Any]) -> Mask:
    """Return the array as a mask.

    Args:
        array: bool; uint8 with 0/1 or 0 to 255; uint16; or float in [0, 1]. Shape (H, W), (H, W, 1), or (H, W, 3)
            with equal channels or one colour on black. One more channel is alpha, as in a painted layer; it is the
            mask where the colour is the same everywhere.

    Returns:
        (H, W), [0, 1], 1 = shadow; always a new array.

    Raises:
        ArrayError: wrong shape, type or values.
        MaskError: a picture, not a mask.
    """
    return interpret(array)[0]


def interpret(array: NDArray[Any], *, name: str = "mask") -> tuple[Mask, list[str]]:
    """Return `as_mask(array)`, and one line for each guess that was made; messages call the mask `name`."""
    array = np.asarray(array)
    if array.ndim == 2:
        array = array[..., None]
    if array.ndim != 3 or array.shape[2] > 4 or 0 in array.shape:
        first = array.ndim == 3 and array.shape[0] <= 4 < array.shape[2]
        raise ArrayError(
            f"{name}: array is {array.shape}; expected (height, width) or (height, width, channels)",
            "move the channels last" if first else "",
        )
    # Channel by channel: numpy is many times slower across a last axis of three.
    colours = [np.ascontiguousarray(channel) for channel in np.moveaxis(_levels(array, name), 2, 0)]
    alpha = colours.pop() if len(colours) in (2, 4) else None
    if alpha is None or alpha.min() == 1:
        return _one_channel(colours, name), []
    if _spread(colours, alpha > 0) <= _GRAY_TOLERANCE:
        return alpha, [f"{name}: has one colour everywhere, so its transparency is used as the mask"]
    # Transparent means not painted, whatever colour lies beneath.
    return _one_channel([channel * alpha for channel in colours], name), []


def _read_any(source: Any, max_pixels: int, name: str | None) -> tuple[Mask, list[str]]:
    if source is None:
        raise MaskError("no mask", "mark the shadow in white on black, in a picture of the photo's size")
    if isinstance(source, np.ndarray):
        return interpret(source, name=name or "mask")
    if is_tensor(source):
        return interpret(_tensor_array(source, name or "mask"), name=name or "mask")
    if not _holds_a_picture(source):
        raise ArrayError(
            f"{name or 'mask'}: is a {type(source).__name__}; expected a path, bytes, Pillow image, array or tensor"
        )
    return read_mask(source, max_pixels=max_pixels, name=name)


def _holds_a_picture(source: Any) -> bool:
    return is_file(source) or isinstance(source, Image.Image)


def _tensor_array(tensor: Any, name: str) -> NDArray[Any]:
    """Return a tensor, (H, W) or (C, H, W), as an array with its channels last."""
    shape = tuple(tensor.shape)
    if tensor.ndim not in (2, 3) or (tensor.ndim == 3 and shape[0] > 4) or 0 in shape:
        raise ArrayError(f"{name}: tensor is {shape}; expected (height, width) or (1, height, width)")
    return channels_last(tensor)


def _levels(array: NDArray[Any], name: str) -> NDArray[np.float32]:
    """Return any supported dtype as float32 in [0, 1]."""
    kind = array.dtype.kind
    if kind == "b":
        return array.astype(np.float32)
    if kind == "f":
        bad = int(array.size - np.count_nonzero(np.isfinite(array)))
        if bad:
            raise ArrayError(f"{name}: {bad} of {array.size} values are NaN or infinite", "replace them first")
        low, high = float(array.min()), float(array.max())
        if low < -ROUNDING or high > 1 + ROUNDING:
            remedy = "clip them" if low >= -1 and high <= 2 else f"divide by {_scale(high)}" * (low >= 0)
            raise ArrayError(f"{name}: floats from {low:.4g} to {high:.4g}; expected 0 to 1", remedy)
        return np.clip(array, 0, 1).astype(np.float32)
    expected = "expected bool, uint8, uint16 or float"
    if kind not in "iu":
        raise ArrayError(f"{name}: dtype is {array.dtype}; {expected}")
    low, high = int(array.min()), int(array.max())
    top = int(np.iinfo(array.dtype).max) if array.dtype.name in ("uint8", "uint16") else _scale(high)
    if low < 0 or high > top:
        raise ArrayError(f"{name}: {array.dtype} from {low} to {high}; {expected}")
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


def _scale(high: float) -> int:
    """Return the usual top level of values up to `high`."""
    return 1 if high <= 1 else 255 if high <= 255 else 65535


def _spread(colours: Sequence[Mask], where: NDArray[np.bool_]) -> float:
    """Return the largest difference of levels within one channel over the pixels of `where`; negative for none."""
    return max(float(channel.max(where=where, initial=0) - channel.min(where=where, initial=1)) for channel in colours)


def _one_channel(colours: Sequence[Mask], name: str) -> Mask:
    if len(colours) == 1:
        return colours[0]
    red, green, blue = colours
    highest, lowest = np.maximum(np.maximum(red, green), blue), np.minimum(np.minimum(red, green), blue)
    # A few coloured pixels are compression noise; many are a photograph.
    if float(np.mean(highest - lowest > _GRAY_TOLERANCE)) <= 0.001:
        return np.clip((red + green + blue) / np.float32(3), 0, 1)
    painted = highest > 0
    if not painted.all() and _spread(colours, painted) <= _GRAY_TOLERANCE:
        # One colour on black, as in label pictures.
        return painted.astype(np.float32)
    if _is_one_hue(colours, highest):
        return highest / highest.max()
    raise MaskError(f"{name}: a picture, not a mask", "give white (shadow) on black, in gray")


def _is_one_hue(colours: Sequence[Mask], highest: Mask) -> bool:
    """Return True for one strong colour on black with soft levels between, such as a red brush with a soft edge.

    Args:
        colours: red, green and blue, (H, W), [0, 1].
        highest: the largest of the three at each pixel.
    """
    painted = highest > _NOISE
    # A quarter must be black and the colour strong: photographs in one tint, or under a street lamp, are not masks.
    if not painted.any() or float(painted.mean()) > 0.75:
        return False
    total = float(highest.sum(where=painted))
    hue = [float(channel.sum(where=painted)) / total for channel in colours]
    if min(hue) > 0.5 * max(hue):
        return False
    other = np.zeros(highest.shape, bool)
    for channel, share in zip(colours, hue, strict=True):
        other |= np.abs(channel - np.float32(share) * highest) > _HUE_TOLERANCE
    return float(other.mean()) <= 0.01


def snap(mask: Mask) -> Mask:
    """Return the mask with levels near 0 and 1 set to 0 and 1, and those between stretched so that no step appears.

    >>> snap(np.array([[0.0, 0.05, 0.5, 0.95, 1.0]], np.float32)).tolist()
    [[0.0, 0.0, 0.5, 1.0, 1.0]]
    """
    stretched = (mask - _NOISE) / (1 - 2 * _NOISE)
    return np.clip(stretched, 0, 1, out=stretched)


def strengthen(mask: Mask, *, name: str = "mask") -> tuple[Mask, str | None]:
    """Return a mask that never exceeds 50 %, such as a half transparent layer, scaled up to full strength.

    Very faint masks are returned unchanged: they are camera noise.

    Returns:
        The mask, and a line for the user when it was changed.

    >>> strengthen(np.array([[0.0, 0.2, 0.4]], np.float32))
    (array([[0. , 0.5, 1. ]], dtype=float32), 'mask: never exceeds 40 %; scaled up to full strength')
    """
    most = float(mask.max())
    if not _FAINTEST < most <= 0.5:
        return mask, None
    return mask / np.float32(most), f"{name}: never exceeds {100 * most:.0f} %; scaled up to full strength"


def fit(mask: Mask, height: int, width: int, *, name: str = "mask") -> tuple[Mask, str | None]:
    """Return the mask at the photo's size.

    Args:
        mask: (h, w), [0, 1].
        height: rows of the photo.
        width: columns of the photo.
        name: what messages call the mask.

    Returns:
        Mask (height, width), [0, 1]; and a line for the user when it was resized.

    Raises:
        MaskError: the mask has other proportions than the photo.
    """
    rows, columns = mask.shape
    if (rows, columns) == (height, width):
        return mask, None
    sizes = f"{name}: is {columns}x{rows}, but the photo is {width}x{height}"
    if not same_proportions(rows, columns, height, width):
        turned = same_proportions(columns, rows, height, width)
        remedy = "rotate the mask by a quarter turn" if turned else "save the mask at the photo's size"
        raise MaskError(f"{sizes} (width x height)", remedy)
    return resize(mask, height, width), f"{sizes}; the mask was resized"


def same_proportions(rows: int, columns: int, height: int, width: int) -> bool:
    """Return True when one size could be the other, scaled and rounded to whole pixels."""
    ratio = (rows * width) / (columns * height)
    # Half a pixel on either side of the smaller, and the padding of networks to multiples of 8.
    return abs(ratio - 1) <= max(0.005, 1 / min(rows, columns, height, width))


def describe(mask: Mask, photo: NDArray[np.float32], *, name: str = "", inverted: bool = False) -> list[str]:
    """Return what the user should know about this mask on this photo, one line each.

    Args:
        mask: (H, W), [0, 1].
        photo: RGB, (H, W, 3), [0, 1].
        name: the photo's name, with which each line starts.
        inverted: the user asked for black to be taken as shadow.

    Raises:
        MaskError: the mask is the photo itself.
    """
    where = f"{name}: " if name else ""
    if not mask.any():
        return [f"{where}the mask is empty, so the photo is not changed"]
    if _is_the_photo(mask, photo):
        raise MaskError(f"{where}the mask is the photo itself, a picture, not a mask", "give white (shadow) on black")
    if not (mask > 0.5).any():
        line = f"{where}the mask is too thin to measure the light beside it, so the photo hardly changes"
        return [Notice(line, "enlarge it with {grow_px=5}")]
    if mask.min() > 0.5:
        line = f"{where}the mask covers the whole photo, so there is no lit area to compare with"
        return [Notice(line, "leave lit ground out of the mask")]
    if looks_inverted(mask, photo):
        line = f"{where}the mask looks inverted: it marks the brighter side of its border"
        return [Notice(line, "if it is, leave {invert_mask} out" if inverted else "if it is, use {invert_mask=True}")]
    black = _black_share(mask, photo)
    if black > _MUCH_BLACK:
        return [f"{where}{black:.0%} of the shadow is black, so what lies there is a guess"]
    return []


def _black_share(mask: Mask, photo: NDArray[np.float32]) -> float:
    """Return the share of the shadow that is black."""
    small, seen = _thinned(mask, photo)
    shadow = seen[small > 0.5]
    return float(np.mean(shadow.max(axis=1) < _BLACK)) if len(shadow) else 0.0


def _reduced(mask: Mask, photo: NDArray[np.float32]) -> tuple[Mask, Mask]:
    """Return the mask and the photo's luma, both thinned out to a few hundred pixels a side."""
    small, seen = _thinned(mask, photo)
    return small, seen.mean(axis=2, dtype=np.float32)


def _thinned(mask: Mask, photo: NDArray[np.float32]) -> tuple[Mask, NDArray[np.float32]]:
    step = max(1, max(mask.shape) // _COMPARED_SIDE)
    return mask[::step, ::step], photo[::step, ::step]


def _is_the_photo(mask: Mask, photo: NDArray[np.float32]) -> bool:
    """Return True when most levels lie between black and white and follow the photo's brightness."""
    small, luma = _reduced(mask, photo)
    between = float(np.mean((small > _NOISE) & (small < 1 - _NOISE)))
    if between < 0.5 or small.std() < 1e-3 or luma.std() < 1e-3:
        return False
    return float(np.corrcoef(small.ravel(), luma.ravel())[0, 1]) > 0.95


def looks_inverted(mask: Mask, photo: NDArray[np.float32]) -> bool:
    """Return True when the mask's inside is clearly brighter than its outside, along its border.

    Args:
        mask: (H, W), [0, 1].
        photo: RGB, (H, W, 3), [0, 1].
    """
    small, luma = _reduced(mask, photo)
    inside = (small > 0.5).astype(np.float32)
    inner = (inside - shrink(inside, _COMPARED_BAND)) > 0
    outer = (grow(inside, _COMPARED_BAND) - inside) > 0
    if not inner.any() or not outer.any():
        return False
    # Medians, because a few bright things just inside a shadow must not decide.
    return float(np.median(luma[inner])) > 1.15 * float(np.median(luma[outer])) + 1 / 255
