"""An affine map per pixel and channel: what the floor and the network both answer with.

A gain and an offset say how the light changes, not what the picture shows, so they are smooth where the
photo has texture: a correction found on a small picture can be enlarged and applied to the full one.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from PIL import Image

from shadowmaskformer.errors import ArrayError


@dataclass(frozen=True, eq=False, repr=False)
class Correction:
    """`restored = gain * photo + offset`, pixel by pixel and channel by channel.

    Args:
        gain: float32, (H, W, 3), unbounded; 1 leaves the pixel as it is.
        offset: float32, (H, W, 3), in units of the photo's [0, 1]; 0 leaves the pixel as it is.
    """

    gain: np.ndarray
    offset: np.ndarray

    def __repr__(self) -> str:
        ranges = ", ".join(
            f"{name} {plane.min():.2f} to {plane.max():.2f}"
            for name, plane in (("gain", self.gain), ("offset", self.offset))
        )
        return f"Correction({self.width}x{self.height}, {ranges})"

    def __post_init__(self) -> None:
        for name, plane in (("gain", self.gain), ("offset", self.offset)):
            if plane.ndim != 3 or plane.shape[2] != 3 or plane.dtype != np.float32:
                raise ArrayError(
                    f"correction {name} is {plane.dtype} of shape {plane.shape}; expected float32 (H, W, 3)"
                )
        if self.gain.shape != self.offset.shape:
            raise ArrayError(
                f"correction gain is {self.gain.shape}, offset is {self.offset.shape}; give both one shape"
            )

    @classmethod
    def identity(cls, height: int, width: int) -> Correction:
        """Return the correction that leaves every pixel as it is, bit for bit.

        >>> photo = np.full((2, 3, 3), 0.1, np.float32)
        >>> bool((Correction.identity(2, 3).apply(photo) == photo).all())
        True
        """
        shape = (height, width, 3)
        return cls(np.ones(shape, np.float32), np.zeros(shape, np.float32))

    @property
    def height(self) -> int:
        """Rows of the picture that this corrects."""
        return self.gain.shape[0]

    @property
    def width(self) -> int:
        """Columns of the picture that this corrects."""
        return self.gain.shape[1]

    def apply(self, photo: np.ndarray) -> np.ndarray:
        """Return the corrected picture.

        Args:
            photo: RGB float32, (H, W, 3), [0, 1], of this correction's size.

        Returns:
            RGB float32, (H, W, 3), not clamped.
        """
        if photo.shape != self.gain.shape:
            raise ArrayError(f"photo is {photo.shape}, correction is {self.gain.shape}; call resized() first")
        return self.gain * photo + self.offset

    def resized(self, height: int, width: int) -> Correction:
        """Return this correction for a picture of another size, bilinear and averaging when it shrinks."""
        if (height, width) == (self.height, self.width):
            return self
        return Correction(_resize(self.gain, height, width), _resize(self.offset, height, width))

    def clamped(self, photo: np.ndarray) -> Correction:
        """Return this correction with offsets moved just so far that the corrected `photo` lies in [0, 1]."""
        restored = self.apply(photo)
        return Correction(self.gain, self.offset - (restored - np.clip(restored, 0, 1)))

    def then(self, other: Correction) -> Correction:
        """Return the one correction equal to applying this one first and `other` after it."""
        return Correction(other.gain * self.gain, other.gain * self.offset + other.offset)


def _resize(planes: np.ndarray, height: int, width: int) -> np.ndarray:
    resized = np.empty((height, width, 3), np.float32)
    for channel in range(3):
        plane = Image.fromarray(np.ascontiguousarray(planes[:, :, channel]))
        resized[:, :, channel] = np.asarray(plane.resize((width, height), Image.Resampling.BILINEAR))
    return resized
