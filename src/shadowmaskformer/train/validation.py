"""Validation of shadow removal: scores on held-out pictures with the field's real metrics, and drawings of the results.

Most of SRD's test pictures show scenes of its training pictures, while photographs from elsewhere never do. Both kinds
are therefore held out and scored separately. Pairs of other data sets are also scored, on the result that a user gets.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import NamedTuple

import numpy as np
from PIL import Image

from shadowmaskformer.arrays import from_float
from shadowmaskformer.data import Sample, Samples, Triplet
from shadowmaskformer.data.adjust import adjust_clean
from shadowmaskformer.evaluate.as_used import UsedRegions, UsedScores, used_scores, worst_tenth
from shadowmaskformer.evaluate.methods import EvaluationPicture, MaskSource
from shadowmaskformer.evaluate.protocols import as_float
from shadowmaskformer.light.relight import start_light
from shadowmaskformer.metrics import Regions, absolute_error, lab_d50, psnr, region_mean
from shadowmaskformer.network.base import Network
from shadowmaskformer.photo import Photo
from shadowmaskformer.removal.remover import ShadowRemover
from shadowmaskformer.removal.task import correct
from shadowmaskformer.runtimes.torch import TorchSession
from shadowmaskformer.train.batches import spread

PANEL_ROWS = 6
PANEL_SIDE = 192
ERROR_GAIN = 4
"""The error column of a panel shows this multiple of the absolute error."""


@dataclass(frozen=True)
class GroupScores:
    """Means over one group of pictures: PSNR in dB and Lab MAE, over shadow, lit pixels and all."""

    psnr: Regions
    mae: Regions

    def __str__(self) -> str:
        return "{:.2f} / {:.2f} / {:.2f} dB, ".format(*self.psnr) + "MAE {:.2f} / {:.2f} / {:.2f}".format(*self.mae)


@dataclass(frozen=True)
class ValidationScores:
    """The scores of each group, by its name."""

    groups: Mapping[str, GroupScores]
    used: Mapping[str, UsedMeans]

    @property
    def psnr(self) -> float:
        """What decides between two networks: PSNR over all pixels, mean of the groups."""
        return float(np.mean([group.psnr.all for group in self.groups.values()]))

    def to_dict(self) -> dict[str, float]:
        """Return them flat: `psnr`, `unseen_psnr_shadow`, …, `seen_mae_all`, rounded to four decimals."""
        named = {"psnr": self.psnr} | {
            f"{name}_{measure}_{region}": value
            for name, group in self.groups.items()
            for measure, regions in (("psnr", group.psnr), ("mae", group.mae))
            for region, value in regions._asdict().items()
        }
        if self.used:
            named["used"] = float(np.mean([(each.shadow + each.edge) / 2 for each in self.used.values()]))
        named |= {f"{name}_{key}": value for name, each in self.used.items() for key, value in each._asdict().items()}
        return {name: round(value, 4) for name, value in named.items()}

    def __str__(self) -> str:
        groups = [f"{name} scenes {group}" for name, group in self.groups.items()]
        return "; ".join(groups + [f"{name} {means}" for name, means in self.used.items()])


class UsedMeans(NamedTuple):
    """Means over the pictures of another data set as a user gets them with exact masks, dB; see `evaluate.as_used`."""

    shadow: float
    edge: float
    all: float
    worst: float

    def __str__(self) -> str:
        return "as used S {:.2f}, edge {:.2f}, all {:.2f}, worst tenth {:.2f} dB".format(*self)


class _UsedPicture:
    """One picture of another data set, its truth in the photo's own light."""

    def __init__(self, triplet: Triplet) -> None:
        picture = EvaluationPicture(triplet, MaskSource("dataset" if triplet.mask else "derived"))
        photo, truth, mask = (
            as_float(each).astype(np.float32) for each in (picture.photo, picture.truth, picture.mask)
        )
        self.photo, self.mask = Photo(picture.photo), mask
        self.truth = adjust_clean(photo, truth, mask)
        self.regions = UsedRegions.of(picture.region)

    def score(self, remover: ShadowRemover) -> UsedScores:
        result = remover.remove_from_photo(self.photo, self.mask, exact_mask=True).after.pixels
        return used_scores(as_float(result), self.truth.astype(np.float64), self.regions)


