"""What several tests share: synthetic pictures, a tiny network, the data kept beside the project."""

from __future__ import annotations

import os
from pathlib import Path

import numpy as np
import pytest
from PIL import Image

from tiny import TINY, random_arrays

# Before PyTorch is imported: its idle threads should sleep, not spin against the engine's.
os.environ.setdefault("OMP_WAIT_POLICY", "passive")

SHARED = Path(__file__).resolve().parents[2] / "shared"


@pytest.fixture
def rng() -> np.random.Generator:
    return np.random.default_rng(7)


@pytest.fixture
def photo(rng: np.random.Generator) -> np.ndarray:
    """A smooth picture with texture, uint8 (32, 48, 3), darker in its mask."""
    row, column = np.mgrid[:32, :48]
    base = 120 + 60 * np.sin(row / 9)[..., None] + 40 * np.cos(column / 13)[..., None]
    texture = rng.normal(0, 6, (32, 48, 3))
    picture = base + texture + np.array([10, 0, -10])
    picture[8:24, 12:36] *= 0.4
    return np.clip(picture, 0, 255).astype(np.uint8)


@pytest.fixture
def mask() -> np.ndarray:
    """The shadow of `photo`, uint8 (32, 48), 255 inside."""
    shadow = np.zeros((32, 48), np.uint8)
    shadow[8:24, 12:36] = 255
    return shadow


@pytest.fixture(scope="session")
def tiny_weights(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder of random weights for `TINY`."""
    from shadowmaskformer.network import weights

    folder = tmp_path_factory.mktemp("tiny")
    weights.save(folder, TINY, random_arrays(TINY))
    return folder


@pytest.fixture
def shared() -> Path:
    """The folder of reference data beside the project; skips where it is absent."""
    if not SHARED.is_dir():
        pytest.skip("no reference data beside the project (../shared)")
    return SHARED


def write(path: Path, picture: np.ndarray) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    Image.fromarray(picture).save(path)


@pytest.fixture
def istd(tmp_path: Path) -> Path:
    """A tiny ISTD on disk, pictures of 24 x 32: train scenes 1 to 4, test 90 to 93; test 93-1 has no shadow at all."""
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
