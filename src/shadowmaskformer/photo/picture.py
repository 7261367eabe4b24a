"""A photograph in memory: its pixels, and all that its file said beside them."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from shadowmaskformer.arrays import check_pixels, from_float, to_float
from shadowmaskformer.errors import ArrayError


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
