"""One evaluation from start to end: data and methods in, rows and summaries out."""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass
from pathlib import Path

from shadowmaskformer import data, machine
from shadowmaskformer.data.layouts import first_ten
from shadowmaskformer.errors import EvaluationError
from shadowmaskformer.evaluate.methods import MaskSource, Method, Predictions
from shadowmaskformer.evaluate.protocols import Measurement, Protocol
from shadowmaskformer.evaluate.runner import Rows, RowStore, run
from shadowmaskformer.evaluate.summary import Summary, summarise

ALL, UNSEEN = "all", "unseen scenes"


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


def versions() -> dict[str, str]:
    """Return what made the numbers: this package, its libraries, the interpreter and the machine."""
    found = machine.versions("shadowmaskformer", "numpy", "pillow", "torch", "matplotlib")
    packages = {package: version for package, version in found.items() if version}
    return {"python": machine.python(), "machine": machine.architecture(), **packages}
