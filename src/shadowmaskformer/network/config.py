"""The network's configuration and the named variants of the paper."""

from __future__ import annotations

import dataclasses
from dataclasses import dataclass
from typing import Any

from shadowmaskformer.errors import ConfigError


@dataclass(frozen=True, kw_only=True)
class ModelConfig:
    """Everything that determines the network; stored as JSON beside its weights.

    Attributes:
        depths: blocks in each of the five stages of the U.
        widths: channels in each stage; multiples of 8 run on the native engine, of 24 are trained on it.
        heads: attention heads in each stage.
        mlp_ratios: hidden width of each stage's MLP, as a multiple of the stage's width.
        attention_shares: share of each stage's blocks, counted from its end, that use attention.
        window: side of the attention window; odd blocks shift it by half.
        embedding: name of the patch embedding in `embedding.EMBEDDINGS`.
        w1: gain that MAPE gives shadow pixels (Eq. 7 of the paper).
        w2: gain that MAPE gives lit pixels.
        attention_conv: whether attention blocks add their convolution branch. The authors' release
            computes it and drops it, so its weights load with False.
        view_pixels: how many pixels of a picture the network was trained to look at. The runtimes reduce a larger
            one to so many and enlarge K and B to its size; who calls the module or an exported file does it himself.
            0 looks at every picture as it is, like the paper.
    """

    depths: tuple[int, ...] = (16, 16, 14, 8, 8)
    widths: tuple[int, ...] = (24, 48, 96, 48, 24)
    heads: tuple[int, ...] = (2, 4, 6, 1, 1)
    mlp_ratios: tuple[int, ...] = (2, 4, 4, 2, 2)
    attention_shares: tuple[float, ...] = (0.25, 0.5, 0.75, 0.0, 0.0)
    window: int = 10
    embedding: str = "mape"
    w1: float = 2.5
    w2: float = 1.0
    attention_conv: bool = True
    view_pixels: int = 0

    def __post_init__(self) -> None:
        for name in ("depths", "widths", "heads", "mlp_ratios", "attention_shares"):
            value = tuple(getattr(self, name))
            object.__setattr__(self, name, value)
            if len(value) != 5:
                raise ConfigError(f"{name} has {len(value)} values; the network has five stages, give five")
        if min(self.depths) < 1 or min(self.widths) < 1 or min(self.heads) < 1 or self.window < 2:
            raise ConfigError("depths, widths and heads must be at least 1 and window at least 2")
        if self.view_pixels < 0:
            raise ConfigError(f"view_pixels is {self.view_pixels}; give a number of pixels, or 0 for any size")
        for width, heads in zip(self.widths, self.heads, strict=True):
            if width % heads:
                raise ConfigError(f"a stage of width {width} cannot be split into {heads} heads; use a divisor")
        if self.widths[:2] != self.widths[:2:-1]:
            raise ConfigError(f"widths {self.widths} are not a U; the decoder must mirror the encoder")

    def uses_attention(self, stage: int, block: int) -> bool:
        """Whether `block` of `stage` (both counted from 0) attends or only convolves.

        >>> [ModelConfig().uses_attention(2, i) for i in (3, 4)]
        [False, True]
        """
        depth = self.depths[stage]
        return block >= depth - self.attention_shares[stage] * depth

    def shift(self, block: int) -> int:
        """Window shift of `block`: none for even blocks, half a window for odd ones."""
        return self.window // 2 if block % 2 else 0

    def to_dict(self) -> dict[str, Any]:
        """The configuration as plain JSON types."""
        return {key: list(v) if isinstance(v, tuple) else v for key, v in dataclasses.asdict(self).items()}

    @classmethod
    def from_dict(cls, values: dict[str, Any]) -> ModelConfig:
        """Inverse of `to_dict`; an unknown key is an error."""
        known = {field.name for field in dataclasses.fields(cls)}
        if unknown := sorted(set(values) - known):
            raise ConfigError(
                f"unknown key {unknown[0]!r} in the model configuration; known: {', '.join(sorted(known))}"
            )
        try:
            return cls(**values)
        except TypeError as error:
            raise ConfigError(f"bad model configuration: {error}") from error


VARIANTS: dict[str, ModelConfig] = {
    "nano": ModelConfig(depths=(4, 4, 6, 2, 2)),
    "small": ModelConfig(depths=(12, 12, 12, 8, 8)),
    "middle": ModelConfig(),
    "large": ModelConfig(depths=(16, 16, 16, 8, 8)),
}
"""The paper's three sizes, and `nano`: the same blocks for few CPU hours."""


def variant(name: str) -> ModelConfig:
    """The configuration called `name`."""
    try:
        return VARIANTS[name]
    except KeyError:
        raise ConfigError(f"no variant {name!r}; choose one of {', '.join(VARIANTS)}") from None
