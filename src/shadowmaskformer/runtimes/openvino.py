"""A network exported to OpenVINO, on its CPU plugin in float32, without PyTorch."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from shadowmaskformer.errors import WeightsError
from shadowmaskformer.light.correction import Correction
from shadowmaskformer.runtimes import Floats
from shadowmaskformer.runtimes.exported import CONFIG_KEY, config_from_text, correction_of, exported_file, feed


class OpenVinoRuntime:
    """An `.xml` file of `shadowmaskformer export`, its `.bin` beside it; safe to call from several threads.

    Args:
        path: the `.xml` file.
        threads: how many a call uses; None for all processors.
    """

    name = "openvino"

    def __init__(self, path: str | Path, threads: int | None = None) -> None:
        import openvino

        path = exported_file(path, self.name)
        # Without the hint, processors that have bfloat16 compute in it: wrong by several 8-bit levels.
        settings: dict[str, Any] = {"INFERENCE_PRECISION_HINT": "f32"}
        if threads is not None:
            settings["INFERENCE_NUM_THREADS"] = threads
        try:
            core = openvino.Core()
            model = core.read_model(path)
            self.config = config_from_text(_rt_info(model), path)
            self._compiled: Any = core.compile_model(model, "CPU", settings)
            self._inputs = {each.any_name for each in self._compiled.inputs}
        except RuntimeError as error:
            reason = str(error).strip().splitlines()[-1]
            raise WeightsError(f"{path} cannot be loaded by OpenVINO ({reason}); export it again") from error

    def correct(self, photo: Floats, mask: Floats) -> Correction:
        """Find the correction that removes the shadow; see `Runtime.correct`."""
        arrays, given = feed(self.config, photo, mask)
        # A request of its own for each call: one request serves one thread.
        used = {name: array for name, array in arrays.items() if name in self._inputs}
        answer = self._compiled.create_infer_request().infer(used)
        return correction_of(answer["head"], given)


def _rt_info(model: Any) -> str | None:
    return model.get_rt_info(CONFIG_KEY).astype(str) if model.has_rt_info(CONFIG_KEY) else None


def load(weights: str | Path, *, device: str | None = None, threads: int | None = None) -> OpenVinoRuntime:
    """Load an exported `.xml` file; it runs on the CPU."""
    return OpenVinoRuntime(weights, threads)
