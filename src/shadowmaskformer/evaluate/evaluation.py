"""One evaluation from start to end: data and methods in, rows, summaries and tables out."""

from __future__ import annotations

import importlib.metadata
import math
import platform
from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from shadowmaskformer import data
from shadowmaskformer.data.layouts import first_ten
from shadowmaskformer.errors import EvaluationError
from shadowmaskformer.evaluate import published
from shadowmaskformer.evaluate.methods import MaskSource, Method, Predictions
from shadowmaskformer.evaluate.protocols import Measurement, Protocol
from shadowmaskformer.evaluate.runner import Rows, RowStore, run
from shadowmaskformer.evaluate.summary import Summary, summarise
from shadowmaskformer.evaluate.tables import Column, Row, Table

ALL, UNSEEN = "all", "unseen scenes"
_SHORT = {"shadow": "S", "lit": "NS", "all": "All"}


@dataclass(frozen=True)
class EvaluationSet:
    """The pictures to score.

    Attributes:
        name: what tables print.
        dataset: `istd`, `istd+` or `srd`: which published tables belong beside ours.
        triplets: the test pictures.
        subsets: names of pictures by subset; `all`, and `unseen scenes` where train is at hand and overlaps.
        fingerprint: of the data.
    """

    name: str
    dataset: str
    triplets: Sequence[data.Triplet]
    subsets: dict[str, frozenset[str]]
    fingerprint: str

    @property
    def family(self) -> str:
        """`srd` or `istd`: which standard protocols apply."""
        return "srd" if self.dataset == "srd" else "istd"

    @classmethod
    def open(cls, folder: Path, split: str | None = None, limit: int | None = None) -> EvaluationSet:
        """Read a data set's test pictures.

        Args:
            folder: the data set.
            split: which split; None takes `test`, or the only one.
            limit: score only this many pictures, spread over the set.
        """
        dataset = data.open_dataset(folder)
        split = split or ("test" if "test" in dataset.splits else dataset.splits[0])
        triplets = dataset.split(split)
        if limit is not None and limit < len(triplets):
            triplets = tuple(triplets[round(i * len(triplets) / limit)] for i in range(limit))
        subsets = {ALL: frozenset(t.name for t in triplets)}
        if "train" in dataset.splits and split != "train":
            unseen = data.unseen_scenes(triplets, dataset.split("train", allow_unpaired=True))
            names = frozenset(t.name for t, new in zip(triplets, unseen, strict=True) if new)
            if 0 < len(names) < len(triplets):
                subsets[UNSEEN] = names
        name = dataset.layout.upper() if dataset.layout in ("istd", "istd+", "srd") else folder.resolve().name
        return cls(f"{name} {split}", dataset.layout, triplets, subsets, data.fingerprint(triplets))


@dataclass(frozen=True)
class Evaluation:
    """What came out.

    Attributes:
        test: the pictures.
        methods: names, in order.
        protocols: rules, in order.
        masks: label of the mask source.
        rows: measurements by method.
        missing: pictures without a result, by method; such methods are partial.
        csv_files: per-image CSV by method.
        params_m: million parameters by method; NaN where there are none or nobody said.
    """

    test: EvaluationSet
    methods: Sequence[str]
    protocols: Sequence[Protocol]
    masks: str
    rows: dict[str, Rows]
    missing: dict[str, list[str]]
    csv_files: dict[str, Path]
    params_m: dict[str, float]

    def summary(self, method: str, protocol: Protocol, subset: str = ALL) -> Summary:
        """The numbers of a method on a subset."""
        return self.summary_of(method, protocol, self.test.subsets[subset])

    def summary_of(self, method: str, protocol: Protocol, names: Collection[str]) -> Summary:
        """The numbers of a method on the pictures called `names`."""
        rows = self.rows[method].get(protocol.name, {})
        return summarise(protocol, [rows[name] for name in sorted(rows) if name in names])

    def ranked(self, method: str, protocol: Protocol) -> list[tuple[str, Measurement]]:
        """Pictures by error, best first."""
        names = self.test.subsets[ALL]
        rows = {k: v for k, v in self.rows[method].get(protocol.name, {}).items() if k in names}
        return sorted(rows.items(), key=lambda item: item[1].error.all)

    def label(self, method: str) -> str:
        """The method's name, marked partial where results are missing."""
        absent = len(self.missing.get(method, []))
        return f"{method} (partial, {absent} missing)" if absent else method


def evaluate(
    test: EvaluationSet,
    methods: Sequence[Method],
    protocols: Sequence[Protocol],
    masks: MaskSource,
    folder: Path,
    *,
    allow_missing: bool = False,
    workers: int | None = None,
    progress: Callable[[int, int], None] = lambda done, total: None,
) -> Evaluation:
    """Score methods on a test set; finished rows are kept in `folder` and not computed twice."""
    masks.check()
    names = [method.name for method in methods]
    if len(set(names)) < len(names):
        twice = next(name for name in names if names.count(name) > 1)
        raise EvaluationError(f"two methods are called {twice!r}; rename one folder")
    if masks.name == "dataset" and (bare := [t.name for t in test.triplets if t.mask is None]):
        raise EvaluationError(
            f"{len(bare)} of {len(test.triplets)} pictures have no mask ({first_ten(bare)}); use --mask-source derived"
        )
    missing: dict[str, list[str]] = {}
    for method in methods:
        if isinstance(method, Predictions) and (absent := method.missing(test.triplets)):
            if not allow_missing or len(absent) == len(test.triplets):
                raise EvaluationError(
                    f"{method.name}: {len(absent)} of {len(test.triplets)} results are missing "
                    f"({first_ten(absent)}); add them or pass --allow-missing"
                )
            missing[method.name] = absent
    context = f"{test.fingerprint}\n{masks.identity}"
    stores = {method.name: RowStore(folder / "rows", method, context) for method in methods}
    skip = {(name, picture) for name, absent in missing.items() for picture in absent}
    run(test.triplets, masks, methods, protocols, stores, skip=skip, workers=workers, progress=progress)
    return Evaluation(
        test=test,
        methods=names,
        protocols=protocols,
        masks=masks.label,
        rows={name: store.rows for name, store in stores.items()},
        missing=missing,
        csv_files={name: store.path for name, store in stores.items()},
        params_m={method.name: method.params_m for method in methods},
    )


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


def versions() -> dict[str, str]:
    """What made the numbers: this package, its libraries, the interpreter and the machine."""
    found = {"python": platform.python_version(), "machine": f"{platform.system()} {platform.machine()}"}
    for package in ("shadowmaskformer", "numpy", "pillow", "torch", "matplotlib"):
        try:
            found[package] = importlib.metadata.version(package)
        except importlib.metadata.PackageNotFoundError:
            continue
    return found


def _noted(row: published.Published) -> str:
    return f"{row.method} ({row.note})" if row.note else row.method
