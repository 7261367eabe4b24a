"""Published results, with their source and protocol.

They are in `published.csv`. Numbers are as printed; impossible ones are marked, not corrected.
"""

from __future__ import annotations

import csv
import math
from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache
from importlib import resources

from shadowmaskformer.errors import EvaluationError
from shadowmaskformer.metrics import Regions


@dataclass(frozen=True)
class Published:
    """One printed row; NaN stands for a number that was not printed.

    Attributes:
        dataset: `istd`, `istd+` or `srd`.
        protocol: name of the protocol that the source's tables follow.
        method: as the literature calls it.
        params_m: million parameters.
        setting: empty for a main table; otherwise what was varied (`ber 0.61`, `variant small`, …).
        error: S / NS / All, the protocol's error.
        psnr: S / NS / All, dB.
        ssim: S / NS / All.
        mask: where the mask came from.
        source: where it is printed.
        note: what to know before comparing.
    """

    dataset: str
    protocol: str
    method: str
    params_m: float
    setting: str
    error: Regions
    psnr: Regions
    ssim: Regions
    mask: str
    source: str
    note: str


@lru_cache(maxsize=1)
def load() -> tuple[Published, ...]:
    """Return every published row.

    >>> [row.error.all for row in load() if row.method == "ShadowMaskFormer" and row.protocol == "istd-full"]
    [4.87]
    """
    text = (resources.files("shadowmaskformer.evaluate") / "published.csv").read_text(encoding="utf-8")
    rows: list[Published] = []
    for number, row in enumerate(csv.DictReader(text.splitlines()), start=2):
        try:
            regions = {
                measure: Regions(*(_number(row[f"{measure}_{region}"]) for region in Regions._fields))
                for measure in ("error", "psnr", "ssim")
            }
            rows.append(
                Published(
                    dataset=row["dataset"],
                    protocol=row["protocol"],
                    method=row["method"],
                    params_m=_number(row["params_m"]),
                    setting=row["setting"],
                    error=regions["error"],
                    psnr=regions["psnr"],
                    ssim=regions["ssim"],
                    mask=row["mask"],
                    source=row["source"],
                    note=row["note"],
                )
            )
        except (KeyError, ValueError) as error:
            raise EvaluationError(
                f"published.csv line {number} is damaged ({error})", "reinstall the package"
            ) from error
    return tuple(rows)


def select(dataset: str, protocol: str, setting: str = "") -> Sequence[Published]:
    """Return the rows of one table.

    Args:
        dataset: as in `Published`.
        protocol: likewise.
        setting: the beginning of what an ablation varied; empty for a main table.

    >>> len(select("istd", "istd-256", "ber"))
    6
    """
    return [
        row
        for row in load()
        if row.dataset == dataset
        and row.protocol == protocol
        and (row.setting.startswith(setting) if setting else not row.setting)
    ]


def _number(text: str) -> float:
    return float(text) if text else math.nan
