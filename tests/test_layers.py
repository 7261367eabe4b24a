"""A room imports only rooms above it in `ROOMS`, the map of the house that CONTRIBUTING.md shows."""

from __future__ import annotations

import ast
import re
from pathlib import Path

import pytest

import shadowmaskformer

PACKAGE = Path(shadowmaskformer.__file__).parent
CONTRIBUTING = Path(__file__).parents[1] / "CONTRIBUTING.md"

ROOMS = (
    "errors", "files", "machine", "arrays", "photo", "masks", "light", "metrics", "engine", "network", "runtimes",
    "detect", "removal", "batch", "data", "evaluate", "report", "train", "reproduce", "benchmark", "serve", "cli",
)  # fmt: skip
FLAG = re.compile(r"(?<![\w-])--[a-z][a-z-]+")
GIT = {"--error-unmatch", "--porcelain"}  # of git, in train/journal.py
NEEDS_TORCH = {"engine", "network", "runtimes", "train", "reproduce", "benchmark", "cli"}


def modules() -> list[Path]:
    return sorted(path for path in PACKAGE.rglob("*.py") if path.parent != PACKAGE or not path.stem.startswith("__"))


def room_of(path: Path) -> str:
    return path.relative_to(PACKAGE).with_suffix("").parts[0]


def imports(path: Path) -> set[str]:
    """Dotted names imported anywhere in the file, lazily or not."""
    found: set[str] = set()
    for node in ast.walk(ast.parse(path.read_text("utf-8"))):
        if isinstance(node, ast.Import):
            found |= {alias.name for alias in node.names}
        elif isinstance(node, ast.ImportFrom):
            assert node.level == 0, f"{path}: write imports in full"
            found |= {f"{node.module}.{alias.name}" for alias in node.names}
    return found


def rooms_used(path: Path) -> set[str]:
    return {name.split(".")[1] for name in imports(path) if name.startswith("shadowmaskformer.")} & set(ROOMS)


def flags(path: Path) -> set[str]:
    texts = [n.value for n in ast.walk(ast.parse(path.read_text("utf-8"))) if isinstance(n, ast.Constant)]
    return {found for text in texts if isinstance(text, str) for found in FLAG.findall(text)} - GIT


def against_the_order(room: str, used: set[str]) -> set[str]:
    return {other for other in used if ROOMS.index(other) > ROOMS.index(room)}


@pytest.mark.parametrize("path", modules(), ids=lambda path: str(path.relative_to(PACKAGE)))
def test_room_imports_only_rooms_above_it(path: Path):
    room = room_of(path)
    assert room in ROOMS, f"{room} is a new room: give it a place in ROOMS and in CONTRIBUTING.md"
    assert not (wrong := against_the_order(room, rooms_used(path))), f"{room} imports {sorted(wrong)}"


def test_an_import_against_the_order_is_found(tmp_path: Path):
    module = tmp_path / "module.py"
    module.write_text("def late():\n    from shadowmaskformer.removal import remover\n")
    assert against_the_order("light", rooms_used(module)) == {"removal"}
    assert not against_the_order("cli", rooms_used(module))


@pytest.mark.parametrize(
    "path", [p for p in modules() if room_of(p) not in NEEDS_TORCH], ids=lambda p: str(p.relative_to(PACKAGE))
)
def test_torch_stays_out_of_the_rooms_that_work_without_it(path: Path):
    assert "torch" not in {name.split(".")[0] for name in imports(path)}


def test_contributing_shows_the_rooms_in_order():
    lines = CONTRIBUTING.read_text("utf-8").splitlines()
    shown = [line.split("`")[1].rstrip("/").removesuffix(".py") for line in lines if line.startswith("| `")]
    assert tuple(shown) == ROOMS


@pytest.mark.parametrize(
    "path", [p for p in modules() if room_of(p) not in ("cli", "errors")], ids=lambda p: str(p.relative_to(PACKAGE))
)
def test_only_the_command_names_its_flags(path: Path):
    """Messages of the library name options as `{name}`; see errors.py."""
    assert not (found := flags(path)), f"{path.name} says {found}"


def test_a_flag_would_be_found(tmp_path: Path):
    module = tmp_path / "module.py"
    module.write_text('raise ValueError("use --overwrite")\n')
    assert flags(module) == {"--overwrite"}
