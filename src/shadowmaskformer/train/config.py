"""What one training run does: `TrainConfig`, filled from a recipe in TOML and from the command line."""

from __future__ import annotations

import dataclasses
import tomllib
from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from shadowmaskformer.data.augment import Augment
from shadowmaskformer.data.samples import check_truth
from shadowmaskformer.errors import ConfigError
from shadowmaskformer.network.config import NetworkConfig, check_fields
from shadowmaskformer.network.kinds import find_variant, input_channels

RECIPES = Path(__file__).parent / "recipes"


@dataclass(frozen=True, kw_only=True)
class TrainConfig:
    """Everything that determines a run besides the data; its defaults are the paper's.

    Attributes:
        variant: the network's kind and size, a name that `kinds.find_variant` knows.
        embedding: its patch embedding.
        w1: gain that MAPE gives shadow pixels.
        w2: gain that MAPE gives lit pixels.
        depths: blocks per stage in place of the variant's; empty keeps the variant's.
        attention_conv: whether attention blocks add their convolution branch.
        zero_head: start the head at zero, so that the first answer is the picture to be corrected itself.
        seed: of the initial weights and of every sample.
        steps: length of the run in optimiser steps; 0 leaves it to `epochs`.
        epochs: length of the run in passes over the training pictures.
        sizes: side of the square at which the network looks in each stage of the run, in pixels.
        detail: how many times larger than the network looks at them pictures are drawn, relit and compared; K and B
            are enlarged in between. Above 1, the network will look at every larger picture at its last size.
        batches: pictures per step in each stage, over all processes together.
        shares: share of the run that each stage takes; they add up to 1.
        learning_rate: AdamW's peak rate.
        final_learning_rate: the rate at which the cosine ends.
        rates: parameters whose name begins so learn at this share of the rate: what was trained before needs less.
        warmup: share of the run over which the rate climbs from zero to its peak.
        weight_decay: AdamW's decoupled decay.
        beta2: AdamW's memory of squared gradients.
        clip_norm: longest gradient that passes unshortened; 0 lets every gradient pass.
        ema_decay: memory of the weight average that is validated and kept; 0 keeps the weights themselves.
        losses: weight of each loss in `losses.LOSSES`.
        truth: what the network learns: the clean picture "as-taken", or "own-light", brought to the light of its photo
            by a line per channel fitted outside the shadow. Validation uses the same.
        soft_masks: whether masks that a pair lacks are derived as the depth of the shadow, [0, 1].
        augment: fields of `data.Augment` that are switched on; empty is the paper: none.
        validation_share: share of the training pictures held out for validation with their scenes.
        validation_size: side of the validation pictures, in pixels.
        validation_pictures: how many of these are scored, spread evenly; as many others, of scenes that stay in
            training, are held out and scored beside them.
        validations: how often the run is validated, evenly over its length.
        checkpoint_every_s: seconds between checkpoints.
        precision: "float32", or "mixed" for autocast where the device has it (CUDA).
    """

    variant: str = "middle"
    embedding: str = "mape"
    w1: float = 2.5
    w2: float = 1.0
    depths: tuple[int, ...] = ()
    attention_conv: bool = True
    zero_head: bool = False
    seed: int = 0
    steps: int = 0
    epochs: float = 300.0
    sizes: tuple[int, ...] = (256,)
    detail: int = 1
    batches: tuple[int, ...] = (1,)
    shares: tuple[float, ...] = (1.0,)
    learning_rate: float = 2e-4
    final_learning_rate: float = 0.0
    rates: Mapping[str, float] = field(default_factory=dict[str, float])
    warmup: float = 0.0
    weight_decay: float = 0.02
    beta2: float = 0.999
    clip_norm: float = 0.0
    ema_decay: float = 0.0
    losses: Mapping[str, float] = field(default_factory=lambda: {"l1": 1.0})
    truth: str = "as-taken"
    soft_masks: bool = False
    augment: Mapping[str, float] = field(default_factory=dict[str, float])
    validation_share: float = 0.05
    validation_size: int = 256
    validation_pictures: int = 64
    validations: int = 30
    checkpoint_every_s: float = 120.0
    precision: str = "mixed"

    def __post_init__(self) -> None:
        for name in ("depths", "sizes", "batches", "shares"):
            object.__setattr__(self, name, tuple(getattr(self, name)))
        object.__setattr__(self, "losses", dict(self.losses))
        object.__setattr__(self, "augment", dict(self.augment))
        object.__setattr__(self, "rates", dict(self.rates))
        stages = len(self.sizes)
        if not stages or len(self.batches) != stages or len(self.shares) != stages:
            raise ConfigError(
                f"sizes, batches, shares have {stages}, {len(self.batches)}, {len(self.shares)} values; "
                "give one of each per stage"
            )
        if abs(sum(self.shares) - 1) > 1e-6 or min(self.shares) <= 0:
            raise ConfigError(f"shares {list(self.shares)} must be positive and add up to 1")
        if min(self.batches) < 1 or min(self.sizes) < 16 or self.detail < 1:
            raise ConfigError("batches and detail must be at least 1 and sizes at least 16")
        if self.steps < 0 or (self.steps == 0 and self.epochs <= 0):
            raise ConfigError(f"steps = {self.steps}, epochs = {self.epochs} is no length; set one above 0")
        if not 0 <= self.warmup < 1 or not 0 <= self.ema_decay < 1 or not 0 < self.validation_share < 1:
            raise ConfigError("warmup and ema_decay must be in [0, 1), validation_share in (0, 1)")
        if not 0 <= self.beta2 < 1 or min(self.weight_decay, self.clip_norm, self.checkpoint_every_s) < 0:
            raise ConfigError("beta2 must be in [0, 1); weight_decay, clip_norm and checkpoint_every_s at least 0")
        if self.learning_rate <= 0 or not 0 <= self.final_learning_rate <= self.learning_rate:
            raise ConfigError("learning_rate must be positive and final_learning_rate between 0 and it")
        if any(share < 0 for share in self.rates.values()):
            raise ConfigError(f"rates {self.rates} must be at least 0")
        if self.validations < 1 or self.validation_pictures < 1 or self.validation_size < 16 or self.seed < 0:
            raise ConfigError(
                "validations and validation_pictures must be at least 1, validation_size 16 and seed 0; "
                "without validation no weights would be kept"
            )
        if self.precision not in ("float32", "mixed"):
            raise ConfigError(f"precision is {self.precision!r}; choose float32 or mixed")
        check_truth(self.truth)
        Augment(**check_fields(Augment, self.augment, source="the recipe's augment table"))
        self.model_config()

    def model_config(self) -> NetworkConfig:
        """Return the configuration of the network that this run trains."""
        changes: dict[str, Any] = {
            "embedding": self.embedding,
            "w1": self.w1,
            "w2": self.w2,
            "attention_conv": self.attention_conv,
        }
        if self.depths:
            changes["depths"] = self.depths
        start = find_variant(self.variant)
        if self.detail > 1 or start.view_pixels:
            changes["view_pixels"] = self.sizes[-1] ** 2
        known = {field.name for field in dataclasses.fields(start)}
        return dataclasses.replace(start, **{key: value for key, value in changes.items() if key in known})

    def to_dict(self) -> dict[str, Any]:
        """Return the configuration as plain JSON types."""
        return {key: list(v) if isinstance(v, tuple) else v for key, v in dataclasses.asdict(self).items()}

    @classmethod
    def from_dict(cls, values: Mapping[str, Any], *, source: str = "the recipe") -> TrainConfig:
        """Return the inverse of `to_dict`; an unknown key or a value of another type is an error naming `source`."""
        return cls(**check_fields(cls, values, source=source))


