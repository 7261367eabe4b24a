"""What a learner keeps, and what it takes from the recipe."""

from __future__ import annotations

from typing import Any

import pytest
import torch

from shadowmaskformer.errors import TrainingError
from shadowmaskformer.train.config import TrainConfig
from shadowmaskformer.train.learner import Learner
from shadowmaskformer.train.processes import Processes


def learner(**changes: Any) -> Learner:
    return Learner(TrainConfig(variant="nano", steps=4, **changes), Processes(0, 1, torch.device("cpu")))


def test_a_restored_optimiser_has_the_settings_of_the_recipe():
    before = learner(weight_decay=0.02, beta2=0.999, ema_decay=0.9)
    after = learner(weight_decay=0.5, beta2=0.9, ema_decay=0.9)
    after.restore(before.state())
    (group,) = after._optimiser.param_groups  # pyright: ignore[reportPrivateUsage]
    assert (group["weight_decay"], group["betas"]) == (0.5, (0.9, 0.9))


def test_without_averaging_the_weights_themselves_are_restored():
    before, after = learner(ema_decay=0.9), learner(ema_decay=0.0)
    for parameter in before.averaged.parameters():
        parameter.data.zero_()
    after.restore(before.state())
    assert after.averaged is after.model
    assert any(parameter.abs().sum() > 0 for parameter in after.model.parameters())


def test_other_groups_of_rates_cannot_be_restored():
    with pytest.raises(TrainingError, match="rates"):
        learner(rates={"head": 0.1}).restore(learner().state())
