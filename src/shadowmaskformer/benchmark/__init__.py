"""Compare the runtimes with a plainly written network: time, memory and parity, measured side by side."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Sequence
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING

from shadowmaskformer.benchmark.race import Result, Workload, run_workload
from shadowmaskformer.errors import ConfigError, MissingExtraError, ShadowMaskFormerError
from shadowmaskformer.network.config import ModelConfig
from shadowmaskformer.removal.task import check_network
from shadowmaskformer.runtimes import BACKENDS

if TYPE_CHECKING:
    from shadowmaskformer.network.model import ShadowMaskFormer

__all__ = ["Result", "Workload", "benchmark"]


def benchmark(
    workloads: Sequence[Workload],
    contenders: Sequence[str],
    *,
    weights: str | Path | None = None,
    variant: str = "middle",
    rounds: int = 5,
    on_result: Callable[[Result], None] = lambda _: None,
) -> tuple[ModelConfig, list[Result]]:
    """Race the contenders over the workloads, smaller pictures first.

    Args:
        workloads: what to measure.
        contenders: names of `race.CONTENDERS`; ratios and differences need `yardstick` among them.
        weights: the network to run, as `weights.load` takes it; None = `variant` with random weights.
        variant: name of the configuration to use without `weights`.
        rounds: timed turns of each contender.
        on_result: called with each workload's result as soon as it is there.
    """
    try:
        from shadowmaskformer.network.model import ShadowMaskFormer
    except ImportError:
        raise MissingExtraError(
            "the benchmark's yardstick needs PyTorch", "pip install 'shadowmaskformer[torch]'"
        ) from None
    with TemporaryDirectory() as folder:
        source = Path(folder) / "weights"
        network = _random_network(variant) if weights is None else ShadowMaskFormer.from_pretrained(weights)
        # Whatever view the weights were trained for: all contenders look at the same pixels.
        network.config = config = dataclasses.replace(check_network(network.config), view_pixels=0)
        network.save_pretrained(source)
        files, failed = _files(source, contenders, Path(folder))
        results: list[Result] = []
        measured: dict[tuple[str, bool], tuple[int, int]] = {}  # (contender, training): pixels, peak memory
        for workload in sorted(workloads, key=lambda workload: (workload.training, workload.pixels)):
            expected = {
                name: peak * workload.pixels / pixels
                for (name, training), (pixels, peak) in measured.items()
                if training == workload.training
            }
            result = run_workload(workload, files, config, rounds=rounds, expected_bytes=expected)
            result.skipped.update(failed)
            for name, measurement in result.measurements.items():
                measured[name, workload.training] = workload.pixels, measurement.peak_bytes
            results.append(result)
            on_result(result)
    return config, results


def _random_network(variant: str) -> ShadowMaskFormer:
    """Return a network whose parameters are all random, biases too: fresh ones would hide differences."""
    import torch

    from shadowmaskformer.network.config import VARIANTS
    from shadowmaskformer.network.model import ShadowMaskFormer

    if variant not in VARIANTS:
        raise ConfigError(f"no variant {variant!r}", f"choose one of {', '.join(VARIANTS)}")
    torch.manual_seed(1)
    network = ShadowMaskFormer(VARIANTS[variant])
    with torch.no_grad():
        for parameter in network.parameters():
            parameter.add_(0.02 * torch.randn_like(parameter))
    return network


def _files(source: str | Path, contenders: Sequence[str], folder: Path) -> tuple[dict[str, str | Path], dict[str, str]]:
    """Return what each contender loads, exported where it must be, and why an export is missing."""
    from shadowmaskformer.runtimes.export import export

    files: dict[str, str | Path] = {}
    failed: dict[str, str] = {}
    for name in contenders:
        row = BACKENDS.get(name)
        if row is None or row.export is None or not row.runs_exports:
            files[name] = source
            continue
        try:
            files[name] = export(source, name, folder / f"model{row.export.suffix}").path
        except ShadowMaskFormerError as error:
            failed[name] = str(error)
    return files, failed