class Validation:
    """A fixed set of held-out pictures, in groups."""

    def __init__(
        self, groups: Mapping[str, Samples], also: Mapping[str, Sequence[Triplet]], *, pictures: int, size: int
    ) -> None:
        """Take `pictures` of each group, spread evenly: held-out ones whole at `size`×`size` pixels, others as is.

        Where other data sets are scored, they decide: mean PSNR of the shadow and of the band around its edge, since
        what a user looks at is whether the shadow is gone and whether its outline is.
        """
        self.decides = "used" if also else "psnr"
        self._used = {
            name: [_UsedPicture(triplets[index]) for index in spread(len(triplets), pictures)]
            for name, triplets in also.items()
        }
        self.groups = {name: _spread(samples, pictures, size) for name, samples in groups.items()}
        names = [sample.name for group in self.groups.values() for sample in group]
        self._shown = {names[index] for index in spread(len(names), PANEL_ROWS)}

    def baselines(self) -> dict[str, ValidationScores]:
        """Return the scores of doing nothing, and of the floor: relighting without a network."""
        return {
            "input": self._score(lambda sample: sample.photo, None),
            "floor": self._score(
                lambda sample: start_light(sample.photo, sample.mask).apply(sample.photo),
                ShadowRemover(method="relight"),
            ),
        }

    def score(self, model: Network, panel: Path | None = None) -> ValidationScores:
        """Score `model` as it will be used; draws a few pictures into the JPEG file `panel`."""
        drawn: list[np.ndarray] = []
        session = TorchSession(model)

        def restore(sample: Sample) -> np.ndarray:
            result = np.clip(correct(session, sample.photo, sample.mask).apply(sample.photo), 0, 1)
            if sample.name in self._shown:
                drawn.append(panel_row(result, sample))
            return result

        model.eval()
        scores = self._score(restore, ShadowRemover(session))
        model.train()
        if panel is not None:
            panel.parent.mkdir(parents=True, exist_ok=True)
            Image.fromarray(np.concatenate(drawn)).save(panel, quality=90)
        return scores

    def _score(self, restore: Callable[[Sample], np.ndarray], remover: ShadowRemover | None) -> ValidationScores:
        groups = {name: _mean_scores(restore, group) for name, group in self.groups.items()}
        used: dict[str, UsedMeans] = {}
        if remover is not None:
            used = {name: _means_used([each.score(remover) for each in group]) for name, group in self._used.items()}
        return ValidationScores(groups, used)


def _means_used(scores: Sequence[UsedScores]) -> UsedMeans:
    means = _mean_finite([[each.shadow, each.edge, each.all] for each in scores])
    return UsedMeans(*means, worst=worst_tenth(np.array([each.shadow for each in scores])))


def _spread(samples: Samples, pictures: int, size: int) -> list[Sample]:
    return [samples.whole(index, size) for index in spread(len(samples), pictures)]


def _mean_scores(restore: Callable[[Sample], np.ndarray], samples: Sequence[Sample]) -> GroupScores:
    psnrs, maes = [], []
    for sample in samples:
        result = restore(sample)
        shadow = sample.mask > 0
        error = absolute_error(lab_d50(result), lab_d50(sample.truth))
        regions = (shadow, ~shadow, None)
        psnrs.append([psnr(result, sample.truth, region) for region in regions])
        maes.append([region_mean(error, region) for region in regions])
    return GroupScores(Regions(*_mean_finite(psnrs)), Regions(*_mean_finite(maes)))


def _mean_finite(rows: list[list[float]]) -> list[float]:
    """Return column means without the cells that have no number: an empty region, a perfect match."""
    columns = np.array(rows).T
    return [
        float(column[np.isfinite(column)].mean()) if np.isfinite(column).any() else float("nan") for column in columns
    ]


def panel_row(result: np.ndarray, sample: Sample) -> np.ndarray:
    """Return input, mask, result, truth, error side by side; uint8 RGB."""
    mask = np.repeat(sample.mask[..., None], 3, axis=2)
    error = np.abs(result - sample.truth) * ERROR_GAIN
    return np.concatenate([_thumbnail(cell) for cell in (sample.photo, mask, result, sample.truth, error)], axis=1)


def _thumbnail(picture: np.ndarray) -> np.ndarray:
    image = Image.fromarray(from_float(picture))
    return np.asarray(image.resize((PANEL_SIDE, PANEL_SIDE), Image.Resampling.BOX))
