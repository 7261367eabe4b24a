"""The results of an evaluation, as tables."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Literal

from shadowmaskformer.evaluate import published
from shadowmaskformer.evaluate.evaluation import ALL, Evaluation
from shadowmaskformer.evaluate.protocols import Protocol
from shadowmaskformer.report.tables import Column, Row, Table

_SHORT = {"shadow": "S", "lit": "NS", "all": "All"}


def results_table(evaluation: Evaluation, protocol: Protocol, subset: str = ALL) -> Table:
    """Return published rows, then ours: S / NS / All of each measure under one protocol."""
    if protocol.as_used:
        return used_table(evaluation, protocol, subset)
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
        printed = published.select(test.dataset, protocol.name)
        methods = [row.method for row in printed]
        for row in printed:
            numbers = [getattr(getattr(row, measure), region) for measure, *_ in measures for region in regions]
            rows.append(
                Row(
                    [_noted(row, twice=methods.count(row.method) > 1), row.params_m, row.mask, *numbers],
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


def used_table(evaluation: Evaluation, protocol: Protocol, subset: str = ALL) -> Table:
    """Return what users get: PSNR by region and at the edge, fine contrast, the worst tenth."""
    columns = [Column("Method"), *_used_columns(), Column("S, 95 %")]
    rows: list[Row] = []
    for method in evaluation.methods:
        numbers = _used_numbers(evaluation, method, protocol, subset)
        shadow = evaluation.summary(method, protocol, subset).estimates["psnr", "shadow"]
        interval = "n/a" if math.isnan(shadow.value) else f"{shadow.low:.2f} … {shadow.high:.2f}"
        rows.append(Row([evaluation.label(method), *numbers, interval], contends=method != "Input"))
    test = evaluation.test
    caption = f"Protocol {protocol.name}: {protocol.summary}. {_USED_WORDS} {len(test.subsets[subset])} pictures; "
    where, slug = ("", "") if subset == ALL else (f", {subset}", "-unseen")
    title = f"{test.name}{where} {protocol.name}"
    return Table(f"{protocol.name}{slug}", title, f"{caption}masks: {evaluation.masks}.", columns, rows)


def mask_error_table(exact: Evaluation, changed: Mapping[str, Evaluation], protocol: Protocol) -> Table:
    """Return what a wrong mask costs: each method with the exact mask, then with each changed one.

    Args:
        exact: scored with the masks as they are.
        changed: scored with changed masks, by the name of the change.
        protocol: `as-used`.
    """
    columns = [Column("Method"), Column("Mask"), *_used_columns(best=False), Column("S lost")]
    rows: list[Row] = []
    scored = {method for evaluation in changed.values() for method in evaluation.methods} - {"Input"}
    for method in (method for method in exact.methods if method in scored):
        start = exact.summary(method, protocol).value("psnr", "shadow")
        for name, evaluation in {"exact": exact, **changed}.items():
            numbers = _used_numbers(evaluation, method, protocol, ALL)
            rows.append(Row([evaluation.label(method), name, *numbers, start - numbers[0]]))
    caption = (
        f"Protocol {protocol.name}; methods get the changed mask, S, NS and the edge stay those of the exact one. "
        "Changes are in percent of the picture's width; shifts are to the right."
    )
    return Table("mask-errors", f"{exact.test.name}: what a wrong mask costs", caption, columns, rows)


_USED_WORDS = (
    "Edge is the band of 2 % of the width on both sides of the mask's edge. Contrast is the fine contrast inside the "
    "shadow as a share of the truth's (1 is right; less is fog, more is noise). Worst tenth is the mean S-PSNR of "
    "the worst 10 % of the pictures."
)


def _used_columns(*, best: bool = True) -> list[Column]:
    high: Literal["high"] | None = "high" if best else None
    columns = [Column(title, group="PSNR", best=high) for title in ("S", "NS", "All", "edge")]
    columns += [Column(title, group="Contrast") for title in ("mean", "median")]
    return [*columns, Column("Worst tenth, S", best=high)]


def _used_numbers(evaluation: Evaluation, method: str, protocol: Protocol, subset: str) -> list[float]:
    found = evaluation.summary(method, protocol, subset)
    regions = [found.value("psnr", region) for region in ("shadow", "lit", "all")]
    return [*regions, found.edge, found.contrast, found.contrast_median, found.worst_tenth]


def interval_table(evaluation: Evaluation, protocol: Protocol) -> Table:
    """Return every method's All numbers with 95 % bootstrap intervals, and how many pictures entered."""
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
    """Return the worst and the best pictures of each method."""
    rows: list[Row] = []
    for method in evaluation.methods:
        ranked = evaluation.ranked(method, protocol)
        worst, best = ranked[: -count - 1 : -1], ranked[:count]
        cells = [", ".join(f"{name} ({error:.2f})" for name, error in part) for part in (worst, best)]
        rows.append(Row([evaluation.label(method), *cells]))
    what = "PSNR in the shadow" if protocol.as_used else f"{protocol.error_name} over all pixels"
    caption = f"Name and {what} under {protocol.name}."
    columns = [Column("Method"), Column("Worst"), Column("Best")]
    title = f"{evaluation.test.name}: worst and best pictures"
    return Table(f"{protocol.name}-extremes", title, caption, columns, rows)


def protocols_table(evaluation: Evaluation) -> Table:
    """Return each method under each published protocol: how much of a difference is the protocol's."""
    columns = [Column("Method"), Column("Protocol"), Column("Error")]
    for title, digits in (("error", 2), ("PSNR", 2), ("SSIM", 3)):
        columns += [Column(region, group=title, digits=digits) for region in ("S", "NS", "All")]
    columns.append(Column("Used by"))
    rows: list[Row] = []
    for method in evaluation.methods:
        for protocol in (each for each in evaluation.protocols if not each.as_used):
            summary = evaluation.summary(method, protocol)
            numbers = [summary.value(m, r) for m in ("error", "psnr", "ssim") for r in ("shadow", "lit", "all")]
            rows.append(Row([evaluation.label(method), protocol.name, protocol.error_name, *numbers, protocol.used_by]))
    caption = f"The same pictures under every rule; masks: {evaluation.masks}."
    return Table("protocols", f"{evaluation.test.name}: protocols side by side", caption, columns, rows)


def _noted(row: published.Published, *, twice: bool) -> str:
    """Return the method with what to know about the row; its source, too, where another row has the name."""
    notes = ", ".join(note for note in (row.source if twice else "", row.note) if note)
    return f"{row.method} ({notes})" if notes else row.method
