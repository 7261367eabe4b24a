"""A second task: a network that finds shadows. All it takes to train it is in this file."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, ClassVar

import numpy as np
import pytest

torch = pytest.importorskip("torch")

from torch import Tensor  # noqa: E402

from shadowmaskformer import train  # noqa: E402
from shadowmaskformer.data import Sample, Samples, Triplet  # noqa: E402
from shadowmaskformer.errors import ConfigError  # noqa: E402
from shadowmaskformer.network import weights  # noqa: E402
from shadowmaskformer.network.config import UConfig  # noqa: E402
from shadowmaskformer.network.kinds import KINDS, Kind  # noqa: E402
from shadowmaskformer.network.model import UNetwork  # noqa: E402
from shadowmaskformer.network.reconstruction import scaled  # noqa: E402
from shadowmaskformer.train.batches import Batch  # noqa: E402
from shadowmaskformer.train.config import TrainConfig, without_effect  # noqa: E402
from shadowmaskformer.train.journal import ScoreCurve, read_log  # noqa: E402
from shadowmaskformer.train.tasks import TASKS, task_of  # noqa: E402
from train.pairs import QUICK, write_pairs  # noqa: E402


@dataclass(frozen=True, kw_only=True)
class FinderConfig(UConfig):
    kind: ClassVar[str] = "finder"


class Finder(UNetwork):
    def forward(self, photo: Tensor, view: tuple[int, int] | None = None) -> Tensor:
        return self.look({"photo": scaled(photo)}, view)


class Finding:
    bare = True
    relit = False
    curves: Mapping[str, Sequence[ScoreCurve]] = {"agreement": [ScoreCurve("agreement", "all")]}

    def __init__(self, config: TrainConfig) -> None: ...

    def facts(self) -> dict[str, Any]:
        return {"finding": 1}

    def batch(self, samples: Sequence[Sample], *, view: tuple[int, int] | None, total: int) -> Batch:
        photo = torch.from_numpy(np.stack([each.photo.transpose(2, 0, 1) for each in samples]))
        mask = torch.from_numpy(np.stack([each.mask[None] for each in samples]))
        return Batch({"photo": photo}, {"mask": mask}, view, total)

    def loss(self, output: Tensor, batch: Batch) -> Tensor:
        return torch.nn.functional.binary_cross_entropy_with_logits(output, batch.targets["mask"])

    def validation(
        self, groups: Mapping[str, Samples], also: Mapping[str, Sequence[Triplet]], *, pictures: int, size: int
    ) -> Agreement:
        return Agreement([samples.whole(0, size) for samples in groups.values()])


class Agreement:
    decides = "agreement"

    def __init__(self, samples: list[Sample]) -> None:
        self._samples = samples

    def baselines(self) -> dict[str, Share]:
        return {"nothing": Share(float(np.mean([(each.mask < 0.5).mean() for each in self._samples])))}

    def score(self, model: UNetwork, panel: Path | None = None) -> Share:
        batch = Finding(QUICK).batch(self._samples, view=None, total=1)
        with torch.no_grad():
            found = model(**batch.inputs) > 0
        return Share(float((found == (batch.targets["mask"] > 0.5)).float().mean()))


@dataclass
class Share:
    agreement: float

    def to_dict(self) -> dict[str, float]:
        return dataclasses.asdict(self)


def test_a_second_task_is_a_class_and_a_row(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    row = Kind(
        config=FinderConfig,
        inputs=lambda config: {"photo": 3},
        project=lambda pictures, config: (pictures["photo"],),
        channels=lambda config: 3,
        head_channels=1,
        network=lambda: Finder,
        variants={"finder": FinderConfig(depths=(1, 1, 2, 1, 1))},
    )
    monkeypatch.setitem(KINDS, "finder", row)
    recipe = dataclasses.replace(QUICK, variant="finder", depths=(), steps=4)
    with pytest.raises(ConfigError, match="kind 'finder' cannot be trained; choose from shadowmaskformer"):
        task_of(recipe)
    monkeypatch.setitem(TASKS, "finder", Finding)

    assert without_effect(recipe, ["w1", "seed"], None) == ["w1 has no effect: networks of the kind 'finder' have none"]
    data = write_pairs(tmp_path / "pairs")
    result = train.run(recipe, data, tmp_path / "run")
    assert result.finished
    assert result.best is not None
    assert 0 <= result.best["agreement"] <= 1
    config, arrays = weights.load(tmp_path / "run" / "best")
    assert isinstance(config, FinderConfig)
    assert arrays["head.weight"].shape[0] == 1
    log = read_log(tmp_path / "run")
    assert "nothing_agreement" in log[0]
    assert (tmp_path / "run" / "curves.png").stat().st_size > 10_000
    assert train.run(recipe, data, tmp_path / "run", resume=True).steps == 4
