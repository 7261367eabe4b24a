"""Waiting for a sign of life from a training, in place of a fixed time."""

from __future__ import annotations

import os
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager

POLL_S = 0.05


@contextmanager
def signal_when(event: Callable[[], bool], number: int) -> Iterator[None]:
    """Send this process the signal `number` as soon as `event` holds; never after the block has ended."""
    over = threading.Event()

    def watch() -> None:
        while not over.wait(POLL_S):
            if event():
                os.kill(os.getpid(), number)
                return

    watcher = threading.Thread(target=watch, daemon=True)
    watcher.start()
    try:
        yield
    finally:
        over.set()
        watcher.join()
