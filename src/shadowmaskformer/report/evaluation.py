"""What an evaluation shows in print: tables beside the literature, best and worst pictures, the scatter."""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from shadowmaskformer.evaluate import published
from shadowmaskformer.evaluate.evaluation import (
    ALL,
    UNSEEN,
    Evaluation,
    versions,
)
from shadowmaskformer.evaluate.methods import Input, MaskSource, Method, Sample
from shadowmaskformer.evaluate.protocols import as_float
from shadowmaskformer.report import figures
from shadowmaskformer.report.page import Figure, Report, Section
from shadowmaskformer.report.results import extremes_table, interval_table, protocols_table, results_table

SHOWN = 3
"""Pictures in each strip figure: so many worst, typical and best ones."""
SIGN_BINS = 64


def build(
    evaluation: Evaluation, methods: Sequence[Method], masks: MaskSource, *, seconds: float | None = None
) -> Report:
    """The report of one evaluation.

    Args:
        evaluation: the numbers.
        methods: what was scored; asked again for the few pictures that are shown.
        masks: where masks come from.
        seconds: how long scoring took, if somebody wants to know.
    """
    test, first = evaluation.test, evaluation.protocols[0]
    best = min(evaluation.methods, key=lambda m: _or_infinity(evaluation.summary(m, first).value("error", "all")))
    report = Report(
        title=f"Shadow removal on {test.name}",
        abstract=_abstract(evaluation, best),
        facts={
            "Data": f"{test.name}, {len(test.triplets)} pictures, fingerprint {test.fingerprint}",
            "Masks": f"{evaluation.masks}; methods get them, and S / NS are their regions",
            "Protocols": ", ".join(protocol.name for protocol in evaluation.protocols),
            "Versions": ", ".join(f"{name} {version}" for name, version in versions().items()),
        },
    )
    if seconds is not None:
        report.facts["Scored in"] = f"{seconds:.0f} s"
    results = Section(
        "Results",
        [
            "S is the shadow region, NS the rest, All the frame. MAE is the mean over pixels of "
            "|ΔL| + |Δa| + |Δb|, which papers of the field print as “RMSE”. Bold is best; the input does not contend."
        ],
    )
    for protocol in evaluation.protocols[: 2 if len(evaluation.protocols) > 2 else None]:
        results.content += [results_table(evaluation, protocol, subset) for subset in test.subsets]
        results.content.append(interval_table(evaluation, protocol))
    report.sections.append(results)
    if UNSEEN in test.subsets:
        share = len(test.subsets[UNSEEN])
        results.paragraphs = [
            *results.paragraphs,
            f"{len(test.triplets) - share} of {len(test.triplets)} test pictures share their clean picture with the "
            f"training set; the {share} others are the unseen scenes.",
        ]
    if len(evaluation.protocols) > 1:
        report.sections.append(
            Section(
                "Protocols side by side",
                ["The same results under every rule in use: differences within a method are the rule's, not its own."],
                [protocols_table(evaluation)],
            )
        )
    shown = [method for method in methods if not isinstance(method, Input)]
    report.sections += [
        _pictures(evaluation, shown, masks, best),
        _signs(evaluation, masks),
    ]
    if points := _points(evaluation):
        caption = (
            f"Parameters against {first.error_name} (All) under {first.name}. Measured here in orange, published in "
            "gray; lower left is better."
        )
        figure = Figure("scatter", caption, figures.scatter(points, f"{first.error_name}, All"))
        report.sections.append(Section("Size against error", [], [figure]))
    return report


def _abstract(evaluation: Evaluation, best: str) -> str:
    protocol = evaluation.protocols[0]
    summary = evaluation.summary(best, protocol)
    if best == "Input":
        values = [summary.value(m, "all") for m in ("error", "psnr", "ssim")]
        return (
            f"The untouched input of {evaluation.test.name} scores {protocol.error_name} {values[0]:.2f}, PSNR "
            f"{values[1]:.2f} dB and SSIM {values[2]:.3f} over all pixels under {protocol.name}: the starting point "
            "of every method."
        )
    before = evaluation.summary("Input", protocol) if "Input" in evaluation.methods else None
    text = (
        f"{best} is the best of {len(evaluation.methods)} rows: {protocol.error_name} "
        f"S {summary.value('error', 'shadow'):.2f}, "
        f"NS {summary.value('error', 'lit'):.2f}, All {summary.value('error', 'all'):.2f}; PSNR "
        f"{summary.value('psnr', 'all'):.2f} dB, SSIM {summary.value('ssim', 'all'):.3f} under {protocol.name}"
    )
    if before is not None:
        text += f", from an input of {before.value('error', 'all'):.2f} and {before.value('psnr', 'all'):.2f} dB"
    if UNSEEN in evaluation.test.subsets:
        unseen = evaluation.summary(best, protocol, UNSEEN)
        text += f". On unseen scenes All is {unseen.value('error', 'all'):.2f} and {unseen.value('psnr', 'all'):.2f} dB"
    return text + "."


