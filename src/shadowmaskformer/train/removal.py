"""Training for shadow removal: the inputs are photo, mask and relit start, and the truth is the shadow-free photo."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from torch import Tensor

from shadowmaskformer.arrays import Floats
from shadowmaskformer.data import Sample, Samples, Triplet
from shadowmaskformer.light import relight
from shadowmaskformer.network.kinds import input_channels
from shadowmaskformer.train.batches import Batch, channels_first, plane
from shadowmaskformer.train.config import TrainConfig
from shadowmaskformer.train.journal import ScoreCurve
from shadowmaskformer.train.losses import weighted_loss
from shadowmaskformer.train.validation import Validation


class Removal:
    """The task of a `ShadowMaskFormer`; see `tasks.Task`."""

    bare = False

    def __init__(self, config: TrainConfig) -> None:
        self.relit = "start" in input_channels(config.model_config())
        self._loss = weighted_loss(config.losses)

    @property
    def curves(self) -> dict[str, list[ScoreCurve]]:
        """PSNR and Lab MAE over shadow (S), lit pixels (NS) and all, in unseen and seen scenes."""
        return {"validation PSNR, dB": _curves("psnr"), "validation Lab MAE": _curves("mae")}

    def facts(self) -> dict[str, Any]:
        """Return the rule of relighting, if the network starts from the relit photo."""
        return {"floor": relight.RULE} if self.relit else {}

    def batch(self, samples: Sequence[Sample], *, view: tuple[int, int] | None, total: int) -> Batch:
        """Stack samples; adds the relit photo where the network starts from it."""
        photo, mask, truth = (
            np.stack([getattr(sample, name) for sample in samples]) for name in ("photo", "mask", "truth")
        )
        inputs = {"photo": channels_first(photo), "mask": plane(mask)}
        if self.relit:
            inputs["start"] = channels_first(np.stack([_start(each) for each in samples]))
        return Batch(inputs, {"truth": channels_first(truth)}, view, total)

    def loss(self, output: Tensor, batch: Batch) -> Tensor:
        """Return the recipe's weighted losses."""
        return self._loss(output, batch.targets["truth"], batch.inputs["mask"])

    def validation(
        self, groups: Mapping[str, Samples], also: Mapping[str, Sequence[Triplet]], *, pictures: int, size: int
    ) -> Validation:
        """Score held-out pictures with the field's metrics, and those of other data sets as a user gets them."""
        return Validation(groups, also, pictures=pictures, size=size)


def _start(sample: Sample) -> Floats:
    """Return the relit photo that the network starts from."""
    if sample.start is not None:
        return sample.start
    return relight.start_light(sample.photo, sample.mask).apply(sample.photo)


def _curves(measure: str) -> list[ScoreCurve]:
    return [
        ScoreCurve(
            f"{group}_{measure}_{region}",
            f"{label}, {group} scenes",
            colour,
            style,
            baseline=f"floor_{group}_{measure}_all" if region == "all" else None,
        )
        for colour, (region, label) in enumerate((("shadow", "S"), ("lit", "NS"), ("all", "All")))
        for group, style in (("unseen", "-"), ("seen", ":"))
    ]
