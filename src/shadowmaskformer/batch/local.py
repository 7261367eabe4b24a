"""A batch on this computer: a process for each core, as many photos at once as memory holds."""

from __future__ import annotations

import queue
import threading
from collections.abc import Generator, Iterator, Sequence
from contextlib import contextmanager

from shadowmaskformer.batch.manifest import Manifest, Outcome
from shadowmaskformer.batch.plan import Item
from shadowmaskformer.batch.work import Settings, settle
from shadowmaskformer.batch.worker import Worker
from shadowmaskformer.errors import DiskFullError
from shadowmaskformer.machine import available_memory, usable_cores
from shadowmaskformer.photo import count_pixels

# What a worker holds at its peak: measured with the default weights, 110 MB and 14 bytes a pixel, 24 for 16 bits.
_WORKER_BYTES, _BYTES_PER_PIXEL = 160e6, 24
_SHARE_OF_MEMORY = 0.7


def run_local(
    items: Sequence[Item], settings: Settings, manifest: Manifest, *, workers: int | None
) -> Iterator[Outcome]:
    """Work through a plan; yield each outcome as soon as it is known. Closing the iterator stops the work."""
    batch = _Batch(items, settings, manifest)
    pool = [Worker(**settings.remover) for _ in range(min(workers or _default_workers(settings), len(items)))]
    threads = [threading.Thread(target=batch.work, args=(worker,), daemon=True) for worker in pool]
    try:
        for thread in threads:
            thread.start()
        for _ in items:
            outcome = batch.outcomes.get()
            if isinstance(outcome, BaseException):
                raise outcome
            yield outcome
    finally:
        batch.stop()
        for worker in pool:
            worker.close()
        for thread in threads:
            thread.join()


def _default_workers(settings: Settings) -> int:
    if settings.remover.get("device") not in (None, "cpu"):
        return 1
    return max(1, usable_cores() // settings.remover["threads"])


class _Batch:
    """What the threads that talk to the workers share."""

    def __init__(self, items: Sequence[Item], settings: Settings, manifest: Manifest) -> None:
        self.outcomes: queue.SimpleQueue[Outcome | BaseException] = queue.SimpleQueue()
        self._items, self._settings, self._manifest = iter(items), settings, manifest
        self._version = settings.fingerprint()
        self._gate = _MemoryGate(settings.options.get("frame"))
        self._lock = threading.Lock()
        self._full = self._stopped = False

    def stop(self) -> None:
        """Let no thread begin another photo."""
        self._stopped = True
        self._gate.open()

    def work(self, worker: Worker) -> None:
        """Take photo after photo until there is none."""
        try:
            while not self._stopped:
                with self._lock:
                    item = next(self._items, None)
                if item is None:
                    break
                outcome = self._outcome(worker, item)
                self._full = self._full or isinstance(outcome.error, DiskFullError)
                if not self._stopped:
                    self._manifest.record(outcome)
                    self.outcomes.put(outcome)
        except BaseException as error:
            self.outcomes.put(error)
        finally:
            worker.close()
            worker.join()

    def _outcome(self, worker: Worker, item: Item) -> Outcome:
        if self._full:
            return Outcome(item.photo, item.output, "left", item.mask)
        earlier = self._manifest.earlier(item.output)
        return settle(
            worker,
            item,
            earlier,
            self._settings,
            self._version,
            lambda: self._gate.room_for(item.photo),
            stopped=lambda: self._stopped,
        )


class _MemoryGate:
    """Lets photos in while all that are inside fit in memory together; one alone is always let in."""

    def __init__(self, frame: int | None) -> None:
        self._frame = frame
        memory = available_memory()
        self._budget = float("inf") if memory is None else _SHARE_OF_MEMORY * memory
        self._used, self._inside, self._open = 0.0, 0, False
        self._door, self._changed = threading.Lock(), threading.Condition()

    @contextmanager
    def room_for(self, photo: str) -> Generator[None]:
        """Wait until there is room for a photo."""
        need = _WORKER_BYTES + _BYTES_PER_PIXEL * (self._pixels(photo) or 0)
        # Behind the door in the order of arrival; otherwise small photos would overtake a large one for ever.
        with self._door, self._changed:
            self._changed.wait_for(lambda: self._open or not self._inside or self._used + need <= self._budget)
            self._used, self._inside = self._used + need, self._inside + 1
        try:
            yield
        finally:
            with self._changed:
                self._used, self._inside = self._used - need, self._inside - 1
                self._changed.notify_all()

    def _pixels(self, photo: str) -> int | None:
        try:
            return count_pixels(photo, frame=self._frame)
        except Exception:
            # Whatever is wrong with it, the worker says so, and the others go on.
            return None

    def open(self) -> None:
        """Let everyone pass: the work is over."""
        with self._changed:
            self._open = True
            self._changed.notify_all()
