import io

import numpy as np
import pytest
from PIL import Image

from shadowmaskformer.arrays import from_float, to_float
from shadowmaskformer.light.relight import measure, relight
from shadowmaskformer.light.tone import brighter
from shadowmaskformer.removal.remover import ShadowRemover

GREEN_COURT = np.float32([0.45, 0.62, 0.35])
DEEP = np.float32([-3.4, -2.6, -2.0])


def court(height: int = 400, width: int = 500, spread: float = 0.02) -> np.ndarray:
    rng = np.random.default_rng(0)
    return np.clip(GREEN_COURT + spread * rng.standard_normal((height, width, 1), dtype=np.float32), 0, 1)


def figure(height: int = 400, width: int = 500, margin: int = 0) -> np.ndarray:
    """A mask with an edge in many directions; a positive margin leaves out what is near the edge."""
    row, column = np.mgrid[:height, :width]
    around = np.arctan2(row - height / 2, column - width / 2)
    away = np.hypot(row - height / 2, column - width / 2)
    return (away < height * (0.28 + 0.06 * np.sin(5 * around)) - margin).astype(np.float32)


def shaded(free: np.ndarray, mask: np.ndarray, fall: np.ndarray) -> np.ndarray:
    """A photo of the shadow as cameras keep it: 8 bits, colour at half the size."""
    photo = brighter(free, mask[:, :, None] * fall)
    file = io.BytesIO()
    Image.fromarray(from_float(np.clip(photo, 0, 1))).save(file, "JPEG", quality=85)
    with Image.open(file) as image:
        return to_float(np.asarray(image.convert("RGB")))


def test_deep_shadow_comes_back_without_noise():
    free, mask = court(), figure()
    photo, inside = shaded(free, mask, DEEP), figure(margin=10) > 0
    restored = relight(photo, mask).apply(photo)
    spread = (restored - free.mean(axis=(0, 1)))[inside].std(axis=0)
    assert (spread < 0.018).all()  # 0.027 in red when every level is believed


def test_large_photo_comes_back_with_less_noise_too():
    free, mask = court(1500, 1800), figure(1500, 1800)
    photo, inside = shaded(free, mask, DEEP), figure(1500, 1800, margin=30) > 0
    restored = ShadowRemover(method="relight", threads=1).remove(photo, mask, exact_mask=True)
    assert (restored - free.mean(axis=(0, 1)))[inside].std(axis=0)[0] < 0.018  # 0.025 when every level is believed


def test_texture_of_a_deep_shadow_is_not_ironed_out():
    free, mask = court(spread=0.12), figure()
    photo, inside = shaded(free, mask, DEEP), figure(margin=10) > 0
    restored, gray = relight(photo, mask).apply(photo), np.float32([0.3, 0.6, 0.1])
    ours, truth = (restored @ gray)[inside], (free @ gray)[inside]
    assert ours.std() > 0.8 * truth.std()
    assert np.corrcoef(ours, truth)[0, 1] > 0.65


def test_deep_shadow_leaves_no_line_along_its_edge():
    free, mask = court(), figure()
    photo, band = shaded(free, mask, DEEP), (figure(margin=-4) > 0) & ~(figure(margin=4) > 0)
    restored = relight(photo, mask).apply(photo)
    assert np.abs(restored - free)[band].mean() < 0.06  # 0.11 when the edge is believed to the pixel


def test_noise_beyond_the_levels_is_lowered_to_the_texture_of_lit_ground():
    free, mask = court(), figure()
    noise = 0.03 * np.random.default_rng(1).standard_normal((100, 125, 1), dtype=np.float32)
    photo = brighter(free, mask[:, :, None] * np.float32([-1.6, -1.4, -1.2]))
    photo += mask[:, :, None] * noise.repeat(4, axis=0).repeat(4, axis=1)  # blocks, as strong compression leaves them
    inside = figure(margin=10) > 0
    restored = relight(np.clip(photo, 0, 1), mask).apply(np.clip(photo, 0, 1))
    assert restored[inside].std(axis=0).max() < 0.04  # 0.06 when they are taken for texture


def test_texture_of_a_thing_that_lies_in_shadow_and_sun_stays():
    free, mask = court(), figure()
    free[:, 200:300] *= np.where(np.arange(400) % 6 < 3, 0.7, 1).astype(np.float32)[:, None, None]  # a striped rug
    photo, inside = shaded(free, mask, np.float32([-1.6, -1.4, -1.2])), figure(margin=10) > 0
    inside[:, :205] = inside[:, 295:] = False
    restored = relight(photo, mask).apply(photo)
    assert 0.85 < restored[inside].std() / free[inside].std() < 1.25


def test_small_gap_in_a_deep_shadow_does_not_turn_white():
    free, mask = court(spread=0.01), figure()
    depth = mask.copy()
    depth[150:154, 250:254] = 0  # sun between the leaves, which the mask does not know
    photo = shaded(free, depth, DEEP)
    restored = relight(photo, mask).apply(photo)
    assert np.median(restored[151:153, 251:253]) < 0.75  # 0.97 without a limit


@pytest.mark.parametrize("fall", [[-0.9, -0.8, -0.7], [-1.6, -1.4, -1.2]], ids=["usual", "dark"])
def test_texture_of_an_ordinary_shadow_stays(fall: list[float]):
    free, mask = court(spread=0.08), figure()
    photo, inside = shaded(free, mask, np.float32(fall)), figure(margin=10) > 0
    restored, gray = relight(photo, mask).apply(photo), np.float32([0.3, 0.6, 0.1])
    assert 0.95 < (restored @ gray)[inside].std() / (free @ gray)[inside].std() < 1.3


def test_small_pictures_stay_as_they_are():
    free, mask = court(240, 300), figure(240, 300)
    light = measure(shaded(free, mask, DEEP), mask)
    assert light is not None
    assert light.finish.shape[2] == 1  # one factor for all channels: nothing was calmed
