import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from shadowmaskformer.arrays import average_down, places, sample
from shadowmaskformer.errors import ArrayError
from shadowmaskformer.light.relight import measure, relight
from shadowmaskformer.light.tone import brighter

ATTENUATION = np.float32([0.4, 0.45, 0.5])


def pavement(height: int = 96, width: int = 128, seed: int = 0) -> np.ndarray:
    """A textured ground without shadow, (H, W, 3), about 0.45 to 0.75."""
    rng = np.random.default_rng(seed)
    ground = np.float32([0.62, 0.58, 0.52]) + 0.05 * rng.standard_normal((height, width, 1), dtype=np.float32)
    return np.clip(ground, 0, 1).astype(np.float32)


def disc(height: int = 96, width: int = 128, row: float = 0.5, column: float = 0.5, radius: float = 0.3):
    y, x = np.mgrid[:height, :width]
    return ((y / height - row) ** 2 + (x / width - column) ** 2 < radius**2).astype(np.float32)


def shade(free: np.ndarray, mask: np.ndarray) -> np.ndarray:
    return np.where(mask[:, :, None] > 0, free * ATTENUATION, free).astype(np.float32)


def error(picture: np.ndarray, free: np.ndarray, mask: np.ndarray) -> float:
    return float(np.abs(picture - free)[mask > 0].mean())


def test_shadow_on_one_ground_gets_the_light_of_its_surroundings():
    free, mask = pavement(), disc()
    photo = shade(free, mask)
    restored = relight(photo, mask).apply(photo)
    np.testing.assert_allclose(restored[mask > 0].mean(axis=0), free[mask > 0].mean(axis=0), atol=0.03)
    assert error(restored, free, mask) < 0.15 * error(photo, free, mask)


def test_empty_mask_changes_no_bit():
    photo = pavement()
    np.testing.assert_array_equal(relight(photo, np.zeros((96, 128), np.float32)).apply(photo), photo)


@pytest.mark.parametrize("scale", [1, 12], ids=["working size", "reduced first"])
def test_pixels_far_from_the_mask_stay_bit_identical(scale):
    height, width = 96 * scale, 128 * scale
    free, mask = pavement(height, width), disc(height, width, radius=0.1)
    photo = shade(free, mask)
    far = disc(height, width, radius=0.3) == 0
    np.testing.assert_array_equal(relight(photo, mask).apply(photo)[far], photo[far])


@pytest.mark.parametrize(
    "mask",
    [
        disc(row=0.0, column=0.0),
        disc(radius=0.4) - disc(radius=0.2),
        disc(column=0.2, radius=0.15) + disc(column=0.8, radius=0.15),
        disc(radius=0.04),
    ],
    ids=["at the border", "with a hole", "two shadows", "small"],
)
def test_masks_of_every_shape_lose_most_of_their_shadow(mask):
    free = pavement()
    photo = shade(free, mask)
    assert error(relight(photo, mask).apply(photo), free, mask) < 0.4 * error(photo, free, mask)


def test_each_shadow_gets_its_own_depth():
    free = np.full((96, 160, 3), 0.6, np.float32)
    left, right = disc(96, 160, column=0.2, radius=0.15), disc(96, 160, column=0.8, radius=0.15)
    photo = free * (1 - 0.3 * left - 0.7 * right)[:, :, None]
    restored = relight(photo, left + right).apply(photo)
    np.testing.assert_allclose(restored[left > 0].mean(), 0.6, atol=0.06)
    np.testing.assert_allclose(restored[right > 0].mean(), 0.6, atol=0.06)


def test_two_materials_under_one_shadow_keep_their_difference():
    free = pavement()
    free[:, 64:] *= np.float32([0.5, 0.8, 0.5])
    mask = disc()
    photo = shade(free, mask)
    restored = relight(photo, mask).apply(photo)
    for half in (np.s_[:, :56], np.s_[:, 72:]):
        inside = mask[half] > 0
        np.testing.assert_allclose(restored[half][inside].mean(axis=0), free[half][inside].mean(axis=0), atol=0.04)


def test_soft_edge_is_measured_and_leaves_no_rim():
    free = np.full((128, 160, 3), 0.6, np.float32)
    y, x = np.mgrid[:128, :160]
    radius = np.hypot(y - 64, x - 80)
    depth = np.clip((44 - radius) / 8, 0, 1)[:, :, None].astype(np.float32)  # fades from 36 to 44 pixels
    photo = free * (1 - depth * (1 - ATTENUATION))
    mask = (radius < 40).astype(np.float32)
    restored = relight(photo, mask).apply(photo)
    assert np.abs(restored - free).max() < 0.08
    assert np.abs(photo - free).max() > 0.3


