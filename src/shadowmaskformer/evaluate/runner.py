"""Score methods over a test set: inference in front, metrics behind it, every finished picture kept.

The main process runs the networks; a pool of processes reads truths and measures. Rows are appended to one CSV
per method as they come, and a second run starts where the first one stopped.
"""

from __future__ import annotations

import csv
import hashlib
import multiprocessing
import os
import re
import signal
from collections.abc import Callable, Generator, Sequence, Set
from concurrent.futures import FIRST_COMPLETED, Future, ProcessPoolExecutor, wait
from concurrent.futures.process import BrokenProcessPool
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path

from numpy.typing import NDArray

from shadowmaskformer import data
from shadowmaskformer.errors import EvaluationError, OutputError
from shadowmaskformer.evaluate.methods import MaskSource, Method, Sample
from shadowmaskformer.evaluate.protocols import Measurement, Protocol, Reference
from shadowmaskformer.metrics import Regions

_GROUPS = ("error", "psnr", "ssim", "weights")
COLUMNS = ["protocol", "picture"] + [f"{group}_{region}" for group in _GROUPS for region in Regions._fields]

Rows = dict[str, dict[str, Measurement]]
"""Measurements by protocol name, then by picture."""


class RowStore:
    """The finished rows of one method, in one CSV file that grows by whole lines.

    Args:
        folder: where the CSV files live; made if absent.
        method: whose rows.
        context: what else determines the rows (data fingerprint, mask source); part of the file's name, so that
            rows of other weights or masks are never taken for these.
    """

    def __init__(self, folder: Path, method: Method, context: str) -> None:
        digest = hashlib.sha256(f"{method.identity}\n{context}".encode()).hexdigest()[:8]
        slug = re.sub(r"[^a-z0-9]+", "-", method.name.lower()).strip("-") or "method"
        self.path = folder / f"{slug}-{digest}.csv"
        self.rows: Rows = {}
        try:
            folder.mkdir(parents=True, exist_ok=True)
            if self.path.exists():
                self._load()
            else:
                self.path.write_text(",".join(COLUMNS) + "\n", encoding="utf-8")
        except OSError as error:
            raise OutputError(f"cannot write {self.path}: {error.strerror}; choose another -o") from error

    def has(self, protocol: Protocol, picture: str) -> bool:
        """Whether this row is already there."""
        return picture in self.rows.get(protocol.name, {})

    def add(self, protocol: Protocol, picture: str, measurement: Measurement) -> None:
        """Keep a row, in memory and on disk."""
        values = [repr(value) for group in _GROUPS for value in getattr(measurement, group)]
        self.rows.setdefault(protocol.name, {})[picture] = measurement
        with self.path.open("a", encoding="utf-8", newline="") as stream:
            csv.writer(stream, lineterminator="\n").writerow([protocol.name, picture, *values])

    def _load(self) -> None:
        text = self.path.read_text(encoding="utf-8")
        if not text.endswith("\n"):  # killed half way through a line: that row is computed again
            text = text[: text.rfind("\n") + 1]
            self.path.write_text(text, encoding="utf-8")
        for row in csv.DictReader(text.splitlines()):
            groups = [Regions(*(float(row[f"{group}_{region}"]) for region in Regions._fields)) for group in _GROUPS]
            self.rows.setdefault(row["protocol"], {})[row["picture"]] = Measurement(*groups)


@dataclass
class _Job:
    """One picture for a worker: results of the networks by method and size, and the rows that are wanted."""

    triplet: data.Triplet
    masks: MaskSource
    wanted: list[tuple[str, Protocol]]
    region: NDArray | None = None
    results: dict[tuple[str, int | None], NDArray] = field(default_factory=dict)
    light: dict[str, Method] = field(default_factory=dict)
    """Methods that only read a file: the worker does that itself."""


_Scored = list[tuple[str, Protocol, Measurement]]


