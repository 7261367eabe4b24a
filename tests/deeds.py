"""What tests ask a `Worker` to do; its process imports this module."""

from __future__ import annotations

import os
import resource
import signal
import sys
import time
from pathlib import Path
from typing import Any

import numpy as np

from shadowmaskformer.batch.worker import report
from shadowmaskformer.errors import MaskError
from shadowmaskformer.removal.remover import ShadowRemover
from shadowmaskformer.serve import tasks
from shadowmaskformer.serve.tasks import Answer


def name(remover: ShadowRemover, word: str, *, times: int = 1) -> tuple[str, str]:
    sys.stdout.write("this must not get between the answers\n")
    return remover.method, word * times


def raise_one_of_ours(remover: ShadowRemover) -> None:
    raise MaskError("a mask that does not fit", "paint it again with {grow_px=5}")


def count(remover: ShadowRemover, upto: int) -> int:
    for number in range(upto):
        report(number / upto)
    return os.nice(0)


def remove_with_little_memory(remover: ShadowRemover, *arguments: Any) -> Answer:
    """Do what the server asks for, with only some megabytes more than the process has already."""
    held = int(Path("/proc/self/statm").read_text().split()[0]) * resource.getpagesize()
    before = resource.getrlimit(resource.RLIMIT_AS)
    resource.setrlimit(resource.RLIMIT_AS, (held + (8 << 20), before[1]))
    try:
        return tasks.remove(remover, *arguments)
    finally:
        resource.setrlimit(resource.RLIMIT_AS, before)


def ask_for_too_much_memory(remover: ShadowRemover, *arguments: Any) -> Any:
    return np.empty(1 << 60, np.uint8)


def die(remover: ShadowRemover) -> None:
    os.kill(os.getpid(), signal.SIGKILL)


def open_files(remover: ShadowRemover) -> list[str]:
    folder = Path("/proc/self/fd")
    return [str(each.readlink()) for each in folder.iterdir() if each.exists() or each.is_symlink()]


def work_long(remover: ShadowRemover, begun: str, tidied: str) -> None:
    """Say that work has begun, and at its end, whatever ended it, that it was tidied up."""
    try:
        Path(begun).write_text(str(os.getpid()))
        time.sleep(60)
    finally:
        Path(tidied).touch()


def answer_what_cannot_be_pickled(remover: ShadowRemover) -> Any:
    return lambda: None
