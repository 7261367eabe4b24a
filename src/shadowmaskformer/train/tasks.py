"""What a network can be trained for.

A task defines how samples become batches, what is minimised, and how a network is validated. The loop, the learner,
checkpoints and the schedule do not depend on it. The kind of network that a recipe trains determines its task. To add
a task, write a class with these methods and add a row to `TASKS`.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any, Protocol

from torch import Tensor

from shadowmaskformer.data import Sample, Samples, Triplet
from shadowmaskformer.errors import ConfigError
from shadowmaskformer.network.base import Network
from shadowmaskformer.network.config import DetectorConfig, ModelConfig
from shadowmaskformer.train.batches import Batch
from shadowmaskformer.train.config import TrainConfig
from shadowmaskformer.train.detection import Detection
from shadowmaskformer.train.journal import ScoreCurve
from shadowmaskformer.train.removal import Removal


class Scores(Protocol):
    """The result of a validation; as a text, one line for the log."""

    def to_dict(self) -> dict[str, float]:
        """Return every score by name; `Validation.decides` is one of them."""
        ...


class Validation(Protocol):
    """A fixed set of held-out pictures."""

    @property
    def decides(self) -> str:
        """The score by which the best weights are kept; larger is better."""
        ...

    def baselines(self) -> Mapping[str, Scores]:
        """Return the scores of what needs no training, by name, to compare with."""
        ...

    def score(self, model: Network, panel: Path | None = None) -> Scores:
        """Score `model` as it will be used; draw a few pictures into the JPEG file `panel`."""
        ...


class Task(Protocol):
    """What a network is trained for, in one run."""

    @property
    def bare(self) -> bool:
        """Whether a picture without a shadow teaches the network anything; a shadow is drawn on it otherwise."""
        ...

    @property
    def relit(self) -> bool:
        """Whether the network sees the relit photo; it is measured once, where pictures are decoded."""
        ...

    @property
    def curves(self) -> Mapping[str, Sequence[ScoreCurve]]:
        """What to plot over time beside the loss, by title."""
        ...

    def facts(self) -> dict[str, Any]:
        """Return what else determines the run, beside recipe and data; a run is not resumed under other facts."""
        ...

    def batch(self, samples: Sequence[Sample], *, view: tuple[int, int] | None, total: int) -> Batch:
        """Stack samples into a batch; see `Batch` for `view` and `total`."""
        ...

    def loss(self, output: Tensor, batch: Batch) -> Tensor:
        """Return what training minimises, a mean over pictures, for the network's output in float32."""
        ...

    def validation(
        self, groups: Mapping[str, Samples], also: Mapping[str, Sequence[Triplet]], *, pictures: int, size: int
    ) -> Validation:
        """Hold out pictures to score.

        Args:
            groups: training pictures that were held out, by the name of their kind.
            also: further pictures, of other data sets, by the name of the set.
            pictures: how many of each group are scored, spread evenly, whole.
            size: side of these, in pixels.
        """
        ...


TASKS: dict[str, Callable[[TrainConfig], Task]] = {ModelConfig.kind: Removal, DetectorConfig.kind: Detection}
"""The task of each kind of network."""


def task_of(config: TrainConfig) -> Task:
    """Return the task of the network that the recipe trains."""
    kind = config.model_config().kind
    if kind not in TASKS:
        raise ConfigError(f"networks of the kind {kind!r} cannot be trained", f"choose from {', '.join(TASKS)}")
    return TASKS[kind](config)
