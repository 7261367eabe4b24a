"""Figures of the report: strips, error maps, scatter plot, curves, sign statistic.

Plots are PNG files, photographs JPEG. Matplotlib comes with the extra `evaluate`; everything is drawn through its
object interface, so that the global state of a caller's plots does not change.
"""

from __future__ import annotations

import hashlib
import importlib.metadata
import importlib.util
import io
import pickle
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray
from PIL import Image

from shadowmaskformer import metrics
from shadowmaskformer.arrays import Doubles, Levels
from shadowmaskformer.errors import MissingExtraError, OutputError
from shadowmaskformer.evaluate.protocols import as_float, as_uint8
from shadowmaskformer.files import write_atomically

INK, MUTED, ACCENT, OTHER = "#1b1b1f", "#6b6b76", "#c2410c", "#94a3b8"
COLOURS = ("#6b7280", "#0f766e", "#c2410c", "#1d4ed8", "#7c3aed")
DPI = 160
PANEL_INCHES = 1.75
JPEG_QUALITY = 84
HEAT_LIMIT = 30.0
"""Upper end of every error map, in the units of the Lab MAE: one scale for all pictures and methods."""


@dataclass(frozen=True)
class Drawing:
    """A finished figure: a PNG or JPEG file, and its width in pixels."""

    data: bytes
    kind: Literal["png", "jpeg"]
    width: int


def drawn(folder: Path | None, draw: Callable[..., Drawing], *args: Any) -> Drawing:
    """Return `draw(*args)`, from `folder` if it was drawn before from the same data, by the same code.

    Args:
        folder: keeps drawings; None draws anew.
        draw: one of this module's functions.
        args: what it draws.
    """
    if folder is None:
        return draw(*args)
    code = (Path(__file__).read_bytes(), importlib.metadata.version("matplotlib"), draw.__name__)
    path = folder / f"{hashlib.sha256(pickle.dumps((code, args))).hexdigest()[:16]}.drawing"
    try:
        kind, width, data = path.read_bytes().split(b"\n", 2)
        return Drawing(data, "jpeg" if kind == b"jpeg" else "png", int(width))
    except (OSError, ValueError):
        drawing = draw(*args)
    try:
        folder.mkdir(parents=True, exist_ok=True)
        write_atomically(path, f"{drawing.kind}\n{drawing.width}\n".encode() + drawing.data, overwrite=True)
    except (OSError, OutputError):
        pass  # drawn again next time
    return drawing


@dataclass(frozen=True)
class Strip:
    """One line of a comparison: pictures of one size, left to right.

    Attributes:
        label: the picture's name, and a word on it.
        truth: RGB, (H, W, 3), [0, 255].
        mask: (H, W), [0, 255].
        pictures: input first, then each method's result, as `truth`.
        scores: a number for each of `pictures`, printed on it.
    """

    label: str
    truth: Levels
    mask: Levels
    pictures: Sequence[Levels]
    scores: Sequence[float] = ()


def comparison(strips: Sequence[Strip], methods: Sequence[str]) -> Drawing:
    """Draw input, mask, each method and truth: one line a picture.

    Args:
        strips: the lines.
        methods: names of `Strip.pictures` after the input.
    """
    titles = ["Input", "Mask", *methods, "Truth"]
    figure, axes = _grid(len(strips), len(titles), strips)
    for line, strip in zip(axes, strips, strict=True):
        panels = [strip.pictures[0], strip.mask, *strip.pictures[1:], strip.truth]
        for axis, panel in zip(line, panels, strict=True):
            axis.imshow(panel, cmap="gray", vmin=0, vmax=255, interpolation="antialiased")
        line[0].set_ylabel(strip.label, fontsize=7, color=MUTED)
    for axis, title in zip(axes[0], titles, strict=True):
        axis.set_title(title, fontsize=8, color=INK)
    return _jpeg(figure)


