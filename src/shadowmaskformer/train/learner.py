"""The network with its optimiser and its averaged weights: one step at a time, one state to save."""

from __future__ import annotations

import copy
import dataclasses
import math
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import nn

from shadowmaskformer.errors import ConfigError, TrainingError
from shadowmaskformer.network import weights
from shadowmaskformer.network.base import Network
from shadowmaskformer.network.kinds import config_to_dict, kind_of
from shadowmaskformer.train.batches import Batch
from shadowmaskformer.train.config import TrainConfig, differences
from shadowmaskformer.train.processes import Processes
from shadowmaskformer.train.tasks import Task, task_of


class Learner:
    """Takes optimiser steps; `averaged` is the network to validate and keep."""

    def __init__(
        self,
        config: TrainConfig,
        processes: Processes,
        init: str | Path | None = None,
        task: Task | None = None,
    ) -> None:
        """Start from the recipe's seed, or from the weights `init`; None takes the recipe's task."""
        self._config, self._device, self._task = config, processes.device, task or task_of(config)
        self.model = _first_model(config, init).to(processes.device).use_native().train()
        self._wrapped = processes.wrap(self.model)
        self.averaged = copy.deepcopy(self.model) if config.ema_decay else self.model
        self._optimiser = torch.optim.AdamW(
            _groups(self.model, config.rates),
            lr=config.learning_rate,
            betas=(0.9, config.beta2),
            weight_decay=config.weight_decay,
            fused=True,
        )
        cuda = processes.device.type == "cuda"
        self._autocast = cuda and config.precision == "mixed" and torch.cuda.is_bf16_supported()

    def step(self, batch: Batch, number: int, learning_rate: float) -> float:
        """Take step `number`.

        Returns:
            This process's loss; NaN if the gradient was not finite, and then no weight was touched.
        """
        for group in self._optimiser.param_groups:
            group["lr"] = learning_rate * group["share"]
        self._optimiser.zero_grad(set_to_none=True)
        with torch.autocast(self._device.type, torch.bfloat16, enabled=self._autocast):
            output = self._wrapped(**batch.inputs, view=batch.view)
        loss = self._task.loss(output.float(), batch)
        loss.backward()
        # The gradient is already the mean over processes here, so all of them judge it alike.
        norm = nn.utils.clip_grad_norm_(self.model.parameters(), self._config.clip_norm or math.inf)
        if not torch.isfinite(norm):
            return math.nan
        self._optimiser.step()
        if self._config.ema_decay:
            self._average(number)
        return loss.item()

    @torch.no_grad()
    def _average(self, number: int) -> None:
        # A short memory at first, or the average would drag the random start along.
        decay = min(self._config.ema_decay, (1 + number) / (10 + number))
        for average, now in zip(self.averaged.parameters(), self.model.parameters(), strict=True):
            average.lerp_(now, 1 - decay)

    def state(self) -> dict[str, Any]:
        """Return everything that the next step depends on."""
        return {
            "model": self.model.state_dict(),
            "averaged": self.averaged.state_dict(),
            "optimiser": self._optimiser.state_dict(),
        }

    def restore(self, state: dict[str, Any]) -> None:
        """Go back to a `state`; the settings of the optimiser stay those of the recipe."""
        settings = [_settings(group) for group in self._optimiser.param_groups]
        try:
            self.model.load_state_dict(state["model"])
            if self.averaged is not self.model:
                self.averaged.load_state_dict(state["averaged"])
        except RuntimeError as error:
            raise TrainingError("the checkpoint is of another network than the recipe's", "start a new run") from error
        try:
            self._optimiser.load_state_dict(state["optimiser"])
        except ValueError as error:
            raise TrainingError("the checkpoint has other groups in `rates`", "keep them or start a new run") from error
        for group, chosen in zip(self._optimiser.param_groups, settings, strict=True):
            group.update(chosen)


def _settings(group: dict[str, Any]) -> dict[str, Any]:
    return {name: group[name] for name in ("share", "betas", "weight_decay")}


def _groups(model: nn.Module, rates: Mapping[str, float]) -> list[dict[str, Any]]:
    """Return the parameters in groups of one share of the learning rate each; the first whose name fits counts."""
    groups: dict[float, list[nn.Parameter]] = {}
    for name, parameter in model.named_parameters():
        share = next((share for begin, share in rates.items() if name.startswith(begin)), 1.0)
        groups.setdefault(share, []).append(parameter)
    return [{"params": parameters, "share": share} for share, parameters in groups.items()]


def initial_weights(config: TrainConfig, init: str | Path) -> weights.Arrays:
    """Return the arrays of the weights `init`; raise ConfigError if they are of another network than the recipe's."""
    given, arrays = weights.load(init)
    ours = config.model_config()
    given = dataclasses.replace(given, view_pixels=ours.view_pixels)
    if changes := differences(config_to_dict(ours), config_to_dict(given)):
        text = ", ".join(f"{key} is {ours!r}, theirs {theirs!r}" for key, (ours, theirs) in changes.items())
        raise ConfigError(f"the initial weights are of another network ({text})", "change the recipe to fit them")
    return arrays


def _first_model(config: TrainConfig, init: str | Path | None) -> Network:
    torch.manual_seed(config.seed)
    model_config = config.model_config()
    model = kind_of(model_config).network()(model_config)
    if init is not None:
        arrays = initial_weights(config, init)
        model.load_state_dict({key: torch.from_numpy(array) for key, array in arrays.items()})
    elif config.zero_head:
        for parameter in model.head.parameters():
            nn.init.zeros_(parameter)
    return model


def save_bad_batch(folder: Path, step: int, rank: int, batch: Batch) -> Path:
    """Keep the batch whose gradient was not finite, for a look with `numpy.load`."""
    folder.mkdir(parents=True, exist_ok=True)
    path = folder / f"step-{step:09d}-process-{rank}.npz"
    arrays: dict[str, Any] = {name: t.cpu().numpy() for name, t in (batch.inputs | batch.targets).items()}
    np.savez_compressed(path, **arrays)
    return path
