from __future__ import annotations

import numpy as np
import pytest

from shadowmaskformer.detect.detection import tell_apart
from shadowmaskformer.detect.scores import Counts, count, next_click
from shadowmaskformer.errors import ConfigError


@pytest.fixture
def depth() -> np.ndarray:
    """Two shadows with soft borders, a speck and haze, (60, 90)."""
    depth = np.zeros((60, 90), np.float32)
    depth[4:20, 4:24], depth[5:19, 5:23] = 0.3, 0.95
    depth[30:58, 40:80], depth[31:57, 41:79] = 0.4, 1.0
    depth[50, 4] = 0.95
    depth[10:14, 60:70] = 0.3
    return depth


def test_shadows_come_largest_first_with_share_and_box_in_the_photo(depth: np.ndarray):
    found = tell_apart(depth, (120, 270))
    assert [shadow.number for shadow in found.shadows] == [1, 2]
    assert [shadow.box for shadow in found.shadows] == [(123, 62, 237, 114), (15, 10, 69, 38)]
    assert found.shadows[0].share == pytest.approx(26 * 38 / 5400)
    assert str(found) == "2 shadows found, 23 % of the photo"


def test_a_shadow_keeps_its_soft_border_and_leaves_the_other_out(depth: np.ndarray):
    found = tell_apart(depth, (60, 90))
    assert found.shadows[1].mask()[4, 10] == np.float32(0.3)
    assert not found.shadows[1].mask()[30:].any()
    np.testing.assert_array_equal(found.only(1, 2), found.mask)
    assert found.only(2).sum() < found.mask.sum()


def test_specks_and_haze_are_no_shadows(depth: np.ndarray):
    found = tell_apart(depth, (60, 90))
    assert found.mask[50, 4] == 0
    assert not found.mask[10:14, 60:70].any()
    assert tell_apart(depth, (60, 90), kept=[(50, 4)]).mask[50, 4] > 0


def test_what_is_nowhere_deep_is_no_shadow(depth: np.ndarray):
    assert len(tell_apart(np.minimum(depth, np.float32(0.8)), (60, 90)).shadows) == 0


def test_nothing_found_is_said():
    found = tell_apart(np.full((20, 30), 0.2, np.float32), (20, 30))
    assert found.shadows == ()
    assert not found.mask.any()
    assert str(found) == "no shadow found"
    with pytest.raises(ConfigError, match="there is no shadow 1; there are none"):
        found.only(1)


def test_an_unknown_number_is_named(depth: np.ndarray):
    with pytest.raises(ConfigError, match="there is no shadow 3; choose from 1 to 2"):
        tell_apart(depth, (60, 90)).only(3)


def test_scores_of_a_half_found_shadow():
    wanted = np.zeros((10, 10), bool)
    wanted[:, :4] = True
    found = np.zeros((10, 10), bool)
    found[:, 2:5] = True
    scores = count(found, wanted)
    assert scores.iou == pytest.approx(0.4)
    assert scores.ber == pytest.approx((0.5 + 1 / 6) / 2)
    assert scores.found == pytest.approx(0.3)
    assert Counts.sum([scores, scores]).ber == pytest.approx(scores.ber)
    assert count(~wanted & wanted, ~wanted & wanted).iou == 1


def test_the_next_click_lies_inside_the_largest_error():
    wanted = np.zeros((40, 60), bool)
    wanted[5:35, 30:55] = True
    found = np.zeros((40, 60), bool)
    found[2:8, 2:8] = True
    missed = next_click(found, wanted)
    assert missed is not None
    assert missed.shadow
    (x, y), *_ = missed.points
    assert 35 < x < 50
    assert 10 < y < 30
    false = next_click(found | wanted, wanted)
    assert false is not None
    assert not false.shadow
    assert next_click(wanted, wanted) is None
