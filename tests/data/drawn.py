"""Small drawn pictures for the tests of data sets: scenes that differ, with shadows on them."""

from __future__ import annotations

from pathlib import Path

import numpy as np
from PIL import Image

HEIGHT, WIDTH = 48, 64


def scene(number: int, height: int = HEIGHT, width: int = WIDTH) -> np.ndarray:
    """A view with texture, uint8 (H, W, 3); another one for each number."""
    rng = np.random.default_rng(1000 + number)
    row, column = np.mgrid[:height, :width] / height * 48
    waves = [np.sin(row / rng.uniform(3, 9) + column / rng.uniform(3, 9) + rng.uniform(0, 6)) for _ in range(3)]
    blotches = np.kron(rng.normal(0, 25, (6, 8, 1)), np.ones((height // 6, width // 8, 1)))
    return np.clip(140 + 35 * np.stack(waves, axis=-1) + blotches, 20, 250).astype(np.uint8)


def box_mask(top: int = 12, left: int = 16) -> np.ndarray:
    """A shadow's mask, uint8 (48, 64), 255 inside."""
    mask = np.zeros((HEIGHT, WIDTH), np.uint8)
    mask[top : top + 20, left : left + 28] = 255
    return mask


def shade(clean: np.ndarray, mask: np.ndarray) -> np.ndarray:
    """`clean` with a bluish shadow inside `mask`, uint8."""
    return np.round(clean * np.where(mask[..., None] > 0, (0.35, 0.4, 0.5), 1)).astype(np.uint8)


def save(picture: np.ndarray, path: Path) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    Image.fromarray(picture).save(path)
    return path


def write_srd(folder: Path, train: int = 6, test: int = 3) -> Path:
    """SRD in small: two shadows on each view of train; test shares views 0, 1, ... with it, as PNG files."""
    for split, count, suffix in (("train", train, "_no_shadow"), ("test", test, "_free")):
        for number in range(count):
            clean = scene(number // 2 if split == "train" else number)
            mask = box_mask(4 + 6 * (number % 3), 3 + 5 * number)
            save(shade(clean, mask), folder / split / "shadow" / f"IMG_{number}.png")
            save(clean, folder / split / "shadow_free" / f"IMG_{number}{suffix}.png")
    return folder
