"""The protocol of a loaded network: pictures in, head out. It handles arrays and knows nothing about shadows."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol, runtime_checkable

if TYPE_CHECKING:
    from shadowmaskformer.arrays import Floats
    from shadowmaskformer.network.config import NetworkConfig


@runtime_checkable
class Session(Protocol):
    """Weights, ready to run; safe to call from several threads."""

    @property
    def name(self) -> str:
        """The name of its backend, such as `native`."""
        ...

    @property
    def config(self) -> NetworkConfig:
        """The network's configuration."""
        ...

    def run(self, inputs: Mapping[str, Floats]) -> Floats:
        """Run the network on one picture.

        Args:
            inputs: what `kinds.input_channels(config)` names, each (H, W, channels) in [0, 1].

        Returns:
            The head, (H, W, n).
        """
        ...


@dataclass(frozen=True)
class Source:
    """What a session was loaded from; the arguments of `backends.load_session`."""

    name: str
    weights: str | Path
    device: str | None
    threads: int | None

    def load(self) -> Session:
        """Load the session again, perhaps in another process."""
        from shadowmaskformer.runtimes.backends import load_session

        return load_session(self.name, self.weights, device=self.device, threads=self.threads)


class Reloading:
    """A session that pickles as its source: the process that unpickles it loads the weights again."""

    source: Source | None = None

    def __reduce__(self) -> tuple[Any, ...]:
        if self.source is None:
            raise TypeError(f"this {type(self).__name__} was not made by load_session, so it cannot be pickled")
        return Source.load, (self.source,)
