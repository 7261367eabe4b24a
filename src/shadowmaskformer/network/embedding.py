"""Patch embeddings: what the network's first convolution sees.

Each is one formula over arrays, NumPy or PyTorch alike, so that training, export and the native engine share it.
To try your own, write the formula and add it to `EMBEDDINGS`. `ModelConfig(embedding="yours")` then uses it everywhere.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from shadowmaskformer.errors import ConfigError
from shadowmaskformer.network.config import ModelConfig

Array = Any
"""A NumPy array or a PyTorch tensor."""


@dataclass(frozen=True)
class Embedding:
    """A patch embedding.

    Attributes:
        formula: (x, mp, start, config) to the picture that the first convolution sees, of `x`'s size, or to several
            that it sees at once. `x` is the photo, `mp` the mask and `start` the picture that the network corrects,
            all in [-1, 1].
        starts_relit: whether the network corrects the relit photo (`relight.py`) rather than the photo itself.
        channels: of all pictures together.
    """

    formula: Callable[[Array, Array, Array, ModelConfig], Array | tuple[Array, ...]]
    starts_relit: bool = False
    channels: int = 3

    def project(self, x: Array, mp: Array, start: Array, config: ModelConfig) -> tuple[Array, ...]:
        """Return the pictures of the formula, for the caller to join along their channels."""
        pictures = self.formula(x, mp, start, config)
        return pictures if isinstance(pictures, tuple) else (pictures,)


def _gain(mp: Array, config: ModelConfig) -> Array:
    ms = (mp + 1) / 2
    return config.w1 * ms + config.w2 * (1 - ms)


def mape(x: Array, mp: Array, start: Array, config: ModelConfig) -> Array:
    """Mask augmented patch embedding: `Mp · (w1·Ms + w2·(1 − Ms)) · x`, Algorithm 1 of the paper.

    >>> mape(0.5, 1.0, 0.5, ModelConfig()), mape(0.5, -1.0, 0.5, ModelConfig())
    (1.25, -0.5)
    """
    return mp * _gain(mp, config) * x


def mape_01(x: Array, mp: Array, start: Array, config: ModelConfig) -> Array:
    """The paper's ablation with the mask in [0, 1] in place of [-1, 1]: lit pixels vanish.

    >>> mape_01(0.5, 1.0, 0.5, ModelConfig()), mape_01(0.5, -1.0, 0.5, ModelConfig())
    (1.25, 0.0)
    """
    return (mp + 1) / 2 * _gain(mp, config) * x


def plain(x: Array, mp: Array, start: Array, config: ModelConfig) -> Array:
    """The ablation without a mask: the photo as it is."""
    return x


def mape_physical(x: Array, mp: Array, start: Array, config: ModelConfig) -> tuple[Array, ...]:
    """MAPE with the gain measured in the photo, `Mp · relit`, and beside it what it was made of: relit, photo, mask.

    The product alone hides its factors: a bright pixel in the shadow looks like a dark one in the light.
    """
    return mp * start, start, x, mp


EMBEDDINGS: dict[str, Embedding] = {
    "mape": Embedding(mape),
    "plain": Embedding(plain),
    "mape-01": Embedding(mape_01),
    "mape-physical": Embedding(mape_physical, starts_relit=True, channels=10),
}


def embedding_of(config: ModelConfig) -> Embedding:
    """Return the embedding that `config` names."""
    try:
        return EMBEDDINGS[config.embedding]
    except KeyError:
        known = ", ".join(EMBEDDINGS)
        raise ConfigError(f"no patch embedding {config.embedding!r}; choose one of {known}") from None
