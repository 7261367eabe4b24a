"""The native engine: the network's forward pass, and training's fused blocks, in C++ without PyTorch.

`Network` and `StepNetwork` take and return plain arrays. The instruction set is chosen when the extension
loads; the environment variable `SHADOWMASKFORMER_ISA` (scalar, baseline, avx2, avx512) overrides it.
"""

from __future__ import annotations

import importlib
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from shadowmaskformer.errors import ArrayError, ConfigError, MissingExtraError, WeightsError

Floats = NDArray[np.float32]

_native: Any = None
_reason: str | None = None
try:
    _native = importlib.import_module("shadowmaskformer.engine._native")
except ImportError as error:
    _reason = f"the extension is not built ({error}); install a C++17 compiler and reinstall, or use a wheel"


def why_unavailable() -> str | None:
    """Why the engine cannot be used here, in one line; None if it can."""
    return _reason


def files() -> list[Path]:
    """The file of the extension, or none if it cannot be used."""
    return [] if _native is None else [Path(_native.__file__)]


def _loaded() -> Any:
    if _native is None:
        raise MissingExtraError(f"no native engine: {_reason}")
    return _native


def isa() -> str:
    """The instruction set in use: `avx512`, `avx2`, `baseline` (SSE2 or NEON) or `scalar`."""
    try:
        return _loaded().isa()
    except ValueError as error:
        raise ConfigError(str(error)) from None


def set_num_threads(count: int) -> None:
    """Set how many threads calls use that start from now on and name no number; at first, one per core."""
    if count < 1:
        raise ConfigError(f"{count} threads asked for; use at least 1")
    _loaded().set_num_threads(count)


class _Packed:
    """A network whose weights are packed for this processor; safe to call from several threads."""

    def __init__(self, name: str, description: Sequence[Any], weights: Mapping[str, Floats]) -> None:
        """Make an object of the extension's class `name`, of what describes the network and its weights; copied."""
        isa()  # a wrong SHADOWMASKFORMER_ISA is not the weights' fault
        arrays = {key: np.ascontiguousarray(array, np.float32) for key, array in weights.items()}
        try:
            self._network = getattr(_loaded(), name)(*description, arrays)
        except ValueError as error:
            raise WeightsError(str(error)) from None

    def forward(self, projected: Floats, threads: int | None = None) -> Floats:
        """Run the network on one embedded picture or a batch of them.

        Args:
            projected: the embedded picture, (H, W, C) or (B, H, W, C), in the network's scale.
            threads: how many to use; None for the number set by `set_num_threads`.

        Returns:
            The head's channels, (h, w, heads) or (B, h, w, heads).
        """
        try:
            return self._network.forward(np.ascontiguousarray(projected, np.float32), threads or 0)
        except ValueError as error:
            raise ArrayError(str(error)) from None

    def scratch_bytes(self, height: int, width: int, threads: int | None = None) -> int:
        """Memory that a call for one picture of this size takes besides its input and output."""
        return self._network.scratch_bytes(height, width, threads or 0)


class Network(_Packed):
    """The U of a `ShadowMaskFormer`; it takes pictures of any size.

    Its head is as large as the picture, with as many channels as `head.weight` has rows. A shadow remover has four: K,
    then the three of B, of the soft reconstruction `J = K·x − B + x`.

    Args:
        config: its configuration, `ModelConfig.to_dict()`.
        weights: float32 arrays by their name in `ShadowMaskFormer.state_dict()`; copied.
    """

    def __init__(self, config: Mapping[str, Any], weights: Mapping[str, Floats]) -> None:
        super().__init__("Network", (dict(config),), weights)


class StepNetwork(_Packed):
    """A convolutional network that a list of steps describes; its head is the last step's map.

    Args:
        steps: each a `Step` of `network/steps.py`.
        channels: of the input.
        weights: float32 arrays by the names that the steps give them; copied.
    """

    def __init__(self, steps: Sequence[Any], channels: int, weights: Mapping[str, Floats]) -> None:
        super().__init__("StepNetwork", (list(steps), channels), weights)

    @property
    def multiple(self) -> int:
        """What both sides of a picture must be multiples of."""
        return self._network.multiple
