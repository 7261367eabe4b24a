"""Run contenders side by side: every round asks each of them once, so that a busy minute slows them all.

Each contender has its own process (`worker.py`), which waits between its turns. A score is the median of the ratios
within each round, so that the load of the machine cancels out.
"""

from __future__ import annotations

import contextlib
import json
import math
import statistics
import subprocess
import sys
import time
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from tempfile import TemporaryDirectory, TemporaryFile

import numpy as np

from shadowmaskformer import machine
from shadowmaskformer.benchmark.worker import MATRIX_SIDE, Job
from shadowmaskformer.errors import ShadowMaskFormerError
from shadowmaskformer.network.config import ModelConfig
from shadowmaskformer.runtimes import BACKENDS

CONTENDERS = ("yardstick", "yardstick-tuned", "torch-compile", *BACKENDS)
TRAINERS = ("yardstick", "torch", "native")

ONCE_ABOVE_PIXELS = 1_000_000
"""Larger pictures run once, one contender after the other: minutes each, and memory for one at a time."""

REST_S = 0.05
"""Pause before each turn, in which the threads of the one before stop waiting for more work."""


@dataclass(frozen=True)
class Workload:
    """What all contenders do: inference or a training step, on one picture of `size` (height, width)."""

    size: tuple[int, int]
    training: bool = False

    def __str__(self) -> str:
        return f"{'training step' if self.training else 'inference'} {self.size[0]}x{self.size[1]}"

    @property
    def pixels(self) -> int:
        """Pixels of the picture."""
        return self.size[0] * self.size[1]


@dataclass
class Measurement:
    """What one contender needed.

    Attributes:
        setup_s: from starting its process to being ready, imports included.
        wall_s: clock time of each round.
        cpu_s: CPU time of each round, all threads.
        peak_bytes: largest resident memory of its process.
        difference: from the yardstick's answer; None = nothing to compare with. Inference: largest absolute
            one, pictures in [0, 1]. Training: norm of all gradients' difference, relative to their norm.
    """

    setup_s: float
    wall_s: list[float] = field(default_factory=list[float])
    cpu_s: list[float] = field(default_factory=list[float])
    peak_bytes: int = 0
    difference: float | None = None


@dataclass
class Result:
    """A workload's measurements by contender, and why the others are missing."""

    workload: Workload
    flops: float
    measurements: dict[str, Measurement]
    skipped: dict[str, str]

    def speedup(self, contender: str, *, clock: str = "cpu_s") -> float | None:
        """Times faster than the yardstick, by CPU time or (`wall_s`) by the clock; median over the rounds."""
        if contender not in self.measurements or "yardstick" not in self.measurements:
            return None
        ours: list[float] = getattr(self.measurements[contender], clock)
        theirs: list[float] = getattr(self.measurements["yardstick"], clock)
        return statistics.median(b / a for a, b in zip(ours, theirs, strict=True))

    def gflops(self, contender: str) -> float:
        """Useful operations per second of clock time, in billions."""
        return self._operations(contender) / statistics.median(self.measurements[contender].wall_s) / 1e9

    def share_of_matmul(self, contender: str) -> float | None:
        """Useful operations per second of CPU time, as a share of those of the measured matrix product."""
        if "matmul" not in self.measurements:
            return None
        ours, best = (
            self._operations(name) / statistics.median(self.measurements[name].cpu_s) for name in (contender, "matmul")
        )
        return ours / best

    def _operations(self, contender: str) -> float:
        return 2.0 * MATRIX_SIDE**3 if contender == "matmul" else self.flops


def count_flops(config: ModelConfig, workload: Workload) -> float:
    """Return the multiplications and additions of the network's matrix products and convolutions for `workload`.

    A training step counts three times its forward pass: the backward pass forms two products for each one.
    """
    import torch
    from torch.utils.flop_counter import FlopCounterMode

    from shadowmaskformer.network.model import ShadowMaskFormer

    with torch.device("meta"), torch.no_grad(), FlopCounterMode(display=False) as counter:
        photo, mask = torch.empty(1, 3, *workload.size), torch.empty(1, 1, *workload.size)
        ShadowMaskFormer(config).eval()(photo, mask, photo)
    return float(counter.get_total_flops()) * (3 if workload.training else 1)


