"""The kinds of network that weights can hold.

A kind is a U of blocks (`model.UNetwork`) or a list of steps (`steps.Step`). Kinds differ in the pictures that they
take, in what the first convolution sees of them, and in the channels of the head. `config.json` names the kind; without
a name it is `shadowmaskformer`. To add a kind, write a module with its configuration and network and add a row to
`KINDS`.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from shadowmaskformer.arrays import Floats
from shadowmaskformer.errors import ArrayError, ConfigError, WeightsError
from shadowmaskformer.network.config import DETECTORS, VARIANTS, DetectorConfig, ModelConfig, NetworkConfig
from shadowmaskformer.network.detector_steps import detector_steps
from shadowmaskformer.network.embedding import embedding_of
from shadowmaskformer.network.reconstruction import scaled, unscaled
from shadowmaskformer.network.steps import Step

if TYPE_CHECKING:
    from shadowmaskformer.network.base import Network

Array = Any
"""A NumPy array or a PyTorch tensor."""


@dataclass(frozen=True)
class Kind:
    """A kind of network.

    Attributes:
        config: the class of its configuration; `config.kind` is its name here.
        inputs: (config) to the pictures that it takes, in order, with their channels.
        project: (pictures, config) to what the first convolution sees, several pictures to be joined along their
            channels. `pictures` are the inputs by name, in [-1, 1].
        channels: (config) to the channels of these pictures together.
        head_channels: channels of its answer.
        network: imports and returns its PyTorch module.
        variants: its named configurations, for recipes; no two kinds share a name.
        steps: (config) to what it does with them, step by step; None if it is a U, whose configuration says it.
    """

    config: type[NetworkConfig]
    inputs: Callable[[Any], Mapping[str, int]]
    project: Callable[[Mapping[str, Array], Any], tuple[Array, ...]]
    channels: Callable[[Any], int]
    head_channels: int
    network: Callable[[], type[Network]]
    variants: Mapping[str, NetworkConfig]
    steps: Callable[[Any], list[Step]] | None = None


def _inputs(config: ModelConfig) -> dict[str, int]:
    """Return photo and mask, and the picture to correct where that is not the photo."""
    return {"photo": 3, "mask": 1} | ({"start": 3} if embedding_of(config).starts_relit else {})


def _project(pictures: Mapping[str, Array], config: ModelConfig) -> tuple[Array, ...]:
    photo = pictures["photo"]
    return embedding_of(config).project(photo, pictures["mask"], pictures.get("start", photo), config)


def _network() -> type[Network]:
    from shadowmaskformer.network.model import ShadowMaskFormer

    return ShadowMaskFormer


def _detector() -> type[Network]:
    from shadowmaskformer.network.detector import Detector

    return Detector


KINDS: dict[str, Kind] = {
    ModelConfig.kind: Kind(
        config=ModelConfig,
        inputs=_inputs,
        project=_project,
        channels=lambda config: embedding_of(config).channels,
        head_channels=4,  # K and B of the soft reconstruction
        network=_network,
        variants=VARIANTS,
    ),
    DetectorConfig.kind: Kind(
        config=DetectorConfig,
        inputs=lambda config: {"photo": 3, "hints": 2, "mask": 1},
        # Hints and the mask so far in [0, 1]: what is not given adds nothing.
        project=lambda pictures, config: (pictures["photo"], *(unscaled(pictures[name]) for name in ("hints", "mask"))),
        channels=lambda config: 6,
        head_channels=1,  # logit of the shadow's depth
        network=_detector,
        variants=DETECTORS,
        steps=detector_steps,
    ),
}


def kind_of(config: NetworkConfig) -> Kind:
    """Return the row of `KINDS` that `config` belongs to."""
    return KINDS[config.kind]


def find_variant(name: str) -> NetworkConfig:
    """Return the configuration called `name`, of whichever kind."""
    variants = {known: config for kind in KINDS.values() for known, config in kind.variants.items()}
    if name not in variants:
        raise ConfigError(f"no variant {name!r}", f"choose one of {', '.join(variants)}")
    return variants[name]


def input_channels(config: NetworkConfig) -> Mapping[str, int]:
    """Return the names of the pictures that the network takes, in order, with their channels."""
    return kind_of(config).inputs(config)


def embed(config: NetworkConfig, inputs: Mapping[str, Floats]) -> Floats:
    """Return what the first convolution sees, (H, W, C), in the network's scale.

    Args:
        config: the network's configuration.
        inputs: each picture that it takes, (H, W, channels) in [0, 1], by name.
    """
    kind = kind_of(config)
    check_inputs(config, inputs)
    pictures = {name: scaled(picture) for name, picture in inputs.items()}
    return np.concatenate(kind.project(pictures, config), axis=-1, dtype=np.float32)


def check_inputs(config: NetworkConfig, inputs: Mapping[str, Floats]) -> None:
    """Raise ArrayError unless `inputs` are the pictures that the network takes, (H, W, channels) of one size."""
    expected = input_channels(config)
    if set(inputs) != set(expected):
        raise ArrayError(f"inputs are {', '.join(inputs) or 'none'}; the network takes {', '.join(expected)}")
    size = next(iter(inputs.values())).shape[:2]
    for name, channels in expected.items():
        if inputs[name].shape != (*size, channels):
            raise ArrayError(f"{name} is {inputs[name].shape}; expected {(*size, channels)}, all inputs of one size")


# --- configurations as text -------------------------------------------------------------------------------------------


def config_to_dict(config: NetworkConfig) -> dict[str, Any]:
    """Return the configuration with its kind, as plain JSON types."""
    return {"kind": config.kind, **config.to_dict()}


def config_from_dict(values: Mapping[str, Any]) -> NetworkConfig:
    """Return the inverse of `config_to_dict`; without a kind it is a `shadowmaskformer`."""
    fields = dict(values)
    name = fields.pop("kind", ModelConfig.kind)
    if not isinstance(name, str) or name not in KINDS:
        raise ConfigError(f"no kind of network {name!r}; known: {', '.join(KINDS)}", "upgrade shadowmaskformer")
    return KINDS[name].config.from_dict(fields)


def config_to_text(config: NetworkConfig) -> str:
    """Return the configuration as the text that exported files carry."""
    return json.dumps(config_to_dict(config))


def config_from_text(text: str | None, path: Path) -> NetworkConfig:
    """Return the inverse of `config_to_text`, for the file `path`."""
    if not text:
        raise WeightsError(
            f"{path} carries no network configuration", "only files of `shadowmaskformer export` can be run"
        )
    try:
        return config_from_dict(json.loads(text))
    except json.JSONDecodeError as error:
        raise WeightsError(f"the configuration inside {path} is damaged ({error})", "export it again") from error
