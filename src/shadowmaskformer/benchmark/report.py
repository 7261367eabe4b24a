"""The benchmark's results for people (a table, a plot) and for programs (JSON)."""

from __future__ import annotations

import dataclasses
import json
import statistics
from pathlib import Path
from typing import Any

from shadowmaskformer import machine as computer
from shadowmaskformer.benchmark.race import Result
from shadowmaskformer.errors import MissingExtraError, OutputError
from shadowmaskformer.network.config import NetworkConfig

_COLUMNS = (
    "",
    "wall s",
    "CPU s",
    "faster, CPU",
    "wall",
    "difference",
    "peak GB",
    "set-up s",
    "GFLOP/s",
    "of matmul",
)


def table(result: Result) -> str:
    """Return one workload as lines of text; `faster` is how many times less than the yardstick."""
    rows = [_COLUMNS, *(_row(result, name) for name in result.measurements)]
    widths = [max(len(row[column]) for row in rows) for column in range(len(_COLUMNS))]
    lines = [
        "  ".join(
            [
                row[0].ljust(widths[0]),
                *(cell.rjust(width) for cell, width in zip(row[1:], widths[1:], strict=True)),
            ]
        )
        for row in rows
    ]
    skipped = [f"{name}: left out, {reason}" for name, reason in result.skipped.items()]
    return "\n".join([f"{result.workload}  ({result.flops / 1e9:.1f} GFLOP)", *lines, *skipped])


def _row(result: Result, name: str) -> tuple[str, ...]:
    measured = result.measurements[name]
    reference = name == "matmul"  # only there for its GFLOP/s
    share = result.share_of_matmul(name)
    return (
        name,
        f"{statistics.median(measured.wall_s):.3f}",
        f"{statistics.median(measured.cpu_s):.3f}",
        _number(None if reference else result.speedup(name), ".2f"),
        _number(None if reference else result.speedup(name, clock="wall_s"), ".2f"),
        _number(measured.difference, ".1e"),
        f"{measured.peak_bytes / 1e9:.2f}",
        f"{measured.setup_s:.2f}",
        f"{result.gflops(name):.1f}",
        _number(share, ".0%"),
    )


def _number(value: float | None, form: str) -> str:
    return "" if value is None else format(value, form)


def machine() -> dict[str, Any]:
    """Return processor, cores, system and versions: what the figures hold for."""
    packages = ("shadowmaskformer", "numpy", "torch", "onnxruntime", "openvino")
    return {
        "processor": computer.processor(),
        "cores": computer.cores(),
        "system": computer.system(),
        "python": computer.python(),
        "versions": computer.versions(*packages),
        "load_at_start": computer.load_average(),
    }


def write_json(path: Path, results: list[Result], config: NetworkConfig, measured_on: dict[str, Any]) -> None:
    """Write everything measured: each round's times, and the ratios that the table shows."""
    document = {
        "machine": measured_on,
        "model": config.to_dict(),
        "tasks": [
            {
                "task": str(result.workload),
                "training": result.workload.training,
                "size": list(result.workload.size),
                "flops": result.flops,
                "skipped": result.skipped,
                "contenders": {
                    name: {
                        **dataclasses.asdict(measured),
                        "faster_cpu": result.speedup(name),
                        "faster_wall": result.speedup(name, clock="wall_s"),
                        "gflops": result.gflops(name),
                        "share_of_matmul": result.share_of_matmul(name),
                    }
                    for name, measured in result.measurements.items()
                },
            }
            for result in results
        ],
    }
    try:
        path.write_text(json.dumps(document, indent=2) + "\n")
    except OSError as error:
        raise OutputError(f"cannot write {path}: {error.strerror}", "choose another {output}") from error


def write_plot(path: Path, results: list[Result]) -> None:
    """Draw, for each workload, how many times faster than the yardstick each contender is, and its memory."""
    try:
        from matplotlib.figure import Figure
    except ImportError:
        raise MissingExtraError("the plot needs matplotlib", "pip install 'shadowmaskformer[evaluate]'") from None
    figure = Figure(figsize=(10, 1.2 + 2.2 * len(results)), layout="constrained")
    axes: Any = figure.subplots(len(results), 2, squeeze=False)
    for (speed, memory), result in zip(axes, results, strict=True):
        names = [name for name in result.measurements if name != "matmul"]
        ratios = [result.speedup(name) or 0.0 for name in names]
        speed.bar_label(speed.barh(names, ratios, color="#3b6ea5"), fmt="%.1f×", padding=3)
        peaks = [result.measurements[name].peak_bytes / 1e9 for name in names]
        memory.bar_label(memory.barh(names, peaks, color="#a5673b"), fmt="%.2f", padding=3)
        speed.set_title(f"{result.workload}: times faster (CPU time)", fontsize=10)
        memory.set_title("peak memory, GB", fontsize=10)
        for axis in (speed, memory):
            axis.invert_yaxis()
            axis.margins(x=0.15)
    figure.savefig(path, dpi=120)