def error_maps(strips: Sequence[Strip], methods: Sequence[str]) -> Drawing:
    """Draw the Lab error |ΔL| + |Δa| + |Δb| of input and methods, all on the scale 0 … 30, with their scores."""
    titles = ["Input", *methods]
    figure, axes = _grid(len(strips), len(titles), strips, bar=True)
    heat = None
    for line, strip in zip(axes, strips, strict=True):
        truth = metrics.lab_d50(as_float(strip.truth))
        for axis, picture, score in zip(line, strip.pictures, strip.scores, strict=True):
            error = metrics.absolute_error(metrics.lab_d50(as_float(picture)), truth)
            heat = axis.imshow(error, cmap="inferno", vmin=0, vmax=HEAT_LIMIT, interpolation="antialiased")
            axis.contour(strip.mask > 127, levels=[0.5], colors="white", linewidths=0.4, alpha=0.7)
            axis.text(0.03, 0.04, f"{score:.2f}", transform=axis.transAxes, **_number_style())
        line[0].set_ylabel(strip.label, fontsize=7, color=MUTED)
    for axis, title in zip(axes[0], titles, strict=True):
        axis.set_title(title, fontsize=8, color=INK)
    if heat is not None:
        bar = figure.colorbar(heat, ax=axes.ravel().tolist(), fraction=0.05, pad=0.015, extend="max")
        bar.ax.tick_params(labelsize=7, colors=MUTED)
        bar.outline.set_visible(False)
        bar.set_label("|ΔL| + |Δa| + |Δb|", fontsize=7, color=MUTED)
    return _jpeg(figure)


@dataclass(frozen=True)
class Point:
    """A method in the scatter: million parameters, error, and whether we measured it."""

    name: str
    params_m: float
    error: float
    ours: bool


def scatter(points: Sequence[Point], ylabel: str) -> Drawing:
    """Draw parameters (logarithmic) against error: lower left is better."""
    figure = _figure(6.2, 3.6)
    axis = figure.subplots()
    for ours, colour in ((False, OTHER), (True, ACCENT)):
        chosen = [p for p in points if p.ours == ours]
        axis.scatter([p.params_m for p in chosen], [p.error for p in chosen], s=34, color=colour, zorder=3)
    axis.set_xscale("log")
    axis.margins(x=0.22, y=0.12)
    for formatter in (axis.xaxis.set_major_formatter, axis.xaxis.set_minor_formatter):
        formatter(lambda value, _: f"{value:g}" if f"{value:.0e}"[0] in "125" else "")
    axis.set_xlabel("parameters (million)", fontsize=8)
    axis.set_ylabel(ylabel, fontsize=8)
    _plain(axis)
    _label(figure, axis, points)
    return _png(figure)


def _label(figure: Any, axis: Any, points: Sequence[Point]) -> None:
    """Name each point on the first side where its name covers no other point and no other name."""
    figure.draw_without_rendering()  # settles the scales that data coordinates are turned to pixels by
    places = axis.transData.transform([(p.params_m, p.error) for p in points])
    height, letter, gap = 9 * DPI / 72, 4.2 * DPI / 72, 6 * DPI / 72
    taken = [(x - gap / 2, y - gap / 2, x + gap / 2, y + gap / 2) for x, y in places]
    for point, (x, y) in zip(points, places, strict=True):
        width = letter * len(point.name)
        boxes = [
            (left, y + shift - height / 2, left + width, y + shift + height / 2)
            for shift in (0, height, -height)
            for left in (x + gap, x - gap - width)
        ]
        free = next((box for box in boxes if not any(_overlap(box, other) for other in taken)), boxes[0])
        taken.append(free)
        colour = ACCENT if point.ours else INK
        edge, side = (free[0], "left") if free[0] > x else (free[2], "right")
        at = axis.transData.inverted().transform((edge, (free[1] + free[3]) / 2))
        axis.text(*at, point.name, fontsize=7, color=colour, ha=side, va="center")


def _overlap(a: tuple[float, ...], b: tuple[float, ...]) -> bool:
    return a[0] < b[2] and b[0] < a[2] and a[1] < b[3] and b[1] < a[3]


@dataclass(frozen=True)
class Curve:
    """A line of error over BER, one per region."""

    label: str
    ber: Sequence[float]
    error: Sequence[float]
    published: bool = False


