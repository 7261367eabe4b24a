"""Show versions, runtimes, devices and weights: paste this into a bug report."""

from __future__ import annotations

import argparse
import importlib.util
import json
from typing import Any

HELP = "versions, runtimes, devices and weights, for bug reports"

_PACKAGES = (
    "numpy", "pillow", "safetensors", "tifffile", "imagecodecs", "torch", "onnxruntime", "openvino",
    "pillow-heif", "huggingface-hub", "matplotlib", "ray", "fsspec",
)  # fmt: skip


def configure(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--json", action="store_true", help="as JSON")


def gather() -> dict[str, Any]:
    """Return all that is shown."""
    from shadowmaskformer import engine, machine
    from shadowmaskformer.network import weights
    from shadowmaskformer.runtimes import BACKENDS

    reasons = {name: backend.why_not() for name, backend in BACKENDS.items()}
    active = next((n for n, backend in BACKENDS.items() if not backend.runs_exports and reasons[n] is None), None)
    devices = [f"cpu: {machine.processor()}, {machine.cores()} cores"]
    if importlib.util.find_spec("torch"):
        import torch

        devices += [f"cuda:{i}: {torch.cuda.get_device_name(i)}" for i in range(torch.cuda.device_count())]
        if torch.backends.mps.is_available():
            devices.append("mps")
    return {
        **machine.versions("shadowmaskformer"),
        "python": machine.python(),
        "system": machine.system(),
        "packages": machine.versions(*_PACKAGES),
        "devices": devices,
        "runtimes": {name: reason or "ready" for name, reason in reasons.items()},
        "runtime_used_on_cpu": active,
        "instruction_set": None if engine.why_unavailable() else engine.isa(),
        "weights": weights.shipped(),
    }


def run(args: argparse.Namespace) -> int:
    facts = gather()
    if args.json:
        print(json.dumps(facts, indent=2))
        return 0
    print(f"shadowmaskformer {facts['shadowmaskformer']}   Python {facts['python']}   {facts['system']}")
    print(f"devices   {'; '.join(facts['devices'])}")
    for name, state in facts["runtimes"].items():
        notes = [state]
        if name == "native" and facts["instruction_set"]:
            notes.append(facts["instruction_set"])
        if name == facts["runtime_used_on_cpu"]:
            notes.append("used by default on the CPU")
        print(f"runtime   {name:<9} {', '.join(notes)}")
    print(f"weights   {', '.join(facts['weights']) or 'none shipped'}")
    packages = [f"{name} {version}" for name, version in facts["packages"].items() if version]
    absent = [name for name, version in facts["packages"].items() if not version]
    print(f"packages  {', '.join(packages)}")
    if absent:
        print(f"absent    {', '.join(absent)}")
    return 0
