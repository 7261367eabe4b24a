"""What all exported files have in common: the layout of their arrays, and the configuration they carry.

An exported network takes the pictures that `kinds.input_channels` names, each (B, channels, H, W) in [0, 1], and
returns what `Network.outputs` names. A `shadowmaskformer` takes `photo` and `mask`, and `start` if its embedding
starts from the relit photo. It returns `restored` (B, 3, H, W), not clamped, and `head` (B, 4, H, W), K and B of the
soft reconstruction. ONNX and OpenVINO files leave out inputs that have no effect. A file does not resize: if its
configuration has `view_pixels`, reduce larger pictures first and enlarge `head` afterwards.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from typing import TYPE_CHECKING, Any

import numpy as np

from shadowmaskformer.arrays import Floats
from shadowmaskformer.network.config import NetworkConfig
from shadowmaskformer.network.kinds import check_inputs, input_channels

if TYPE_CHECKING:
    from torch import nn

    from shadowmaskformer.network.base import Network

CONFIG_KEY = "shadowmaskformer.config"


def feed(config: NetworkConfig, inputs: Mapping[str, Floats], used: Collection[str]) -> dict[str, Floats]:
    """Lay out one picture's inputs, (H, W, channels), as a file takes them; only those that it uses."""
    check_inputs(config, inputs)
    planes = {name: inputs[name].transpose(2, 0, 1)[None] for name in input_channels(config) if name in used}
    return {name: np.ascontiguousarray(picture, np.float32) for name, picture in planes.items()}


def head_of(output: Any) -> Floats:
    """Lay out a file's head, (1, n, H, W), as a session gives it."""
    return np.ascontiguousarray(np.asarray(output)[0].transpose(1, 2, 0))


# --- for the exporters, which have PyTorch ----------------------------------------------------------------------------


def for_export(model: Network) -> nn.Module:
    """Return the network with positional inputs, in the order of `input_channels`, and a tuple of outputs."""
    from torch import Tensor, nn

    names = tuple(input_channels(model.config))

    class Exported(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.model = model

        def forward(self, *pictures: Tensor) -> tuple[Tensor, ...]:
            return tuple(model.outputs(dict(zip(names, pictures, strict=True))).values())

    return Exported().eval()


def example(model: Network) -> tuple[Any, ...]:
    """Return inputs for the exporters to trace: no two axes of one length, none of length one."""
    import torch

    generator = torch.Generator().manual_seed(0)
    return tuple(torch.rand(2, n, 48, 64, generator=generator) for n in input_channels(model.config).values())


def output_names(model: Network) -> tuple[str, ...]:
    """Return the names of the outputs, in order."""
    import torch

    pictures = dict(zip(input_channels(model.config), example(model), strict=True))
    with torch.no_grad():
        return tuple(model.outputs({name: picture[:1, :, :8, :8] for name, picture in pictures.items()}))
