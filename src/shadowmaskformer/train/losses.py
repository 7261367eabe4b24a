"""What training for shadow removal minimises: named losses, weighted by `TrainConfig.losses`.

Each takes (restored, truth, mask), (B, 3, H, W) in [0, 1] and (B, 1, H, W), and returns a mean over pictures,
so that a batch split over processes gives the same gradient as the whole batch.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping

import torch
import torch.nn.functional as F
from torch import Tensor

from shadowmaskformer.errors import ConfigError

Loss = Callable[[Tensor, Tensor, Tensor], Tensor]


def l1(restored: Tensor, truth: Tensor, mask: Tensor) -> Tensor:
    """The paper's loss: mean absolute error on the scale [-1, 1].

    >>> float(l1(torch.zeros(1, 3, 4, 6), torch.full((1, 3, 4, 6), 0.5), torch.zeros(1, 1, 4, 6)))
    1.0
    """
    return 2 * (restored - truth).abs().mean()


def shadow(restored: Tensor, truth: Tensor, mask: Tensor) -> Tensor:
    """`l1` over each picture's shadow alone: small shadows count as much as large ones."""
    error = 2 * (restored - truth).abs().mean(1, keepdim=True)
    # One pixel's worth is added below: a picture without shadow gives zero, not NaN.
    return ((error * mask).sum((1, 2, 3)) / (mask.sum((1, 2, 3)) + 1)).mean()


def pyramid(restored: Tensor, truth: Tensor, mask: Tensor) -> Tensor:
    """`l1` at a quarter and a sixteenth of the size: colour at large, free of texture and misalignment."""
    difference = restored - truth
    return sum((2 * F.avg_pool2d(difference, side).abs().mean() for side in (4, 16)), torch.zeros(())) / 2


def psnr(restored: Tensor, truth: Tensor, mask: Tensor) -> Tensor:
    """Log of each picture's mean squared error: ten times its base-10 logarithm is minus the PSNR.

    The score averages decibels, so an easy picture's last error counts as much as a hard one's first.
    """
    # 1e-4 is 40 dB: better than that the gradient stops growing.
    return torch.log((restored - truth).square().mean((1, 2, 3)) + 1e-4).mean()


def logarithm(restored: Tensor, truth: Tensor, mask: Tensor) -> Tensor:
    """Mean absolute error of the logarithm: a shadow divides light, so equal shares count equally."""
    floor = 1 / 16
    return (torch.log(restored.clamp_min(0) + floor) - torch.log(truth + floor)).abs().mean()


LOSSES: dict[str, Loss] = {
    "l1": l1,
    "shadow": shadow,
    "pyramid": pyramid,
    "psnr": psnr,
    "logarithm": logarithm,
}


def weighted_loss(weights: Mapping[str, float]) -> Loss:
    """Return the sum of the named losses, each times its weight."""
    for name in weights:
        if name not in LOSSES:
            raise ConfigError(f"no loss {name!r}; choose from {', '.join(LOSSES)}")
    parts = [(LOSSES[name], weight) for name, weight in weights.items() if weight]
    if not parts:
        raise ConfigError("every loss has weight 0; give at least one, such as losses.l1=1")

    def total(restored: Tensor, truth: Tensor, mask: Tensor) -> Tensor:
        return torch.stack([weight * loss(restored, truth, mask) for loss, weight in parts]).sum()

    return total
