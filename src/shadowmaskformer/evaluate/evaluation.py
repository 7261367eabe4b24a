"""One evaluation from start to end: data and methods in, rows and summaries out."""

from __future__ import annotations

import hashlib
import json
import math
from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass
from pathlib import Path

from shadowmaskformer import data, machine
from shadowmaskformer.data import adjust
from shadowmaskformer.data.scenes import SAME_PICTURE
from shadowmaskformer.errors import EvaluationError
from shadowmaskformer.evaluate.gallery import Gallery
from shadowmaskformer.evaluate.methods import MaskSource, Predictions, ScoredMethod, removal_code
from shadowmaskformer.evaluate.protocols import Protocol
from shadowmaskformer.evaluate.runner import Rows, RowStore, run
from shadowmaskformer.evaluate.summary import Summary, summarise
from shadowmaskformer.files import first_ten

ALL, UNSEEN = "all", "unseen scenes"


@dataclass(frozen=True)
class EvaluationSet:
    """The pictures to score.

    Attributes:
        name: what tables print.
        dataset: `istd`, `istd+` or `srd`: which published tables belong beside ours.
        split: which split of the data set they are.
        triplets: the test pictures.
        subsets: names of pictures by subset; `all`, and `unseen scenes` where train is at hand and overlaps.
        fingerprint: of the data.
    """

    name: str
    dataset: str
    split: str
    triplets: Sequence[data.Triplet]
    subsets: dict[str, frozenset[str]]
    fingerprint: str

    @property
    def family(self) -> str:
        """`srd` or `istd`: which standard protocols apply."""
        return "srd" if self.dataset == "srd" else "istd"

    @classmethod
    def open(
        cls, folder: Path, split: str | None = None, limit: int | None = None, memory: Path | None = None
    ) -> EvaluationSet:
        """Read a data set's test pictures.

        Args:
            folder: the data set.
            split: which split; None takes `test`, or the only one.
            limit: score only this many pictures, spread over the set.
            memory: folder that keeps which scenes are unseen: finding out reads every clean picture of train and test.
        """
        dataset = data.open_dataset(folder)
        split = split or (dataset.splits[0] if len(dataset.splits) == 1 else "test")
        triplets = dataset.split(split)
        if limit is not None and limit < len(triplets):
            triplets = tuple(triplets[round(i * len(triplets) / limit)] for i in range(limit))
        subsets = {ALL: frozenset(t.name for t in triplets)}
        if "train" in dataset.splits and split != "train":
            names = _unseen(triplets, dataset.split("train", allow_unpaired=True), memory)
            if 0 < len(names) < len(triplets):
                subsets[UNSEEN] = names
        name = dataset.layout.upper() if dataset.layout in ("istd", "istd+", "srd") else folder.resolve().name
        return cls(f"{name} {split}", dataset.layout, split, triplets, subsets, data.fingerprint(triplets))


@dataclass(frozen=True)
class Evaluation:
    """What came out.

    Attributes:
        test: the pictures.
        methods: names, in order.
        protocols: rules, in order.
        masks: label of the mask source.
        rows: scores by method.
        missing: pictures without a result, by method; such methods are partial.
        csv_files: per-image CSV files by method, and by method and protocol for `as-used`.
        params_m: million parameters by method; NaN where there are none or the number is unknown.
        gallery: small copies of the pictures, for the report; None where none were wanted.
        gallery_keys: where each method's copies are in the gallery.
    """

    test: EvaluationSet
    methods: Sequence[str]
    protocols: Sequence[Protocol]
    masks: str
    rows: dict[str, Rows]
    missing: dict[str, list[str]]
    csv_files: dict[str, Path]
    params_m: dict[str, float]
    gallery: Gallery | None
    gallery_keys: dict[str, str]

    def summary(self, method: str, protocol: Protocol, subset: str = ALL) -> Summary:
        """Return the numbers of a method on a subset."""
        return self.summary_of(method, protocol, self.test.subsets[subset])

    def summary_of(self, method: str, protocol: Protocol, names: Collection[str]) -> Summary:
        """Return the numbers of a method on the pictures called `names`."""
        rows = self.rows[method].get(protocol.name, {})
        return summarise(protocol, [rows[name] for name in sorted(rows) if name in names])

    def ranked(self, method: str, protocol: Protocol) -> list[tuple[str, float]]:
        """Return pictures and errors, best first: the error over the frame, or S-PSNR under `as-used`.

        Pictures without a finite number, such as the S-PSNR of an empty mask, have no rank.
        """
        names = self.test.subsets[ALL]
        rows = {k: v for k, v in self.rows[method].get(protocol.name, {}).items() if k in names}
        found = {name: row.psnr.shadow if protocol.as_used else row.error.all for name, row in rows.items()}
        finite = [(name, value) for name, value in found.items() if math.isfinite(value)]
        return sorted(finite, key=lambda item: item[1], reverse=protocol.as_used)

    def label(self, method: str) -> str:
        """Return the method's name, marked partial where results are missing."""
        absent = len(self.missing.get(method, []))
        return f"{method} (partial, {absent} missing)" if absent else method