def run(
    triplets: Sequence[data.Triplet],
    masks: MaskSource,
    methods: Sequence[Method],
    protocols: Sequence[Protocol],
    stores: dict[str, RowStore],
    *,
    skip: Set[tuple[str, str]] = frozenset(),
    workers: int | None = None,
    progress: Callable[[int, int], None] = lambda done, total: None,
) -> None:
    """Fill `stores` (by method name) with every row that is missing.

    Args:
        triplets: the test pictures.
        masks: where their masks come from.
        methods: what to score.
        protocols: under which rules.
        stores: where rows go.
        skip: (method, picture) pairs that cannot be scored.
        workers: processes for the metrics; None takes one per core, and none for a handful of pictures.
        progress: called with (pictures done, pictures in all).
    """
    todo: list[tuple[data.Triplet, list[tuple[Method, Protocol]]]] = []
    for triplet in triplets:
        able = [method for method in methods if (method.name, triplet.name) not in skip]
        if wanted := [(m, p) for m in able for p in protocols if not stores[m.name].has(p, triplet.name)]:
            todo.append((triplet, wanted))
    done, total = len(triplets) - len(todo), len(triplets)
    progress(done, total)

    def keep(triplet: data.Triplet, scored: _Scored) -> None:
        nonlocal done
        for name, protocol, measurement in scored:
            stores[name].add(protocol, triplet.name, measurement)
        done += 1
        progress(done, total)

    if workers is None:
        workers = min(os.cpu_count() or 1, len(todo) // 8)
    with _metrics_pool(workers) as pool:
        pending: dict[Future[_Scored], data.Triplet] = {}
        for triplet, wanted in todo:
            job = _restore(Sample(triplet, masks), wanted)
            if pool is None:
                keep(triplet, _measure(job))
                continue
            pending[pool.submit(_measure, job)] = triplet
            # Two pictures a worker wait at most: pictures are large, and a failure should show soon.
            while len(pending) >= 2 * workers:
                for future in wait(pending, return_when=FIRST_COMPLETED).done:
                    keep(pending.pop(future), future.result())
        for future in list(pending):
            keep(pending.pop(future), future.result())


def _restore(sample: Sample, wanted: Sequence[tuple[Method, Protocol]]) -> _Job:
    job = _Job(sample.triplet, sample.masks, [(method.name, protocol) for method, protocol in wanted])
    for method, protocol in wanted:
        key = (method.name, protocol.network_side)
        if not method.heavy:
            job.light[method.name] = method
        elif key not in job.results:
            job.results[key] = method.restore(sample, protocol.network_side)
            job.region = sample.region  # deriving it once is enough
    return job


def _measure(job: _Job) -> _Scored:
    sample = Sample(job.triplet, job.masks, job.region)
    references: dict[str, Reference] = {}
    scored: _Scored = []
    for name, protocol in job.wanted:
        if protocol.name not in references:
            references[protocol.name] = Reference.prepare(protocol, sample.truth, sample.region)
        key = (name, protocol.network_side)
        if key not in job.results:
            job.results[key] = job.light[name].restore(sample, protocol.network_side)
        scored.append((name, protocol, references[protocol.name].measure(job.results[key])))
    return scored


@contextmanager
def _metrics_pool(workers: int) -> Generator[ProcessPoolExecutor | None]:
    """Processes for the metrics, one BLAS thread each; None for `workers` 0.

    Processes and not threads: BLAS calls from several threads at once fight over BLAS's own threads.
    """
    if workers < 1:
        yield None
        return
    names = ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS")
    before = {name: os.environ.get(name) for name in names}
    os.environ.update(dict.fromkeys(names, "1"))  # read by the children when they load BLAS
    # Spawned, not forked: the networks' threads of this process would be missing in a fork.
    context = multiprocessing.get_context("spawn")
    pool = ProcessPoolExecutor(workers, mp_context=context, initializer=_ignore_interrupt)
    try:
        yield pool
    except BrokenProcessPool as error:
        raise EvaluationError("a metrics process ended (out of memory?); run again with --workers 0") from error
    except BaseException:
        pool.shutdown(wait=False, cancel_futures=True)
        raise
    finally:
        pool.shutdown(wait=True)
        for name, value in before.items():
            if value is None:
                os.environ.pop(name, None)
            else:
                os.environ[name] = value


def _ignore_interrupt() -> None:
    """Ctrl-C reaches the whole group; the parent ends its workers itself."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)
