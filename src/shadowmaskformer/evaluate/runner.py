"""Score methods over a test set. Every finished picture is kept.

The main process runs the networks, and a pool of processes reads truths and measures. Rows are appended to one CSV
file per method as they come, so that a second run starts where the first one stopped.
"""

from __future__ import annotations

import csv
import hashlib
import math
import multiprocessing
import os
import re
import signal
from collections.abc import Callable, Generator, Mapping, Sequence, Set
from concurrent.futures import FIRST_COMPLETED, Future, ProcessPoolExecutor, wait
from concurrent.futures.process import BrokenProcessPool
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from numpy.typing import NDArray

from shadowmaskformer import data
from shadowmaskformer.arrays import Levels
from shadowmaskformer.data.pictures import size_of
from shadowmaskformer.errors import EvaluationError, OutputError
from shadowmaskformer.evaluate.gallery import Gallery, copy_size, small_copy
from shadowmaskformer.evaluate.methods import EvaluationPicture, MaskSource, ScoredMethod
from shadowmaskformer.evaluate.protocols import (
    Comparison,
    PictureScores,
    Protocol,
    Reference,
    ResultKind,
    region_key,
    size_key,
)
from shadowmaskformer.files import write_atomically
from shadowmaskformer.machine import BLAS_THREADS, usable_cores
from shadowmaskformer.metrics import Regions

_GROUPS = ("error", "psnr", "ssim", "weights")
_SINGLE = ("edge", "contrast")
COLUMNS = ["protocol", "picture", *(f"{group}_{region}" for group in _GROUPS for region in Regions._fields), *_SINGLE]
_HEADER = ",".join(COLUMNS) + "\n"

SECONDS_PER_MEGAPIXEL, SECONDS_PER_NETWORK = 1.0, 0.3
"""Rough costs on one core: of the metrics of one picture at one size and region, and of one result."""

Rows = dict[str, dict[str, PictureScores]]
"""Scores by protocol name, then by picture."""
Stores = Mapping[tuple[str, bool], "RowStore"]
"""Finished rows by method name and by whether they are of protocol `as-used`."""


class RowStore:
    """The finished rows of one method, in one CSV file that grows by whole lines.

    Args:
        folder: where the CSV files live; made if absent.
        method: the method.
        context: what else determines the rows (data fingerprint, mask source). It is part of the file's name, so that
            rows of other weights or masks are never mistaken for these.
    """

    def __init__(self, folder: Path, method: ScoredMethod, context: str) -> None:
        digest = hashlib.sha256(f"{method.identity}\n{context}\n{COLUMNS}".encode()).hexdigest()[:8]
        slug = re.sub(r"[^a-z0-9]+", "-", method.name.lower()).strip("-") or "method"
        self.key = f"{slug}-{digest}"
        self.path = folder / f"{self.key}.csv"
        self.rows: Rows = {}
        try:
            folder.mkdir(parents=True, exist_ok=True)
            self._load()
        except OSError as error:
            raise OutputError(f"cannot write {self.path}: {error.strerror}", "choose another {output}") from error

    def has(self, protocol: Protocol, picture: str) -> bool:
        """Return whether this row is already there."""
        return picture in self.rows.get(protocol.name, {})

    def add(self, protocol: Protocol, picture: str, scores: PictureScores) -> None:
        """Keep a row, in memory and on disk."""
        values = [repr(value) for group in _GROUPS for value in getattr(scores, group)]
        values += [repr(getattr(scores, name)) for name in _SINGLE]
        self.rows.setdefault(protocol.name, {})[picture] = scores
        with self.path.open("a", encoding="utf-8", newline="") as stream:
            csv.writer(stream, lineterminator="\n").writerow([protocol.name, picture, *values])

    def _load(self) -> None:
        text = self.path.read_text(encoding="utf-8") if self.path.exists() else ""
        whole = text[: text.rfind("\n") + 1]  # killed half way through a line: that row is computed again
        if not whole.startswith(_HEADER):
            whole = _HEADER + whole
        if whole != text:
            write_atomically(self.path, whole.encode(), overwrite=True)
        for row in csv.DictReader(whole.splitlines()):
            error, psnr, ssim, weights = (
                Regions(*(float(row[f"{group}_{region}"]) for region in Regions._fields)) for group in _GROUPS
            )
            scores = PictureScores(error, psnr, ssim, weights, float(row["edge"]), float(row["contrast"]))
            self.rows.setdefault(row["protocol"], {})[row["picture"]] = scores


