"""The C++ engine as a runtime: CPU, without PyTorch."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from shadowmaskformer.engine import Network
from shadowmaskformer.errors import ConfigError
from shadowmaskformer.light.correction import Correction
from shadowmaskformer.network import weights as weight_files
from shadowmaskformer.network.config import ModelConfig
from shadowmaskformer.runtimes import network_input, to_correction

Floats = NDArray[np.float32]


class NativeRuntime:
    """The network on the native engine; safe to call from several threads.

    Args:
        config: the network's configuration.
        weights: its parameters by name, see `weights.load`.
        threads: how many each call uses; None for all processors.
    """

    name = "native"

    def __init__(self, config: ModelConfig, weights: Mapping[str, Floats], threads: int | None = None) -> None:
        self.config = config
        self._network = Network(config.to_dict(), weights)
        self._threads = threads

    def correct(self, photo: Floats, mask: Floats) -> Correction:
        """Find the correction that removes the shadow; see `Runtime.correct`."""
        given = network_input(self.config, photo, mask)
        return to_correction(self._network.forward(given.projected(self.config), self._threads), given)


def load(weights: str | Path, *, device: str | None = None, threads: int | None = None) -> NativeRuntime:
    """Load weights by name, folder or file; see `weights.load`."""
    if device not in (None, "cpu"):
        raise ConfigError(f"the native runtime runs on the CPU, not on {device!r}; use --runtime torch")
    config, arrays = weight_files.load(weights)
    return NativeRuntime(config, arrays, threads)
