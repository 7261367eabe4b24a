"""A room imports only rooms above it: photo -> io -> mask -> network -> composite -> io, one way."""

from __future__ import annotations

import ast
from pathlib import Path

import pytest

import shadowmaskformer

PACKAGE = Path(shadowmaskformer.__file__).parent

ALLOWED: dict[str, set[str]] = {
    "errors": set(),
    "config": {"errors"},
    "allocator": set(),
    "photo": {"errors"},
    "masks": {"errors"},
    "metadata": set(),
    "output": {"errors"},
    "encoding": {"errors", "photo", "metadata"},
    "decoding": {"errors", "metadata"},
    "imageio": {"errors", "photo", "masks", "metadata", "decoding", "encoding", "output"},
    "metrics": {"errors"},
    "correction": {"errors"},
    "relight": {"errors", "photo", "correction"},
    "embedding": {"errors", "config"},
    "weights": {"errors", "config", "output", "embedding"},
    "engine": {"errors", "config"},
    "model": {"config", "embedding", "weights", "engine"},
    "runtimes": {"errors", "config", "photo", "imageio", "correction", "relight", "embedding", "weights", "engine",
                 "model"},
    "remover": {"errors", "photo", "masks", "metadata", "imageio", "correction", "relight", "runtimes"},
    "data": {"errors", "photo", "masks", "metadata", "output"},
    "train": {"errors", "config", "photo", "output", "metrics", "relight", "embedding", "weights", "model", "runtimes",
              "data"},
    "evaluate": {"errors", "photo", "masks", "imageio", "metrics", "relight", "embedding", "weights", "remover", "data",
                 "train"},
    "benchmark": {"errors", "config", "allocator", "relight", "embedding", "model", "runtimes"},
    "cli": {"*"},
}  # fmt: skip
NEVER_TORCH = {
    "photo", "masks", "metadata", "output", "encoding", "decoding", "imageio", "metrics", "correction", "relight",
    "embedding", "remover", "data", "evaluate",
}  # fmt: skip


def rooms() -> list[Path]:
    return sorted(path for path in PACKAGE.rglob("*.py") if path.parent != PACKAGE or not path.stem.startswith("__"))


def room_of(path: Path) -> str:
    return path.relative_to(PACKAGE).with_suffix("").parts[0]


def imports(path: Path) -> set[str]:
    """Top-level names imported anywhere in the file; rooms of ours as `.room`."""
    found: set[str] = set()
    depth = len(path.relative_to(PACKAGE).parts)
    for node in ast.walk(ast.parse(path.read_text("utf-8"))):
        if isinstance(node, ast.Import):
            names = [alias.name for alias in node.names]
        elif isinstance(node, ast.ImportFrom):
            inside = node.level == depth or node.module == "shadowmaskformer"
            if node.level and node.level < depth:
                continue
            prefix = "shadowmaskformer." if node.level == depth else ""
            names = (
                [f"shadowmaskformer.{alias.name}" for alias in node.names]
                if inside and (not node.module or node.module == "shadowmaskformer")
                else [prefix + (node.module or "")]
            )
        else:
            continue
        for name in names:
            parts = name.split(".")
            found.add(f".{parts[1]}" if parts[0] == "shadowmaskformer" and len(parts) > 1 else parts[0])
    return found


@pytest.mark.parametrize("path", rooms(), ids=lambda path: str(path.relative_to(PACKAGE)))
def test_room_imports_only_rooms_above_it(path: Path):
    room = room_of(path)
    assert room in ALLOWED, f"{room} is a new room: give it a place in this list and in CONTRIBUTING.md"
    if "*" in ALLOWED[room]:
        return
    used = {name[1:] for name in imports(path) if name.startswith(".")} - {room}
    assert used <= ALLOWED[room], f"{room} imports {sorted(used - ALLOWED[room])}"


@pytest.mark.parametrize("path", [p for p in rooms() if room_of(p) in NEVER_TORCH], ids=lambda p: p.name)
def test_torch_stays_out_of_the_rooms_that_work_without_it(path: Path):
    assert "torch" not in imports(path)
