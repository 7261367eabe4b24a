"""The network on PyTorch: CUDA, MPS or CPU."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import torch

from shadowmaskformer.arrays import Floats
from shadowmaskformer.errors import ConfigError, first_line
from shadowmaskformer.network.base import Network
from shadowmaskformer.network.kinds import config_to_text, embed, input_channels
from shadowmaskformer.runtimes.backends import smallest_torch_side
from shadowmaskformer.runtimes.files import CONFIG_KEY, example, for_export, output_names
from shadowmaskformer.runtimes.session import Reloading

if TYPE_CHECKING:
    from shadowmaskformer.runtimes.backends import Outputs


OUTPUTS_KEY = "shadowmaskformer.outputs"
"""Where a `.pt2` file keeps the names of its outputs, which its program returns as a tuple."""


class TorchSession(Reloading):
    """A PyTorch network, on whichever device it is."""

    name = "torch"

    def __init__(self, model: Network) -> None:
        self.model, self.config = model, model.config

    def run(self, inputs: Mapping[str, Floats]) -> Floats:
        """Run the network on one picture; see `Session.run`."""
        projected = torch.from_numpy(embed(self.config, inputs)).to(next(self.model.parameters()).device)
        with torch.inference_mode():
            head = self.model.predict(projected.permute(2, 0, 1)[None])
        return np.ascontiguousarray(head[0].permute(1, 2, 0).float().cpu().numpy())


def load(weights: str | Path, *, device: str | None = None, threads: int | None = None) -> TorchSession:
    """Load weights onto a device; None takes the GPU where there is one."""
    if threads is not None:
        torch.set_num_threads(threads)
    model = Network.from_pretrained(weights)
    try:
        model = model.to(torch.device(device or best_device()))
    except (RuntimeError, AssertionError) as error:
        raise ConfigError(
            f"the device {device!r} cannot be used ({first_line(error)})", 'try {device="cpu"}'
        ) from error
    return TorchSession(model.eval())


def best_device() -> str:
    """Return the GPU where there is one, else the CPU."""
    if torch.cuda.is_available():
        return "cuda"
    return "mps" if torch.backends.mps.is_available() else "cpu"


# --- export -----------------------------------------------------------------------------------------------------------


def write(model: Network, path: Path) -> None:
    """Write the network as a `.pt2` file, for `torch.export.load`."""
    from torch.export import Dim
    from torch.fx.experimental import _config

    tracing: Any = _config
    least = smallest_torch_side(model)
    sides = {axis: Dim(name, min=least) for axis, name in ((2, "height"), (3, "width"))}
    axes = {0: Dim("batch", min=1), **sides}
    # Without these two, the exporter refuses sizes of which it cannot prove that no axis gets length one.
    with torch.no_grad(), tracing.patch(backed_size_oblivious=True):
        program = torch.export.export(
            for_export(model),
            example(model),
            dynamic_shapes=(tuple(axes for _ in input_channels(model.config)),),
            prefer_deferred_runtime_asserts_over_guards=True,
        )
    names = ",".join(output_names(model))
    torch.export.save(program, path, extra_files={CONFIG_KEY: config_to_text(model.config), OUTPUTS_KEY: names})


def open_file(path: Path) -> Outputs:
    """Open a file for comparison with the network."""
    extra: dict[str, Any] = {OUTPUTS_KEY: ""}
    program: Any = torch.export.load(path, extra_files=extra).module()

    def run(arrays: dict[str, Floats]) -> dict[str, Floats]:
        with torch.no_grad():
            answer = program(*(torch.from_numpy(array) for array in arrays.values()))
        return {name: each.numpy() for name, each in zip(extra[OUTPUTS_KEY].split(","), answer, strict=True)}

    return run
