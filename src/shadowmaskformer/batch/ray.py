"""A batch on Ray Data: rows are paths or URLs, an actor does what a worker does here, and reports.

No pixel enters Ray's object store: an actor reads the photo where it is and writes the result where it belongs.
"""

from __future__ import annotations

import logging
import os
import pickle
import socket
from collections.abc import Generator, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from typing import Any

from shadowmaskformer.batch.manifest import Manifest, Outcome
from shadowmaskformer.batch.places import absolute
from shadowmaskformer.batch.plan import Item
from shadowmaskformer.batch.work import Settings, settle
from shadowmaskformer.batch.worker import Worker
from shadowmaskformer.errors import DiskFullError, MissingExtraError, ShadowMaskFormerError, first_line
from shadowmaskformer.removal.remover import ShadowRemover

# Photos that Ray hands out, and tries again, together: one, unless so many blocks would slow Ray down.
_MOST_BLOCKS = 4096
_REACH_S = 10.0


def run_ray(
    items: Sequence[Item], settings: Settings, manifest: Manifest, *, workers: int | None, address: str | None
) -> Iterator[Outcome]:
    """Work through a plan on Ray; yield each outcome as soon as it is known. Closing the iterator stops the work."""
    ShadowRemover(**settings.remover)  # here first: Ray would wrap what is wrong with it into pages
    waiting = dict(enumerate(items))
    with _connected(address) as ray:
        for index, reported in _reports(ray, items, settings, manifest, workers):
            item = waiting.pop(index)
            outcome = replace(reported, photo=item.photo, output=item.output, mask=item.mask)
            manifest.record(outcome)
            yield outcome
            if isinstance(outcome.error, DiskFullError):
                break
    for item in waiting.values():
        yield Outcome(item.photo, item.output, "left", item.mask)


class Actor:
    """A worker somewhere in the cluster.

    The remover is in a process of its own here too: Ray tries a photo whose actor died again and again.
    """

    def __init__(self, settings: Settings, version: str) -> None:
        self._settings, self._version = settings, version
        self._worker = Worker(**settings.remover)

    def __call__(self, row: dict[str, Any]) -> dict[str, Any]:
        """Work on one photo; from a row with its item to one with its outcome."""
        item, earlier = pickle.loads(row["item"])
        outcome = settle(self._worker, item, earlier, self._settings, self._version)
        return {"index": row["index"], "outcome": pickle.dumps(outcome)}


def _reports(
    ray: Any, items: Sequence[Item], settings: Settings, manifest: Manifest, workers: int | None
) -> Iterator[tuple[int, Outcome]]:
    # Pickled, because names need not be text that Arrow accepts.
    rows = [
        {"index": index, "item": pickle.dumps((_everywhere(item), manifest.earlier(item.output)))}
        for index, item in enumerate(items)
    ]
    threads = settings.remover["threads"]
    most = max(1, int(ray.cluster_resources().get("CPU", 1)) // threads)
    on_gpu = str(settings.remover.get("device") or "cpu").startswith("cuda")
    outcomes = ray.data.from_items(rows, override_num_blocks=min(len(rows), _MOST_BLOCKS)).map(
        Actor,
        fn_constructor_args=(settings, settings.fingerprint()),
        compute=ray.data.ActorPoolStrategy(size=min(workers or most, len(rows))),
        num_cpus=threads,
        num_gpus=1 if on_gpu else 0,
    )
    try:
        for row in outcomes.iter_rows():
            yield row["index"], pickle.loads(row["outcome"])
    except ray.exceptions.RayError as error:
        lines = str(error).strip().splitlines()
        raise ShadowMaskFormerError(
            f"Ray: {lines[-1] if lines else type(error).__name__}", "look into Ray's logs"
        ) from error


def _everywhere(item: Item) -> Item:
    """Return the item with paths that mean the same in every process."""
    mask = item.mask and absolute(item.mask)
    return replace(item, photo=absolute(item.photo), output=absolute(item.output), mask=mask)


@contextmanager
def _connected(address: str | None) -> Generator[Any]:
    """Yield Ray, connected; what was connected here is let go again."""
    # Nothing here reports to anyone unless the user wants it to, and Ray talks of itself only when it fails.
    os.environ.setdefault("RAY_USAGE_STATS_ENABLED", "0")
    os.environ.setdefault("RAY_BACKEND_LOG_LEVEL", "fatal")
    try:
        import ray
        import ray.data
    except ImportError:
        raise MissingExtraError("the engine 'ray' needs Ray", "pip install 'shadowmaskformer[ray]'") from None
    ours = not ray.is_initialized()
    if ours:
        where = address or os.environ.get("RAY_ADDRESS")
        try:
            _reach(where)
            ray.init(address=where, log_to_driver=False, logging_level=logging.ERROR)
        except (OSError, ValueError, RuntimeError) as error:
            raise ShadowMaskFormerError(
                f"no Ray cluster at {where!r} ({first_line(error)})", "check {address}"
            ) from error
    logging.getLogger("ray.data").setLevel(logging.ERROR)
    context = ray.data.DataContext.get_current()
    before, context.enable_progress_bars = context.enable_progress_bars, False
    try:
        yield ray
    finally:
        context.enable_progress_bars = before
        if ours:
            ray.shutdown()


def _reach(address: str | None) -> None:
    """Raise OSError if nobody listens at `address`, for which Ray would wait many minutes."""
    host, _, port = (address or "").rpartition("//")[2].rpartition(":")
    if host and port.isdigit():
        socket.create_connection((host, int(port)), timeout=_REACH_S).close()
