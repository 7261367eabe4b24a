"""Split a mask into its connected parts."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray


def label(marked: NDArray[np.bool_]) -> tuple[NDArray[np.int32], int]:
    """Number the connected parts of a mask; pixels that touch at a side or a corner belong together.

    Args:
        marked: (H, W).

    Returns:
        (H, W), 0 outside, 1 for the largest part, 2 for the next; and how many parts there are.

    >>> label(np.array([[1, 0, 0, 1], [0, 0, 1, 0]], bool))[0].tolist()
    [[2, 0, 0, 1], [0, 0, 1, 0]]
    """
    height, width = marked.shape
    # Rows are laid end to end with gaps of two, so that runs of neighbouring rows never touch by accident.
    line = width + 2
    padded = np.zeros((height, line), np.int8)
    padded[:, 1:-1] = marked
    steps = np.diff(padded.ravel(), prepend=np.int8(0))
    starts, ends = np.flatnonzero(steps == 1), np.flatnonzero(steps == -1)
    # The runs of the next row that reach from one pixel before a run to one pixel behind it.
    first, last = np.searchsorted(ends, starts + line), np.searchsorted(starts, ends + line, "right")
    counts = np.maximum(last - first, 0)
    upper = np.repeat(np.arange(len(starts)), counts)
    lower = np.repeat(first - np.cumsum(counts) + counts, counts) + np.arange(counts.sum())
    part = np.arange(len(starts))
    while True:
        least = np.minimum(part[upper], part[lower])
        joined = part.copy()
        for ends_of in (upper, lower):
            np.minimum.at(joined, ends_of, least)
            np.minimum.at(joined, part[ends_of], least)
        joined = joined[joined]
        if np.array_equal(joined, part):
            break
        part = joined
    found, which = np.unique(part, return_inverse=True)
    areas = np.bincount(which, ends - starts, len(found))
    number = np.empty(len(found), np.int32)
    number[np.argsort(-areas, kind="stable")] = np.arange(1, len(found) + 1)
    labels = np.zeros(height * line, np.int32)
    labels[padded.ravel() > 0] = np.repeat(number[which], ends - starts)
    return labels.reshape(height, line)[:, 1:-1], len(found)
