"""What a run leaves behind besides weights: its description, a log line per step, curves."""

from __future__ import annotations

import functools
import json
import math
import subprocess
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from shadowmaskformer.errors import ConfigError
from shadowmaskformer.files import write_atomically

DESCRIPTION, LOG, CURVES = "run.json", "log.jsonl", "curves.png"


def write_description(folder: Path, description: Mapping[str, Any]) -> None:
    """Save what determined the run."""
    write_atomically(folder / DESCRIPTION, (json.dumps(description, indent=2) + "\n").encode(), overwrite=True)


def read_description(folder: Path) -> dict[str, Any]:
    """Return what `write_description` saved."""
    try:
        return json.loads((folder / DESCRIPTION).read_text(encoding="utf-8"))
    except FileNotFoundError:
        raise ConfigError(f"{folder} holds no run to resume", "leave {resume} out to start one") from None
    except json.JSONDecodeError as error:
        raise ConfigError(f"{folder / DESCRIPTION} is damaged ({error})", "start a new run") from error


@functools.cache
def git_state() -> dict[str, Any] | None:
    """Return the commit of the checkout that this package runs from, and whether it is changed; None if installed.

    Asked once: what is committed while a process runs is not what it runs.
    """
    package = Path(__file__).parents[1]

    def git(*arguments: str) -> str:
        return subprocess.run(
            ["git", "-C", str(package), *arguments], capture_output=True, text=True, check=True
        ).stdout.strip()

    try:
        git("ls-files", "--error-unmatch", "errors.py")
        return {"commit": git("rev-parse", "HEAD"), "changed": bool(git("status", "--porcelain", "--", "."))}
    except (OSError, subprocess.CalledProcessError):
        return None


class Journal:
    """The run's log: a JSON line per step and per validation; TensorBoard beside it where installed."""

    def __init__(self, folder: Path, *, resumed_at: int = 0) -> None:
        """Open the log, cut back to step `resumed_at`: what came after it in a killed run happens again."""
        path = folder / LOG
        kept = [line for line in read_log(folder) if line["step"] <= resumed_at] if resumed_at else []
        write_atomically(path, "".join(json.dumps(line) + "\n" for line in kept).encode(), overwrite=True)
        self._path = path
        self._board: Any = None
        try:
            from torch.utils.tensorboard import SummaryWriter
        except ImportError:
            return
        self._board = SummaryWriter(str(folder / "tensorboard"), purge_step=resumed_at + 1)

    def write(self, step: int, values: Mapping[str, float]) -> None:
        """Log `values` at `step`; what is not finite becomes null."""
        known = {name: value if math.isfinite(value) else None for name, value in values.items()}
        # Opened for each line: a run that fails leaves no file open, and a killed one loses at most the last line.
        with self._path.open("a", encoding="utf-8") as file:
            file.write(json.dumps({"step": step, **known}) + "\n")
        if self._board is not None:
            for name, value in values.items():
                self._board.add_scalar(name, value, step)

    def close(self) -> None:
        """Close the board."""
        if self._board is not None:
            self._board.close()


def read_log(folder: Path) -> list[dict[str, float]]:
    """Return the lines of a run's log; a last line that a kill cut short is left out."""
    path = folder / LOG
    lines: list[dict[str, float]] = []
    for text in path.read_text(encoding="utf-8").splitlines() if path.exists() else []:
        try:
            lines.append(json.loads(text))
        except json.JSONDecodeError:
            break
    return lines


@dataclass(frozen=True)
class ScoreCurve:
    """A score over time.

    Attributes:
        score: its name in the log.
        label: what the legend calls it.
        colour: its number in matplotlib's cycle.
        style: its line, as matplotlib spells it.
        baseline: a score of the log's first lines, drawn as a level to compare with; None draws none.
    """

    score: str
    label: str
    colour: int = 0
    style: str = "-"
    baseline: str | None = None


def draw_curves(folder: Path, panels: Mapping[str, Sequence[ScoreCurve]]) -> bool:
    """Plot the loss and the task's scores over time into `curves.png`.

    Args:
        folder: the run.
        panels: titles, and the curves below each; see `tasks.Task.curves`.

    Returns:
        False without matplotlib, a step or a validation.
    """
    try:
        from matplotlib.figure import Figure
    except ImportError:
        return False
    log = read_log(folder)
    steps = [line for line in log if line.get("loss") is not None]
    levels = {name: value for line in log if line["step"] == 0 for name, value in line.items()}
    scores = [line for line in log if line["step"] > 0 and "loss" not in line]
    if not steps or not scores:
        return False
    figure = Figure(figsize=(10, 5), layout="constrained")
    left, *others = figure.subplots(1, 1 + len(panels), squeeze=False)[0]
    window = max(1, len(steps) // 100)
    groups = [steps[i : i + window] for i in range(0, len(steps), window)]
    left.plot([g[-1]["elapsed_s"] / 3600 for g in groups], [sum(s["loss"] for s in g) / len(g) for g in groups])
    left.set(title="training loss", xlabel="hours")
    for axes, (title, curves) in zip(others, panels.items(), strict=True):
        for curve in curves:
            points = [(line["elapsed_s"] / 3600, line[curve.score]) for line in scores if curve.score in line]
            if curve.baseline in levels:
                label = f"{curve.baseline.split('_')[0]}: {curve.label}"
                axes.axhline(levels[curve.baseline], color="grey", linestyle=curve.style, linewidth=0.8, label=label)
            if points:
                hours, values = zip(*points, strict=True)
                axes.plot(hours, values, curve.style, color=f"C{curve.colour}", marker=".", label=curve.label)
        axes.set(title=title, xlabel="hours")
    for axes in (left, *others):
        axes.locator_params(axis="x", nbins=4)
    if others:
        # Below the plots, where it covers no line; all of a task's panels show the same curves.
        handles, labels = others[0].get_legend_handles_labels()
        figure.legend(handles, labels, loc="outside lower center", ncols=4, fontsize="small")
    figure.savefig(folder / CURVES, dpi=120)
    return True
