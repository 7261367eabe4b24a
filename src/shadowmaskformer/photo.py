"""A photograph in memory: its pixels, and all that its file said beside them."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray
from PIL import Image

from shadowmaskformer.errors import ArrayError

_BYTES = np.dtype(np.uint8)


@dataclass(frozen=True)
class Metadata:
    """What travels with the pixels from the input file to the output file.

    Attributes:
        exif: EXIF block (a small TIFF, without the `Exif\\0\\0` prefix), orientation already reset to 1.
        icc: ICC profile that the pixels are in; None means sRGB.
        xmp: XMP packet.
        dpi: horizontal and vertical resolution.
        jpeg_quality: estimate of the source's quality, 1 to 100; None when the source was no JPEG.
        jpeg_subsampling: Pillow's code of the source's chroma: 0 = 4:4:4, 1 = 4:2:2, 2 = 4:2:0.
        jpeg_tables: the source's quantisation tables, 64 steps each; empty when the source was no JPEG.
        lossless: True when the source was a WebP without loss.
        blocks: what else describes the picture in its own format, ready to be put into a file of that format: a JPEG's
            comment and IPTC (caption, copyright), a PNG's texts and the meaning of its colours.
    """

    exif: bytes | None = None
    icc: bytes | None = None
    xmp: bytes | None = None
    dpi: tuple[float, float] | None = None
    jpeg_quality: int | None = None
    jpeg_subsampling: int | None = None
    jpeg_tables: tuple[tuple[int, ...], ...] = ()
    lossless: bool = False
    blocks: bytes = b""


@dataclass(frozen=True)
class Photo:
    """One upright picture.

    Attributes:
        pixels: RGB, (H, W, 3), uint8, uint16 or float32 in [0, 1]; the file's own numbers.
        alpha: opacity, (H, W), same dtype, or None.
        gray: the file held one channel; it is written back so.
        format: Pillow's name of the file format: "JPEG", "PNG", ...
        metadata: EXIF, ICC, resolution and the like.
        warnings: one line each, for the user.
        file: the file that it was read from, as long as nothing of it was changed.
    """

    pixels: NDArray[Any]
    alpha: NDArray[Any] | None = None
    gray: bool = False
    format: str = "PNG"
    metadata: Metadata = field(default_factory=Metadata)
    warnings: tuple[str, ...] = ()
    file: bytes | None = field(default=None, repr=False)

    def __post_init__(self) -> None:
        """Refuse arrays that no file could hold."""
        check_pixels(self.pixels)
        if self.alpha is not None and (
            self.alpha.shape != self.pixels.shape[:2] or self.alpha.dtype != self.pixels.dtype
        ):
            raise ArrayError(
                f"alpha is {self.alpha.shape} {self.alpha.dtype}; expected {self.pixels.shape[:2]} "
                f"{self.pixels.dtype}, as the pixels"
            )

    @property
    def height(self) -> int:
        """Rows."""
        return int(self.pixels.shape[0])

    @property
    def width(self) -> int:
        """Columns."""
        return int(self.pixels.shape[1])

    def as_float(self) -> NDArray[np.float32]:
        """The pixels as float32 RGB, (H, W, 3), [0, 1]."""
        return to_float(self.pixels)

    def with_pixels(self, restored: NDArray[Any]) -> Photo:
        """The same photo with other pixels of the same size.

        Args:
            restored: RGB, (H, W, 3): either of the photo's own dtype, or float in any range, which is
                clamped to [0, 1] and rounded to the photo's depth.
        """
        if restored.shape != self.pixels.shape:
            raise ArrayError(f"new pixels are {restored.shape}; expected {self.pixels.shape}")
        if restored.dtype != self.pixels.dtype or restored.dtype.kind == "f":
            restored = from_float(restored, self.pixels.dtype)
        return replace(self, pixels=restored, file=None)


def check_pixels(pixels: NDArray[Any]) -> None:
    """Raise ArrayError unless `pixels` is RGB, (H, W, 3), uint8, uint16 or float32 with no side of 0."""
    if pixels.ndim != 3 or pixels.shape[2] != 3 or 0 in pixels.shape:
        raise ArrayError(f"pixels are {pixels.shape}; expected (height, width, 3), RGB, no side 0")
    if pixels.dtype.name not in ("uint8", "uint16", "float32"):
        raise ArrayError(f"pixels are {pixels.dtype}; expected uint8, uint16 or float32")


def check_levels(values: NDArray[Any], name: str) -> None:
    """Raise ArrayError unless all the floats in `values` are finite and in [0, 1]."""
    bad = int(values.size - np.count_nonzero(np.isfinite(values)))
    if bad:
        raise ArrayError(f"{name}: {bad} of {values.size} values are NaN or infinite; replace them first")
    low, high = float(values.min()), float(values.max())
    if low < 0 or high > 1:
        raise ArrayError(f"{name}: values from {low:g} to {high:g}; floats must lie in 0 to 1: rescale them")


def to_float(pixels: NDArray[Any]) -> NDArray[np.float32]:
    """Integer levels to float32 in [0, 1]; floats keep their values.

    >>> to_float(np.array([0, 51, 255], np.uint8)).tolist()
    [0.0, 0.20000000298023224, 1.0]
    """
    if pixels.dtype.kind == "u":
        # Divided, not multiplied by 1/255: the nearest float, from which the level comes back.
        return np.divide(pixels, np.float32(np.iinfo(pixels.dtype).max), dtype=np.float32)
    return np.ascontiguousarray(pixels, np.float32)


def from_float(values: NDArray[Any], dtype: np.dtype[Any] = _BYTES) -> NDArray[Any]:
    """Floats to `dtype`, clamped to [0, 1] and rounded to the nearest level.

    >>> from_float(np.array([-1.0, 0.5, 2.0])).tolist()
    [0, 128, 255]
    """
    if values.dtype.kind != "f":
        values = to_float(values)
    if dtype.kind == "f":
        return np.clip(values, 0, 1).astype(dtype)
    top = np.float32(np.iinfo(dtype).max)
    levels = np.empty(values.shape, dtype)
    # In strips: on a large photo, moving whole intermediate arrays would cost more than the arithmetic.
    for first in range(0, len(values), 64):
        strip = np.clip(values[first : first + 64], 0, 1)
        strip *= top
        strip += np.float32(0.5)
        levels[first : first + 64] = strip
    return levels


def gray_levels(pixels: NDArray[Any]) -> NDArray[Any]:
    """One channel from three: theirs, bit for bit, where all agree, else their luma (ITU-R BT.601).

    >>> gray_levels(np.array([[[7, 7, 7], [255, 0, 0]]], np.uint8)).tolist()
    [[7, 76]]
    """
    red = pixels[..., 0]
    agree = (red == pixels[..., 1]) & (red == pixels[..., 2])
    if agree.all():
        return red
    luma = to_float(pixels) @ np.array([0.299, 0.587, 0.114], np.float32)
    return np.where(agree, red, from_float(luma, pixels.dtype))


def fit_pixels(height: int, width: int, pixels: int) -> tuple[int, int]:
    """The size of a picture reduced to about `pixels` pixels; its own if it has no more.

    >>> fit_pixels(480, 640, 120 * 160), fit_pixels(480, 640, 10**6)
    ((120, 160), (480, 640))
    """
    scale = min(1.0, (pixels / (height * width)) ** 0.5)
    return max(1, round(height * scale)), max(1, round(width * scale))


def average_down(planes: NDArray[np.float32], height: int, width: int) -> NDArray[np.float32]:
    """Average (H, W, C) down to a smaller size; the array itself where the size is its own."""
    if planes.shape[:2] == (height, width):
        return planes
    channels = [
        Image.fromarray(np.ascontiguousarray(planes[..., c])).resize((width, height), Image.Resampling.BOX)
        for c in range(planes.shape[2])
    ]
    return np.stack([np.asarray(channel, np.float32) for channel in channels], axis=-1)
