"""Networks exported to OpenVINO, on its CPU plugin in float32, without PyTorch."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING, Any

from shadowmaskformer.arrays import Floats
from shadowmaskformer.errors import WeightsError
from shadowmaskformer.network.kinds import config_from_text, config_to_text, input_channels
from shadowmaskformer.runtimes import onnx
from shadowmaskformer.runtimes.files import CONFIG_KEY, feed, head_of
from shadowmaskformer.runtimes.session import Reloading

if TYPE_CHECKING:
    from shadowmaskformer.network.base import Network
    from shadowmaskformer.runtimes.backends import Outputs


class OpenVinoSession(Reloading):
    """An `.xml` file of `shadowmaskformer export`, its `.bin` beside it.

    Args:
        path: the `.xml` file.
        threads: how many a call uses; None for all processors.
    """

    name = "openvino"

    def __init__(self, path: str | Path, threads: int | None = None) -> None:
        model, self._compiled = _open(Path(path), threads)
        text = model.get_rt_info(CONFIG_KEY).astype(str) if model.has_rt_info(CONFIG_KEY) else None
        self.config = config_from_text(text, Path(path))
        self._inputs = set(_names(self._compiled.inputs, input_channels(self.config)))

    def run(self, inputs: Mapping[str, Floats]) -> Floats:
        """Run the network on one picture; see `Session.run`."""
        # A request of its own for each call: one request serves one thread.
        request = self._compiled.create_infer_request()
        return head_of(request.infer(feed(self.config, inputs, self._inputs))["head"])


def load(weights: str | Path, *, device: str | None = None, threads: int | None = None) -> OpenVinoSession:
    """Load an exported `.xml` file; it runs on the CPU."""
    return OpenVinoSession(weights, threads)


def _open(path: Path, threads: int | None) -> tuple[Any, Any]:
    """Return the model and the model compiled."""
    import openvino

    # Without the hint, processors that have bfloat16 compute in it: wrong by several 8-bit levels.
    settings: dict[str, Any] = {"INFERENCE_PRECISION_HINT": "f32"}
    if threads is not None:
        settings["INFERENCE_NUM_THREADS"] = threads
    try:
        core = openvino.Core()
        model = core.read_model(path)
        return model, core.compile_model(model, "CPU", settings)
    except RuntimeError as error:
        reason = str(error).strip().splitlines()[-1]
        raise WeightsError(f"{path} cannot be loaded by OpenVINO ({reason})", "export it again") from error


def _names(inputs: Any, known: Collection[str]) -> list[str]:
    """Return the names of a model's inputs; each may have others too, of maps that turned out to be the same."""
    return [name for each in inputs for name in each.names if name in known]


# --- export -----------------------------------------------------------------------------------------------------------


def write(model: Network, path: Path) -> None:
    """Write the network as an `.xml` file, its weights beside it."""
    import openvino

    with TemporaryDirectory() as folder:
        source = Path(folder) / "model.onnx"
        onnx.write(model, source)
        graph: Any = openvino.convert_model(source)
    graph.set_rt_info(config_to_text(model.config), CONFIG_KEY)
    openvino.save_model(graph, path, compress_to_fp16=False)


def open_file(path: Path) -> Outputs:
    """Open a file for comparison with the network."""
    _, compiled = _open(path, None)

    def run(arrays: dict[str, Floats]) -> dict[str, Floats]:
        answer = compiled({name: arrays[name] for name in _names(compiled.inputs, arrays)})
        return {each.any_name: answer[each] for each in compiled.outputs}

    return run
