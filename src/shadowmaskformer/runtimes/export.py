"""Write the network as a file that runs elsewhere, and prove that it computes the same.

Height, width and batch stay free in all formats. The file is made in a temporary folder, compared there with the
network on pieces of a photograph, and only moved to its place when every piece agrees.
"""

from __future__ import annotations

import importlib.util
import os
import warnings
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING, Any

import numpy as np

from shadowmaskformer import masks as mask_room
from shadowmaskformer.errors import ConfigError, MissingExtraError, OutputError, WeightsError
from shadowmaskformer.light.relight import start_light
from shadowmaskformer.network.embedding import embedding_of
from shadowmaskformer.photo import read_photo
from shadowmaskformer.runtimes import Floats
from shadowmaskformer.runtimes.exported import CONFIG_KEY, OUTPUTS, SUFFIXES, config_to_text, input_names

if TYPE_CHECKING:
    from torch import nn

    from shadowmaskformer.network.model import ShadowMaskFormer

BOUNDS = {"onnx": 1e-5, "openvino": 1e-4, "torch": 1e-5}
"""Largest difference from the network that a file may show, pictures in [0, 1]."""

SHAPES = ((1, 48, 64), (1, 1, 90), (2, 37, 128), (1, 53, 70), (3, 9, 11), (1, 131, 100))
"""Batch, height and width of the pieces compared: whole windows, none, less than one, more than one picture."""

SMALLEST_TORCH = 5
"""PyTorch's exporter cannot leave sides below this free: it sets axes of length one apart."""

_NEEDS = {"onnx": ("torch", "onnx", "onnxruntime"), "openvino": ("torch", "onnx", "openvino"), "torch": ("torch",)}

Arrays = dict[str, Floats]


@dataclass(frozen=True)
class Export:
    """An exported file that was proven.

    Attributes:
        path: the file; OpenVINO's has its weights beside it, ending in `.bin`.
        differences: (batch, height, width) to the largest difference from the network there.
    """

    path: Path
    differences: dict[tuple[int, int, int], float]


def export(weights: str | Path, to: str, path: Path) -> Export:
    """Export weights and prove the file.

    Args:
        weights: what `weights.load` takes.
        to: `onnx`, `openvino` or `torch`.
        path: where the file goes, with the format's ending; replaced if it is there.

    Raises:
        WeightsError: the file would differ from the network by more than `BOUNDS[to]`; nothing is left behind.
    """
    if to not in SUFFIXES:
        raise ConfigError(f"no export to {to!r}; choose one of {', '.join(SUFFIXES)}")
    if path.suffix != SUFFIXES[to]:
        raise ConfigError(f"{path} does not end in {SUFFIXES[to]}, by which {to} files are known; rename it")
    if missing := [module for module in _NEEDS[to] if not importlib.util.find_spec(module)]:
        raise MissingExtraError(
            f"the export needs {missing[0]}; install it with: pip install 'shadowmaskformer[export]'"
        )
    from shadowmaskformer.network.model import ShadowMaskFormer

    model = ShadowMaskFormer.from_pretrained(weights)
    try:
        with TemporaryDirectory(dir=path.parent, prefix=".shadowmaskformer-") as folder:
            made = Path(folder) / path.name
            _WRITERS[to](model, made)
            differences = _prove(model, to, _RUNNERS[to](made))
            # The `.xml` last: it is what users name, and must not point to weights that are not there.
            for file in sorted(Path(folder).iterdir(), key=lambda file: file.name == path.name):
                os.replace(file, path.with_name(file.name))  # noqa: PTH105 - says what it does
    except OSError as error:
        raise OutputError(f"cannot write {path}: {error.strerror}; choose another place with -o") from error
    return Export(path, differences)


# --- writing --------------------------------------------------------------------------------------------------


