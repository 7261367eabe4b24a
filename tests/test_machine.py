from __future__ import annotations

import sys
from importlib import metadata

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
