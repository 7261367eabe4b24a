"""A data set of drawn pairs, and a recipe that trains the tiny network on it in seconds."""

from __future__ import annotations

from pathlib import Path

import numpy as np
from PIL import Image

from shadowmaskformer.train import TrainConfig

QUICK = TrainConfig(
    depths=(1, 1, 2, 1, 1),
    steps=8,
    sizes=(32, 48),
    detail=2,
    batches=(2, 2),
    shares=(0.5, 0.5),
    learning_rate=2e-3,
    warmup=0.25,
    clip_norm=1.0,
    ema_decay=0.9,
    augment={"crop": 0.5, "flip": 0.5},
    validation_share=0.25,
    validation_size=48,
    validations=2,
    checkpoint_every_s=0.0,
)
"""Every part of the loop in eight steps: two stages, a reduced view, warm-up, clipping, averaging, augmentation."""


def write_pairs(folder: Path, count: int = 8, *, shadows: int = 1) -> Path:
    """`count` scenes of 48×64 pixels with `shadows` each, in the release's layout."""
    rng = np.random.default_rng(5)
    row, column = np.mgrid[:48, :64]
    for role in ("cond", "gt", "mask"):
        (folder / "train" / role).mkdir(parents=True)
    for index in range(count):
        waves = [np.sin(row / rng.uniform(3, 9) + column / rng.uniform(3, 9)) for _ in range(3)]
        clean = 150 + 50 * np.stack(waves, axis=-1) + rng.normal(0, 4, (48, 64, 3))
        for shot in range(shadows):
            top, left = rng.integers(4, 20, 2)
            mask = np.zeros((48, 64))
            mask[top : top + 20, left : left + 28] = 1
            shadow = clean * np.where(mask[..., None] > 0, (0.35, 0.4, 0.5), 1)
            for role, picture in (("cond", shadow), ("gt", clean), ("mask", 255 * mask)):
                image = Image.fromarray(np.clip(picture, 0, 255).astype(np.uint8))
                image.save(folder / "train" / role / f"{index * shadows + shot:03d}.png")
    return folder