def test_a_very_soft_shadow_gets_all_of_its_light_back():
    free = pavement(192, 256)
    row, column = np.mgrid[:192, :256] / np.float32(192)
    away = np.hypot(row - 0.5, column - 0.66)
    depth = np.clip(0.5 + (0.3 - away) / 0.16, 0, 1)[:, :, None].astype(np.float32)
    photo = (free * (1 - depth * (1 - ATTENUATION))).astype(np.float32)
    restored = relight(photo, (depth[:, :, 0] > 0.5).astype(np.float32)).apply(photo)
    umbra = depth[:, :, 0] == 1
    np.testing.assert_allclose(restored[umbra].mean(axis=0), free[umbra].mean(axis=0), atol=0.02)


def test_shadow_that_is_sharp_on_one_side_and_soft_on_the_other_leaves_no_rim():
    free = pavement(256, 320)
    y, x = np.mgrid[:256, :320]
    width = 1 + 15 * y / 256  # of the fading, in pixels: what casts the shadow stands at the top
    across = 60 - np.abs(x - 160)
    depth = np.clip(across / width + 0.5, 0, 1)[:, :, None].astype(np.float32)
    photo = free * (1 - depth * (1 - ATTENUATION))
    restored = relight(photo, (across > 0).astype(np.float32)).apply(photo)
    for rows in (slice(0, 64), slice(192, 256)):
        wrong = np.abs((restored - free)[rows].mean(axis=(0, 2)))
        assert wrong.max() < 0.07, f"a line {wrong.max():.3f} off along the edge in {rows}"


@pytest.mark.parametrize("radius", [0.26, 0.36], ids=["too narrow", "too wide"])
def test_mask_drawn_beside_the_shadows_edge_still_finds_the_shadow(radius):
    free, mask = pavement(256, 320), disc(256, 320, radius=0.3)
    photo, drawn = shade(free, mask), disc(256, 320, radius=radius)
    restored = relight(photo, drawn).apply(photo)
    assert error(restored, free, mask) < 0.25 * error(photo, free, mask)
    beside = (disc(256, 320, radius=0.4) > 0) & (mask == 0)
    assert np.abs(restored - free)[beside].mean() < 0.05


def test_mask_everywhere_brightens_as_a_typical_shadow_needs():
    photo = pavement() * np.float32(0.3)
    brighter = relight(photo, np.ones((96, 128), np.float32)).apply(photo) / photo
    assert brighter.min() > 1.5
    assert brighter.max() < 3


def test_material_that_changes_at_the_edge_does_not_tint_the_shadow():
    free, mask = np.full((128, 160, 3), 0.55, np.float32), disc(128, 160, radius=0.25)
    beside = (disc(128, 160, radius=0.45) > 0) & (mask == 0)
    beside[:, 80:] = False
    free[beside] = [0.3, 0.6, 0.25]  # grass along the left half of the edge
    photo = shade(free, mask)
    restored = relight(photo, mask).apply(photo)
    np.testing.assert_allclose(restored[mask > 0].mean(axis=0), 0.55, atol=0.06)


def test_dark_saturated_ground_leaves_neither_shape_nor_halo():
    rng = np.random.default_rng(0)
    texture = 1 + 0.1 * rng.standard_normal((128, 160, 1), dtype=np.float32)
    free = np.float32([0.06, 0.2, 0.35]) * texture
    mask = disc(128, 160)
    photo = np.round(np.where(mask[:, :, None] > 0, free * 0.2, free) * 255) / np.float32(255)  # red is 2 or 3 levels
    restored = relight(photo, mask).apply(photo)
    np.testing.assert_allclose(restored[mask > 0].mean(axis=0), free[mask > 0].mean(axis=0), atol=0.03)
    halo = (disc(128, 160, radius=0.34) > 0) & (mask == 0)
    assert np.abs(restored - free)[halo].mean() < 0.02


def test_bright_thing_in_the_shadow_stays_near_white_and_keeps_its_hue():
    free, mask = pavement(128, 160), disc(128, 160)
    photo = shade(free, mask)
    photo[60:66, 76:84] = [0.7, 0.66, 0.6]  # as bright as the lit ground
    restored = relight(photo, mask).apply(photo)[60:66, 76:84]
    assert restored.max() < 1.1
    assert np.ptp(restored, axis=2).max() < 0.15


