"""Configurations of the networks, and the named variants of the paper."""

from __future__ import annotations

import collections.abc
import dataclasses
import json
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any, ClassVar, Self, get_args, get_origin, get_type_hints

from shadowmaskformer.errors import ConfigError

BIAS_HIDDEN = 256
"""Hidden width of the MLP that makes the position bias."""

_FIVE = ("depths", "widths", "heads", "mlp_ratios", "attention_shares")


@dataclass(frozen=True, kw_only=True)
class NetworkConfig:
    """What every kind of network has; stored as JSON beside the weights.

    Attributes:
        view_pixels: the number of pixels that the network was trained to look at. Look small, enlarge: a larger
            picture is averaged down to this size, and the head is enlarged bilinearly to the picture's size.
            `removal/task.py` does this for photos and `Network.look` for training; callers of an exported file must
            do it themselves. 0 looks at every picture as it is, like the paper.
    """

    kind: ClassVar[str] = ""
    """The name of this kind of network in `kinds.KINDS`."""

    view_pixels: int = 0

    def __post_init__(self) -> None:
        if self.view_pixels < 0:
            raise ConfigError(f"view_pixels is {self.view_pixels}; give a number of pixels, or 0 for any size")

    def view_size(self, height: int, width: int) -> tuple[int, int]:
        """Return the size at which the network looks at a picture of this size; see `view_pixels`.

        >>> ModelConfig(view_pixels=120 * 160).view_size(480, 640), ModelConfig().view_size(480, 640)
        ((120, 160), (480, 640))
        """
        from shadowmaskformer.arrays import fit_pixels

        return fit_pixels(height, width, self.view_pixels or height * width)

    def to_dict(self) -> dict[str, Any]:
        """Return the configuration as plain JSON types."""
        return {key: list(v) if isinstance(v, tuple) else v for key, v in dataclasses.asdict(self).items()}

    @classmethod
    def from_dict(cls, values: Mapping[str, Any]) -> Self:
        """Return the inverse of `to_dict`; an unknown key or a value of another type is an error."""
        return cls(**check_fields(cls, values, source="the model configuration"))


@dataclass(frozen=True, kw_only=True)
class UConfig(NetworkConfig):
    """A U of five stages of attention and convolution blocks.

    Attributes:
        depths: blocks in each of the five stages of the U.
        widths: channels in each stage; multiples of 8 run on the native engine, of 24 are trained on it.
        heads: attention heads in each stage.
        mlp_ratios: hidden width of each stage's MLP, as a multiple of the stage's width.
        attention_shares: share of each stage's blocks, counted from its end, that use attention.
        window: side of the attention window; odd blocks shift it by half.
        attention_conv: whether attention blocks add their convolution branch. The authors' release
            computes it and drops it, so its weights load with False.
    """

    depths: tuple[int, ...] = (16, 16, 14, 8, 8)
    widths: tuple[int, ...] = (24, 48, 96, 48, 24)
    heads: tuple[int, ...] = (2, 4, 6, 1, 1)
    mlp_ratios: tuple[int, ...] = (2, 4, 4, 2, 2)
    attention_shares: tuple[float, ...] = (0.25, 0.5, 0.75, 0.0, 0.0)
    window: int = 10
    attention_conv: bool = True

    def __post_init__(self) -> None:
        super().__post_init__()
        for name in _FIVE:
            value = tuple(getattr(self, name))
            object.__setattr__(self, name, value)
            if len(value) != 5:
                raise ConfigError(f"{name} has {len(value)} values; the network has five stages, give five")
        if min(self.depths) < 1 or min(self.widths) < 1 or min(self.heads) < 1 or self.window < 2:
            raise ConfigError("depths, widths and heads must be at least 1 and window at least 2")
        for width, heads in zip(self.widths, self.heads, strict=True):
            if width % heads:
                raise ConfigError(f"a stage of width {width} cannot be split into {heads} heads; use a divisor")
        if self.widths[:2] != self.widths[:2:-1]:
            raise ConfigError(f"widths {self.widths} are not a U; the decoder must mirror the encoder")

    def uses_attention(self, stage: int, block: int) -> bool:
        """Return whether `block` of `stage` (both counted from 0) attends or only convolves.

        >>> [ModelConfig().uses_attention(2, i) for i in (3, 4)]
        [False, True]
        """
        depth = self.depths[stage]
        return block >= depth - self.attention_shares[stage] * depth

    def shift(self, block: int) -> int:
        """Return the window shift of `block`: none for even blocks, half a window for odd ones."""
        return self.window // 2 if block % 2 else 0


