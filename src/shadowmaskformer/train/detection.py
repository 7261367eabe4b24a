"""Training for shadow detection: from a photo, perhaps with hints or a rough mask, to the shadow's depth."""

from __future__ import annotations

import zlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import torch.nn.functional as F
from PIL import Image
from torch import Tensor

from shadowmaskformer.arrays import Floats, from_float
from shadowmaskformer.data import Sample, Samples, Triplet
from shadowmaskformer.detect.hints import Hint
from shadowmaskformer.detect.scores import Counts, count, next_click
from shadowmaskformer.detect.task import look
from shadowmaskformer.errors import ConfigError
from shadowmaskformer.network.base import Network
from shadowmaskformer.runtimes import Session
from shadowmaskformer.runtimes.torch import TorchSession
from shadowmaskformer.train.batches import Batch, channels_first, plane, spread
from shadowmaskformer.train.config import TrainConfig
from shadowmaskformer.train.guidance import guide
from shadowmaskformer.train.journal import ScoreCurve

LEAST_SHARE = 0.1
"""Shadows smaller than this share of the picture weigh less: a few pixels must not be worth any false alarm."""
SPECK = 0.05
"""Added to both sides of the overlap, as a share of the picture: so much found without a shadow is half of the loss."""
CLICKS = 3
PANEL_COLUMNS, PANEL_SIDE = 8, 160


class Detection:
    """The task of a `Detector`; see `tasks.Task`."""

    bare = True
    relit = False

    def __init__(self, config: TrainConfig) -> None:
        self._seed = config.seed

    @property
    def curves(self) -> dict[str, list[ScoreCurve]]:
        """Balance error rate of each group, false area, and IoU after clicks."""
        return {
            "validation BER, %": [ScoreCurve("pairs_ber", "pairs", 0), ScoreCurve("drawn_ber", "drawn masks", 1)],
            "false area without shadow, %": [ScoreCurve("bare_area", "all", 0)],
            "IoU, drawn masks": [
                ScoreCurve("drawn_iou", "no click", 0),
                ScoreCurve("drawn_iou_clicked", f"{CLICKS} clicks", 1),
            ],
        }

    def facts(self) -> dict[str, Any]:
        """Return nothing: recipe and data determine the run."""
        return {}

    def batch(self, samples: Sequence[Sample], *, view: tuple[int, int] | None, total: int) -> Batch:
        """Stack samples with hints and rough masks, which depend on the sample alone."""
        guided = [guide(each.photo, each.mask, np.random.default_rng(self._key(each))) for each in samples]
        photo = np.stack([each.photo for each in samples])
        hints, mask, depth = (np.stack([each[place] for each in guided]) for place in range(3))
        inputs = {"photo": channels_first(photo), "hints": channels_first(hints), "mask": plane(mask)}
        return Batch(inputs, {"depth": plane(depth)}, view, total)

    def _key(self, sample: Sample) -> tuple[int, int]:
        return self._seed, zlib.crc32(np.ascontiguousarray(sample.photo[::5, ::5]).tobytes())

    def loss(self, output: Tensor, batch: Batch) -> Tensor:
        """Return balanced cross-entropy plus Dice."""
        depth = batch.targets["depth"]
        return balanced_entropy(output, depth) + dice(output, depth)

    def validation(
        self, groups: Mapping[str, Samples], also: Mapping[str, Sequence[Triplet]], *, pictures: int, size: int
    ) -> Validation:
        """Hold out pictures of all groups together; what is known about them sorts them."""
        if also:
            raise ConfigError("pairs of other data sets are scored for shadow removal only", "leave {also} out")
        return Validation(list(groups.values()), pictures=pictures, size=size)


def balanced_entropy(logit: Tensor, depth: Tensor) -> Tensor:
    """Cross-entropy in which shadow and light count alike, unless the shadow is small; every picture counts alike.

    >>> import torch
    >>> logit, depth = torch.zeros(1, 1, 4, 6), torch.zeros(1, 1, 4, 6)
    >>> round(float(balanced_entropy(logit, depth)) / float(torch.log(torch.tensor(2.0))), 3)
    1.0
    """
    share = depth.mean((1, 2, 3), keepdim=True)
    shadow = 0.5 / share.clamp_min(LEAST_SHARE)
    light = (1 - shadow * share) / (1 - share).clamp_min(LEAST_SHARE)
    weight = depth * shadow + (1 - depth) * light
    return (F.binary_cross_entropy_with_logits(logit, depth, reduction="none") * weight).mean()


def dice(logit: Tensor, depth: Tensor) -> Tensor:
    """One minus the overlap of what was found with what is there; without shadow, what was found at all."""
    found, speck = logit.sigmoid(), SPECK * depth[0].numel()
    overlap = 2 * (found * depth).sum((1, 2, 3)) + speck
    return (1 - overlap / (found.square().sum((1, 2, 3)) + depth.square().sum((1, 2, 3)) + speck)).mean()