def mask_quality(curves: Sequence[Curve], ylabel: str) -> Drawing:
    """Draw the error against the mask's balance error rate; published curves dashed."""
    figure = _figure(6.2, 3.4)
    axis = figure.subplots()
    colours = {"S": "#c2410c", "NS": "#0f766e", "All": "#1b1b1f"}
    for curve in curves:
        colour = colours.get(curve.label.split(",")[0], INK)
        style: dict[str, Any] = {"linestyle": "--", "alpha": 0.55} if curve.published else {"linestyle": "-"}
        axis.plot(curve.ber, curve.error, marker="o", markersize=3.5, color=colour, label=curve.label, **style)
    axis.set_xlabel("balance error rate of the mask (%)", fontsize=8)
    axis.set_ylabel(ylabel, fontsize=8)
    axis.set_ylim(bottom=0)
    _legend(figure, axis)
    _plain(axis)
    return _png(figure)


@dataclass(frozen=True)
class TrainingCurve:
    """Validation of one run on one group of pictures.

    Attributes:
        run: what the legend prints.
        group: of pictures; one row of panels each.
        minutes: when each validation took place.
        psnr: dB, then.
        mae: Lab, then.
        floor: PSNR and MAE without a network.
    """

    run: str
    group: str
    minutes: Sequence[float]
    psnr: Sequence[float]
    mae: Sequence[float]
    floor: tuple[float, float]


def training_curves(curves: Sequence[TrainingCurve]) -> Drawing:
    """Draw PSNR and MAE over time, a row of panels for each group of pictures."""
    groups = list(dict.fromkeys(curve.group for curve in curves))
    runs = list(dict.fromkeys(curve.run for curve in curves))
    colours = dict(zip(runs, COLOURS, strict=False))
    figure = _figure(7.6, 2.5 * len(groups) + 0.3)
    for row, group in zip(figure.subplots(len(groups), 2, squeeze=False), groups, strict=True):
        chosen = [curve for curve in curves if curve.group == group]
        for axis, name, side in ((row[0], "psnr", 0), (row[1], "mae", 1)):
            for curve in chosen:
                values = getattr(curve, name)
                axis.plot(curve.minutes, values, marker="o", markersize=3, color=colours[curve.run], label=curve.run)
            axis.axhline(chosen[0].floor[side], color=INK, linestyle="--", linewidth=0.9, label="relight floor")
            axis.set_ylabel(("PSNR (dB), " if side == 0 else "MAE, ") + group, fontsize=8)
            axis.set_xlabel("minutes", fontsize=8)
            _plain(axis)
    _legend(figure, figure.axes[0])
    return _png(figure)