@dataclass(frozen=True, kw_only=True)
class ModelConfig(UConfig):
    """Everything that determines a `ShadowMaskFormer`.

    Attributes:
        embedding: name of the patch embedding in `embedding.EMBEDDINGS`.
        w1: gain that MAPE gives shadow pixels (Eq. 7 of the paper).
        w2: gain that MAPE gives lit pixels.
    """

    kind: ClassVar[str] = "shadowmaskformer"

    embedding: str = "mape"
    w1: float = 2.5
    w2: float = 1.0


VARIANTS: dict[str, ModelConfig] = {
    "nano": ModelConfig(depths=(4, 4, 6, 2, 2)),
    "small": ModelConfig(depths=(12, 12, 12, 8, 8)),
    "middle": ModelConfig(),
    "large": ModelConfig(depths=(16, 16, 16, 8, 8)),
}
"""The paper's three sizes, and `nano`: the same blocks for few CPU hours."""


@dataclass(frozen=True, kw_only=True)
class DetectorConfig(NetworkConfig):
    """Everything that determines a `Detector`: EfficientNet-Lite0 down to 1/32 of the size, and the way back.

    Attributes:
        widths: channels on the way back, at 1/32, 1/16, 1/8, 1/4 and 1/2 of the size.
    """

    kind: ClassVar[str] = "detector"

    widths: tuple[int, ...] = (128, 128, 96, 64, 24)
    view_pixels: int = 256 * 256

    def __post_init__(self) -> None:
        super().__post_init__()
        object.__setattr__(self, "widths", tuple(self.widths))
        if len(self.widths) != 5 or any(width < 8 or width % 8 for width in self.widths):
            raise ConfigError(f"widths are {list(self.widths)}; the way back has five, multiples of 8")


DETECTORS: dict[str, DetectorConfig] = {"detector": DetectorConfig()}
"""The named sizes of the network that finds shadows."""


# --- values from files ------------------------------------------------------------------------------------------------


def check_fields(cls: type[Any], values: Mapping[str, Any], *, source: str) -> dict[str, Any]:
    """Check values from JSON or TOML against the annotations of a dataclass.

    Args:
        cls: a dataclass that can be made without arguments.
        values: its fields by name; fields may be missing.
        source: where the values come from, for messages.

    Returns:
        The values; whole numbers where the annotation says `float` are floats.

    Raises:
        ConfigError: a key is unknown or a value has the wrong type.
    """
    hints, example = get_type_hints(cls), cls()
    known = [field.name for field in dataclasses.fields(cls)]
    checked: dict[str, Any] = {}
    for key, value in values.items():
        if key not in known:
            raise ConfigError(f"unknown key {key!r} in {source}; known: {', '.join(known)}")
        _check_type(hints[key], value, f"{key} in {source}", getattr(example, key))
        checked[key] = float(value) if hints[key] is float else value
    return checked


def _check_type(hint: Any, value: Any, where: str, example: Any) -> None:
    container, inner = get_origin(hint), get_args(hint)
    each: Iterable[Any] = ()
    if container is tuple:
        fits = isinstance(value, (list, tuple))
        each = value if fits else ()
    elif container is collections.abc.Mapping:
        fits = isinstance(value, Mapping)
        each = value.values() if fits else ()
    else:
        fits = _is(hint, value)
    if not fits:
        raise ConfigError(f"{where} is {toml(value)}; expected a value such as {toml(example)}")
    for item in each:
        element = inner[0] if container is tuple else inner[1]
        if not _is(element, item):
            expected = {int: "whole numbers", float: "numbers"}.get(element, element.__name__)
            raise ConfigError(f"{where} holds {toml(item)}; expected {expected}")


def _is(hint: type[Any], value: Any) -> bool:
    """Return whether `value` is of the type; a bool is no number, a whole number may stand for a float."""
    if isinstance(value, bool):
        return hint is bool
    return isinstance(value, (int, float) if hint is float else hint)


def toml(value: Any) -> str:
    """Return the value as a TOML or JSON file would have it.

    >>> toml((256, 128)), toml(True), toml({"l1": 1.0})
    ('[256, 128]', 'true', '{ l1 = 1.0 }')
    """
    if isinstance(value, Mapping):
        return "{ " + ", ".join(f"{key} = {toml(each)}" for key, each in value.items()) + " }"
    return json.dumps(list(value) if isinstance(value, tuple) else value, ensure_ascii=False, default=str)
