"""Training for shadow removal: the inputs are photo, mask and relit start, and the truth is the shadow-free photo."""

from __future__ import annotations

import zlib
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import torch
from torch import Tensor

from shadowmaskformer.arrays import Floats
from shadowmaskformer.data import Sample, Samples, Triplet
from shadowmaskformer.light import relight
from shadowmaskformer.network.kinds import input_channels
from shadowmaskformer.train.batches import Batch
from shadowmaskformer.train.config import TrainConfig
from shadowmaskformer.train.journal import ScoreCurve
from shadowmaskformer.train.losses import weighted_loss
from shadowmaskformer.train.validation import Validation

REMEMBERED_BYTES = 2 << 30
"""What relit pictures may take up in memory, where the same ones come back in every epoch."""
SAME_AGAIN = frozenset({"flip"})
"""Augmentation that makes so few different pictures of one that remembering them pays."""


class Removal:
    """The task of a `ShadowMaskFormer`; see `tasks.Task`."""

    bare = False

    def __init__(self, config: TrainConfig) -> None:
        self._relit = "start" in input_channels(config.model_config())
        self._loss = weighted_loss(config.losses)
        self._starts = _Starts(remember={key for key, share in config.augment.items() if share} <= SAME_AGAIN)

    @property
    def curves(self) -> dict[str, list[ScoreCurve]]:
        """PSNR and Lab MAE over shadow (S), lit pixels (NS) and all, in unseen and seen scenes."""
        return {"validation PSNR, dB": _curves("psnr"), "validation Lab MAE": _curves("mae")}

    def facts(self) -> dict[str, Any]:
        """Return the rule of relighting, if the network starts from the relit photo."""
        return {"floor": relight.RULE} if self._relit else {}

    def batch(self, samples: Sequence[Sample], *, view: tuple[int, int] | None, total: int) -> Batch:
        """Stack samples; adds the relit photo where the network starts from it."""
        photo, mask, truth = (
            np.stack([getattr(sample, name) for sample in samples]) for name in ("photo", "mask", "truth")
        )
        inputs = {"photo": _channels_first(photo), "mask": torch.from_numpy(mask[:, None])}
        if self._relit:
            inputs["start"] = _channels_first(np.stack([self._starts.of(each) for each in samples]))
        return Batch(inputs, {"truth": _channels_first(truth)}, view, total)

    def loss(self, output: Tensor, batch: Batch) -> Tensor:
        """Return the recipe's weighted losses."""
        return self._loss(output, batch.targets["truth"], batch.inputs["mask"])

    def validation(
        self, groups: Mapping[str, Samples], also: Mapping[str, Sequence[Triplet]], *, pictures: int, size: int
    ) -> Validation:
        """Score held-out pictures with the field's metrics, and those of other data sets as a user gets them."""
        return Validation(groups, also, pictures=pictures, size=size)


class _Starts:
    """The relit photos that the network starts from. Measuring light takes a third of a training step."""

    def __init__(self, *, remember: bool) -> None:
        self._room = REMEMBERED_BYTES if remember else 0
        self._known: dict[tuple[int, int], np.ndarray] = {}

    def of(self, sample: Sample) -> Floats:
        key = zlib.crc32(sample.photo.data), zlib.crc32(sample.mask.data)
        if key not in self._known:
            start = relight.start_light(sample.photo, sample.mask).apply(sample.photo)
            if self._room < start.nbytes:
                return start
            self._room -= start.nbytes
            self._known[key] = start
        return self._known[key]


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


def _channels_first(pictures: np.ndarray) -> Tensor:
    return torch.from_numpy(np.ascontiguousarray(pictures.transpose(0, 3, 1, 2)))
