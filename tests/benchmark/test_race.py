"""The benchmark's arithmetic: ratios, turns, operation counts, and contenders that fail."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from shadowmaskformer.benchmark import race
from shadowmaskformer.benchmark.race import Measurement, Result, Workload
from shadowmaskformer.benchmark.report import table
from shadowmaskformer.network.config import ModelConfig
from tiny import TINY


def result(**cpu: list[float]) -> Result:
    measured = {name: Measurement(setup_s=1.0, wall_s=times, cpu_s=times) for name, times in cpu.items()}
    return Result(Workload((8, 12)), 1e9, measured, {"abacus": "no beads"})


def test_speedup_is_the_median_of_the_rounds_own_ratios() -> None:
    # The second round was slow for both: only ratios within a round are fair.
    assert result(yardstick=[4.0, 40.0, 6.0], native=[1.0, 10.0, 3.0]).speedup("native") == 4


def test_share_of_matmul_compares_operations_per_second() -> None:
    product = 2.0 * race.MATRIX_SIDE**3
    assert result(matmul=[product / 4e9], native=[1.0]).share_of_matmul("native") == pytest.approx(0.25)


def test_table_names_who_was_left_out_and_why() -> None:
    assert "abacus: left out, no beads" in table(result(yardstick=[1.0], matmul=[1.0]))


def test_turns_change_direction_so_that_nobody_always_follows_the_same_one() -> None:
    assert list(race._turns(["a", "b", "c"], 2)) == ["a", "b", "c", "c", "b", "a"]


def test_flops_grow_with_the_picture_and_triple_in_training() -> None:
    pytest.importorskip("torch")
    # Without attention, all work is per pixel of a padded picture, but for the fusions' few products.
    config = ModelConfig(depths=(1, 1, 1, 1, 1), attention_shares=(0, 0, 0, 0, 0))
    small, large = (race.count_flops(config, Workload(size)) for size in ((40, 40), (40, 80)))
    assert large == pytest.approx(2 * small, rel=1e-3)
    assert race.count_flops(config, Workload((40, 40), training=True)) == 3 * small


def test_a_contender_that_fails_is_reported_and_the_others_go_on(tiny_weights: Path, tmp_path: Path) -> None:
    pytest.importorskip("torch")
    weights = {"yardstick": tiny_weights, "torch": tmp_path / "nothing-here"}
    found = race.run_workload(Workload((8, 12)), weights, TINY, rounds=1, expected_bytes={})
    assert set(found.measurements) == {"matmul", "yardstick"}
    assert "nothing-here" in found.skipped["torch"]


def test_a_contender_that_would_not_fit_into_memory_is_not_started(tiny_weights: Path) -> None:
    pytest.importorskip("torch")
    if race.machine.available_memory() is None:
        pytest.skip("this system does not say how much memory is free")
    found = race.run_workload(
        Workload((8, 12)), {"torch": tiny_weights}, TINY, rounds=1, expected_bytes={"torch": 1e18}
    )
    assert "GB are free" in found.skipped["torch"]


def test_pictures_of_a_workload_are_the_same_in_every_process() -> None:
    from shadowmaskformer.benchmark.worker import picture

    for one, other in zip(picture((9, 14)), picture((9, 14)), strict=True):
        np.testing.assert_array_equal(one, other)
        assert one.dtype == np.float32
        assert 0 <= one.min() <= one.max() <= 1


def test_large_pictures_run_once(tiny_weights: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    pytest.importorskip("torch")
    monkeypatch.setattr(race, "ONCE_ABOVE_PIXELS", 50)
    found = race.run_workload(Workload((8, 12)), {"yardstick": tiny_weights}, TINY, rounds=3, expected_bytes={})
    assert {name: len(measured.cpu_s) for name, measured in found.measurements.items()} == {"matmul": 1, "yardstick": 1}
