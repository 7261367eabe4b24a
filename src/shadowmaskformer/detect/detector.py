"""`ShadowDetector` finds the shadows in a photo; hints and rough masks say which."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from shadowmaskformer import masks
from shadowmaskformer.arrays import Floats, average_down, fit_pixels
from shadowmaskformer.detect import task
from shadowmaskformer.detect.detection import LEVEL, Detection, tell_apart
from shadowmaskformer.detect.hints import Hint, draw_hints
from shadowmaskformer.detect.refine import refine
from shadowmaskformer.errors import ArrayError, ConfigError
from shadowmaskformer.masks.parts import label
from shadowmaskformer.photo import MAX_PIXELS, Photo
from shadowmaskformer.photo.accept import as_photo
from shadowmaskformer.runtimes import load_session

WEIGHTS = "detector"
WORKING_PIXELS = 1024 * 1024
"""Shadows of larger photos are found on a copy reduced to about this size."""
BOX_MARGIN = 0.02
"""How far a shadow may reach out of the box that a user drew around it, as a share of the photo's side."""
SNAP_REACH = 0.03
"""How far a mask's edge may move out to meet the shadow's, as a share of the photo's side."""
SURE = 0.7
"""A mask grows only over what the network takes for shadow with this depth."""
MOVED = 0.3
"""A mask that would grow by a smaller share of its area is left as it is: the remover finds a near edge better itself.

Both were chosen on pairs of SRD train, of scenes that the network never saw; decision 0011 has the figures.
"""


class ShadowDetector:
    """Finds shadows. Make it once and use it for many photos, from any thread; it can be pickled."""

    def __init__(
        self,
        weights: str | Path | None = None,
        *,
        runtime: str | None = None,
        device: str | None = None,
        threads: int | None = None,
    ) -> None:
        """Load the weights.

        Args:
            weights: shipped weights by name, a folder, `hf:owner/name`, or an exported file; None is "detector".
            runtime: a name in `runtimes.BACKENDS`; None chooses.
            device: `cpu`, `cuda`, `mps`, …; None chooses.
            threads: CPU threads; None uses all.
        """
        self._arguments = {"weights": weights, "runtime": runtime, "device": device, "threads": threads}
        self.session = load_session(runtime, weights or WEIGHTS, device=device, threads=threads)
        task.check_network(self.session.config)

    def __repr__(self) -> str:
        given = ", ".join(f"{name}={value!r}" for name, value in self._arguments.items() if value is not None)
        return f"ShadowDetector({given})"

    def detect(
        self,
        image: Any,
        *,
        hints: Sequence[Hint] = (),
        mask: Any = None,
        max_pixels: int = MAX_PIXELS,
        frame: int | None = None,
    ) -> Detection:
        """Find the shadows in an image.

        Args:
            image: a path, bytes, file object, Pillow image, array (H, W, 3) or tensor (3, H, W), RGB.
            hints: what a user marked, in the pixels of the upright photo. A click or stroke changes the shadow, or
                the light, that it lies in; a box leaves out what is around it.
            mask: a rough mask, of any kind that `ShadowRemover.remove` takes. Where it is too small, its edge moves
                to the shadow's; shadows that it does not touch are left out, unless a hint names them.
            max_pixels: refuse larger photos and masks.
            frame: which picture of an animated or multi-page file, 0 = first; None refuses such files.
        """
        photo = as_photo(image, max_pixels=max_pixels, frame=frame)
        marked = None
        if mask is not None:
            marked, _ = masks.prepare(mask, photo.height, photo.width, max_pixels=max_pixels)
        return self.detect_in_photo(photo, hints=hints, mask=marked)

    def detect_in_photo(
        self,
        photo: Photo,
        *,
        hints: Sequence[Hint] = (),
        mask: Floats | None = None,
        exact: bool = False,
        reduce: Callable[[int, int], Floats] | None = None,
    ) -> Detection:
        """Find the shadows in a photo that was read before.

        Args:
            photo: the photo.
            hints: as for `detect`.
            mask: a rough mask that was read before, (H, W) of the photo's size, [0, 1]; None for none.
            exact: nothing but the hints changes the mask.
            reduce: returns the photo's pixels at a smaller size, for callers that need the same copy.
        """
        height, width = photo.height, photo.width
        _check_hints(hints, height, width)
        rows, columns = fit_pixels(height, width, WORKING_PIXELS)
        small = reduce(rows, columns) if reduce else average_down(photo.pixels, rows, columns)
        marks = [hint.scaled(columns / width, rows / height) for hint in hints]
        if mask is not None:
            if mask.shape != (height, width):
                raise ArrayError(f"mask is {mask.shape}, the photo is {(height, width)}", "give both in one size")
            depth, note = self._changed(small, average_down(mask, rows, columns), marks, exact=exact)
        else:
            depth, note = self._found(small, marks), ""
        places = [_place(hint, rows, columns) for hint in marks if hint.shadow and not hint.is_box]
        return tell_apart(depth, (height, width), note, places, whole=mask is not None)

    def _look(self, photo: Floats, hints: tuple[Hint, ...] = (), mask: Floats | None = None) -> Floats:
        """Return what the network says, with its edges on the photo's."""
        return refine(photo, task.find(self.session, photo, hints, mask))

    def _found(self, photo: Floats, hints: list[Hint]) -> Floats:
        strokes, boxes = _kinds(hints)
        rough = _drawn_boxes(boxes, photo)
        depth = self._look(photo, mask=rough)
        if strokes:
            hinted = self._look(photo, strokes, rough)
            depth = follow(depth, hinted, strokes)
        return _inside(depth, rough)

    def _changed(self, photo: Floats, mask: Floats, hints: list[Hint], *, exact: bool) -> tuple[Floats, str]:
        strokes, boxes = _kinds(hints)
        if exact and not strokes:
            return _inside(mask, _drawn_boxes(boxes, photo)), ""
        found = self._look(photo, strokes, mask)
        depth, note = (mask, "") if exact else snap(mask, found)
        if strokes:
            depth = follow(depth, found, strokes)
        return _inside(depth, _drawn_boxes(boxes, photo)), note