def evaluate(
    test: EvaluationSet,
    methods: Sequence[ScoredMethod],
    protocols: Sequence[Protocol],
    masks: MaskSource,
    output: Path,
    *,
    allow_missing: bool = False,
    workers: int | None = None,
    pictures: bool = False,
    progress: Callable[[int, int], None] = lambda done, total: None,
    say: Callable[[str], None] = lambda line: None,
) -> Evaluation:
    """Score methods on a test set.

    Args:
        test: the pictures.
        methods: what to score.
        protocols: under which rules.
        masks: where masks come from.
        output: folder that keeps finished rows, which are not computed twice.
        allow_missing: score methods that lack results for some pictures, too.
        workers: processes for the metrics; None chooses, 0 uses this process alone.
        pictures: keep small copies of the results under the first protocol, for a report.
        progress: called with (pictures done, pictures in all).
        say: called with one line, before a scoring that takes more than a minute.
    """
    names = [method.name for method in methods]
    if len(set(names)) < len(names):
        twice = next(name for name in names if names.count(name) > 1)
        raise EvaluationError(f"two methods are called {twice!r}", "rename one folder")
    if masks.name == "dataset" and (bare := [t.name for t in test.triplets if t.mask is None]):
        raise EvaluationError(
            f"{len(bare)} of {len(test.triplets)} pictures have no mask ({first_ten(bare)})",
            'use {mask_source="derived"}',
        )
    missing: dict[str, list[str]] = {}
    for method in methods:
        if isinstance(method, Predictions) and (absent := method.missing(test.triplets)):
            if not allow_missing or len(absent) == len(test.triplets):
                raise EvaluationError(
                    f"{method.name}: {len(absent)} of {len(test.triplets)} results are missing ({first_ten(absent)})",
                    "add them or use {allow_missing=True}",
                )
            missing[method.name] = absent
    context = f"{test.fingerprint}\n{masks.identity}"
    contexts = {False: context, True: f"{context}\nas-used {adjust.RULE} {removal_code()}"}
    kinds = sorted({protocol.as_used for protocol in protocols})
    stores = {(m.name, kind): RowStore(output / "rows", m, contexts[kind]) for m in methods for kind in kinds}
    skip = {(name, picture) for name, absent in missing.items() for picture in absent}
    gallery = Gallery(output / "pictures" / _digest(contexts[protocols[0].as_used])) if pictures else None
    run(
        test.triplets,
        masks,
        methods,
        protocols,
        stores,
        gallery=gallery,
        skip=skip,
        workers=workers,
        progress=progress,
        say=say,
    )
    return Evaluation(
        test=test,
        methods=names,
        protocols=protocols,
        masks=masks.label,
        rows={name: {key: rows for kind in kinds for key, rows in stores[name, kind].rows.items()} for name in names},
        missing=missing,
        csv_files={f"{name}, as used" if kind else name: stores[name, kind].path for name in names for kind in kinds},
        params_m={method.name: method.params_m for method in methods},
        gallery=gallery,
        gallery_keys={name: stores[name, protocols[0].as_used].key for name in names},
    )


def _unseen(test: Sequence[data.Triplet], train: Sequence[data.Triplet], memory: Path | None) -> frozenset[str]:
    """Return the names of the test pictures whose clean picture is not in `train`."""
    file = None
    if memory is not None:
        key = f"{data.fingerprint(test)} {data.fingerprint(train)} {SAME_PICTURE}"
        file = memory / f"unseen-{_digest(key)}.json"
        try:
            return frozenset(json.loads(file.read_text(encoding="utf-8")))
        except (OSError, ValueError):
            pass
    unseen = data.unseen_scenes(test, train)
    names = frozenset(t.name for t, new in zip(test, unseen, strict=True) if new)
    if file is not None:
        try:
            file.parent.mkdir(parents=True, exist_ok=True)
            file.write_text(json.dumps(sorted(names)), encoding="utf-8")
        except OSError:
            pass  # found out again next time; rows that cannot be written are an error of their own
    return names


def _digest(text: str) -> str:
    return hashlib.sha256(text.encode()).hexdigest()[:8]


def versions() -> dict[str, str]:
    """Return what made the numbers: this package, its libraries, the interpreter and the machine."""
    found = machine.versions("shadowmaskformer", "numpy", "pillow", "torch", "matplotlib")
    packages = {package: version for package, version in found.items() if version}
    return {"python": machine.python(), "machine": machine.architecture(), **packages}
