"""What runs the network: one protocol, several engines.

`native` is the C++ engine (CPU, no PyTorch), `torch` runs on GPUs too, `onnx` and `openvino` run exported files.
All take a photo and a mask and answer with a `Correction`.
"""

from __future__ import annotations

import importlib
import importlib.util
import logging
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from shadowmaskformer.arrays import average_down, fit_pixels
from shadowmaskformer.errors import ConfigError, MissingExtraError
from shadowmaskformer.light.correction import Correction
from shadowmaskformer.light.relight import start_light
from shadowmaskformer.network.config import ModelConfig
from shadowmaskformer.network.embedding import embedding_of

log = logging.getLogger(__name__)

Floats = NDArray[np.float32]


class Runtime(Protocol):
    """Weights, ready to run; safe to call from several threads."""

    @property
    def name(self) -> str:
        """Which engine this is, such as `native`."""
        ...

    @property
    def config(self) -> ModelConfig:
        """The network's configuration."""
        ...

    def correct(self, photo: Floats, mask: Floats) -> Correction:
        """Find the correction that removes the shadow.

        Args:
            photo: RGB, (H, W, 3), [0, 1].
            mask: 1 = shadow, (H, W), [0, 1].
        """
        ...


@dataclass(frozen=True)
class NetworkInput:
    """What the network looks at: the picture, or a reduced copy of it (`ModelConfig.view_pixels`).

    Attributes:
        photo: RGB, (h, w, 3), [0, 1].
        mask: 1 = shadow, (h, w, 1), [0, 1].
        start: the picture that the network corrects, (h, w, 3), [0, 1].
        light: how the photo became `start`, at the picture's full size; None where the photo itself is the start.
        size: height and width of the picture.
    """

    photo: Floats
    mask: Floats
    start: Floats
    light: Correction | None
    size: tuple[int, int]

    def projected(self, config: ModelConfig) -> Floats:
        """The embedded picture, (h, w, C), in the network's scale."""
        pictures = embedding_of(config).project(2 * self.photo - 1, 2 * self.mask - 1, 2 * self.start - 1, config)
        return np.concatenate(pictures, axis=-1, dtype=np.float32)


def network_input(config: ModelConfig, photo: Floats, mask: Floats) -> NetworkInput:
    """Show a photo and its mask to the network, starting from the relit photo where the embedding asks for it."""
    light = start_light(photo, mask) if embedding_of(config).starts_relit else None
    start = light.apply(photo) if light else photo
    height, width = mask.shape
    view = fit_pixels(height, width, config.view_pixels or height * width)
    seen, marked, corrected = (average_down(planes, *view) for planes in (photo, mask[..., None], start))
    return NetworkInput(seen, marked, corrected, light, (height, width))


def to_correction(head: Floats, given: NetworkInput) -> Correction:
    """Turn the network's K and B into a correction of the photo.

    In the network's scale `J = K·s − B + s`; with `s = 2·start − 1` that is, in [0, 1],
    `(1 + K)·start − (K + B) / 2`.

    Args:
        head: K and B, (h, w, 4).
        given: what the network was shown.
    """
    gain, offset = head[..., :1], head[..., 1:]
    network = Correction(
        np.broadcast_to(1 + gain, offset.shape).astype(np.float32), (-(gain + offset) / 2).astype(np.float32)
    ).resized(*given.size)
    return given.light.then(network) if given.light else network


# --- choosing one -----------------------------------------------------------------------------------------------------


def _why_not_native() -> str | None:
    from shadowmaskformer import engine

    return engine.why_unavailable()


def _missing(module: str, extra: str) -> Callable[[], str | None]:
    def why() -> str | None:
        if importlib.util.find_spec(module):
            return None
        return f"{module} is not installed: pip install 'shadowmaskformer[{extra}]'"

    return why


_WHY_NOT: dict[str, Callable[[], str | None]] = {
    "native": _why_not_native,
    "torch": _missing("torch", "torch"),
    "onnx": _missing("onnxruntime", "onnx"),
    "openvino": _missing("openvino", "openvino"),
}
RUNTIMES = tuple(_WHY_NOT)


def why_unavailable(name: str) -> str | None:
    """Why runtime `name` cannot be used here; None if it can."""
    if name not in _WHY_NOT:
        raise ConfigError(f"no runtime {name!r}; choose one of {', '.join(RUNTIMES)}")
    return _WHY_NOT[name]()


def choose(device: str | None = None) -> str:
    """The runtime to use when none was named: `torch` for a GPU, else `native`, else what is installed.

    Args:
        device: where the user wants it to run, `cpu`, `cuda`, `mps`, …; None leaves it to us. PyTorch is only asked
            for a GPU when the user names one, because importing it takes longer than a photo.
    """
    if device not in (None, "cpu"):
        return "torch"
    reason = why_unavailable("native")
    if reason is None:
        return "native"
    if why_unavailable("torch") is None:
        log.warning("the native engine is not available (%s); using PyTorch, which is slower", reason)
        return "torch"
    raise MissingExtraError(f"nothing to run the network with: {reason}; or pip install 'shadowmaskformer[torch]'")


def load_runtime(
    name: str | None = None,
    weights: str | Path = "default",
    *,
    device: str | None = None,
    threads: int | None = None,
) -> Runtime:
    """Load weights into a runtime.

    Args:
        name: one of `RUNTIMES`; None chooses.
        weights: what `weights.load` takes; for `onnx` and `openvino` an exported file.
        device: for `torch`: `cpu`, `cuda`, `mps`, …
        threads: CPU threads; None uses all.
    """
    exported = {".onnx": "onnx", ".xml": "openvino"}.get(Path(weights).suffix)
    name = name or exported or choose(device)
    if reason := why_unavailable(name):
        raise MissingExtraError(f"runtime {name!r} is not available: {reason}")
    if device not in (None, "cpu") and name != "torch":
        raise ConfigError(f"runtime {name!r} runs on the CPU; for device {device!r} use the runtime `torch`")
    module: Any = importlib.import_module(f"shadowmaskformer.runtimes.{name}")
    return module.load(weights, device=device, threads=threads)
