"""Networks exported to ONNX, on ONNX Runtime: any CPU that has it, without PyTorch."""

from __future__ import annotations

import warnings
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

from shadowmaskformer.arrays import Floats
from shadowmaskformer.errors import WeightsError, first_line
from shadowmaskformer.network.kinds import config_from_text, config_to_text, input_channels
from shadowmaskformer.runtimes.files import CONFIG_KEY, example, feed, for_export, head_of, output_names
from shadowmaskformer.runtimes.session import Reloading

if TYPE_CHECKING:
    from shadowmaskformer.network.base import Network
    from shadowmaskformer.runtimes.backends import Outputs


class OnnxSession(Reloading):
    """A `.onnx` file of `shadowmaskformer export`.

    Args:
        path: the file.
        threads: how many a call uses; None for all processors.
    """

    name = "onnx"

    def __init__(self, path: str | Path, threads: int | None = None) -> None:
        self._session = _open(Path(path), threads)
        self._inputs = {each.name for each in self._session.get_inputs()}
        self.config = config_from_text(self._session.get_modelmeta().custom_metadata_map.get(CONFIG_KEY), Path(path))

    def run(self, inputs: Mapping[str, Floats]) -> Floats:
        """Run the network on one picture; see `Session.run`."""
        return head_of(self._session.run(["head"], feed(self.config, inputs, self._inputs))[0])


def load(weights: str | Path, *, device: str | None = None, threads: int | None = None) -> OnnxSession:
    """Load an exported `.onnx` file; it runs on the CPU."""
    return OnnxSession(weights, threads)


def _open(path: Path, threads: int | None) -> Any:
    import onnxruntime

    options = onnxruntime.SessionOptions()
    options.log_severity_level = 3  # errors: its warnings about our shapes do not concern users
    # The arena keeps the largest of every size it has met: gigabytes once photos differ in size.
    options.enable_cpu_mem_arena = False
    options.enable_mem_pattern = False
    if threads is not None:
        options.intra_op_num_threads = threads
    try:
        return onnxruntime.InferenceSession(str(path), options, providers=["CPUExecutionProvider"])
    except Exception as error:  # onnxruntime's errors share no base class
        raise WeightsError(
            f"{path} cannot be loaded by ONNX Runtime ({first_line(error)})", "export it again"
        ) from error


# --- export -----------------------------------------------------------------------------------------------------------


def write(model: Network, path: Path) -> None:
    """Write the network as a `.onnx` file."""
    import onnx
    import torch

    inputs, outputs = tuple(input_channels(model.config)), output_names(model)
    free = {0: "batch", 2: "height", 3: "width"}
    with warnings.catch_warnings(), torch.no_grad():
        warnings.simplefilter("ignore")  # the tracer's doubts about sizes; the proof settles them
        # The tracing exporter: the newer one sets axes of length one apart and so cannot keep every size free.
        torch.onnx.export(
            for_export(model),
            example(model),
            str(path),
            dynamo=False,
            opset_version=17,
            input_names=list(inputs),
            output_names=list(outputs),
            dynamic_axes=dict.fromkeys((*inputs, *outputs), free),
        )
    graph = onnx.load(str(path))
    onnx.helper.set_model_props(graph, {CONFIG_KEY: config_to_text(model.config)})
    graph.producer_name = "shadowmaskformer"
    onnx.save(graph, str(path))


def open_file(path: Path) -> Outputs:
    """Open a file for comparison with the network."""
    session = _open(path, None)
    used = [each.name for each in session.get_inputs()]
    names = [each.name for each in session.get_outputs()]
    return lambda arrays: dict(zip(names, session.run(names, {name: arrays[name] for name in used}), strict=True))
