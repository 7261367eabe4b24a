"""A network exported to ONNX, on ONNX Runtime: any CPU that has it, without PyTorch."""

from __future__ import annotations

from pathlib import Path

from shadowmaskformer.errors import WeightsError
from shadowmaskformer.light.correction import Correction
from shadowmaskformer.runtimes import Floats
from shadowmaskformer.runtimes.exported import CONFIG_KEY, config_from_text, correction_of, exported_file, feed


class OnnxRuntime:
    """A `.onnx` file of `shadowmaskformer export`; safe to call from several threads.

    Args:
        path: the file.
        threads: how many a call uses; None for all processors.
    """

    name = "onnx"

    def __init__(self, path: str | Path, threads: int | None = None) -> None:
        import onnxruntime

        path = exported_file(path, self.name)
        options = onnxruntime.SessionOptions()
        options.log_severity_level = 3  # errors: its warnings about our shapes do not concern users
        # The arena keeps the largest of every size it has met: gigabytes once photos differ in size.
        options.enable_cpu_mem_arena = False
        options.enable_mem_pattern = False
        if threads is not None:
            options.intra_op_num_threads = threads
        try:
            self._session = onnxruntime.InferenceSession(str(path), options, providers=["CPUExecutionProvider"])
        except Exception as error:  # onnxruntime's errors share no base class
            reason = str(error).splitlines()[0]
            raise WeightsError(f"{path} cannot be loaded by ONNX Runtime ({reason}); export it again") from error
        self._inputs = {each.name for each in self._session.get_inputs()}
        self.config = config_from_text(self._session.get_modelmeta().custom_metadata_map.get(CONFIG_KEY), path)

    def correct(self, photo: Floats, mask: Floats) -> Correction:
        """Find the correction that removes the shadow; see `Runtime.correct`."""
        arrays, given = feed(self.config, photo, mask)
        used = {name: array for name, array in arrays.items() if name in self._inputs}
        return correction_of(self._session.run(["head"], used)[0], given)


def load(weights: str | Path, *, device: str | None = None, threads: int | None = None) -> OnnxRuntime:
    """Load an exported `.onnx` file; it runs on the CPU."""
    return OnnxRuntime(weights, threads)
