"""The C++ engine: CPU, without PyTorch."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

import numpy as np

from shadowmaskformer.arrays import Floats
from shadowmaskformer.engine import Network, StepNetwork
from shadowmaskformer.network import weights as weight_files
from shadowmaskformer.network.config import NetworkConfig
from shadowmaskformer.network.kinds import embed, kind_of
from shadowmaskformer.runtimes.session import Reloading


class NativeSession(Reloading):
    """A network on the native engine.

    Args:
        config: the network's configuration.
        weights: its parameters by name, see `weights.load`.
        threads: how many each call uses; None for all processors.
    """

    name = "native"

    def __init__(self, config: NetworkConfig, weights: Mapping[str, Floats], threads: int | None = None) -> None:
        self.config, self._threads = config, threads
        kind = kind_of(config)
        if kind.steps is None:
            self._network = Network(config.to_dict(), weights)
        else:
            self._network = StepNetwork(kind.steps(config), kind.channels(config), weights)

    def run(self, inputs: Mapping[str, Floats]) -> Floats:
        """Run the network on one picture; see `Session.run`."""
        projected = embed(self.config, inputs)
        height, width = projected.shape[:2]
        if isinstance(self._network, StepNetwork):
            below, right = (-side % self._network.multiple for side in (height, width))
            projected = np.pad(projected, ((0, below), (0, right), (0, 0)))
        return self._network.forward(projected, self._threads)[:height, :width]


def load(weights: str | Path, *, device: str | None = None, threads: int | None = None) -> NativeSession:
    """Load weights by name, folder or file; see `weights.load`."""
    config, arrays = weight_files.load(weights)
    return NativeSession(config, arrays, threads)
