"""Scoring a network on held-out scenes with the field's real metrics, and drawing what it did."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import torch
from PIL import Image
from torch import nn

from shadowmaskformer.data import Sample, Samples
from shadowmaskformer.metrics import Regions, absolute_error, lab_d50, psnr, region_mean
from shadowmaskformer.train.batches import Batch, relit_photo, to_batch

PANEL_ROWS = 6
PANEL_SIDE = 192
ERROR_GAIN = 4
"""The error column of a panel shows this multiple of the absolute error."""


@dataclass(frozen=True)
class ValidationScores:
    """Means over the validation pictures: PSNR in dB and Lab MAE, over shadow, lit pixels and all."""

    psnr: Regions
    mae: Regions

    def to_dict(self) -> dict[str, float]:
        """Flat: `psnr_shadow`, …, `mae_all`, rounded to four decimals."""
        named = {"psnr": self.psnr, "mae": self.mae}
        return {f"{m}_{r}": round(v, 4) for m, regions in named.items() for r, v in regions._asdict().items()}

    def __str__(self) -> str:
        return "PSNR {:.2f} / {:.2f} / {:.2f} dB, ".format(*self.psnr) + "MAE {:.2f} / {:.2f} / {:.2f}".format(
            *self.mae
        )


class Validation:
    """A fixed set of held-out pictures."""

    def __init__(self, samples: Samples, *, pictures: int, size: int, relit: bool) -> None:
        """Take `pictures` of `samples`, spread evenly, whole, at `size`×`size` pixels."""
        count = min(pictures, len(samples))
        chosen = np.linspace(0, len(samples) - 1, count).round().astype(int)
        self.samples = [samples.whole(int(index), size) for index in chosen]
        self._batches = [to_batch([sample], relit=relit, total=1) for sample in self.samples]

    def score_input(self) -> ValidationScores:
        """The scores of doing nothing."""
        return _mean_scores([sample.photo for sample in self.samples], self.samples)

    def score_floor(self) -> ValidationScores:
        """The scores of relighting without a network."""
        return _mean_scores([relit_photo(sample.photo, sample.mask) for sample in self.samples], self.samples)

    def score(self, model: nn.Module, device: torch.device, panel: Path | None = None) -> ValidationScores:
        """Score `model`; draws a few pictures into the JPEG file `panel`."""
        model.eval()
        with torch.inference_mode():
            results = [_restore(model, batch.to(device)) for batch in self._batches]
        model.train()
        if panel is not None:
            panel.parent.mkdir(parents=True, exist_ok=True)
            Image.fromarray(draw_panel(results, self.samples)).save(panel, quality=90)
        return _mean_scores(results, self.samples)


def _restore(model: nn.Module, batch: Batch) -> np.ndarray:
    restored = model(batch.photo, batch.mask, batch.start)[0].clamp(0, 1)
    return restored.permute(1, 2, 0).float().cpu().numpy()


def _mean_scores(results: Sequence[np.ndarray], samples: Sequence[Sample]) -> ValidationScores:
    psnrs, maes = [], []
    for result, sample in zip(results, samples, strict=True):
        shadow = sample.mask > 0
        error = absolute_error(lab_d50(result), lab_d50(sample.truth))
        regions = (shadow, ~shadow, None)
        psnrs.append([psnr(result, sample.truth, region) for region in regions])
        maes.append([region_mean(error, region) for region in regions])
    return ValidationScores(Regions(*_mean_finite(psnrs)), Regions(*_mean_finite(maes)))


def _mean_finite(rows: list[list[float]]) -> list[float]:
    """Column means without the cells that have no number: an empty region, a perfect match."""
    columns = np.array(rows).T
    return [
        float(column[np.isfinite(column)].mean()) if np.isfinite(column).any() else float("nan") for column in columns
    ]


def draw_panel(results: Sequence[np.ndarray], samples: Sequence[Sample]) -> np.ndarray:
    """A row for each of a few pictures: input, mask, result, truth, error; uint8 RGB."""
    rows = []
    # Spread over the set: pictures of one scene are neighbours in it.
    shown = np.linspace(0, len(results) - 1, min(PANEL_ROWS, len(results))).round().astype(int)
    for result, sample in ((results[index], samples[index]) for index in shown):
        mask = np.repeat(sample.mask[..., None], 3, axis=2)
        error = np.abs(result - sample.truth) * ERROR_GAIN
        cells = [_thumbnail(cell) for cell in (sample.photo, mask, result, sample.truth, error)]
        rows.append(np.concatenate(cells, axis=1))
    return np.concatenate(rows, axis=0)


def _thumbnail(picture: np.ndarray) -> np.ndarray:
    image = Image.fromarray((np.clip(picture, 0, 1) * 255 + 0.5).astype(np.uint8))
    return np.asarray(image.resize((PANEL_SIDE, PANEL_SIDE), Image.Resampling.BOX))
