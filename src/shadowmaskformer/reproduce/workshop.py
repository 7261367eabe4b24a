"""Train for the experiments: each distinct run once, within its share of the budget."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from shadowmaskformer import data, train
from shadowmaskformer.files import write_atomically
from shadowmaskformer.network import weights
from shadowmaskformer.train.journal import DESCRIPTION, read_log

FINISHED = "finished.json"


@dataclass(frozen=True)
class Run:
    """One training run of the plan.

    Attributes:
        name: what tables print.
        overrides: changes to the recipe, as texts `key=value`.
        held_out: whether the held-out scenes are kept from it.
        recipe: of this run; None is that of all runs.
    """

    name: str
    overrides: tuple[str, ...] = ()
    held_out: bool = False
    recipe: str | None = None


@dataclass(frozen=True)
class Trained:
    """A finished run: its weights, steps and minutes."""

    run: Run
    weights: Path
    steps: int
    minutes: float

    def validations(self) -> list[dict[str, float]]:
        """Return the scores of the floor, then the validations of the run."""
        return [line for line in read_log(self.weights.parent) if line.get("psnr") is not None or "floor_psnr" in line]


class Workshop:
    """Trains the plan's runs and remembers them.

    Args:
        data_folder: the data set that runs train on.
        held_out_folder: the same without the held-out scenes; None where there are none.
        folder: where runs live.
        recipe: name or TOML file.
        overrides: changes to the recipe that all runs share.
        minutes: for each run; None runs the recipe's own length.
        say: called with one line before each training.
        quiet: show no progress bar while training.
    """

    def __init__(
        self,
        data_folder: Path,
        held_out_folder: Path | None,
        folder: Path,
        *,
        recipe: str,
        overrides: Sequence[str] = (),
        minutes: float | None,
        say: Callable[[str], None],
        quiet: bool = True,
    ) -> None:
        self.folder = folder
        self.minutes = minutes
        self._data = {False: data_folder, True: held_out_folder}
        self._recipe = recipe
        self._overrides = tuple(overrides)
        self._say, self._quiet = say, quiet

    @property
    def budget(self) -> str:
        """The budget of a run in words."""
        return "the recipe's own length" if self.minutes is None else f"{self.minutes:.3g} minutes a run"

    def train(self, run: Run) -> Trained:
        """Return the weights of `run`: trained now, resumed, or found finished."""
        source = self._data[run.held_out]
        if source is None:
            raise ValueError(f"run {run.name} needs held-out scenes and there are none")
        out = self.folder / self._slug(run, source)
        facts: dict[str, Any] | None = _finished(out)
        if facts is None:
            self._say(f"training {run.name} ({self.budget})")
            config = self._config(run)
            hours = None if self.minutes is None else self.minutes / 60
            begun = (out / DESCRIPTION).is_file()
            cache = self.folder / ("cache-without-held-out" if run.held_out else "cache-all-scenes")
            result = train.run(config, source, out, hours, resume=begun, cache=cache, quiet=self._quiet)
            if not result.finished:
                raise KeyboardInterrupt
            facts = {"steps": result.steps, "minutes": result.elapsed_s / 60}
            write_atomically(out / FINISHED, json.dumps(facts).encode(), overwrite=True)
        return Trained(run, out / "best", facts["steps"], facts["minutes"])

    def _config(self, run: Run) -> train.TrainConfig:
        return train.load_recipe(run.recipe or self._recipe, [*self._overrides, *run.overrides])

    def _slug(self, run: Run, source: Path) -> str:
        """Return a folder name that changes with everything that determines the run, and with nothing else."""
        dataset = data.open_dataset(source)
        pictures: str | list[str] = data.fingerprint(dataset.split("train", allow_unpaired=True))
        if "valid" in dataset.splits:  # a run is validated on it, and that chooses the best weights
            pictures = [pictures, data.fingerprint(dataset.split("valid", allow_unpaired=True))]
        config = self._config(run)
        shapes = weights.parameter_shapes(config.model_config())
        facts = train.task_of(config).facts()
        text = json.dumps([pictures, config.to_dict(), self.minutes, shapes, facts], sort_keys=True)
        return f"{config.variant}-{config.embedding}-{hashlib.sha256(text.encode()).hexdigest()[:8]}"


def _finished(out: Path) -> dict[str, Any] | None:
    """Return what the run in `out` says about its end; None if it has not ended, or was killed while it said so."""
    try:
        return json.loads((out / FINISHED).read_text(encoding="utf-8"))
    except (FileNotFoundError, ValueError):
        return None


def distinct(runs: Sequence[Run], recipe: str, overrides: Sequence[str]) -> int:
    """Return how many different trainings `runs` are: runs of one configuration count once.

    >>> distinct([Run("a"), Run("b", ("variant=middle",)), Run("c", (), held_out=True)], "paper", [])
    2
    """
    configs = (
        (run.held_out, train.load_recipe(run.recipe or recipe, [*overrides, *run.overrides]).to_dict()) for run in runs
    )
    return len({json.dumps(config, sort_keys=True) for config in configs})


def write_lists(folder: Path, splits: dict[str, Sequence[data.Triplet]]) -> Path:
    """Write list files (`input|mask|gt`) of pictures that are elsewhere; return their folder."""
    folder.mkdir(parents=True, exist_ok=True)
    for split, triplets in splits.items():
        lines = [
            f"{t.shadow.resolve()}|{'' if t.mask is None else t.mask.resolve()}|{t.clean.resolve()}" for t in triplets
        ]
        (folder / f"{split}.txt").write_text("\n".join(lines) + "\n", encoding="utf-8")
    return folder
