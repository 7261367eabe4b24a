from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from shadowmaskformer.detect.hints import Hint, draw_hints, read_scribbles
from shadowmaskformer.errors import ConfigError


def test_a_click_is_a_disk_where_it_was_made():
    drawn = draw_hints([Hint.click(30.5, 10.5), Hint.click(5, 30, shadow=False)], 40, 60)
    assert drawn.shape == (40, 60, 2)
    assert drawn[10, 30].tolist() == [1, 0]
    assert drawn[30, 5].tolist() == [0, 1]
    rows, columns = np.nonzero(drawn[..., 0])
    assert abs(rows.mean() - 10) < 0.1
    assert abs(columns.mean() - 30) < 0.1
    assert 4 < len(rows) < 40


def test_a_stroke_covers_what_lies_between_its_points():
    drawn = Hint.stroke([(10, 20), (50, 20), (50, 35)]).drawn(40, 60)
    assert drawn[20, 10:50].min() == 1
    assert drawn[20:35, 50].min() == 1
    assert drawn[35, 20] == 0


def test_a_box_is_filled_whichever_corners_are_given():
    one, other = Hint.box(10, 5, 30, 25), Hint.box(30, 25, 10, 5)
    assert one.drawn(40, 60)[5:25, 10:30].min() == 1
    assert one.drawn(40, 60).sum() == 400
    np.testing.assert_array_equal(one.drawn(40, 60), other.drawn(40, 60))
    assert not draw_hints([one], 40, 60).any()


def test_a_hint_at_the_frame_is_drawn_as_far_as_there_is_a_picture():
    drawn = Hint.stroke([(0, 0), (60, 40)]).drawn(40, 60)
    assert drawn[0, 0] > 0
    assert drawn[39, 59] > 0


def test_a_hint_follows_the_size_of_the_copy():
    assert Hint.click(100, 50).scaled(0.5, 0.1) == Hint.click(50, 5)


def test_scribbles_are_green_for_shadow_and_red_for_light():
    picture = np.full((60, 90, 3), 30, np.uint8)
    picture[10:14, 5:40] = (0, 220, 10)
    picture[50:55, 60:80] = (230, 20, 0)
    drawn = draw_hints(read_scribbles(picture), 60, 90)
    assert drawn[12, 5:40, 0].min() > 0.5
    assert drawn[52, 60:80, 1].min() > 0.5
    assert drawn[30:, :, 0].max() == 0
    layer = np.dstack((picture, np.full((60, 90), 255, np.uint8)))
    assert read_scribbles(layer) == read_scribbles(picture)


def test_scribbles_in_other_colours_are_refused():
    with pytest.raises(ConfigError, match="green or red"):
        read_scribbles(np.full((8, 12, 3), 200, np.uint8))


def test_scribbles_on_a_copy_of_the_photo_are_told_from_it():
    photo = np.full((40, 60, 3), 120, np.uint8)
    photo[5:15, 5:15] = (30, 180, 40)  # a bush
    copy = photo.copy()
    copy[30, 20:50] = (0, 255, 0)
    (row,) = {round(hint.points[0][1]) for hint in read_scribbles(copy, photo)}
    assert row in (30, 31)


@pytest.mark.parametrize(
    "points", [(), ((float("nan"), 1),), ((1, float("inf")),), (420, 310), (("x", 1),), ((1, 2, 3),)]
)
def test_a_hint_must_be_somewhere(points: Any):
    with pytest.raises(ConfigError, match="is no place"):
        Hint(points)
