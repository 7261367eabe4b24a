"""A photograph in memory: its pixels and its metadata."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from shadowmaskformer.arrays import check_pixels, from_float, to_float
from shadowmaskformer.errors import ArrayError, ImageTooLargeError


@dataclass(frozen=True)
class Metadata:
    """What travels with the pixels from the input file to the output file.

    Attributes:
        exif: EXIF block (a small TIFF, without the `Exif\\0\\0` prefix). In a `Photo` its orientation is 1.
        icc: ICC profile of the pixels; None means sRGB.
        xmp: XMP packet.
        dpi: horizontal and vertical resolution.
        jpeg_quality: estimated quality of a JPEG source, 1 to 100; None for other formats.
        jpeg_subsampling: Pillow's code for the chroma of a JPEG source: 0 = 4:4:4, 1 = 4:2:2, 2 = 4:2:0.
        jpeg_tables: quantisation tables of a JPEG source, 64 steps each; empty for other formats.
        lossless: True for a lossless WebP source.
        blocks: other descriptive blocks, encoded as the source's format stores them: a JPEG's comment and IPTC
            (caption, copyright), a PNG's texts and colour chunks, a TIFF's IPTC. Written only to a file of the same
            format.
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
        pixels: RGB, (H, W, 3), uint8, uint16 or float32 in [0, 1]; the numbers in the file, unscaled.
        alpha: opacity, (H, W), same dtype, or None.
        gray: True when the file has one channel; it is written back with one.
        format: a key of `FORMATS`: "JPEG", "PNG", ...
        metadata: EXIF, ICC, resolution and so on.
        warnings: lines for the user; each names the photo.
        file: the bytes that were read, while the photo is unchanged.
        name: what messages call the photo, usually its path.
    """

    pixels: NDArray[Any]
    alpha: NDArray[Any] | None = None
    gray: bool = False
    format: str = "PNG"
    metadata: Metadata = field(default_factory=Metadata)
    warnings: tuple[str, ...] = ()
    file: bytes | None = field(default=None, repr=False)
    name: str = "photo"

    def __post_init__(self) -> None:
        """Refuse arrays that no file could hold."""
        check_pixels(self.pixels)
        if self.alpha is not None and (
            self.alpha.shape != self.pixels.shape[:2] or self.alpha.dtype != self.pixels.dtype
        ):
            raise ArrayError(
                f"alpha is {self.alpha.shape} {self.alpha.dtype}; expected {self.pixels.shape[:2]} "
                f"{self.pixels.dtype}, like the pixels"
            )

    @property
    def height(self) -> int:
        """Number of rows."""
        return int(self.pixels.shape[0])

    @property
    def width(self) -> int:
        """Number of columns."""
        return int(self.pixels.shape[1])

    def too_large(self) -> ImageTooLargeError:
        """Return the error for a photo that there is not enough memory to work on."""
        return ImageTooLargeError.for_memory(self.name, f"{self.width}x{self.height} pixels")

    def as_float(self) -> NDArray[np.float32]:
        """Return the pixels as float32 RGB, (H, W, 3), [0, 1]."""
        return to_float(self.pixels)

    def with_pixels(self, restored: NDArray[Any]) -> Photo:
        """Return the same photo with other pixels of the same size.

        Args:
            restored: RGB, (H, W, 3). Either the photo's own dtype, or floats of any range, which are clamped to
                [0, 1] and rounded to the photo's depth.
        """
        if restored.shape != self.pixels.shape:
            raise ArrayError(f"new pixels are {restored.shape}; expected {self.pixels.shape}")
        if restored.dtype != self.pixels.dtype or restored.dtype.kind == "f":
            restored = from_float(restored, self.pixels.dtype)
        return replace(self, pixels=restored, file=None)
