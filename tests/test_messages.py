"""Messages outside the command speak no command-line flags: an error spells options for whoever reads it."""

from __future__ import annotations

import ast
import re
from pathlib import Path

import pytest

import shadowmaskformer

PACKAGE = Path(shadowmaskformer.__file__).parent
ROOMS = ("data", "evaluate", "metrics", "report", "reproduce")
FLAG = re.compile(r"(?<![\w-])(--[a-z]|-o\b)")


def texts(path: Path) -> list[str]:
    """Strings of a module that are not docstrings."""
    tree = ast.parse(path.read_text("utf-8"))
    prose = {
        id(node.value) for node in ast.walk(tree) if isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant)
    }
    return [
        node.value
        for node in ast.walk(tree)
        if isinstance(node, ast.Constant) and isinstance(node.value, str) and id(node) not in prose
    ]


@pytest.mark.parametrize(
    "path",
    [p for room in ROOMS for p in sorted((PACKAGE / room).glob("*.py"))],
    ids=lambda p: f"{p.parent.name}/{p.name}",
)
def test_no_flag_in_a_message(path: Path) -> None:
    assert [text for text in texts(path) if FLAG.search(text)] == []


def test_a_flag_would_be_found(tmp_path: Path) -> None:
    module = tmp_path / "module.py"
    module.write_text('"""Explains --force."""\nraise ValueError(f"{1}: pass --force")\n')
    assert [text for text in texts(module) if FLAG.search(text)] == [": pass --force"]
