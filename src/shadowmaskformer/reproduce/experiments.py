"""The paper's experiments, each from training to table and figure.

Every experiment names the runs that it needs. Runs are shared: the base run is the `mape` row of the ablation, one of
the sizes and the subject of the mask-quality curve. The paper's own numbers, made with 300 epochs, are printed beside
ours; at small budgets, compare the order of the rows and not their values.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from shadowmaskformer import data
from shadowmaskformer.data.scenes import scene_groups
from shadowmaskformer.errors import ConfigError, Notice
from shadowmaskformer.evaluate import published
from shadowmaskformer.evaluate.evaluation import Evaluation, EvaluationSet, evaluate
from shadowmaskformer.evaluate.methods import EvaluationPicture, Input, MaskSource, RemoverMethod, ScoredMethod
from shadowmaskformer.evaluate.protocols import Protocol, protocols
from shadowmaskformer.files import first_ten
from shadowmaskformer.network.embedding import EMBEDDINGS
from shadowmaskformer.report import figures
from shadowmaskformer.report.evaluation import build
from shadowmaskformer.report.page import Illustration, Report, Section
from shadowmaskformer.report.tables import Column, Row, Table
from shadowmaskformer.reproduce import maskquality
from shadowmaskformer.reproduce.workshop import Run, Trained, Workshop, write_lists

BASE = Run("base", ("embedding=mape",))
SIZES = {
    name: Run(name, ("embedding=mape", f"variant={name}", "depths=[]")) for name in ("nano", "small", "middle", "large")
}
SWEEP = {
    (2.5, 1.0): BASE,
    **{
        (w1, w2): Run(f"w1={w1:g} w2={w2:g}", ("embedding=mape", f"w1={w1}", f"w2={w2}"))
        for w1, w2 in ((1.0, 1.0), (1.5, 1.0), (4.0, 1.0), (1.0, 2.5))
    },
}
VALIDATED = ("validations=6", "validation_pictures=32")
RECIPES = {
    "paper": Run("paper", VALIDATED, recipe="paper"),
    "cpu with mape": Run("cpu with mape", ("embedding=mape", *VALIDATED), recipe="cpu"),
    "cpu with mape-physical": Run("cpu with mape-physical", ("embedding=mape-physical", *VALIDATED), recipe="cpu"),
}
HELD_OUT = Run("held out", BASE.overrides, held_out=True)
HELD_OUT_SHARE = 0.15
"""Share of the test pictures whose scenes the generalisation experiment keeps from training."""

NAMES = ("tables", "embedding", "size", "mask-quality", "generalisation", "sweep", "recipes")


@dataclass(frozen=True)
class Setting:
    """What all experiments share.

    Attributes:
        test: the test pictures.
        protocol: the data set's standard protocol, used for all ablations.
        masks: where masks come from.
        folder: the report's folder.
        workshop: trains the runs.
        held_out: names of test pictures of the scenes that the `held out` run never saw.
        extra: weights of the user's own for the main tables.
        workers: processes for the metrics.
        progress: takes (done, total) pictures.
    """

    test: EvaluationSet
    protocol: Protocol
    masks: MaskSource
    folder: Path
    workshop: Workshop
    held_out: frozenset[str]
    extra: Sequence[str] = ()
    workers: int | None = None
    progress: Callable[[int, int], None] = lambda done, total: None

    def score(
        self, methods: Sequence[ScoredMethod], masks: MaskSource | None = None, *, all_tables: bool = False
    ) -> Evaluation:
        """Score methods under the standard protocol; for `all_tables` under all of them, and keep pictures to show."""
        rules = protocols("standard", self.test.family) if all_tables else [self.protocol]
        source = masks or self.masks
        return evaluate(
            self.test,
            methods,
            rules,
            source,
            self.folder,
            workers=self.workers,
            pictures=all_tables,
            progress=self.progress,
        )

    def trained(self, run: Run) -> tuple[Trained, RemoverMethod]:
        """Return a run's weights, ready to score under the run's name."""
        trained = self.workshop.train(run)
        return trained, RemoverMethod(str(trained.weights), run.name)


@dataclass
class Outcome:
    """Sections for the report, and what was left out: experiment and reason."""

    sections: list[Section] = field(default_factory=list)
    left_out: list[tuple[str, str]] = field(default_factory=list)
    main: Report | None = None


def reproduce(setting: Setting, names: Sequence[str], minutes: float | None, elapsed_s: Callable[[], float]) -> Report:
    """Run the named experiments and report on them.

    Args:
        setting: data, protocol, training.
        names: of NAMES.
        minutes: the whole training budget, for the report's words; None is the recipe's own length.
        elapsed_s: seconds since the start, asked at the end.
    """
    outcome = Outcome()
    steps: dict[str, Callable[[Setting, Outcome], None]] = {
        "tables": _tables,
        "embedding": _embedding,
        "size": _size,
        "mask-quality": _mask_quality,
        "generalisation": _generalisation,
        "sweep": _sweep,
        "recipes": _recipes,
    }
    for name in NAMES:
        if name in names:
            steps[name](setting, outcome)
        else:
            outcome.left_out.append((name, "not asked for"))
    present = setting.test.dataset
    for dataset, table in (("istd", "Table I (ISTD)"), ("istd+", "Table II (ISTD+)"), ("srd", "Table III (SRD)")):
        if present != dataset:
            outcome.left_out.append(
                (table, f"the data given is {setting.test.name}; name a folder of {dataset.upper()}")
            )
    report = outcome.main or Report(f"Experiments on {setting.test.name}", "", {})
    report.title = f"ShadowMaskFormer, reproduced on {setting.test.name}"
    budget = "each run at the recipe's own length" if minutes is None else f"{minutes:g} minutes of training in all"
    report.facts["Budget"] = f"{budget}, {setting.workshop.budget}; total time {elapsed_s() / 60:.0f} minutes"
    report.sections += outcome.sections
    rows = [Row([name, reason]) for name, reason in outcome.left_out]
    table = Table(
        "left-out", "Left out", "What this report does not hold, and why.", [Column("What"), Column("Why")], rows
    )
    if rows:
        report.sections.append(Section("Left out", [], [table]))
    return report


def embeddings() -> dict[str, Run]:
    """Return the run of each patch embedding that is registered now; those of users count."""
    return {name: BASE if name == "mape" else Run(name, (f"embedding={name}",)) for name in EMBEDDINGS}


def runs_needed(names: Sequence[str], *, held_out: bool, timed: bool) -> list[Run]:
    """Return the distinct training runs of some experiments.

    >>> [run.name for run in runs_needed(["tables", "mask-quality"], held_out=False, timed=True)]
    ['base']
    """
    plan = {
        "tables": [BASE],
        "embedding": list(embeddings().values()),
        "size": list(SIZES.values()),
        "mask-quality": [BASE],
        "generalisation": [BASE, HELD_OUT] if held_out else [],
        "sweep": list(SWEEP.values()),
        "recipes": list(RECIPES.values()) if timed else [],
    }
    return list(dict.fromkeys(run for name in NAMES if name in names for run in plan[name]))


def hold_out(dataset: data.Dataset, folder: Path, scenes: Sequence[str] = ()) -> tuple[Path | None, frozenset[str]]:
    """Choose scenes to keep from training, and write the data set without them as lists.

    Args:
        dataset: has `train` and `test`.
        folder: where the lists go.
        scenes: names of scenes (ISTD's numbers), or of test pictures; empty draws scenes that train and test share,
            or, where they share none, leaves the experiment out.

    Returns:
        The reduced data set's folder, None if nothing can be held out; and the test pictures of the held-out scenes.
    """
    train, test = dataset.split("train", allow_unpaired=True), dataset.split("test", allow_unpaired=True)
    wanted = set(scenes)
    known = {name for t in (*train, *test) for name in (t.scene, t.name)}
    if unknown := sorted(wanted - known):
        raise ConfigError(f"no scene or picture is called {first_ten(unknown)}", "`data check` shows the names")
    groups = scene_groups([*train, *test])  # may read every clean picture
    of_test = dict(zip((t.name for t in test), groups[len(train) :], strict=True))
    if wanted:
        names = frozenset(t.name for t in test if {t.scene, t.name} & wanted)
        out = {of_test[name] for name in names} | {
            group for t, group in zip(train, groups, strict=False) if {t.scene, t.name} & wanted
        }
    else:
        shared = set(groups[: len(train)]) & set(groups[len(train) :])
        out = set[int]()
        limit = max(1, round(HELD_OUT_SHARE * len(test)))
        taken = 0
        for group in sorted(shared, key=lambda group: (group * 2654435761) % 2**32):  # a fixed shuffle
            size = sum(g == group for g in of_test.values())
            if taken + size <= limit:
                out.add(group)
                taken += size
        names = frozenset(name for name, group in of_test.items() if group in out)
    kept = [t for t, group in zip(train, groups, strict=False) if group not in out]
    if not names or not kept or len(kept) == len(train):
        return None, frozenset()
    return write_lists(folder, {"train": kept, "test": test}), names


def _tables(setting: Setting, outcome: Outcome) -> None:
    """Add Tables I to III for the data set at hand: input, floor, our runs and weights, and published rows."""
    _, removal = setting.trained(BASE)
    methods: list[ScoredMethod] = [
        Input(),
        RemoverMethod(None),
        *(RemoverMethod(weights) for weights in setting.extra),
        removal,
    ]
    evaluation = setting.score(methods, all_tables=True)
    outcome.main = build(evaluation, methods, setting.masks)


def _embedding(setting: Setting, outcome: Outcome) -> None:
    paper = {row.setting.removeprefix("embedding "): row for row in published.select("istd", "istd-256", "embedding")}
    section = _ablation(setting, "Patch embedding", "embedding", embeddings(), paper)
    section.paragraphs = [
        "plain projects the photo alone; mape-01 multiplies it by the mask in {0, 1}; mape, the paper's, by the mask "
        "in {−1, 1}; mape-physical shows the relit picture, the photo and the mask beside their product, and the "
        "network corrects the relit picture.",
        *section.paragraphs,
    ]
    outcome.sections.append(section)


def _size(setting: Setting, outcome: Outcome) -> None:
    paper = {row.setting.removeprefix("variant "): row for row in published.select("istd", "istd-256", "variant")}
    section = _ablation(setting, "Model size", "size", SIZES, paper)
    outcome.sections.append(section)


def _sweep(setting: Setting, outcome: Outcome) -> None:
    runs = {f"w1 = {w1:g}, w2 = {w2:g}": run for (w1, w2), run in sorted(SWEEP.items())}
    section = _ablation(setting, "Weights w1 and w2 of MAPE", "sweep", runs, {})
    outcome.sections.append(section)


def _ablation(
    setting: Setting, title: str, key: str, runs: dict[str, Run], paper: dict[str, published.Published]
) -> Section:
    """Return one table with a row for each run: our S / NS / All and PSNR, and the paper's S / NS / All."""
    scored = {label: setting.trained(run) for label, run in runs.items()}
    evaluation = setting.score([Input(), *dict.fromkeys(removal for _, removal in scored.values())])
    columns = [Column("Variant"), Column("Params (M)"), Column("Steps", digits=0)]
    name = setting.protocol.error_name
    columns += [Column(region, group=f"{name}, here", best="low") for region in ("S", "NS", "All")]
    columns += [Column("All", group="PSNR, here", best="high")]
    if paper:
        columns += [Column(region, group="MAE, paper (ISTD)", best="low") for region in ("S", "NS", "All")]
    rows: list[Row] = []
    points: list[figures.Point] = []
    for label, (trained, removal) in scored.items():
        summary = evaluation.summary(removal.name, setting.protocol)
        numbers = [summary.value("error", region) for region in ("shadow", "lit", "all")]
        cells: list[str | float] = [
            label,
            removal.params_m,
            float(trained.steps),
            *numbers,
            summary.value("psnr", "all"),
        ]
        if paper:
            cells += list(paper[label].error) if label in paper else [math.nan] * 3
        rows.append(Row(cells))
        points.append(figures.Point(label, removal.params_m, numbers[2], ours=True))
        if key == "size" and label in paper:
            points.append(
                figures.Point(f"{label}, paper (ISTD)", paper[label].params_m, paper[label].error.all, ours=False)
            )
    before = evaluation.summary("Input", setting.protocol)
    empty = [math.nan] * 3 if paper else []
    start = [before.value("error", region) for region in ("shadow", "lit", "all")]
    rows.insert(0, Row(["Input", math.nan, math.nan, *start, before.value("psnr", "all"), *empty], contends=False))
    caption = (
        f"{setting.test.name} under {setting.protocol.name}, {len(setting.test.triplets)} pictures, masks: "
        f"{evaluation.masks}. Equal budget: {setting.workshop.budget}; steps differ where a step costs more "
        "or the machine was busy."
    )
    section = Section(title, [], [Table(key, title, caption, columns, rows)])
    if key == "size":
        text = "Parameters against error. At a small budget a large network has seen fewer pictures."
        section.content.append(Illustration("size-scatter", text, figures.scatter(points, f"{name}, All")))
    return section


def _mask_quality(setting: Setting, outcome: Outcome) -> None:
    """Add the base run with masks of falling quality; regions stay those of the true masks."""
    _, removal = setting.trained(BASE)
    levels: list[tuple[float, list[float]]] = []
    whole = setting.score([removal]).summary(removal.name, setting.protocol)
    levels.append((0.0, [whole.value("error", region) for region in ("shadow", "lit", "all")]))
    regions = "derived" if setting.masks.name == "derived" else "dataset"
    damaged: dict[float, MaskSource] = {}
    for ber in maskquality.PAPER_LEVELS:
        folder = setting.folder / "masks" / f"{regions}-ber-{ber:.2f}"
        reached = maskquality.write_damaged(setting.test.triplets, setting.masks, ber, folder)
        damaged[ber] = MaskSource(str(folder), regions)
        summary = setting.score([removal], damaged[ber]).summary(removal.name, setting.protocol)
        levels.append((reached, [summary.value("error", region) for region in ("shadow", "lit", "all")]))
    paper = {float(row.setting.split()[1]): row.error for row in published.select("istd", "istd-256", "ber")}
    columns = [Column("BER (%)")]
    columns += [Column(region, group=f"{setting.protocol.error_name}, here") for region in ("S", "NS", "All")]
    columns += [Column(region, group="MAE, paper (ISTD)") for region in ("S", "NS", "All")]
    rows = [
        Row([ber, *numbers, *paper.get(target, [math.nan] * 3)])
        for (ber, numbers), target in zip(levels, (0.0, *maskquality.PAPER_LEVELS), strict=True)
    ]
    caption = (
        f"{setting.test.name} under {setting.protocol.name}; the base run, given masks whose edge pixels are flipped "
        "at random up to the balance error rate. S and NS stay the true regions."
    )
    curves = [
        figures.Curve(f"{short}, here", [ber for ber, _ in levels], [numbers[i] for _, numbers in levels])
        for i, short in enumerate(("S", "NS", "All"))
    ] + [
        figures.Curve(f"{short}, paper (ISTD)", list(paper), [error[i] for error in paper.values()], published=True)
        for i, short in enumerate(("S", "NS", "All"))
    ]
    section = Section("Robustness to mask quality", [], [Table("mask-quality", "Mask quality", caption, columns, rows)])
    text = "Error against mask quality. Solid: measured here; dashed: the paper's on ISTD."
    drawing = figures.mask_quality(curves, setting.protocol.error_name)
    section.content.append(Illustration("mask-quality", text, drawing))
    example = EvaluationPicture(setting.test.triplets[len(setting.test.triplets) // 2], setting.masks)
    panels = [("True mask", figures.thumbnail(example.region, 256))]
    for ber in maskquality.PAPER_LEVELS[::2]:
        panels.append((f"BER {ber} %", figures.thumbnail(EvaluationPicture(example.triplet, damaged[ber]).mask, 256)))
    text = f"Masks of falling quality. {example.name}."
    drawing = figures.mask_panels(figures.thumbnail(example.photo, 256), panels)
    section.content.append(Illustration("mask-panels", text, drawing))
    outcome.sections.append(section)


def _generalisation(setting: Setting, outcome: Outcome) -> None:
    """Add a comparison of training with and without some scenes, on the test pictures of those scenes."""
    if not setting.held_out:
        reason = Notice(
            "no scored test picture shows a scene that could be held out",
            "name scenes with {hold_out}, or score more pictures",
        )
        outcome.left_out.append(("generalisation", reason.said("command")))
        return
    (_, base), (_, removal) = setting.trained(BASE), setting.trained(HELD_OUT)
    evaluation = setting.score([Input(), base, removal])
    labels = {"Input": "Input", base.name: "trained with the scenes", removal.name: "trained without the scenes"}
    columns = [Column("Method")]
    columns += [Column(r, group=setting.protocol.error_name, best="low") for r in ("S", "NS", "All")]
    columns += [Column(r, group="PSNR", best="high") for r in ("S", "NS", "All")]
    rows: list[Row] = []
    for method, label in labels.items():
        summary = evaluation.summary_of(method, setting.protocol, setting.held_out)
        numbers = [summary.value(m, r) for m in ("error", "psnr") for r in ("shadow", "lit", "all")]
        rows.append(Row([label, *numbers], contends=method != "Input"))
    (without,) = published.select("istd", "istd-256", "unseen walls")
    (all_scenes,) = (row for row in published.select("istd", "istd-256") if row.method == without.method)
    printed = ("{:.2f} / {:.2f} / {:.2f}".format(*row.error) for row in (without, all_scenes))
    caption = (
        f"{len(setting.held_out)} test pictures of the held-out scenes under {setting.protocol.name}; "
        f"{setting.workshop.budget}. The paper, on ISTD's walls: {next(printed)} without, {next(printed)} with."
    )
    table = Table("generalisation", "Generalisation to unseen scenes", caption, columns, rows)
    outcome.sections.append(Section("Generalisation", [], [table]))


def _recipes(setting: Setting, outcome: Outcome) -> None:
    """Add training recipes at equal time, by their own validation: recipes are not chosen on test pictures."""
    if setting.workshop.minutes is None:
        outcome.left_out.append(("recipes", "they are compared at equal time; give a time budget"))
        return
    scored = {label: setting.workshop.train(run) for label, run in RECIPES.items()}
    floor, *_ = next(iter(scored.values())).validations()
    groups = [group for group in ("unseen", "seen") if f"floor_{group}_psnr_all" in floor]
    columns = [Column("Recipe"), Column("Steps", digits=0)]
    for group in groups:
        columns += [Column("PSNR", group=f"{group} scenes", best="high")]
        columns += [Column(f"MAE {region}", group=f"{group} scenes", best="low") for region in ("S", "NS", "All")]
    keys = [
        f"{group}_{name}" for group in groups for name in ("psnr_all", "mae_shadow", "mae_lit", "mae_all")
    ]  # fmt: skip
    curves: list[figures.TrainingCurve] = []
    rows = [Row(["Floor", math.nan, *(floor[f"floor_{key}"] for key in keys)], contends=False)]
    for label, trained in scored.items():
        _, *lines = trained.validations()
        rows.append(Row([label, float(trained.steps), *(lines[-1][key] for key in keys)]))
        for group in groups:
            curves.append(
                figures.TrainingCurve(
                    label,
                    f"{group} scenes",
                    [line["elapsed_s"] / 60 for line in lines],
                    [line[f"{group}_psnr_all"] for line in lines],
                    [line[f"{group}_mae_all"] for line in lines],
                    (floor[f"floor_{group}_psnr_all"], floor[f"floor_{group}_mae_all"]),
                )
            )
    caption = (
        f"Validation of each run's weights at its end, {setting.workshop.budget} without the time that validation "
        "takes, one after the other: "
        "PSNR in dB over all pixels and Lab MAE on pictures held out of the training data, of scenes that training "
        "never saw and of others that it did. Floor is the relit picture without a network."
    )
    text = "Validation over time. Dashed: the floor."
    table = Table("recipes", "Training recipes at equal time", caption, columns, rows)
    figure = Illustration("recipes", text, figures.training_curves(curves))
    outcome.sections.append(Section("Recipes", [], [table, figure]))