def _for_export(model: ShadowMaskFormer) -> nn.Module:
    """The network with the inputs and outputs that `exported.py` describes."""
    import torch

    class Exported(torch.nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.model = model

        def forward(self, photo: Any, mask: Any, start: Any = None) -> tuple[Any, Any]:
            start = photo if start is None else start
            scaled = (2 * photo - 1, 2 * mask - 1, 2 * start - 1)
            head = model.correction(model.embedded(*scaled))
            gain, offset = head[:, :1], head[:, 1:]
            return (1 + gain) * start - (gain + offset) / 2, head  # `to_correction` derives it

    return Exported().eval()


def _example(model: ShadowMaskFormer) -> tuple[Any, ...]:
    """Inputs for the exporters to trace: no two axes of one length, none of length one."""
    import torch

    return tuple(torch.from_numpy(array) for array in _pieces(model, 2, 48, 64).values())


def _write_onnx(model: ShadowMaskFormer, path: Path) -> None:
    import onnx
    import torch

    inputs = input_names(model.config)
    free = {0: "batch", 2: "height", 3: "width"}
    with warnings.catch_warnings(), torch.no_grad():
        warnings.simplefilter("ignore")  # the tracer's doubts about sizes; `_prove` settles them
        # The tracing exporter: the newer one sets axes of length one apart and so cannot keep every size free.
        torch.onnx.export(
            _for_export(model),
            _example(model),
            str(path),
            dynamo=False,
            opset_version=17,
            input_names=list(inputs),
            output_names=list(OUTPUTS),
            dynamic_axes=dict.fromkeys((*inputs, *OUTPUTS), free),
        )
    graph = onnx.load(str(path))
    onnx.helper.set_model_props(graph, {CONFIG_KEY: config_to_text(model.config)})
    graph.producer_name = "shadowmaskformer"
    onnx.save(graph, str(path))


def _write_openvino(model: ShadowMaskFormer, path: Path) -> None:
    import openvino

    with TemporaryDirectory() as folder:
        source = Path(folder) / "model.onnx"
        _write_onnx(model, source)
        graph: Any = openvino.convert_model(source)
    graph.set_rt_info(config_to_text(model.config), CONFIG_KEY)
    openvino.save_model(graph, path, compress_to_fp16=False)


def _write_torch(model: ShadowMaskFormer, path: Path) -> None:
    import torch
    from torch.export import Dim
    from torch.fx.experimental import _config

    tracing: Any = _config

    axes = {0: Dim("batch", min=1), 2: Dim("height", min=SMALLEST_TORCH), 3: Dim("width", min=SMALLEST_TORCH)}
    # Without these two, the exporter refuses sizes of which it cannot prove that no axis gets length one.
    with torch.no_grad(), tracing.patch(backed_size_oblivious=True):
        program = torch.export.export(
            _for_export(model),
            _example(model),
            dynamic_shapes=tuple(axes for _ in input_names(model.config)),
            prefer_deferred_runtime_asserts_over_guards=True,
        )
    torch.export.save(program, path, extra_files={CONFIG_KEY: config_to_text(model.config)})


_WRITERS: dict[str, Callable[[ShadowMaskFormer, Path], None]] = {
    "onnx": _write_onnx,
    "openvino": _write_openvino,
    "torch": _write_torch,
}


# --- proving --------------------------------------------------------------------------------------------------


def _run_onnx(path: Path) -> Callable[[Arrays], Floats]:
    import onnxruntime

    session: Any = onnxruntime.InferenceSession(str(path), providers=["CPUExecutionProvider"])
    used = [each.name for each in session.get_inputs()]
    return lambda arrays: session.run(["restored"], {name: arrays[name] for name in used})[0]


def _run_openvino(path: Path) -> Callable[[Arrays], Floats]:
    import openvino

    compiled = openvino.compile_model(path, "CPU", {"INFERENCE_PRECISION_HINT": "f32"})
    used = [each.any_name for each in compiled.inputs]
    return lambda arrays: compiled({name: arrays[name] for name in used})["restored"]


def _run_torch(path: Path) -> Callable[[Arrays], Floats]:
    import torch

    program = torch.export.load(path).module()

    def run(arrays: Arrays) -> Floats:
        with torch.no_grad():
            return program(*(torch.from_numpy(array) for array in arrays.values()))[0].numpy()

    return run


_RUNNERS: dict[str, Callable[[Path], Callable[[Arrays], Floats]]] = {
    "onnx": _run_onnx,
    "openvino": _run_openvino,
    "torch": _run_torch,
}


def _prove(model: ShadowMaskFormer, to: str, run: Callable[[Arrays], Floats]) -> dict[tuple[int, int, int], float]:
    """Compare the exported file with the network; raises where they differ."""
    import torch

    differences: dict[tuple[int, int, int], float] = {}
    for shape in SHAPES:
        if to == "torch" and min(shape[1:]) < SMALLEST_TORCH:
            continue
        arrays = _pieces(model, *shape)
        with torch.no_grad():
            expected = model(*(torch.from_numpy(array) for array in arrays.values())).numpy()
        try:
            found = run(arrays)
        except Exception as error:  # three libraries, no common base
            reason = (str(error) or type(error).__name__).splitlines()[0][:200]
            raise WeightsError(
                f"the {to} file does not run at {shape[1]}x{shape[2]} ({reason}); it was not kept: try other versions"
            ) from error
        if found.shape != expected.shape:
            raise WeightsError(f"the {to} file answers {expected.shape} with {found.shape}; it was not kept")
        # Untrained networks leave [0, 1] far behind; there the bound is relative.
        scale = max(1.0, float(np.abs(expected).max()))
        differences[shape] = float(np.abs(found - expected).max()) / scale
        if not differences[shape] <= BOUNDS[to]:  # also when it is not a number
            raise WeightsError(
                f"the {to} file differs from the network by {differences[shape]:.1e} at {shape[1]}x{shape[2]}, more "
                f"than {BOUNDS[to]:.0e}; it was not kept: try other versions of torch and {to}"
            )
    return differences


def _pieces(model: ShadowMaskFormer, batch: int, height: int, width: int) -> Arrays:
    """Network inputs of that shape: pieces of the demo photograph, down its middle, across its shadow's edge."""
    assets = Path(__file__).parents[1] / "assets"
    whole = read_photo(assets / "demo-photo.jpg").as_float()
    marked, _ = mask_room.read_mask(assets / "demo-mask.png")
    top, left = (whole.shape[0] - height) // 2, (whole.shape[1] - width) // 2
    rows = [slice(top + 7 * i, top + 7 * i + height) for i in range(batch)]
    photos = [whole[row, left : left + width] for row in rows]
    masks = [marked[row, left : left + width] for row in rows]
    pictures = {"photo": np.stack(photos), "mask": np.stack(masks)[..., None]}
    if embedding_of(model.config).starts_relit:
        pairs = zip(photos, masks, strict=True)
        pictures["start"] = np.stack([start_light(photo, mask).apply(photo) for photo, mask in pairs])
    return {name: np.ascontiguousarray(stack.transpose(0, 3, 1, 2), np.float32) for name, stack in pictures.items()}
