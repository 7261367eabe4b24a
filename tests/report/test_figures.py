"""Curves that can be printed: no legend over a line, no tick over another, every line explained."""

from __future__ import annotations

from itertools import combinations
from pathlib import Path
from typing import Any

import numpy as np
import pytest

pytest.importorskip("matplotlib")

from shadowmaskformer.report import figures
from shadowmaskformer.report.figures import Curve, Drawing, Strip, TrainingCurve

TIMES = np.linspace(0.5, 6, 7)


def training() -> None:
    runs = ("paper", "cpu with mape", "cpu with mape-physical")
    groups = ("unseen scenes", "seen scenes")
    figures.training_curves(
        [TrainingCurve(r, g, TIMES, 20 + TIMES, 9 - TIMES, (27.7, 5.1)) for r in runs for g in groups]
    )


def mask_quality() -> None:
    words = ("S, here", "NS, here", "All, here", "S, paper (ISTD)", "NS, paper (ISTD)", "All, paper (ISTD)")
    figures.mask_quality([Curve(word, TIMES, 5 + TIMES, published="paper" in word) for word in words], "MAE")


@pytest.mark.parametrize("draw", [training, mask_quality])
def test_curves_are_readable(draw: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    drawn: list[Any] = []
    monkeypatch.setattr(figures, "_png", lambda figure: (drawn.append(figure), Drawing(b"", "png", 1))[1])
    draw()
    (figure,) = drawn
    figure.draw_without_rendering()
    (legend,) = figure.legends
    assert not any(legend.get_window_extent().overlaps(axis.get_window_extent()) for axis in figure.axes)
    explained = {text.get_text() for text in legend.get_texts()}
    for axis in figure.axes:
        assert axis.get_legend() is None
        labels = {line.get_label() for line in axis.lines} - {"_child0"}
        assert labels <= explained
        for ticks in (axis.get_xticklabels(), axis.get_yticklabels()):
            boxes = [tick.get_window_extent() for tick in ticks if tick.get_text()]
            assert not any(a.overlaps(b) for a, b in combinations(boxes, 2))
    if draw is not mask_quality:
        assert any(word.startswith("relight floor") for word in explained)


def test_photographs_are_small_files(rng: np.random.Generator) -> None:
    noise = rng.integers(0, 255, (240, 320, 3), dtype=np.uint8)
    mask = np.zeros((240, 320), np.uint8)
    mask[60:120, 80:200] = 255
    strips = [Strip("a", noise, mask, [noise, noise], [1.0, 2.0])]
    for drawing in (figures.comparison(strips, ["one"]), figures.error_maps(strips, ["one"])):
        assert drawing.kind == "jpeg"
        assert drawing.data[:2] == b"\xff\xd8"
        assert len(drawing.data) < 400_000


def test_a_drawing_is_drawn_once(tmp_path: Path) -> None:
    shares = np.full(64, 1 / 64)
    first = figures.drawn(tmp_path / "kept", figures.sign_statistic, shares, shares)

    def sign_statistic(*_: object) -> Drawing:
        raise AssertionError("drawn again")

    assert figures.drawn(tmp_path / "kept", sign_statistic, shares, shares) == first
    with pytest.raises(AssertionError, match="drawn again"):
        figures.drawn(tmp_path / "kept", sign_statistic, shares, shares[::2])