def snap(mask: Floats, found: Floats) -> tuple[Floats, str]:
    """Widen a mask that is too small to the shadow's edge, where that is near and sure.

    A mask that is too large stays so: it costs the remover little, and a user's mask may mean more than is seen.

    Args:
        mask: what a user drew, (H, W), [0, 1].
        found: the depth of the shadow, as a network sees it that was shown this mask, (H, W), [0, 1].

    Returns:
        The mask, and what was done to it in one line; empty if nothing.
    """
    reach = max(1, round(SNAP_REACH * mask.size**0.5))
    hard = (mask > LEVEL).astype(np.float32)
    more = (masks.grow(hard, reach) > 0) & (hard == 0) & (found > SURE)
    widened = float(more.sum()) / max(1.0, float(hard.sum()))
    if widened < MOVED:
        return mask, ""
    note = f"the mask was widened to the shadow's edge, by {100 * widened:.0f} % of its area"
    return np.where(more, np.maximum(mask, found), mask), note


def follow(depth: Floats, hinted: Floats, hints: Sequence[Hint]) -> Floats:
    """Change a depth to one that knows the hints, only in the regions that hints lie in.

    Args:
        depth: before the hints, (H, W), [0, 1].
        hinted: what the network says now, likewise.
        hints: clicks and strokes, in these pixels.
    """
    drawn = draw_hints(hints, *depth.shape)
    result = depth.copy()
    for shadow, marks in ((True, drawn[..., 0]), (False, drawn[..., 1])):
        if not (marks > 0).any():
            continue
        side = (hinted > LEVEL) == shadow
        agrees = (side | (marks > LEVEL)) & (((depth > LEVEL) != shadow) | (marks > LEVEL))
        labels, _ = label(agrees)
        touched = np.zeros(labels.max() + 1, bool)
        touched[labels[marks > LEVEL]] = True
        touched[0] = False
        region = touched[labels]
        wanted = np.maximum(hinted, marks) if shadow else np.minimum(hinted, 1 - marks)
        result = np.where(region, wanted, result)
    return result


def _kinds(hints: list[Hint]) -> tuple[tuple[Hint, ...], tuple[Hint, ...]]:
    """Return clicks and strokes, and boxes."""
    return tuple(h for h in hints if not h.is_box), tuple(h for h in hints if h.is_box)


def _drawn_boxes(boxes: Sequence[Hint], photo: Floats) -> Floats | None:
    """Return where the boxes lie, of the photo's size; None if there are none."""
    size = (photo.shape[0], photo.shape[1])
    return np.maximum.reduce([box.drawn(*size) for box in boxes]) if boxes else None


def _inside(depth: Floats, boxes: Floats | None) -> Floats:
    """Return the depth without what lies outside all boxes; a shadow may reach out of its box a little."""
    if boxes is None:
        return depth
    margin = BOX_MARGIN * depth.size**0.5
    return depth * masks.feather(masks.grow(boxes, margin), 0.5 * margin)


def _place(hint: Hint, rows: int, columns: int) -> tuple[int, int]:
    x, y = hint.points[0]
    return min(int(y), rows - 1), min(int(x), columns - 1)


def _check_hints(hints: Any, height: int, width: int) -> None:
    if not isinstance(hints, Sequence) or not all(isinstance(hint, Hint) for hint in hints):
        raise ConfigError(f"hints is {hints!r}", "give a list of hints: {hints=[Hint.click(420, 310)]}")
    for x, y in (point for hint in hints for point in hint.points):
        if not (0 <= x <= width and 0 <= y <= height):
            raise ConfigError(
                f"the hint at {x:g},{y:g} lies outside the photo, {width}x{height}", "give x and y in its pixels"
            )
