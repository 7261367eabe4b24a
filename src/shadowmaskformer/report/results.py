"""What an evaluation found, as tables."""

from __future__ import annotations

import math
from typing import Literal

from shadowmaskformer.evaluate import published
from shadowmaskformer.evaluate.evaluation import ALL, Evaluation
from shadowmaskformer.evaluate.protocols import Protocol
from shadowmaskformer.report.tables import Column, Row, Table

_SHORT = {"shadow": "S", "lit": "NS", "all": "All"}


def results_table(evaluation: Evaluation, protocol: Protocol, subset: str = ALL) -> Table:
    """Published rows, then ours, S / NS / All of each measure, under one protocol."""
    test = evaluation.test
    columns = [Column("Method"), Column("Params (M)"), Column("Mask")]
    measures: tuple[tuple[str, str, int, Literal["low", "high"]], ...] = (
        ("error", protocol.error_name, 2, "low"),
        ("psnr", "PSNR", 2, "high"),
        ("ssim", "SSIM", 3, "high"),
    )
    regions = ("all",) if protocol.all_only else ("shadow", "lit", "all")
    for _, title, digits, best in measures:
        columns += [Column(_SHORT[region], group=title, digits=digits, best=best) for region in regions]
    rows: list[Row] = []
    if subset == ALL:
        for row in published.select(test.dataset, protocol.name):
            numbers = [getattr(getattr(row, measure), region) for measure, *_ in measures for region in regions]
            rows.append(
                Row(
                    [_noted(row), row.params_m, row.mask, *numbers],
                    ours=False,
                    contends=row.method != "Input",
                )
            )
    for method in evaluation.methods:
        summary = evaluation.summary(method, protocol, subset)
        numbers = [summary.value(measure, region) for measure, *_ in measures for region in regions]
        mask = NO_MASK if method == "Input" else evaluation.masks
        rows.append(
            Row(
                [evaluation.label(method), evaluation.params_m[method], mask, *numbers],
                contends=method != "Input",
            )
        )
    count = len(test.subsets[subset])
    caption = f"Protocol {protocol.name}: {protocol.summary}. {count} pictures; regions and masks: {evaluation.masks}."
    if any(not row.ours for row in rows):
        caption += " Published rows are as printed, with true masks unless said; ours are the shaded ones."
    where = "" if subset == ALL else f", {subset}"
    slug = "" if subset == ALL else "-unseen"
    return Table(f"{protocol.name}{slug}", f"{test.name}{where} under {protocol.name}", caption, columns, rows)


NO_MASK = "none"


def interval_table(evaluation: Evaluation, protocol: Protocol) -> Table:
    """Every method's All numbers with 95 % bootstrap intervals, on each subset, and how many pictures entered."""
    columns = [Column("Method"), Column("Subset"), Column("Pictures", digits=0)]
    measures = (("error", protocol.error_name, 2), ("psnr", "PSNR", 2), ("ssim", "SSIM", 3))
    columns += [Column(part, group=title) for _, title, _ in measures for part in ("All", "95 %")]
    rows: list[Row] = []
    for method in evaluation.methods:
        for subset in evaluation.test.subsets:
            summary = evaluation.summary(method, protocol, subset)
            cells: list[str | float] = [evaluation.label(method), subset, str(summary.pictures)]
            for measure, _, digits in measures:
                e = summary.estimates[measure, "all"]
                text = "n/a" if math.isnan(e.value) else f"{e.value:.{digits}f}"
                cells += [
                    text,
                    f"{e.low:.{digits}f} … {e.high:.{digits}f}" + (f" (−{e.left_out})" * (e.left_out > 0)),
                ]
            rows.append(Row(cells))
    caption = (
        f"Protocol {protocol.name}. Percentile bootstrap over pictures, 2000 resamples; (−n): n pictures whose "
        "value is infinite or undefined are kept out."
    )
    return Table(f"{protocol.name}-intervals", f"{evaluation.test.name}: confidence", caption, columns, rows)


def extremes_table(evaluation: Evaluation, protocol: Protocol, count: int = 3) -> Table:
    """The pictures with the largest and the smallest error of each method."""
    rows: list[Row] = []
    for method in evaluation.methods:
        ranked = [(name, row.error.all) for name, row in evaluation.ranked(method, protocol)]
        worst, best = ranked[: -count - 1 : -1], ranked[:count]
        cells = [", ".join(f"{name} ({error:.2f})" for name, error in part) for part in (worst, best)]
        rows.append(Row([evaluation.label(method), *cells]))
    caption = f"Name and {protocol.error_name} over all pixels under {protocol.name}."
    columns = [Column("Method"), Column("Worst"), Column("Best")]
    title = f"{evaluation.test.name}: worst and best pictures"
    return Table(f"{protocol.name}-extremes", title, caption, columns, rows)


def protocols_table(evaluation: Evaluation) -> Table:
    """One method a row, one protocol a column group: how much of a gain is the protocol."""
    columns = [Column("Method"), Column("Protocol"), Column("Error")]
    for title, digits in (("error", 2), ("PSNR", 2), ("SSIM", 3)):
        columns += [Column(region, group=title, digits=digits) for region in ("S", "NS", "All")]
    columns.append(Column("Used by"))
    rows: list[Row] = []
    for method in evaluation.methods:
        for protocol in evaluation.protocols:
            summary = evaluation.summary(method, protocol)
            numbers = [summary.value(m, r) for m in ("error", "psnr", "ssim") for r in ("shadow", "lit", "all")]
            rows.append(Row([evaluation.label(method), protocol.name, protocol.error_name, *numbers, protocol.used_by]))
    caption = f"The same pictures under every rule; masks: {evaluation.masks}."
    return Table("protocols", f"{evaluation.test.name}: protocols side by side", caption, columns, rows)


def _noted(row: published.Published) -> str:
    return f"{row.method} ({row.note})" if row.note else row.method
