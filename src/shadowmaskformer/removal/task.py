"""Shadow removal as a task for a network: what it sees of a photo and a mask, and what its head means.

`prepare` makes the network's inputs, any `Session` runs them, `restoration` reads the head.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from shadowmaskformer.arrays import Floats, average_down
from shadowmaskformer.errors import WeightsError
from shadowmaskformer.light.correction import Correction
from shadowmaskformer.light.fullsize import Restoration
from shadowmaskformer.light.relight import Light, measure
from shadowmaskformer.network.config import ModelConfig, NetworkConfig
from shadowmaskformer.network.kinds import input_channels
from shadowmaskformer.network.reconstruction import affine
from shadowmaskformer.runtimes import Session


@dataclass(frozen=True)
class Prepared:
    """One picture, ready for the network.

    Attributes:
        inputs: what `Session.run` takes: the picture, or a reduced copy of it (`NetworkConfig.view_pixels`).
        light: the light that turns the photo into the picture to correct; None where that is the photo itself.
        size: height and width of the picture.
    """

    inputs: dict[str, Floats]
    light: Light | None
    size: tuple[int, int]


def check_network(config: NetworkConfig) -> ModelConfig:
    """Return `config`; raise WeightsError unless it is that of a network that removes shadows."""
    if not isinstance(config, ModelConfig):
        raise WeightsError(
            f"these weights are a network of the kind {config.kind!r}",
            "use `default` or `srd`",
        )
    return config


def prepare(config: NetworkConfig, photo: Floats, mask: Floats) -> Prepared:
    """Make the network's inputs from a photo, (H, W, 3), and its mask, (H, W), both in [0, 1]."""
    wanted, size = input_channels(config), mask.shape
    pictures, light = {"photo": photo, "mask": mask[..., None]}, None
    if "start" in wanted:
        light = measure(photo, mask)
        pictures["start"] = np.clip(light.relit(photo, *map(np.arange, size)), 0, 1) if light else photo
    view = config.view_size(size[0], size[1])
    return Prepared({name: average_down(pictures[name], *view) for name in wanted}, light, (size[0], size[1]))


def restoration(head: Floats, prepared: Prepared) -> Restoration:
    """Return what the head, K and B of the soft reconstruction, (h, w, 4), says about the photo."""
    gain, offset = affine(head[..., :1], head[..., 1:])
    gain = np.broadcast_to(gain, offset.shape)
    network = Correction(gain.astype(np.float32), offset.astype(np.float32))
    return Restoration(prepared.size, light=prepared.light, network=network)


def find(session: Session, photo: Floats, mask: Floats) -> Restoration:
    """Find how to remove the shadow.

    Args:
        session: a network that removes shadows.
        photo: RGB, (H, W, 3), [0, 1].
        mask: 1 = shadow, (H, W), [0, 1].
    """
    prepared = prepare(session.config, photo, mask)
    return restoration(session.run(prepared.inputs), prepared)


def correct(session: Session, photo: Floats, mask: Floats) -> Correction:
    """Return `find` as one correction of the whole picture."""
    return find(session, photo, mask).correction(photo)