def run_workload(
    workload: Workload,
    weights: Mapping[str, str | Path],
    config: ModelConfig,
    *,
    rounds: int,
    expected_bytes: Mapping[str, float],
) -> Result:
    """Race the contenders over one workload.

    Args:
        workload: what they do.
        weights: contender to the folder or file it loads.
        config: the network's configuration.
        rounds: timed turns of each contender, after an untimed first one.
        expected_bytes: contender to the memory it will need, as a smaller workload suggests.
    """
    once = workload.pixels > ONCE_ABOVE_PIXELS
    result = Result(workload, count_flops(config, workload), {}, {})
    names = [name for name in ("matmul", *weights) if not workload.training or name in ("matmul", *TRAINERS)]
    with TemporaryDirectory() as folder, contextlib.ExitStack() as processes:
        workers: dict[str, _Worker] = {}
        for name in names:
            free, need = machine.available_memory(), expected_bytes.get(name, 0)
            if free is not None and need > free:
                result.skipped[name] = f"needs about {need / 1e9:.1f} GB, {free / 1e9:.1f} GB are free"
                continue
            job = Job(
                contender=name,
                training=workload.training,
                size=workload.size,
                weights=str(weights.get(name, "")),
                answer=str(Path(folder) / f"{name}.npz"),
            )
            lifetime = contextlib.ExitStack() if once else processes
            try:
                worker = lifetime.enter_context(contextlib.closing(_Worker(job)))
                worker.turn("answer", keep=once)
            except ShadowMaskFormerError as error:
                result.skipped[name] = str(error)
            else:
                workers[name], result.measurements[name] = worker, worker.measurement
            finally:
                if once:
                    lifetime.close()
        if not once:
            for name in _turns(list(workers), rounds):
                workers[name].turn("run")
        _compare(result, Path(folder))
    return result


def _turns(names: Sequence[str], rounds: int) -> Iterator[str]:
    """Yield each name once per round, in every other round backwards, so that the neighbours change."""
    for round_ in range(rounds):
        yield from names if round_ % 2 == 0 else reversed(names)


def _compare(result: Result, folder: Path) -> None:
    """Fill in each contender's difference from the yardstick."""
    if "yardstick" not in result.measurements:
        return
    with np.load(folder / "yardstick.npz") as file:
        expected = {name: file[name] for name in file.files}
    for name, measurement in result.measurements.items():
        if name in ("yardstick", "matmul"):
            continue
        with np.load(folder / f"{name}.npz") as found:
            apart = [np.float64(found[key]) - value for key, value in expected.items()]
        if result.workload.training:
            # Not the largest entry: rounding alone flips a ReLU whose input is almost zero and moves one row.
            measurement.difference = _norm(apart) / _norm(expected.values())
        else:
            measurement.difference = max(float(np.abs(values).max()) for values in apart)


def _norm(vectors: Iterable[np.ndarray]) -> float:
    return math.sqrt(sum(float(np.sum(np.square(vector, dtype=np.float64))) for vector in vectors))


class _Worker:
    """The parent's end of a `worker.py` process."""

    def __init__(self, job: Job) -> None:
        self.job = job
        self._errors = TemporaryFile("w+", errors="replace")  # noqa: SIM115 - closed by close()
        started = time.perf_counter()
        self._process = subprocess.Popen(
            [sys.executable, "-m", "shadowmaskformer.benchmark.worker", job.to_json()],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=self._errors,
            text=True,
        )
        try:
            self._read()
        except ShadowMaskFormerError:
            self.close()
            raise
        self.measurement = Measurement(setup_s=time.perf_counter() - started)

    def turn(self, word: str, *, keep: bool = True) -> None:
        """Let the worker do `word` once; note what it took if `keep`."""
        time.sleep(REST_S)
        assert self._process.stdin
        try:
            self._process.stdin.write(word + "\n")
            self._process.stdin.flush()
        except BrokenPipeError:
            pass  # _read says why
        spent = self._read()
        self.measurement.peak_bytes = int(spent["peak_bytes"])
        if keep:
            self.measurement.wall_s.append(spent["wall_s"])
            self.measurement.cpu_s.append(spent["cpu_s"])

    def _read(self) -> dict[str, float]:
        assert self._process.stdout
        line = self._process.stdout.readline()
        if line:
            return json.loads(line)
        code = self._process.wait()
        self._errors.seek(0)
        lines = self._errors.read().strip().splitlines()
        reason = lines[-1] if lines else "no message"
        if code < 0:
            reason = f"killed by signal {-code}" + (", probably out of memory" if code == -9 else "")
        raise ShadowMaskFormerError(reason)

    def close(self) -> None:
        """End the process; its input ending tells it to."""
        self._process.communicate()
        self._errors.close()
