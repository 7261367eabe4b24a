"""Checkpoints that survive a kill at any moment: written to a temporary file, synced, renamed, and hashed.

A checkpoint file is the SHA-256 of its payload (32 bytes) followed by what `torch.save` wrote. The last two
are kept, and reading takes the newest one that is whole.
"""

from __future__ import annotations

import hashlib
import io
from pathlib import Path
from typing import Any

import torch

from shadowmaskformer.errors import TrainingError
from shadowmaskformer.files import write_atomically

KEPT = 2
_DIGEST_BYTES = hashlib.sha256().digest_size


def save_checkpoint(folder: Path, step: int, state: dict[str, Any]) -> Path:
    """Write `state` as the checkpoint of `step` and drop all but the last two."""
    folder.mkdir(parents=True, exist_ok=True)
    buffer = io.BytesIO()
    torch.save(state, buffer)
    payload = buffer.getbuffer()
    path = folder / f"step-{step:09d}.checkpoint"
    write_atomically(path, hashlib.sha256(payload).digest() + payload, overwrite=True)
    for old in _newest_first(folder)[KEPT:]:
        old.unlink(missing_ok=True)
    return path


def load_checkpoint(folder: Path) -> dict[str, Any]:
    """Return the state of the newest whole checkpoint in `folder`, on the CPU."""
    candidates = _newest_first(folder)
    for path in candidates:
        content = path.read_bytes()
        payload = memoryview(content)[_DIGEST_BYTES:]
        if hashlib.sha256(payload).digest() == content[:_DIGEST_BYTES]:
            return torch.load(io.BytesIO(payload), map_location="cpu", weights_only=True)
    raise TrainingError(
        f"none of the {len(candidates)} checkpoints in {folder} is whole",
        "leave {resume} out and start again in a new folder",
    )


def has_checkpoint(folder: Path) -> bool:
    """Return whether there is anything to resume from."""
    return bool(_newest_first(folder))


def _newest_first(folder: Path) -> list[Path]:
    return sorted(folder.glob("step-*.checkpoint"), reverse=True)
