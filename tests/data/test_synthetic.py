import numpy as np
import pytest

from shadowmaskformer.data.synthetic import SILHOUETTES, Fall, Light, SyntheticShadow, draw, paste_decoy, random_light


def meadow(height: int = 48, width: int = 72) -> np.ndarray:
    rng = np.random.default_rng(7)
    return rng.uniform(0.3, 0.9, (height, width, 3)).astype(np.float32)


LIGHT = Light(np.array([2.5, 2.2, 2.0], np.float32), np.array([0.05, 0.04, 0.03], np.float32))
BOARD = (np.array([[-0.4, 0.0], [-0.4, 1.0], [0.4, 1.0], [0.4, 0.0]]),)


def test_same_generator_draws_the_same_shadow():
    first = draw(meadow(), np.random.default_rng(3))
    second = draw(meadow(), np.random.default_rng(3))
    other = draw(meadow(), np.random.default_rng(4))
    np.testing.assert_array_equal(first[0], second[0])
    np.testing.assert_array_equal(first[1], second[1])
    assert not np.array_equal(first[1], other[1])


@pytest.mark.parametrize("seed", range(12))
def test_shadow_darkens_under_its_mask_and_nowhere_else(seed):
    free = meadow()
    shadow, mask = draw(free, np.random.default_rng(seed))
    assert shadow.dtype == mask.dtype == np.float32
    assert shadow.shape == free.shape
    assert mask.shape == free.shape[:2]
    assert shadow.min() >= 0
    assert shadow.max() <= 1
    assert 0 <= mask.min() <= mask.max() <= 1
    np.testing.assert_array_equal(shadow[mask == 0], free[mask == 0])
    assert (shadow[mask > 0.5] < free[mask > 0.5]).all()


def test_most_drawn_shadows_take_a_visible_share_of_the_picture():
    shares = [float((draw(meadow(), np.random.default_rng(seed))[1] > 0.5).mean()) for seed in range(40)]
    assert sum(0.01 < share < 0.7 for share in shares) >= 36


def test_umbra_and_penumbra_follow_the_papers_equation():
    free = meadow()
    fall = Fall(contact=(1.0, 0.5), angle=np.pi / 2, length=0.7, breadth=0.8, fade=0.2)
    shadow, mask = SyntheticShadow(BOARD, fall, LIGHT).cast(free)
    share = mask[:, :, None]
    np.testing.assert_allclose(shadow, (1 - share) * free + share * (free - LIGHT.offset) / LIGHT.gain, atol=1e-6)


def test_umbra_gives_the_free_picture_back():
    free = meadow()
    shadow, mask = SyntheticShadow(BOARD, Fall((1.2, 0.5), np.pi / 2, 1.0, 1.0), LIGHT).cast(free)
    umbra = mask == 1
    assert umbra.mean() > 0.05
    np.testing.assert_allclose((LIGHT.gain * shadow + LIGHT.offset)[umbra], free[umbra], atol=1e-6)


def test_penumbra_widens_with_the_distance_from_the_contact():
    fall = Fall((1.0, 0.5), np.pi / 2, 1.0, 0.6, near_px=0.6, far_px=9.0)
    mask = SyntheticShadow(BOARD, fall, LIGHT).coverage(128, 160)
    soft = (mask > 0.05) & (mask < 0.95)
    near_contact, far_away = soft[110].sum(), soft[40].sum()
    assert far_away > 2 * near_contact


def test_shadow_falls_where_it_is_told():
    for angle, quarter in ((0.0, np.s_[:, 40:]), (np.pi, np.s_[:, :32]), (np.pi / 2, np.s_[:24])):
        mask = SyntheticShadow(BOARD, Fall((0.5, 0.5), angle, 0.5, 0.3), LIGHT).coverage(48, 72)
        assert mask[quarter].sum() > 0.7 * mask.sum()


def test_bend_turns_only_what_lies_beyond_it():
    straight = Fall((1.0, 0.5), np.pi / 2, 0.9, 0.3)
    bent = Fall((1.0, 0.5), np.pi / 2, 0.9, 0.3, bend=0.5, bent_angle=0.2)
    one = SyntheticShadow(BOARD, straight, LIGHT).coverage(96, 120)
    other = SyntheticShadow(BOARD, bent, LIGHT).coverage(96, 120)
    np.testing.assert_allclose(one[70:], other[70:], atol=0.02)
    assert np.abs(one[:40] - other[:40]).max() > 0.9


@pytest.mark.parametrize("name", SILHOUETTES)
def test_every_silhouette_stands_on_its_foot_and_covers_something(name):
    for seed in range(5):
        outlines = SILHOUETTES[name](np.random.default_rng(seed))
        points = np.concatenate(outlines)
        assert np.isfinite(points).all()
        assert points[:, 1].min() > -0.5
        assert 0.5 < points[:, 1].max() < 3
        shadow = SyntheticShadow(outlines, Fall((0.9, 0.5), np.pi / 2, 0.6, 0.6), LIGHT)
        assert (shadow.coverage(64, 80) > 0.5).any()


def test_black_stays_black_and_nothing_gets_brighter():
    free = meadow() * np.linspace(0, 1, 72, dtype=np.float32)[None, :, None]
    depth = np.ones(free.shape[:2], np.float32)
    for seed in range(20):
        shadow = random_light(np.random.default_rng(seed)).cast(free, depth)
        assert (shadow[free == 0] == 0).all()
        assert (shadow <= free).all()


def test_a_shadow_takes_more_in_some_places_than_in_others():
    grey, depth = np.full((48, 72, 3), 0.6, np.float32), np.ones((48, 72), np.float32)
    spreads = [random_light(np.random.default_rng(seed)).cast(grey, depth).std() for seed in range(20)]
    assert np.median(spreads) > 0.01


def test_blue_loses_least_and_green_lies_between_in_the_mean():
    lost = np.array([random_light(np.random.default_rng(seed)).lost.mean((0, 1)) for seed in range(100)])
    red, green, blue = lost.mean(axis=0)
    assert red > green > blue
    assert abs(green - (red + blue) / 2) < 0.03


def test_a_decoy_is_dark_and_no_shadow(rng: np.random.Generator):
    photo = np.full((48, 64, 3), 0.8, np.float32)
    mask = np.ones((48, 64), np.float32)
    pasted, left, truth = paste_decoy(photo, mask, photo, rng)
    thing = left == 0
    assert 0 < thing.mean() < 1
    assert pasted[thing].max() < 0.5
    np.testing.assert_array_equal(pasted, truth)
    np.testing.assert_array_equal(pasted[~thing], photo[~thing])
