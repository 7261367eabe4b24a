"""Where a run stands: progress in [0, 1], and the stage and learning rate that follow from it."""

from __future__ import annotations

import math
from dataclasses import dataclass

from shadowmaskformer.train.config import TrainConfig


def stage_at(config: TrainConfig, progress: float) -> int:
    """Return the stage of the run at `progress`: the last one whose start has been passed.

    >>> config = TrainConfig(sizes=(64, 128), batches=(4, 2), shares=(0.5, 0.5))
    >>> [stage_at(config, p) for p in (0.0, 0.49, 0.5, 1.0)]
    [0, 0, 1, 1]
    """
    end = 0.0
    for stage, share in enumerate(config.shares):
        end += share
        if progress < end - 1e-9:
            return stage
    return len(config.shares) - 1


def learning_rate_at(config: TrainConfig, progress: float) -> float:
    """Return the learning rate at `progress`: a linear climb over `warmup`, then a cosine to the final rate.

    >>> config = TrainConfig(learning_rate=1.0, warmup=0.2)
    >>> [round(learning_rate_at(config, p), 3) for p in (0.0, 0.1, 0.2, 0.6, 1.0)]
    [0.0, 0.5, 1.0, 0.5, 0.0]
    """
    if progress < config.warmup:
        return config.learning_rate * progress / config.warmup
    fraction = min(1.0, (progress - config.warmup) / (1 - config.warmup))
    low, high = config.final_learning_rate, config.learning_rate
    return low + (high - low) * (1 + math.cos(math.pi * fraction)) / 2


@dataclass(frozen=True)
class Schedule:
    """How far along a run is, by the clock if it has a time budget, else by steps or pictures.

    Attributes:
        config: the recipe.
        pictures: training pictures in one epoch.
        budget_s: the time budget; None follows the recipe's length.
    """

    config: TrainConfig
    pictures: int
    budget_s: float | None = None

    def progress(self, step: int, drawn: int, elapsed_s: float) -> float:
        """Return the share of the run that is over after `step` steps, `drawn` pictures and `elapsed_s` seconds."""
        if self.budget_s is not None:
            done = elapsed_s / self.budget_s
        elif self.config.steps:
            done = step / self.config.steps
        else:
            done = drawn / (self.config.epochs * self.pictures)
        return min(1.0, done)
