from __future__ import annotations

import numpy as np

from data.drawn import box_mask, scene, shade
from shadowmaskformer.data.adjust import adjust_clean, lit_pixels

CLEAN = scene(4).astype(np.float32) / 255
MASK = box_mask().astype(np.float32) / 255
SHADOW = shade(scene(4), box_mask()).astype(np.float32) / 255


def test_undoes_another_exposure_and_white_balance() -> None:
    other = (CLEAN * np.array([0.8, 0.9, 1.0]) + np.array([0.05, 0.0, -0.01])).astype(np.float32)
    adjusted = adjust_clean(SHADOW, other, MASK)
    assert np.abs(adjusted - CLEAN).max() < 0.01
    assert np.abs(other - CLEAN).max() > 0.1


def test_the_shadow_has_no_say() -> None:
    darker = SHADOW.copy()
    darker[MASK > 0] *= 0.2
    np.testing.assert_array_equal(adjust_clean(SHADOW, CLEAN, MASK), adjust_clean(darker, CLEAN, MASK))


def test_too_little_light_leaves_the_picture_alone() -> None:
    assert adjust_clean(SHADOW, CLEAN, np.ones_like(MASK)) is CLEAN


def test_a_channel_without_contrast_is_shifted_only() -> None:
    flat = np.full_like(CLEAN, 0.5)
    np.testing.assert_allclose(adjust_clean(flat * 0.9, flat, np.zeros_like(MASK)), 0.45, atol=1e-6)


def test_stays_in_range() -> None:
    adjusted = adjust_clean(np.clip(SHADOW * 1.8, 0, 1), CLEAN, MASK)
    assert 0 <= adjusted.min() <= adjusted.max() <= 1


def test_lit_pixels_keep_away_from_the_edge() -> None:
    lit = lit_pixels(MASK)
    assert not lit[11:33, 15:45].any()
    assert lit[:10].all()
