"""A convolutional network as a list of steps: PyTorch and the native engine both follow it.

Every step makes one map from earlier ones. Parameters are `name.weight`, (outputs, inputs, side, side), or
(channels, 1, side, side) of a depthwise convolution, and `name.bias`; norms are folded into them.
"""

from __future__ import annotations

from typing import NamedTuple

SOURCE = -1
"""Stands for the network's input among a step's inputs."""


class Step(NamedTuple):
    """One step.

    Attributes:
        op: `conv`; `add`, the sum of two maps, the second of which may be 1×1; `enlarge`, twice the size, bilinear
            (PyTorch's `align_corners=False`); `mean`, over the whole map, 1×1.
        inputs: the maps that it takes: numbers of earlier steps, or `SOURCE`.
        channels: of the map that it makes.
        name: prefix of its parameters; convolutions only.
        side: of the convolution's square kernel, odd.
        stride: 1 or 2. Zeros pad the map by (side - stride) // 2 above and left, and below and right as far as the
            result needs, whose size is that of the map over the stride; sizes are multiples of it.
        depthwise: each channel by itself.
        clipped: the result is held to [0, 6] (ReLU6).
    """

    op: str
    inputs: tuple[int, ...]
    channels: int
    name: str = ""
    side: int = 1
    stride: int = 1
    depthwise: bool = False
    clipped: bool = False
