"""Run networks: arrays in, head out. `backends.py` has the table, `session.py` the protocol."""

from shadowmaskformer.runtimes.backends import (
    BACKENDS,
    Backend,
    backend,
    check_device,
    check_threads,
    choose,
    exported_for,
    load_session,
)
from shadowmaskformer.runtimes.session import Session

__all__ = [
    "BACKENDS",
    "Backend",
    "Session",
    "backend",
    "check_device",
    "check_threads",
    "choose",
    "exported_for",
    "load_session",
]