@dataclass(frozen=True)
class DetectionScores:
    """The scores of a validation, by name."""

    named: Mapping[str, float]

    def to_dict(self) -> dict[str, float]:
        """Return them, rounded to four decimals."""
        return {name: round(value, 4) for name, value in self.named.items()}

    def __str__(self) -> str:
        return ", ".join(f"{name} {value:.3g}" for name, value in self.named.items())


class Validation:
    """Held-out pictures, sorted by what is known of them.

    `pairs` have a clean picture, of `drawn` only a mask is known, `bare` ones have no shadow.
    """

    decides = "score"

    def __init__(self, held_out: Sequence[Samples], *, pictures: int, size: int) -> None:
        self.groups: dict[str, list[Sample]] = {"pairs": [], "drawn": [], "bare": []}
        for samples in held_out:
            for index in spread(len(samples), pictures):
                sample = samples.whole(index, size)
                known = not np.array_equal(sample.photo, sample.truth)
                shadow = bool((sample.mask > 0.5).any())
                self.groups["bare" if not shadow else "pairs" if known else "drawn"].append(sample)

    def baselines(self) -> dict[str, DetectionScores]:
        """Return the scores of taking the darkest third for shadow."""
        return {"darkness": self._score(lambda sample, hints: _darkest(sample.photo))}

    def score(self, model: Network, panel: Path | None = None) -> DetectionScores:
        """Score `model` as it will be used; draws some pictures, with what was found in red, into `panel`."""
        session: Session = TorchSession(model)
        model.eval()
        scores = self._score(lambda sample, hints: look(session, sample.photo, hints))
        if panel is not None:
            panel.parent.mkdir(parents=True, exist_ok=True)
            _draw(session, [each for group in self.groups.values() for each in group], panel)
        model.train()
        return scores

    def _score(self, found: Any) -> DetectionScores:
        named: dict[str, float] = {}
        for name, group in self.groups.items():
            counts = [_counted(found(sample, ()), sample) for sample in group]
            if name == "bare":
                named["bare_area"] = 100 * float(np.mean([each.found for each in counts])) if counts else 0.0
            elif counts:
                named[f"{name}_ber"] = 100 * Counts.sum(counts).ber
                named[f"{name}_iou"] = float(np.mean([each.iou for each in counts]))
        if drawn := self.groups["drawn"]:
            named["drawn_iou_clicked"] = float(np.mean([self._clicked(found, sample) for sample in drawn]))
        errors = [value for name, value in named.items() if name.endswith("_ber")]
        named = {"score": 100 - float(np.mean(errors or [0])) - named.get("bare_area", 0)} | named
        return DetectionScores(named)

    def _clicked(self, find: Any, sample: Sample) -> float:
        hints: tuple[Hint, ...] = ()
        found = find(sample, hints)
        for _ in range(CLICKS):
            hint = next_click(_enlarged(found, sample) > 0.5, sample.mask > 0.5)
            if hint is None:
                break
            hints = (*hints, hint)
            found = find(sample, hints)
        return _counted(found, sample).iou


def _enlarged(found: Floats, sample: Sample) -> Floats:
    height, width = sample.mask.shape
    return np.asarray(Image.fromarray(found).resize((width, height), Image.Resampling.BILINEAR))


def _counted(found: Floats, sample: Sample) -> Counts:
    return count(_enlarged(found, sample) > 0.5, sample.mask > 0.5)


def _darkest(photo: Floats) -> Floats:
    brightness = photo.mean(axis=2)
    return (brightness < np.quantile(brightness, 1 / 3)).astype(np.float32)


def _draw(session: Session, samples: list[Sample], path: Path) -> None:
    chosen = [samples[index] for index in spread(len(samples), 4 * PANEL_COLUMNS)]
    cells: list[np.ndarray] = []
    for sample in chosen:
        found = _enlarged(look(session, sample.photo), sample)[..., None]
        marked = sample.photo * (1 - 0.6 * found) + 0.6 * found * np.array([1, 0.1, 0.1], np.float32)
        truth = np.repeat(sample.mask[..., None], 3, axis=2)
        both = [Image.fromarray(from_float(each)).resize((PANEL_SIDE, PANEL_SIDE)) for each in (marked, truth)]
        cells.append(np.concatenate([np.asarray(each) for each in both]))
    cells += [np.zeros_like(cells[0])] * (-len(cells) % PANEL_COLUMNS)
    rows = [np.concatenate(cells[i : i + PANEL_COLUMNS], axis=1) for i in range(0, len(cells), PANEL_COLUMNS)]
    Image.fromarray(np.concatenate(rows)).save(path, quality=88)
