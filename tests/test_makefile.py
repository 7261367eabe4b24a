"""`make demo` says what it does before each step that takes long."""

from __future__ import annotations

import shutil
import subprocess
import tomllib
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]


@pytest.mark.skipif(shutil.which("make") is None, reason="no make on this machine")
def test_the_demo_announces_every_installation(tmp_path: Path) -> None:
    words = ["make", "--dry-run", "demo", f"VENV={tmp_path / 'venv'}"]
    lines = subprocess.run(words, cwd=ROOT, capture_output=True, text=True, check=True).stdout.splitlines()
    installs = [number for number, line in enumerate(lines) if " install " in line and not line.startswith("echo")]
    assert len(installs) == 2
    assert all(lines[number - 1].startswith("echo ") for number in installs)
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    for requirement in project["dependencies"]:
        assert f'"{requirement}"' in lines[installs[0]]
        assert requirement.partition(">")[0] in lines[installs[0] - 1].lower()