def _legend(figure: Any, axis: Any) -> None:
    """Explain the lines of `axis` in one line under the whole figure, where no line runs."""
    handles, labels = axis.get_legend_handles_labels()
    columns = len(labels)
    if columns > 4:
        # Two lines, filled column by column: the first half of the labels comes to stand above the second.
        columns = -(-columns // 2)
        order = [place for first in range(columns) for place in (first, first + columns) if place < len(labels)]
        handles, labels = [handles[place] for place in order], [labels[place] for place in order]
    figure.legend(handles, labels, loc="outside lower center", ncols=columns, fontsize=7, frameon=False)


def mask_panels(photo: Levels, masks: Sequence[tuple[str, Levels]]) -> Drawing:
    """Draw a photo and its mask at falling quality, side by side.

    Args:
        photo: RGB, (H, W, 3), [0, 255].
        masks: (title, mask (H, W) in [0, 255]).
    """
    strip = Strip("", photo, np.zeros(photo.shape[:2], np.uint8), [])
    figure, axes = _grid(1, len(masks) + 1, [strip])
    for axis, (title, panel) in zip(axes[0], [("Photo", photo), *masks], strict=True):
        axis.imshow(panel, cmap="gray", vmin=0, vmax=255, interpolation="nearest")
        axis.set_title(title, fontsize=8, color=INK)
    return _jpeg(figure)


def sign_statistic(shadow: Doubles, lit: Doubles) -> Drawing:
    """Draw histograms of x in [−1, 1] inside and outside the shadow, with the share below 0 of each.

    Args:
        shadow: (64,), share of the shadow region's values in equal bins of [−1, 1].
        lit: as `shadow`, outside.
    """
    figure = _figure(6.2, 2.6)
    edges = np.linspace(-1, 1, len(shadow) + 1)
    for axis, share, title, colour in zip(
        figure.subplots(1, 2, sharey=True), (shadow, lit), ("Shadow", "Lit"), (ACCENT, "#0f766e"), strict=True
    ):
        axis.bar(edges[:-1], share * 100, width=np.diff(edges), align="edge", color=colour, alpha=0.85)
        axis.axvline(0, color=INK, linewidth=0.8)
        below = 100 * share[edges[:-1] < 0].sum()
        axis.set_title(f"{title}: {below:.0f} % negative, {100 - below:.0f} % positive", fontsize=8, color=INK)
        axis.set_xlabel("pixel value x", fontsize=8)
        axis.set_xticks([-1, -0.5, 0, 0.5, 1])
        _plain(axis)
    figure.axes[0].set_ylabel("% of values", fontsize=8)
    return _png(figure)


def _grid(rows: int, columns: int, strips: Sequence[Strip], *, bar: bool = False) -> tuple[Any, Any]:
    height, width = strips[0].truth.shape[:2]
    panel = PANEL_INCHES * height / width
    figure = _figure(columns * PANEL_INCHES + 0.3 + 0.7 * bar, rows * (panel + 0.06) + 0.35)
    axes = figure.subplots(rows, columns, squeeze=False)
    for axis in axes.ravel():
        axis.set_xticks([])
        axis.set_yticks([])
        for spine in axis.spines.values():
            spine.set_visible(False)
    return figure, axes


def require() -> None:
    """Raise MissingExtraError where matplotlib is missing: now, not after hours of scoring."""
    if importlib.util.find_spec("matplotlib") is None:
        raise _no_matplotlib()


def _no_matplotlib() -> MissingExtraError:
    return MissingExtraError("figures need matplotlib", "run: pip install 'shadowmaskformer[evaluate]'")


def _figure(width: float, height: float) -> Any:
    try:
        from matplotlib.figure import Figure
    except ModuleNotFoundError as error:
        raise _no_matplotlib() from error
    return Figure(figsize=(width, height), dpi=DPI, layout="constrained")


def _number_style() -> dict[str, Any]:
    """Return a style that is readable on dark and on bright maps: white with a dark rim."""
    from matplotlib.patheffects import withStroke

    rim = withStroke(linewidth=2, foreground="black")
    return {"fontsize": 7, "color": "white", "weight": "bold", "path_effects": [rim]}


def _plain(axis: Any) -> None:
    for side in ("top", "right"):
        axis.spines[side].set_visible(False)
    axis.tick_params(which="both", labelsize=7, colors=MUTED, length=3, pad=3)
    axis.grid(visible=True, color="#e5e7eb", linewidth=0.6)
    axis.set_axisbelow(True)


def _png(figure: Any) -> Drawing:
    """Finish a plot: few colours, sharp lines."""
    stream = io.BytesIO()
    # No date or software in the file: equal results give equal bytes.
    figure.savefig(stream, format="png", metadata={"Software": None})
    return Drawing(stream.getvalue(), "png", round(figure.get_figwidth() * DPI))


def _jpeg(figure: Any) -> Drawing:
    """Finish a figure of photographs: a tenth of the bytes that a PNG takes."""
    from matplotlib.backends.backend_agg import FigureCanvasAgg

    canvas = FigureCanvasAgg(figure)
    canvas.draw()
    pixels = np.asarray(canvas.buffer_rgba())[..., :3]
    stream = io.BytesIO()
    Image.fromarray(np.ascontiguousarray(pixels)).save(stream, "JPEG", quality=JPEG_QUALITY, optimize=True)
    return Drawing(stream.getvalue(), "jpeg", pixels.shape[1])


def thumbnail(picture: NDArray[Any], side: int) -> Levels:
    """Return a picture for print, its longer side at most `side`."""
    scale = min(1.0, side / max(picture.shape[:2]))
    height, width = (max(1, round(length * scale)) for length in picture.shape[:2])
    return np.asarray(Image.fromarray(as_uint8(picture)).resize((width, height), Image.Resampling.BOX))
