"""What several tests share: synthetic pictures, a tiny network, the data kept beside the project."""

from __future__ import annotations

import os
from pathlib import Path

import numpy as np
import pytest

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
    from shadowmaskformer import weights

    folder = tmp_path_factory.mktemp("tiny")
    weights.save(folder, TINY, random_arrays(TINY))
    return folder


@pytest.fixture
def shared() -> Path:
    """The folder of reference data beside the project; skips where it is absent."""
    if not SHARED.is_dir():
        pytest.skip("no reference data beside the project (../shared)")
    return SHARED
