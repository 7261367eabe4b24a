"""A convolutional network as a list of steps: PyTorch and the native engine both follow it.

Every step makes one map from earlier ones. Parameters are `name.weight`, (outputs, inputs, side, side), or
(channels, 1, side, side) of a depthwise convolution, and `name.bias`; norms are folded into them.
"""

from __future__ import annotations

from collections.abc import Sequence
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


def step_shapes(steps: Sequence[Step], source_channels: int) -> dict[str, tuple[int, ...]]:
    """Return name and shape of every parameter of `steps`; the input has `source_channels`."""
    shapes: dict[str, tuple[int, ...]] = {}
    for step in steps:
        if step.op == "conv":
            source = step.inputs[0]
            inputs = 1 if step.depthwise else source_channels if source == SOURCE else steps[source].channels
            shapes[f"{step.name}.weight"] = (step.channels, inputs, step.side, step.side)
            shapes[f"{step.name}.bias"] = (step.channels,)
    return shapes


class Builder:
    """Writes steps down one after the other; every method returns the number of the step that it added."""

    def __init__(self) -> None:
        self.steps: list[Step] = []

    def _added(self, step: Step) -> int:
        self.steps.append(step)
        return len(self.steps) - 1

    def conv(
        self, source: int, channels: int, name: str, side: int = 1, stride: int = 1, *, clipped: bool = False
    ) -> int:
        """Add a convolution over all channels."""
        return self._added(Step("conv", (source,), channels, name, side, stride, clipped=clipped))

    def depthwise(self, source: int, name: str, side: int, stride: int = 1) -> int:
        """Add a depthwise convolution, clipped."""
        channels = self.steps[source].channels
        return self._added(Step("conv", (source,), channels, name, side, stride, depthwise=True, clipped=True))

    def add(self, first: int, second: int) -> int:
        """Add the sum of two maps."""
        return self._added(Step("add", (first, second), self.steps[first].channels))

    def enlarge(self, source: int) -> int:
        """Add a map of twice the size."""
        return self._added(Step("enlarge", (source,), self.steps[source].channels))

    def mean(self, source: int) -> int:
        """Add the mean over the whole map."""
        return self._added(Step("mean", (source,), self.steps[source].channels))
