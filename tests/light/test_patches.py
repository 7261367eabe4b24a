import numpy as np
import pytest

from shadowmaskformer.light.patches import measure_falls
from shadowmaskformer.light.tone import log_light

SIDE = 160
EDGE = 8 / 256
FALL = np.array([1.0, 0.95, 0.85])


def levels(light: np.ndarray) -> np.ndarray:
    """The photo of a light: what `log_light` turns back."""
    return ((light - 0.02) / (1 + 0.8 * light)).astype(np.float32)


def shaded(light: np.ndarray, distance: np.ndarray) -> np.ndarray:
    return levels(np.where(distance[:, :, None] > 0, light * np.exp(-FALL), light))


def distance_to(column: float = 80, shape: tuple[int, int] = (SIDE, SIDE)) -> np.ndarray:
    """Shadow to the right of a column, as far as the floor measures distances."""
    return np.clip(np.broadcast_to(np.arange(shape[1]) - column + 0.5, shape), -16, 16).astype(np.float32)


def noise(seed: int = 0) -> np.ndarray:
    return np.exp(0.05 * np.random.default_rng(seed).standard_normal((SIDE, SIDE, 1)))


def falls_in(light: np.ndarray, distance: np.ndarray):
    photo = shaded(light, distance)
    return measure_falls(photo, log_light(photo), distance, SIDE, edge=EDGE)


def test_one_ground_in_two_lights_gives_the_fall():
    falls = falls_in(np.float32([0.9, 0.8, 0.7]) * noise(), distance_to())
    np.testing.assert_allclose(falls.whole, FALL, atol=0.03)
    here = np.log([[0.9, 0.8, 0.7]]) - FALL
    np.testing.assert_allclose(falls.at(np.array([[0.5, 0.9]]), here)[0][0], FALL, atol=0.06)


def test_patches_of_two_materials_mixed_at_random_find_their_own_kind():
    rng = np.random.default_rng(1)
    grass = rng.random((10, 10)) < np.where(np.arange(10) < 5, 0.7, 0.2)  # mostly on the lit side
    grass = np.kron(grass, np.ones((16, 16)))[:, :, None] > 0
    light = np.where(grass, [0.3, 0.5, 0.2], [0.9, 0.85, 0.8]) * noise()
    falls = falls_in(light, distance_to())
    np.testing.assert_allclose(falls.whole, FALL, atol=0.06)
    for colour in ([0.3, 0.5, 0.2], [0.9, 0.85, 0.8]):
        found = falls.at(np.array([[0.5, 0.75]]), np.log([colour]) - FALL)[0][0]
        np.testing.assert_allclose(found, FALL, atol=0.15)


def test_a_thing_along_most_of_the_edge_is_outvoted_by_ground_farther_away():
    light = np.broadcast_to([0.9, 0.85, 0.8], (SIDE, SIDE, 3)).copy()
    light[20:140, 56:80] = [0.3, 0.9, 0.25]
    falls = falls_in(light * noise(), distance_to())
    np.testing.assert_allclose(falls.whole, FALL, atol=0.06)


@pytest.mark.parametrize("inside", [True, False], ids=["all in shadow", "all lit"])
def test_without_both_sides_a_typical_shadow_is_assumed(inside):
    photo = np.full((SIDE, SIDE, 3), 0.4, np.float32)
    distance = np.full((SIDE, SIDE), 16 if inside else -16, np.float32)
    light = log_light(photo)
    found = measure_falls(photo, light, distance, SIDE, edge=EDGE).at(np.array([[0.5, 0.5]]), light[:1, 0])[0][0]
    assert ((found > 0.9) & (found < 1.2)).all()


def test_a_shadow_all_penumbra_still_has_patches():
    distance = (2 - np.abs(np.arange(SIDE) - 80))[None, :].repeat(SIDE, axis=0).clip(-16).astype(np.float32)
    falls = falls_in(np.float32([0.9, 0.85, 0.8]) * noise(), distance)
    assert len(falls.weight)
    np.testing.assert_allclose(falls.whole, FALL, atol=0.05)


def test_large_pictures_give_the_same_light_as_small_ones():
    small, distance = np.float32([0.9, 0.8, 0.7]) * noise(), distance_to()
    large, far = (np.repeat(np.repeat(plane, 8, axis=0), 8, axis=1) for plane in (small, distance))
    photo = shaded(large, far)
    falls = measure_falls(photo, log_light(photo), 8 * far, 8 * SIDE, edge=EDGE)
    np.testing.assert_allclose(falls.whole, falls_in(small, distance).whole, atol=0.01)


@pytest.mark.parametrize(("spread", "least", "most"), [(1, -0.3, 0.3), (4, 0.7, 1.6)], ids=["as lit", "rougher"])
def test_a_shadow_rougher_than_lit_ground_of_its_material_is_told(spread: int, least: float, most: float):
    distance = distance_to()
    light = np.float32([0.9, 0.85, 0.8]) * noise() ** np.where(distance > 0, spread, 1)[:, :, None]
    falls = falls_in(light.astype(np.float32), distance)
    rougher = falls.at(falls.places, falls.light)[1]
    assert least < np.median(rougher) < most