def without_effect(config: TrainConfig, keys: Collection[str], hours: float | None) -> list[str]:
    """Return one line for each of the `keys`, set by hand, that this run does not look at."""
    lines: list[str] = []
    network = config.model_config()
    for key in keys:
        if key in ("embedding", "w1", "w2", "depths", "attention_conv") and not hasattr(network, key):
            lines.append(f"{key} has no effect: networks of the kind {network.kind!r} have none")
        elif key in ("steps", "epochs") and hours is not None:
            lines.append(f"{key} has no effect: hours sets the length")
        elif key == "epochs" and config.steps:
            lines.append("epochs has no effect: steps sets the length")
        elif key in ("w1", "w2") and "start" in input_channels(network):
            lines.append(f"{key} has no effect: {config.embedding} measures the light in the photo")
    return lines


def load_recipe(recipe: str, overrides: Iterable[str] = ()) -> TrainConfig:
    """Return the recipe called `recipe` (a name in `recipes/` or a TOML file), changed by `key=value` overrides.

    Values are TOML; a bare word counts as a string, and `table.key` reaches into `losses` and `augment`.

    >>> load_recipe("paper", ["variant=nano", "losses.shadow=0.5"]).losses
    {'l1': 1.0, 'shadow': 0.5}
    """
    path = Path(recipe) if recipe.endswith(".toml") else RECIPES / f"{recipe}.toml"
    try:
        values = tomllib.loads(path.read_text(encoding="utf-8"))
    except FileNotFoundError:
        names = ", ".join(sorted(p.stem for p in RECIPES.glob("*.toml")))
        raise ConfigError(f"no recipe {recipe!r}; choose one of {names}, or name a .toml file") from None
    except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
        raise ConfigError(f"recipe {path.name} is not TOML: {error}") from error
    return TrainConfig.from_dict(override(values, overrides), source=f"recipe {path.stem!r} or its overrides")


def override(values: Mapping[str, Any], overrides: Iterable[str]) -> dict[str, Any]:
    """Return `values` changed by `key=value` texts."""
    changed = {key: dict(v) if isinstance(v, Mapping) else v for key, v in values.items()}
    for text in overrides:
        key, equals, value = text.partition("=")
        if not equals:
            raise ConfigError(f"the override {text!r} has no value", "write key=value")
        table, dot, inner = key.strip().partition(".")
        parsed = _parse_value(value.strip())
        if dot:
            # An override of `losses.x` on a recipe without that table changes the default table.
            held = changed.setdefault(table, getattr(TrainConfig(), table, {}))
            if not isinstance(held, Mapping):
                raise ConfigError(f"the override {text!r} is wrong: {table} is no table", f"write {table}=value")
            changed[table] = {**held, inner: parsed}
        else:
            changed[table] = parsed
    return changed


def _parse_value(text: str) -> Any:
    try:
        return tomllib.loads(f"value = {text}")["value"]
    except tomllib.TOMLDecodeError:
        return text


def differences(before: Mapping[str, Any], after: Mapping[str, Any]) -> dict[str, tuple[Any, Any]]:
    """Return the keys whose values differ, with both values, in the order of `after`.

    >>> differences({"seed": 0, "steps": 5}, {"seed": 1, "steps": 5})
    {'seed': (0, 1)}
    """
    keys = [*after, *(key for key in before if key not in after)]
    return {key: (before.get(key), after.get(key)) for key in keys if before.get(key) != after.get(key)}
