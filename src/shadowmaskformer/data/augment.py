"""Paired augmentation: changes of a training picture that leave the task the same.

Photo, truth and mask are cropped and turned together. Light changes for photo and truth alike. The mask alone is
roughened, so that the network tolerates masks drawn by people or found by detectors.
"""

from __future__ import annotations

from dataclasses import dataclass, fields

import numpy as np
from PIL import Image

from shadowmaskformer.arrays import Floats, box_mean
from shadowmaskformer.errors import ConfigError


@dataclass(frozen=True, kw_only=True)
class Augment:
    """How often and how far training pictures are changed; the default changes nothing, as in the paper.

    Attributes:
        crop: probability of a part of the picture instead of the whole.
        smallest_crop: shortest side of such a part, as a share of the picture's.
        flip: probability of a mirror image.
        rot90: probability of a turn by 90, 180 or 270 degrees.
        exposure: greatest change of brightness, in stops of sRGB value, up or down.
        white_balance: greatest change of red and of blue against green, in stops.
        mask_jitter: probability of a roughened mask.
        synthetic: probability of a synthetic shadow on the clean picture in place of the photographed one; a picture
            whose clean one is not known keeps its shadows and gets one more.
        gamma: greatest exponent of brightness, in powers of two, up or down.
        decoys: probability of dark things pasted into the picture that are no shadow.
    """

    crop: float = 0.0
    smallest_crop: float = 0.5
    flip: float = 0.0
    rot90: float = 0.0
    exposure: float = 0.0
    white_balance: float = 0.0
    mask_jitter: float = 0.0
    synthetic: float = 0.0
    gamma: float = 0.0
    decoys: float = 0.0

    def __post_init__(self) -> None:
        for f in fields(self):
            value = getattr(self, f.name)
            limit = 4.0 if f.name in ("exposure", "white_balance", "gamma") else 1.0
            if not 0 <= value <= limit:
                raise ConfigError(f"augment.{f.name} is {value}; expected a number from 0 to {limit:g}")


def draw_box(height: int, width: int, smallest: float, rng: np.random.Generator) -> tuple[float, float, float, float]:
    """Return a random part of a picture, nearly of its proportions: left, top, right, bottom in pixels."""
    share = rng.uniform(smallest, 1.0)
    stretch = np.exp(rng.uniform(-0.15, 0.15))
    part_height, part_width = height * min(1.0, share * stretch), width * min(1.0, share / stretch)
    top, left = rng.uniform(0, height - part_height), rng.uniform(0, width - part_width)
    return left, top, left + part_width, top + part_height


def turn(pictures: tuple[Floats, ...], augment: Augment, rng: np.random.Generator) -> tuple[Floats, ...]:
    """Mirror and turn all pictures alike; (H, W) or (H, W, 3) each. Only squares are turned by 90 degrees."""
    if rng.random() < augment.flip:
        pictures = tuple(picture[:, ::-1] for picture in pictures)
    if rng.random() < augment.rot90:
        quarters = int(rng.integers(1, 4)) if pictures[0].shape[0] == pictures[0].shape[1] else 2
        pictures = tuple(np.rot90(picture, quarters) for picture in pictures)
    return tuple(np.ascontiguousarray(picture) for picture in pictures)


def change_light(pictures: tuple[Floats, ...], augment: Augment, rng: np.random.Generator) -> tuple[Floats, ...]:
    """Return all pictures, (H, W, 3) each, in another exposure and white balance, clipped as in a camera."""
    if augment.gamma:
        exponent = np.float32(np.exp2(rng.uniform(-1, 1) * augment.gamma))
        pictures = tuple(picture**exponent for picture in pictures)
    if augment.exposure == 0 and augment.white_balance == 0:
        return pictures
    stops = np.full(3, rng.uniform(-1, 1) * augment.exposure)
    stops[[0, 2]] += rng.uniform(-1, 1, 2) * augment.white_balance
    gain = np.exp2(stops).astype(np.float32)
    return tuple(np.minimum(picture * gain, np.float32(1)) for picture in pictures)


def jitter_mask(mask: Floats, rng: np.random.Generator) -> Floats:
    """Return `mask` with faults that people and detectors make: larger or smaller, ragged, with holes, soft.

    Args:
        mask: (H, W), [0, 1].
        rng: decides what happens; each fault occurs in about half of the masks.

    Returns:
        (H, W), [0, 1]; a mask without any shadow, or of nothing else, stays as it is.
    """
    side = min(mask.shape)
    reach = rng.uniform(0.004, 0.03) * side
    level = rng.uniform(0.1, 0.9) if rng.random() < 0.6 else 0.5
    ragged = rng.uniform(0.1, 0.6) if rng.random() < 0.5 else 0.0
    grain = max(2, round(side / rng.uniform(4, 16)))
    holes = int(rng.integers(1, 4)) if rng.random() < 0.25 else 0
    softness = rng.uniform(0.003, 0.02) * side if rng.random() < 0.5 else 0.0
    # The blurred mask is a ramp across the edge: the level at which it is cut grows or shrinks the mask, and
    # noise on the ramp makes the cut ragged without touching the inside.
    ramp = box_mean(mask, max(1, round(reach)))
    noise = _smooth_noise(mask.shape, grain, rng) * ragged
    rough = (ramp + noise * 4 * ramp * (1 - ramp) > level).astype(np.float32)
    for _ in range(holes):
        y, x, radius = (
            rng.uniform(0, mask.shape[0]),
            rng.uniform(0, mask.shape[1]),
            rng.uniform(0.01, 0.05) * side,
        )
        rows, columns = np.ogrid[: mask.shape[0], : mask.shape[1]]
        rough[(rows - y) ** 2 + (columns - x) ** 2 < radius**2] = 0
    if not 0 < rough.mean() < 1:
        return mask
    return np.clip(box_mean(rough, round(softness)), 0, 1)


def _smooth_noise(shape: tuple[int, ...], grain: int, rng: np.random.Generator) -> Floats:
    coarse = rng.standard_normal((max(2, shape[0] // grain + 1), max(2, shape[1] // grain + 1))).astype(np.float32)
    return np.asarray(Image.fromarray(coarse).resize((shape[1], shape[0]), Image.Resampling.BICUBIC))
