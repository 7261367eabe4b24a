"""What a run leaves behind besides weights: its description, a log line per step, curves."""

from __future__ import annotations

import functools
import json
import math
import subprocess
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from shadowmaskformer.errors import ConfigError, MissingExtraError
from shadowmaskformer.files import write_atomically
from shadowmaskformer.report import figures

DESCRIPTION, LOG, CURVES = "run.json", "log.jsonl", "curves.png"


def write_description(folder: Path, description: Mapping[str, Any]) -> None:
    """Save what determined the run."""
    write_atomically(folder / DESCRIPTION, (json.dumps(description, indent=2) + "\n").encode(), overwrite=True)


def read_description(folder: Path) -> dict[str, Any]:
    """Inverse of `write_description`."""
    try:
        return json.loads((folder / DESCRIPTION).read_text(encoding="utf-8"))
    except FileNotFoundError:
        raise ConfigError(f"{folder} holds no run to resume", "start one without {resume}") from None
    except json.JSONDecodeError as error:
        raise ConfigError(f"{folder / DESCRIPTION} is damaged ({error})", "start a new run") from error


@functools.cache
def git_state() -> dict[str, Any] | None:
    """Commit of the checkout that this package runs from, and whether it is changed; None if installed.

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
        self._file = path.open("a", encoding="utf-8")
        self._board: Any = None
        try:
            from torch.utils.tensorboard import SummaryWriter
        except ImportError:
            return
        self._board = SummaryWriter(str(folder / "tensorboard"), purge_step=resumed_at + 1)

    def write(self, step: int, values: Mapping[str, float]) -> None:
        """Log `values` at `step`; what is not finite becomes null."""
        # Line-wise flush: a killed run keeps all but the line in the making, and that is cut off on resume.
        known = {name: value if math.isfinite(value) else None for name, value in values.items()}
        self._file.write(json.dumps({"step": step, **known}) + "\n")
        self._file.flush()
        if self._board is not None:
            for name, value in values.items():
                self._board.add_scalar(name, value, step)

    def close(self) -> None:
        """Close the files."""
        self._file.close()
        if self._board is not None:
            self._board.close()


def read_log(folder: Path) -> list[dict[str, float]]:
    """The lines of a run's log; a last line that a kill cut short is left out."""
    path = folder / LOG
    lines: list[dict[str, float]] = []
    for text in path.read_text(encoding="utf-8").splitlines() if path.exists() else []:
        try:
            lines.append(json.loads(text))
        except json.JSONDecodeError:
            break
    return lines


def draw_curves(folder: Path) -> bool:
    """Plot loss and validation over time into `curves.png`; False without matplotlib or a validation."""
    log = read_log(folder)
    steps = [line for line in log if line.get("loss") is not None]
    scores = [line for line in log if line.get("psnr") is not None]
    floor = next((line for line in log if "floor_psnr" in line), {})
    if not steps or not scores:
        return False
    window = max(1, len(steps) // 100)
    parts = [steps[first : first + window] for first in range(0, len(steps), window)]
    loss = [part[-1]["elapsed_s"] / 3600 for part in parts], [sum(s["loss"] for s in p) / len(p) for p in parts]
    curves = [
        figures.RunCurve(
            group,
            label,
            psnr=[line[f"{group}_psnr_{region}"] for line in scores],
            mae=[line[f"{group}_mae_{region}"] for line in scores],
            floor=(floor[f"floor_{group}_psnr_all"], floor[f"floor_{group}_mae_all"])
            if region == "all" and floor
            else None,
        )
        for group in ("unseen", "seen")
        if f"{group}_psnr_all" in scores[0]
        for region, label in (("shadow", "S"), ("lit", "NS"), ("all", "All"))
    ]
    try:
        drawing = figures.run_curves(loss, [line["elapsed_s"] / 3600 for line in scores], curves)
    except MissingExtraError:
        return False
    write_atomically(folder / CURVES, drawing.data, overwrite=True)
    return True
