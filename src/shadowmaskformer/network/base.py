"""What all kinds of network share: seeing pictures at a size, loading and saving weights."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import ClassVar, Self

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from shadowmaskformer.errors import WeightsError
from shadowmaskformer.network import weights
from shadowmaskformer.network.config import NetworkConfig
from shadowmaskformer.network.kinds import kind_of
from shadowmaskformer.network.reconstruction import scaled


class Network(nn.Module):
    """A network between the pictures of its kind (`kinds.KINDS`) and a head.

    It takes pictures of any size and any number of them. Kinds write `predict`, and `forward` for training.
    """

    reduction: ClassVar[int] = 1
    """How many times smaller than the picture its smallest map is; other sizes than multiples are padded."""
    head: nn.Conv2d

    def __init__(self, config: NetworkConfig) -> None:
        super().__init__()
        self.config = config

    def predict(self, projected: Tensor) -> Tensor:
        """Return the head, (B, n, H, W), for an embedded picture (B, C, H, W)."""
        raise NotImplementedError

    def embedded(self, pictures: Mapping[str, Tensor]) -> Tensor:
        """Return what the first convolution sees, (B, C, H, W), of the kind's pictures, all in [-1, 1]."""
        return torch.cat(kind_of(self.config).project(pictures, self.config), dim=1)

    def look(self, pictures: Mapping[str, Tensor], view: tuple[int, int] | None = None) -> Tensor:
        """Return the head, (B, n, H, W), for the kind's pictures.

        Args:
            pictures: each (B, channels, H, W), in [-1, 1], by name.
            view: height and width at which the network looks at them; the head is enlarged to their own. None
                looks at them as they are. This is the rule of `NetworkConfig.view_pixels`, with gradients.
        """
        if view is None:
            return self.predict(self.embedded(pictures))
        seen = {name: F.adaptive_avg_pool2d(picture, view) for name, picture in pictures.items()}
        size = next(iter(pictures.values())).shape[-2:]
        return F.interpolate(self.predict(self.embedded(seen)), size, mode="bilinear")

    def outputs(self, pictures: Mapping[str, Tensor]) -> dict[str, Tensor]:
        """Return what an exported file gives, by name, for the kind's pictures in [0, 1]."""
        return {"head": self.look({name: scaled(picture) for name, picture in pictures.items()})}

    def use_native(self, enabled: bool = True) -> Self:
        """Run on the native engine, gradients too, what it serves: here nothing."""
        return self

    @classmethod
    def from_pretrained(cls, name: str | Path) -> Self:
        """Load shipped weights by name, a local folder or file, or a hub repository; see `weights.load`."""
        config, arrays = weights.load(name)
        network = kind_of(config).network()
        if not issubclass(network, cls):
            raise WeightsError(f"{name} holds a network of the kind {config.kind!r}, not a {cls.__name__}")
        model = network(config)
        model.load_state_dict({key: torch.from_numpy(array) for key, array in arrays.items()})
        return model.eval()

    def save_pretrained(self, folder: str | Path) -> None:
        """Write `model.safetensors` and `config.json` into `folder`."""
        arrays = {key: tensor.detach().float().cpu().numpy() for key, tensor in self.state_dict().items()}
        weights.save(folder, self.config, arrays)
