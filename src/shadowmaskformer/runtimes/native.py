"""The C++ engine: CPU, without PyTorch."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

from shadowmaskformer.arrays import Floats
from shadowmaskformer.engine import Network
from shadowmaskformer.network import weights as weight_files
from shadowmaskformer.network.config import NetworkConfig
from shadowmaskformer.network.kinds import embed
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
        self.config = config
        self._network = Network(config.to_dict(), weights)
        self._threads = threads

    def run(self, inputs: Mapping[str, Floats]) -> Floats:
        """Run the network on one picture; see `Session.run`."""
        return self._network.forward(embed(self.config, inputs), self._threads)


def load(weights: str | Path, *, device: str | None = None, threads: int | None = None) -> NativeSession:
    """Load weights by name, folder or file; see `weights.load`."""
    config, arrays = weight_files.load(weights)
    return NativeSession(config, arrays, threads)
