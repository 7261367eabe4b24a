from __future__ import annotations

import numpy as np
import pytest

from data.drawn import scene, shade
from shadowmaskformer.data import derive_mask
from shadowmaskformer.data.derive import derive_depth
from shadowmaskformer.errors import ArrayError


def as_float(picture: np.ndarray) -> np.ndarray:
    return picture.astype(np.float32) / 255


def pair(height: int = 96, width: int = 128) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    clean = scene(3, height, width)
    mask = np.zeros((height, width), np.uint8)
    mask[24:64, 32:88] = 255
    return shade(clean, mask), clean, mask


def test_finds_the_shadow_of_a_noisy_pair(rng: np.random.Generator) -> None:
    shadow, clean, mask = pair()
    noisy = [np.clip(as_float(p) + rng.normal(0, 0.02, p.shape), 0, 1).astype(np.float32) for p in (shadow, clean)]
    found = derive_mask(*noisy)
    assert found.dtype == np.float32
    assert set(np.unique(found)) == {0.0, 1.0}
    # The rule may round corners and move the edge by a few pixels, not more.
    assert np.mean((found > 0) != (mask > 0)) < 0.08
    assert found[30:58, 40:80].all()
    assert not found[:12].any()


def test_dark_joints_do_not_hide_the_tiles() -> None:
    # A camera saturates on bright tiles, so their shadow looks shallow beside that of the joints.
    clean = np.full((160, 160, 3), 0.95, np.float32)
    joints = np.zeros((160, 160), bool)
    joints[::20] = joints[1::20] = joints[2::20] = joints[:, ::20] = joints[:, 1::20] = joints[:, 2::20] = True
    clean[joints] = 0.35
    shadow = clean.copy()
    shadow[:, :80][~joints[:, :80]] = 0.6
    shadow[:, :80][joints[:, :80]] = 0.08
    found = derive_mask(shadow, clean)
    assert found[:, :72].mean() > 0.95
    assert not found[:, 92:].any()


def test_no_shadow_no_mask() -> None:
    _, clean, _ = pair()
    assert not derive_mask(as_float(clean), as_float(clean)).any()


def test_a_brighter_picture_is_no_shadow() -> None:
    shadow, clean, _ = pair()
    assert not derive_mask(as_float(clean), as_float(shadow)).any()


def test_specks_are_voted_away() -> None:
    _, clean, _ = pair(384, 512)
    specked = clean.copy()
    specked[50:52, 60:62] = 0
    assert not derive_mask(as_float(specked), as_float(clean)).any()


def test_the_mask_of_a_reduced_pair_is_the_reduced_mask() -> None:
    large = pair(384, 512)
    mask = np.zeros((384, 512), np.uint8)
    mask[96:256, 128:352] = 255
    shadow, clean = shade(large[1], mask), large[1]
    full = derive_mask(as_float(shadow), as_float(clean))
    half = derive_mask(as_float(shadow[::2, ::2]), as_float(clean[::2, ::2]))
    assert np.mean(full[::2, ::2] != half) < 0.01


@pytest.mark.parametrize("shape", [(1, 1, 3), (1, 40, 3), (40, 1, 3)])
def test_thin_pictures(shape: tuple[int, int, int]) -> None:
    clean = np.full(shape, 0.8, np.float32)
    assert derive_mask(clean * np.float32(0.3), clean).all()


def test_a_pair_of_two_sizes_is_refused() -> None:
    with pytest.raises(ArrayError, match="one size"):
        derive_mask(np.zeros((4, 5, 3), np.float32), np.zeros((5, 4, 3), np.float32))


def test_the_depth_falls_across_a_soft_edge():
    clean = np.full((100, 160, 3), 0.8, np.float32)
    ramp = np.clip((np.arange(160, dtype=np.float32) - 70) / 8, 0, 1)
    depth = derive_depth(clean * (0.3 + 0.7 * ramp)[None, :, None], clean)
    middle = depth[50]
    assert middle[:66].min() == 1
    assert middle[82:].max() == 0
    assert middle[74] == pytest.approx(0.5, abs=0.2)
    assert (np.diff(middle[60:95]) <= 1e-6).all()
    assert ((middle > 0.1) & (middle < 0.9)).sum() >= 2
    assert not derive_depth(clean, clean).any()
