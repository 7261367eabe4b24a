"""`shadowmaskformer benchmark` measures, compares and writes; how fast anything is, no test says."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from shadowmaskformer.cli import main

pytest.importorskip("torch")


def test_prints_and_writes_what_it_measured(
    tiny_weights: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    pytest.importorskip("matplotlib")
    folder = tmp_path / "results"
    arguments = ["benchmark", "--runtimes", "torch", "--sizes", "16x24", "--rounds", "1", "--train-sizes", "8x12"]
    assert main([*arguments, "--weights", str(tiny_weights), "-o", str(folder)]) == 0

    printed = capsys.readouterr().out
    assert "inference 16x24" in printed
    assert "training step 8x12" in printed
    document = json.loads((folder / "benchmark.json").read_text())
    inference, training = document["tasks"]
    assert set(inference["contenders"]) == {"matmul", "yardstick", "torch"}
    assert inference["contenders"]["torch"]["difference"] < 1e-4  # random weights leave [0, 1]
    assert training["contenders"]["torch"]["difference"] < 1e-4
    for measured in inference["contenders"].values():
        assert len(measured["cpu_s"]) == len(measured["wall_s"]) == 1
        assert measured["peak_bytes"] > 10_000_000
    assert inference["contenders"]["yardstick"]["faster_cpu"] == 1
    assert (folder / "benchmark.png").read_bytes().startswith(b"\x89PNG")


@pytest.mark.parametrize("size", ["big", "12x", "3x4x5", "0x7"])
def test_a_size_that_is_none_is_a_usage_error(size: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["benchmark", "--sizes", size]) == 2
    assert size in capsys.readouterr().err


def test_an_unknown_runtime_is_a_usage_error(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["benchmark", "--runtimes", "abacus"]) == 2
    assert "abacus" in capsys.readouterr().err
