"""The network that finds shadows: it takes a photo and tells how deep in shadow each pixel is.

The same network finds shadows by itself, follows a user's hints and cleans up a rough mask. Missing inputs are zero.
It follows `detector_steps`.
"""

from __future__ import annotations

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from shadowmaskformer.network.base import Network
from shadowmaskformer.network.config import DetectorConfig
from shadowmaskformer.network.detector_steps import REDUCTION, detector_steps
from shadowmaskformer.network.kinds import kind_of
from shadowmaskformer.network.reconstruction import scaled
from shadowmaskformer.network.steps import SOURCE, Step, step_shapes


class Detector(Network):
    """Photo, hints and the mask so far in, logit of the shadow's depth out."""

    reduction = REDUCTION

    def __init__(self, config: DetectorConfig | None = None) -> None:
        config = config or DetectorConfig()
        super().__init__(config)
        self._steps = detector_steps(config)
        shapes = step_shapes(self._steps, kind_of(config).channels(config))
        convolutions = [step for step in self._steps if step.op == "conv"]
        for step in convolutions:
            holder, _, last = step.name.rpartition(".")
            _holder(self, holder).add_module(last, _convolution(step, shapes[f"{step.name}.weight"]))
        self.to(memory_format=torch.channels_last)  # type: ignore[call-overload] # several times as fast on a CPU

    def forward(
        self,
        photo: Tensor,
        hints: Tensor | None = None,
        mask: Tensor | None = None,
        view: tuple[int, int] | None = None,
    ) -> Tensor:
        """Find the shadows.

        Args:
            photo: RGB, (B, 3, H, W), [0, 1].
            hints: where a user said shadow, and where not, (B, 2, H, W), [0, 1]; None for no hints.
            mask: the mask so far, (B, 1, H, W), [0, 1]; None for no mask.
            view: height and width at which the network looks; see `Network.look`.

        Returns:
            Logit of the depth, (B, 1, H, W): above 0 is shadow.
        """
        size = (len(photo), 1, *photo.shape[-2:])
        none = torch.zeros(size, dtype=photo.dtype, device=photo.device)
        pictures = {
            "photo": photo,
            "hints": none.expand(-1, 2, -1, -1) if hints is None else hints,
            "mask": none if mask is None else mask,
        }
        return self.look({name: scaled(picture) for name, picture in pictures.items()}, view)

    def predict(self, projected: Tensor) -> Tensor:
        """Return the logit, (B, 1, H, W), for photo, hints and mask, (B, 6, H, W)."""
        height, width = projected.shape[-2:]
        # Written so that exporters see that the padded sides are multiples.
        down, across = (REDUCTION * ((side + REDUCTION - 1) // REDUCTION) for side in (height, width))
        padded = F.pad(projected, (0, across - width, 0, down - height))
        maps: list[Tensor] = []
        for step in self._steps:
            maps.append(self._follow(step, [padded if each == SOURCE else maps[each] for each in step.inputs]))
        return maps[-1][..., :height, :width]

    def _follow(self, step: Step, inputs: list[Tensor]) -> Tensor:
        if step.op == "add":
            return inputs[0] + inputs[1]
        if step.op == "mean":
            return inputs[0].mean((2, 3), keepdim=True)
        if step.op == "enlarge":
            rows, columns = inputs[0].shape[-2:]
            return F.interpolate(inputs[0], (2 * rows, 2 * columns), mode="bilinear")
        seen = inputs[0]
        if step.stride == 2:
            before = (step.side - 2) // 2
            seen = F.pad(seen, (before, step.side - 2 - before) * 2)
        made = self.get_submodule(step.name)(seen)
        return F.relu6(made) if step.clipped else made


def _convolution(step: Step, shape: tuple[int, ...]) -> nn.Conv2d:
    channels, inputs = shape[:2]
    layer = nn.Conv2d(
        channels if step.depthwise else inputs,
        channels,
        step.side,
        step.stride,
        padding=step.side // 2 if step.stride == 1 else 0,
        groups=channels if step.depthwise else 1,
    )
    nn.init.kaiming_normal_(layer.weight, nonlinearity="relu" if step.clipped else "linear")
    assert layer.bias is not None
    nn.init.zeros_(layer.bias)
    return layer


def _holder(module: nn.Module, path: str) -> nn.Module:
    """Return the submodule at a dotted path, made of empty ones where there is none."""
    for name in filter(None, path.split(".")):
        if not hasattr(module, name):
            module.add_module(name, nn.Module())
        module = module.get_submodule(name)
    return module