def test_texture_in_the_shadow_gets_the_contrast_of_the_lit_ground():
    rng = np.random.default_rng(0)
    light = np.float32(0.9) + 0.2 * rng.standard_normal((128, 160, 1), dtype=np.float32)
    mask = disc(128, 160)
    light = np.clip(light, 0.3, 2) * np.ones(3, np.float32)

    def levels(light: np.ndarray) -> np.ndarray:
        return (light / (1 + 0.8 * light)).astype(np.float32)  # a camera that presses highlights together

    photo = levels(np.where(mask[:, :, None] > 0, light / 3, light))
    restored = relight(photo, mask).apply(photo)
    inside = disc(128, 160, radius=0.25) > 0
    assert 0.9 < restored[inside].std() / levels(light)[inside].std() < 1.1


def test_mask_a_little_too_small_is_followed_to_the_shadows_edge():
    free, mask = pavement(256, 320), disc(256, 320, radius=0.3)
    photo, drawn = shade(free, mask), disc(256, 320, radius=0.28)  # 2 % of the width
    restored = relight(photo, drawn).apply(photo)
    missed = (mask > 0) & (drawn == 0)
    assert np.abs(restored - free)[missed].mean() < 0.3 * np.abs(photo - free)[missed].mean()


@settings(max_examples=40, deadline=None)
@given(st.integers(1, 40), st.integers(1, 40), st.integers(0, 2**32 - 1), st.floats(0, 1))
def test_any_size_and_mask_gives_finite_planes(height, width, seed, share):
    rng = np.random.default_rng(seed)
    photo = rng.random((height, width, 3), dtype=np.float32)
    mask = (rng.random((height, width)) < share).astype(np.float32)
    correction = relight(photo, mask)
    assert correction.gain.shape == (height, width, 3)
    assert np.isfinite(correction.gain).all()
    assert np.isfinite(correction.offset).all()
    assert correction.gain.min() > 0


def test_black_and_white_photos_stay_finite():
    for value in (0.0, 1.0):
        photo = np.full((40, 56, 3), value, np.float32)
        restored = relight(photo, disc(40, 56)).apply(photo)
        assert np.isfinite(restored).all()


def test_mask_of_another_size_is_refused_with_the_remedy():
    with pytest.raises(ArrayError, match="resize the mask"):
        relight(pavement(), np.zeros((128, 96), np.float32))


def test_photo_of_bytes_is_refused():
    with pytest.raises(ArrayError, match="float32"):
        relight(np.zeros((4, 6, 3), np.uint8), np.zeros((4, 6), np.float32))


def test_the_edge_is_found_between_the_pixels_of_a_reduced_mask():
    row, column = np.mgrid[:384, :512]
    away = (column - 0.37 * row - 120) / np.hypot(1, 0.37)  # of a slanted edge, in the photo's pixels
    small, marked = (average_down(plane.astype(np.float32), 96, 128) for plane in (np.ones((384, 512, 3)), away > 0))
    light = measure(small, marked)
    assert light is not None
    near = np.abs(away) < 4
    near[:, : 4 * light.box[1].start + 8] = False
    shifted = sample(light.distance[..., None], places(96, 384), places(128, 512) - light.box[1].start)[..., 0]
    assert np.abs(4 * shifted - away)[near].mean() < 0.4


def test_distances_to_the_edge_are_right_in_a_large_picture():
    row, column = np.mgrid[:1200, :1600]
    away = 300 - np.hypot(row - 600, column - 800)
    light = measure(np.full((1200, 1600, 3), 0.5, np.float32), (away > 0).astype(np.float32))
    assert light is not None
    reach = light.distance.max()
    assert reach > 127  # the sum of two squares then needs more than 15 bits
    np.testing.assert_allclose(light.distance, np.clip(away[light.box], -reach, reach), atol=1.5)


@pytest.mark.parametrize(("spread", "least", "most"), [(0.2, 1.05, 1.4), (0.01, 0.85, 1.05)])
def test_texture_gets_the_contrast_of_sunlight_and_noise_does_not(spread: float, least: float, most: float):
    rng = np.random.default_rng(0)
    free = np.exp(-0.8 + spread * rng.standard_normal((480, 640, 1), dtype=np.float32)).repeat(3, axis=2)
    mask = disc(480, 640)
    photo = brighter(free, np.where(mask[:, :, None] > 0, np.log(ATTENUATION), 0).astype(np.float32))
    restored, inside = relight(photo, mask).apply(photo), disc(480, 640, radius=0.25) > 0
    assert least < restored[inside].std() / free[inside].std() < most


def test_lit_ground_inside_a_mask_stays_as_it_is():
    free, mask = pavement(128, 160), disc(128, 160)
    lit = disc(128, 160, radius=0.06)
    photo = shade(free, mask * (1 - lit))
    restored, gap = relight(photo, mask).apply(photo), disc(128, 160, radius=0.04)
    assert error(restored, free, gap) < 0.05
    assert error(restored, free, mask * (1 - disc(128, 160, radius=0.1))) < 0.05
