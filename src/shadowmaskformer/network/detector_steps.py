"""The steps of the network that finds shadows. No PyTorch.

Down to 1/32 of the size it is EfficientNet-Lite0, whose weights were trained on many pictures. The way back up adds
what was seen at 1/16, 1/8, 1/4 and 1/2 of the size.
"""

from __future__ import annotations

from shadowmaskformer.network.config import DetectorConfig
from shadowmaskformer.network.steps import SOURCE, Builder, Step

REDUCTION = 32
"""Sizes must be multiples of this."""
STEM = 32
STAGES = ((3, 1, 1, 16, 1), (3, 2, 6, 24, 2), (5, 2, 6, 40, 2), (3, 2, 6, 80, 3), (5, 1, 6, 112, 3), (5, 2, 6, 192, 1))
"""Of EfficientNet-Lite0: side of the depthwise kernel, stride, expansion, channels, blocks; up to here."""


def detector_steps(config: DetectorConfig) -> list[Step]:
    """Return the steps from photo, hints and mask to the logit of the depth, at the photo's size."""
    net = Builder()
    smallest, *larger = reversed(_encoder(net))
    deep, *wide = config.widths
    x = net.conv(smallest, deep, "lateral.0")
    x = net.add(x, net.conv(net.mean(smallest), deep, "context"))
    for index in range(2):
        mixed = net.conv(net.depthwise(x, f"mix.{index}.depthwise", 5), deep, f"mix.{index}.project")
        x = net.add(x, mixed)
    for index, (seen, width) in enumerate(zip(larger, wide, strict=True), start=1):
        x = net.enlarge(net.conv(x, width, f"reduce.{index}", clipped=True))
        x = net.add(x, net.conv(seen, width, f"lateral.{index}"))
        x = net.conv(net.depthwise(x, f"up.{index}.depthwise", 5), width, f"up.{index}.project", clipped=True)
    net.enlarge(net.conv(x, 1, "head", 3))
    return net.steps


def _encoder(net: Builder) -> list[int]:
    """Add EfficientNet-Lite0 and return its last map of each size, the largest first."""
    x = net.conv(SOURCE, STEM, "stem", 3, 2, clipped=True)
    last, channels, number = [x], STEM, 0
    for side, stride, expansion, width, blocks in STAGES:
        for block in range(blocks):
            name, wide = f"encoder.{number}", x
            if expansion > 1:
                wide = net.conv(x, channels * expansion, f"{name}.expand", clipped=True)
            wide = net.depthwise(wide, f"{name}.depthwise", side, 1 if block else stride)
            made = net.conv(wide, width, f"{name}.project")
            x = net.add(x, made) if block else made
            channels, number = width, number + 1
        last = [*last, x] if stride == 2 else [*last[:-1], x]
    return last
