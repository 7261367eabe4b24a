"""Shadow detection as a task for a network: what it sees of a photo and hints, and what its head means."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from shadowmaskformer.arrays import Floats, average_down
from shadowmaskformer.detect.hints import Hint, draw_hints
from shadowmaskformer.errors import WeightsError
from shadowmaskformer.network.config import DetectorConfig, NetworkConfig
from shadowmaskformer.network.detector_steps import REDUCTION
from shadowmaskformer.runtimes import Session

MOST_SQUEEZED = 2.0
"""A photo may be this many times as long as wide before it is no longer looked at as a square."""


def check_network(config: NetworkConfig) -> DetectorConfig:
    """Return `config`; raise WeightsError unless it is that of a network that finds shadows."""
    if not isinstance(config, DetectorConfig):
        raise WeightsError(
            f"these weights are a network of the kind {config.kind!r}", "finding shadows needs a detector"
        )
    return config


def view_size(config: NetworkConfig, height: int, width: int) -> tuple[int, int]:
    """Return the size at which a detector looks at a photo: a square, as it was trained, unless the photo is very long.

    >>> view_size(DetectorConfig(), 640, 840), view_size(DetectorConfig(), 100, 800)
    ((256, 256), (128, 512))
    """
    ratio = height / width
    left = (ratio / min(max(ratio, 1 / MOST_SQUEEZED), MOST_SQUEEZED)) ** 0.5
    side = min(config.view_pixels or height * width, height * width) ** 0.5
    rows, columns = (REDUCTION * max(1, round(length / REDUCTION)) for length in (side * left, side / left))
    return rows, columns


def look(session: Session, photo: Floats, hints: Sequence[Hint] = (), mask: Floats | None = None) -> Floats:
    """Return how deep in shadow a photo is, at the size at which the network looks at it, (h, w), [0, 1].

    Args:
        session: a network that finds shadows.
        photo: RGB, (H, W, 3), [0, 1].
        hints: in the photo's pixels.
        mask: the mask so far, (H, W), [0, 1]; None for none.
    """
    height, width = photo.shape[:2]
    rows, columns = view_size(session.config, height, width)
    scaled = [hint.scaled(columns / width, rows / height) for hint in hints]
    seen = np.zeros((rows, columns), np.float32) if mask is None else _resized(mask, rows, columns)
    pictures = {
        "photo": _resized(photo, rows, columns),
        "hints": draw_hints(scaled, rows, columns),
        "mask": seen[..., None],
    }
    return sigmoid(session.run(pictures)[..., 0])


def find(session: Session, photo: Floats, hints: Sequence[Hint] = (), mask: Floats | None = None) -> Floats:
    """Return the mean of two looks, one in the mirror; arguments as for `look`."""
    mirrored = np.ascontiguousarray(photo[:, ::-1])
    flipped = None if mask is None else np.ascontiguousarray(mask[:, ::-1])
    turned = [hint.mirrored(photo.shape[1]) for hint in hints]
    seen, other = look(session, photo, hints, mask), look(session, mirrored, turned, flipped)
    return np.float32(0.5) * (seen + other[:, ::-1])


def _resized(planes: Floats, rows: int, columns: int) -> Floats:
    """Average down, along a side that is too short repeat."""
    height, width = planes.shape[:2]
    if rows > height or columns > width:
        planes = planes.repeat(-(-rows // height), axis=0).repeat(-(-columns // width), axis=1)
    return average_down(planes, rows, columns)


def sigmoid(logit: Floats) -> Floats:
    """Return the probability of a logit.

    >>> sigmoid(np.array([0.0, 100.0, -100.0], np.float32)).tolist()
    [0.5, 1.0, 0.0]
    """
    return (0.5 * (1 + np.tanh(0.5 * logit))).astype(np.float32)