def _pictures(evaluation: Evaluation, shown: Sequence[Method], masks: MaskSource, best: str) -> Section:
    protocol = evaluation.protocols[0]
    ranked = [name for name, row in evaluation.ranked(best, protocol) if math.isfinite(row.error.all)]
    middle = len(ranked) // 2
    groups = [
        ("worst", "Worst", list(reversed(ranked[-SHOWN:]))),
        ("typical", "Typical", ranked[middle - SHOWN // 2 : middle + 1 + SHOWN // 2][:SHOWN]),
        ("best", "Best", ranked[:SHOWN]),
    ]
    triplets = {triplet.name: triplet for triplet in evaluation.test.triplets}
    section = Section(
        "Pictures",
        [f"Chosen by the error of {best}, not by hand. Error maps share one scale; the number is the map's mean."],
    )
    taken: set[str] = set()
    section.content.append(extremes_table(evaluation, protocol))
    for key, word, names in groups:
        names = [name for name in names if name not in taken]
        taken |= set(names)
        strips = [_strip(Sample(triplets[name], masks), shown, evaluation, protocol.network_side) for name in names]
        if not strips:
            continue
        titles = [method.name for method in shown]
        caption = f"{word} pictures of {best}. By {protocol.error_name} over all pixels under {protocol.name}."
        section.content.append(Figure(f"pictures-{key}", caption, figures.comparison(strips, titles)))
        caption = f"Error of the {word.lower()} pictures. The white line is the mask's edge."
        section.content.append(Figure(f"errors-{key}", caption, figures.error_maps(strips, titles)))
    return section


def _strip(sample: Sample, shown: Sequence[Method], evaluation: Evaluation, side: int | None) -> figures.Strip:
    """All pictures at the photo's own aspect, whatever size methods ran at."""
    photo = figures.thumbnail(sample.photo)
    height, width = photo.shape[:2]
    pictures = [photo]
    for method in shown:
        if sample.name in evaluation.missing.get(method.name, []):
            pictures.append(np.full_like(photo, 0.5))
            continue
        result = as_float(method.restore(sample, side))
        pictures.append(np.clip(figures.fit(result, height, width), 0, 1))
    mask = figures.thumbnail(sample.mask)
    return figures.Strip(sample.name, figures.thumbnail(sample.truth), mask, pictures)


def _signs(evaluation: Evaluation, masks: MaskSource) -> Section:
    """The paper's statistic that motivates MAPE's sign: x in [−1, 1] by region, over at most 60 pictures."""
    triplets = evaluation.test.triplets
    step = max(1, len(triplets) // 60)
    shadow, lit = np.zeros(SIGN_BINS), np.zeros(SIGN_BINS)
    for triplet in triplets[::step]:
        sample = Sample(triplet, masks)
        values = as_float(sample.photo) * 2 - 1
        region = sample.region > 127
        shadow += _histogram(values[region])
        lit += _histogram(values[~region])
    shadow, lit = (counts / max(counts.sum(), 1) for counts in (shadow, lit))
    caption = (
        "Values of x in [−1, 1] by region. Shadow values are mostly negative and the mask is +1 there and −1 outside, "
        "so that Mp·x flips the sign of lit pixels; the paper (§IV) reports 70 % and 97 % on ISTD."
    )
    section = Section("Why the mask's sign", [])
    section.content.append(Figure("signs", caption, figures.sign_statistic(shadow, lit)))
    return section


def _histogram(values: NDArray) -> NDArray:
    return np.histogram(values, bins=SIGN_BINS, range=(-1, 1))[0].astype(np.float64)


def _points(evaluation: Evaluation) -> list[figures.Point]:
    protocol = evaluation.protocols[0]
    points = [
        figures.Point(row.method, row.params_m, row.error.all, ours=False)
        for row in published.select(evaluation.test.dataset, protocol.name)
        if math.isfinite(row.params_m) and math.isfinite(row.error.all)
    ]
    for method in evaluation.methods:
        error = evaluation.summary(method, protocol, ALL).value("error", "all")
        if math.isfinite(evaluation.params_m[method]) and math.isfinite(error):
            points.append(figures.Point(method, evaluation.params_m[method], error, ours=True))
    return points


def _or_infinity(value: float) -> float:
    return math.inf if math.isnan(value) else value