@dataclass
class _Scoring:
    """One picture for a worker: results of the networks by method and kind, and the rows that are wanted."""

    triplet: data.Triplet
    masks: MaskSource
    wanted: list[tuple[str, Protocol]]
    shown: ResultKind | None
    region: Levels | None = None
    results: dict[tuple[str, ResultKind], NDArray[Any]] = field(default_factory=dict)
    light: dict[str, ScoredMethod] = field(default_factory=dict)
    """Methods that only read a file: the worker does that itself."""


@dataclass
class _Scored:
    """What a worker found: rows, and small copies of photo, truth, mask and results (by method name)."""

    rows: list[tuple[str, Protocol, PictureScores]]
    data_copies: dict[str, bytes] = field(default_factory=dict)
    result_copies: dict[str, bytes] = field(default_factory=dict)


def run(
    triplets: Sequence[data.Triplet],
    masks: MaskSource,
    methods: Sequence[ScoredMethod],
    protocols: Sequence[Protocol],
    stores: Stores,
    *,
    gallery: Gallery | None = None,
    skip: Set[tuple[str, str]] = frozenset(),
    workers: int | None = None,
    progress: Callable[[int, int], None] = lambda done, total: None,
    say: Callable[[str], None] = lambda line: None,
) -> None:
    """Fill `stores` with every row that is missing.

    Args:
        triplets: the test pictures.
        masks: where their masks come from.
        methods: what to score.
        protocols: under which rules.
        stores: where rows go.
        gallery: where small copies for the report go, of results under the first protocol; None makes none.
        skip: (method, picture) pairs that cannot be scored.
        workers: processes for the metrics; None takes one per core, and none for a handful of pictures.
        progress: called with (pictures done, pictures in all).
        say: called with one line, before a scoring that takes more than a minute.
    """
    todo: list[tuple[data.Triplet, list[tuple[ScoredMethod, Protocol]]]] = []
    for triplet in triplets:
        able = [method for method in methods if (method.name, triplet.name) not in skip]
        wanted = [(m, p) for m in able for p in protocols if not stores[m.name, p.as_used].has(p, triplet.name)]
        if wanted:
            todo.append((triplet, wanted))
    shown = protocols[0].result_kind if gallery is not None and protocols else None
    done, total = len(triplets) - len(todo), len(triplets)
    if workers is None:
        workers = min(usable_cores(), len(todo) // 8)
    if todo and (seconds := expected_s(todo, workers)) > 60:
        say(
            f"about {math.ceil(seconds / 60)} min to go: {len(todo)} pictures, {len(methods)} methods, "
            f"{len(protocols)} protocols"
        )
    progress(done, total)

    def keep(triplet: data.Triplet, scored: _Scored) -> None:
        nonlocal done
        for name, protocol, scores in scored.rows:
            stores[name, protocol.as_used].add(protocol, triplet.name, scores)
        if gallery is not None and shown is not None:
            for what, copy in scored.data_copies.items():
                gallery.put(what, triplet.name, copy)
            for name, copy in scored.result_copies.items():
                gallery.put(stores[name, shown.as_used].key, triplet.name, copy)
        done += 1
        progress(done, total)

    with _metrics_pool(workers) as pool:
        pending: dict[Future[_Scored], data.Triplet] = {}
        for triplet, wanted in todo:
            scoring = _restore(EvaluationPicture(triplet, masks), wanted, shown)
            if pool is None:
                keep(triplet, _measure(scoring))
                continue
            pending[pool.submit(_measure, scoring)] = triplet
            # Two pictures a worker wait at most: pictures are large, and a failure should show soon.
            while len(pending) >= 2 * workers:
                for future in wait(pending, return_when=FIRST_COMPLETED).done:
                    keep(pending.pop(future), future.result())
        for future in list(pending):
            keep(pending.pop(future), future.result())


def expected_s(todo: Sequence[tuple[data.Triplet, list[tuple[ScoredMethod, Protocol]]]], workers: int) -> float:
    """Return roughly how many seconds a scoring takes, from the size of its first picture."""
    triplet, wanted = todo[0]
    height, width = size_of(triplet.shadow)
    own = height * width / 1e6
    metrics_s = SECONDS_PER_MEGAPIXEL * sum(
        own if side is None else side**2 / 1e6
        for _, side, _, _ in {(m.name, p.side, size_key(p), region_key(p)) for m, p in wanted}
    )
    networks_s = SECONDS_PER_NETWORK * len({(m.name, p.result_kind) for m, p in wanted if m.heavy})
    cores = min(max(workers, 1), usable_cores())
    return len(todo) * max(networks_s, (networks_s + metrics_s) / cores)


def _restore(
    picture: EvaluationPicture, wanted: Sequence[tuple[ScoredMethod, Protocol]], shown: ResultKind | None
) -> _Scoring:
    scoring = _Scoring(picture.triplet, picture.masks, [(method.name, protocol) for method, protocol in wanted], shown)
    for method, protocol in wanted:
        key = (method.name, protocol.result_kind)
        if not method.heavy:
            scoring.light[method.name] = method
        elif key not in scoring.results:
            scoring.results[key] = method.restore(picture, protocol.result_kind)
            scoring.region = picture.region  # deriving it once is enough
    return scoring


def _measure(scoring: _Scoring) -> _Scored:
    picture = EvaluationPicture(scoring.triplet, scoring.masks, scoring.region)
    needs_photo = any(protocol.as_used for _, protocol in scoring.wanted)
    reference = Reference(picture.truth, picture.region, picture.photo if needs_photo else None)
    comparisons: dict[tuple[str, ResultKind], Comparison] = {}
    scored = _Scored([])
    for name, protocol in scoring.wanted:
        key = (name, protocol.result_kind)
        if key not in comparisons:
            if key not in scoring.results:
                scoring.results[key] = scoring.light[name].restore(picture, protocol.result_kind)
            comparisons[key] = reference.compare(scoring.results[key])
        scored.rows.append((name, protocol, comparisons[key].scores(protocol)))
    if scoring.shown is not None:
        size = copy_size(picture.truth.shape)
        truth = reference.own_light if scoring.shown.as_used else picture.truth
        shown = {"photo": picture.photo, "truth": truth, "mask": picture.mask}
        scored.data_copies = {what: small_copy(each, size) for what, each in shown.items()}
        results = {name: result for (name, kind), result in scoring.results.items() if kind == scoring.shown}
        scored.result_copies = {name: small_copy(result, size) for name, result in results.items()}
    return scored


@contextmanager
def _metrics_pool(workers: int) -> Generator[ProcessPoolExecutor | None]:
    """Yield processes for the metrics, with one BLAS thread each; None for `workers` 0.

    Processes and not threads: BLAS calls from several threads at once fight over BLAS's own threads.
    """
    if workers < 1:
        yield None
        return
    names = ("OMP_NUM_THREADS", *BLAS_THREADS)
    before = {name: os.environ.get(name) for name in names}
    os.environ.update(dict.fromkeys(names, "1"))  # read by the children when they load BLAS
    # Spawned, not forked: the networks' threads of this process would be missing in a fork.
    context = multiprocessing.get_context("spawn")
    pool = ProcessPoolExecutor(workers, mp_context=context, initializer=_ignore_interrupt)
    try:
        yield pool
    except BrokenProcessPool as error:
        raise EvaluationError("a metrics process ended (out of memory?)", "run again with {workers=0}") from error
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
    """Leave Ctrl-C, which reaches the whole group, to the parent: it ends its workers itself."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)
