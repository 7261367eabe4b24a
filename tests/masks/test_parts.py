from __future__ import annotations

import numpy as np
import pytest
from skimage.measure import label as reference

from shadowmaskformer.masks.parts import label


@pytest.mark.parametrize("share", [0.0, 0.2, 0.5, 0.6, 0.9, 1.0])
@pytest.mark.parametrize("shape", [(1, 1), (1, 9), (7, 1), (23, 40)])
def test_parts_are_those_of_scikit_image(shape: tuple[int, int], share: float, rng: np.random.Generator):
    marked = rng.random(shape) < share
    labels, count = label(marked)
    expected = reference(marked, connectivity=2)
    assert count == expected.max()
    np.testing.assert_array_equal(labels > 0, marked)
    pairs = set(zip(labels[marked].tolist(), expected[marked].tolist(), strict=True))
    assert len(pairs) == count


def test_a_spiral_is_one_part():
    spiral = np.zeros((9, 9), bool)
    spiral[0], spiral[:, 8], spiral[8], spiral[2:, 0], spiral[2, :7], spiral[2:7, 6] = (True,) * 6
    assert label(spiral)[1] == 1


def test_the_largest_part_is_number_one():
    marked = np.zeros((6, 20), bool)
    marked[1, 1], marked[3:5, 4:8], marked[:, 12:18] = True, True, True
    labels, count = label(marked)
    assert count == 3
    assert (labels[1, 1], labels[3, 4], labels[0, 12]) == (3, 2, 1)
