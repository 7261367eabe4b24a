"""A tiny ISTD on disk: pictures of 24 x 32 with a box of shadow, PNG, masks and clean pictures beside them."""

from pathlib import Path

import numpy as np
import pytest
from PIL import Image


def write(path: Path, picture: np.ndarray) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    Image.fromarray(picture).save(path)


@pytest.fixture
def istd(tmp_path: Path) -> Path:
    """Train scenes 1 to 4, test scenes 90 to 93; test 93-1 has no shadow at all."""
    rng = np.random.default_rng(0)
    root = tmp_path / "ISTD"
    for split, scenes in (("train", (1, 2, 3, 4)), ("test", (90, 91, 92, 93))):
        for scene in scenes:
            ramp = np.linspace(0.3, 0.9, 32)[None, :, None] * np.linspace(0.7, 1, 24)[:, None, None]
            clean = np.clip(ramp * rng.uniform(0.5, 1, 3) + rng.normal(0, 0.02, (24, 32, 3)), 0, 1)
            mask = np.zeros((24, 32), dtype=np.uint8)
            if scene != 93:
                top, left = rng.integers(2, 10, 2)
                mask[top : top + 9, left : left + 14] = 255
            shadow = np.where(mask[..., None] > 0, clean * 0.4, clean)
            for letter, picture in (("A", shadow * 255), ("B", mask), ("C", clean * 255)):
                write(root / split / f"{split}_{letter}" / f"{scene}-1.png", np.round(picture).astype(np.uint8))
    return root
