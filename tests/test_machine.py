from __future__ import annotations

import sys
from importlib import metadata
from pathlib import Path

import pytest

from shadowmaskformer import machine


def test_the_environment_variable_leaves_the_allocator_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(machine.OPT_OUT, "1")
    assert machine.tune_allocator() is False


def test_versions_are_those_installed_and_none_where_there_is_none() -> None:
    assert machine.versions("numpy", "no-such-package") == {
        "numpy": metadata.version("numpy"),
        "no-such-package": None,
    }


def test_the_machine_has_a_name_and_cores() -> None:
    assert machine.processor()
    assert machine.cores() >= 1
    assert sys.version.startswith(machine.python())
    assert machine.system()


def described(folder: Path, monkeypatch: pytest.MonkeyPatch, **files: str) -> int | None:
    """Return the memory of a system whose files say this."""
    places = {"meminfo": "proc/meminfo"}
    for name, text in files.items():
        path = folder / places.get(name, f"sys/fs/cgroup/memory.{name}")
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
    monkeypatch.setattr(machine, "Path", lambda path: folder / path.lstrip("/"))
    return machine.available_memory()


MEMINFO = "MemTotal:  9000 kB\nMemFree:  100 kB\nMemAvailable:  4000 kB\n"


def test_memory_is_what_the_system_can_spare(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    assert described(tmp_path, monkeypatch, meminfo=MEMINFO) == 4000 * 1024


def test_memory_is_unknown_where_the_system_does_not_say(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    assert described(tmp_path, monkeypatch) is None
    assert described(tmp_path, monkeypatch, meminfo="MemTotal:  9000 kB\n") is None


@pytest.mark.parametrize(("most", "expected"), [("1000000", 700_000), ("99000000", 4000 * 1024), ("max", 4000 * 1024)])
def test_a_container_has_its_limit_less_what_is_taken_for_good(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, most: str, expected: int
) -> None:
    stat = "anon 100\ninactive_file 100000\n"
    assert described(tmp_path, monkeypatch, meminfo=MEMINFO, max=most, current="400000", stat=stat) == expected
