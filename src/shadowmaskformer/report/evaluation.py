"""The report of an evaluation: tables next to published results, best and worst pictures, the scatter plot."""

from __future__ import annotations

import json
import math
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from shadowmaskformer.arrays import Doubles, Levels
from shadowmaskformer.evaluate import published
from shadowmaskformer.evaluate.evaluation import ALL, UNSEEN, Evaluation, versions
from shadowmaskformer.evaluate.gallery import copy_size, read_copy, small_copy
from shadowmaskformer.evaluate.methods import EvaluationPicture, Input, MaskSource, ScoredMethod
from shadowmaskformer.evaluate.protocols import Protocol, Reference, as_float
from shadowmaskformer.report import figures
from shadowmaskformer.report.page import Illustration, Report, Section
from shadowmaskformer.report.results import (
    extremes_table,
    interval_table,
    mask_error_table,
    protocols_table,
    results_table,
)

SHOWN = 3
"""How many worst, typical and best pictures are shown."""
SIGN_BINS = 64
SIGN_PICTURES = 60
RAW = (
    "The pictures show each method's raw answer for the whole frame, as the published protocols score it. "
    "`shadowmaskformer remove` blends that answer into the photo, which stays as it was outside the shadow; "
    "protocol as-used scores and shows those pictures."
)
USED = "The pictures show what `shadowmaskformer remove` gives: the answer blended into the photo."


def build(
    evaluation: Evaluation,
    methods: Sequence[ScoredMethod],
    masks: MaskSource,
    *,
    seconds: float | None = None,
    changed: Mapping[str, Evaluation] | None = None,
) -> Report:
    """Return the report of one evaluation.

    Args:
        evaluation: the numbers.
        methods: what was scored; asked again for shown pictures that the evaluation kept no copy of.
        masks: where masks come from.
        seconds: how long scoring took; None leaves it out.
        changed: the same with changed masks, by the name of the change.
    """
    test, first = evaluation.test, evaluation.protocols[0]
    best = _best_method(evaluation, first)
    same = "; methods get them, and S / NS are their regions" if masks.folder is None else ""
    report = Report(
        title=f"Shadow removal on {test.name}",
        abstract=_abstract(evaluation, best),
        facts={
            "Data": f"{test.name}, {len(test.triplets)} pictures, fingerprint {test.fingerprint}",
            "Masks": evaluation.masks + same,
            "Protocols": ", ".join(protocol.name for protocol in evaluation.protocols),
            "Versions": ", ".join(f"{name} {version}" for name, version in versions().items()),
        },
    )
    if seconds is not None:
        report.facts["Scored in"] = f"{seconds:.0f} s"
    published_rules = [protocol for protocol in evaluation.protocols if not protocol.as_used]
    used_rules = [protocol for protocol in evaluation.protocols if protocol.as_used]
    for protocol in used_rules:
        section = Section("What users get", [], [results_table(evaluation, protocol, s) for s in test.subsets])
        if changed:
            section.content.append(mask_error_table(evaluation, changed, protocol))
        report.sections.append(section)
    if published_rules:
        report.sections.append(_results(evaluation, published_rules))
    if len(published_rules) > 1:
        report.sections.append(
            Section(
                "Protocols side by side",
                ["The same results under every rule: differences within a method come from the rule."],
                [protocols_table(evaluation)],
            )
        )
    report.sections.append(_pictures(evaluation, methods, masks, best))
    if not first.as_used:
        report.sections.append(_signs(evaluation, masks))
        report.sections += _scatter(evaluation, first)
    return report


def _drawings(evaluation: Evaluation) -> Path | None:
    """Return the folder that keeps finished drawings."""
    return None if evaluation.gallery is None else evaluation.gallery.folder / "drawings"


def _best_method(evaluation: Evaluation, protocol: Protocol) -> str:
    """Return the method with the lowest error, or the highest S-PSNR under `as-used`."""

    def rank(method: str) -> float:
        found = evaluation.summary(method, protocol)
        return _or_infinity(-found.value("psnr", "shadow") if protocol.as_used else found.value("error", "all"))

    return min(evaluation.methods, key=rank)


def _results(evaluation: Evaluation, protocols: Sequence[Protocol]) -> Section:
    test = evaluation.test
    section = Section(
        "Results",
        [
            "S is the shadow region, NS the rest, All the frame. MAE is the mean over pixels of "
            "|ΔL| + |Δa| + |Δb|, which papers of the field print as “RMSE”. Bold is best; the input does not contend."
        ],
    )
    for protocol in protocols[: 2 if len(protocols) > 2 else None]:
        section.content += [results_table(evaluation, protocol, subset) for subset in test.subsets]
        section.content.append(interval_table(evaluation, protocol))
    if UNSEEN in test.subsets:
        share = len(test.subsets[UNSEEN])
        section.paragraphs = [
            *section.paragraphs,
            f"{len(test.triplets) - share} of {len(test.triplets)} test pictures share their clean picture with the "
            f"training set; the {share} others are the unseen scenes.",
        ]
    return section


def _scatter(evaluation: Evaluation, protocol: Protocol) -> list[Section]:
    points = _points(evaluation)
    if not points:
        return []
    caption = (
        f"Parameters against {protocol.error_name} (All) under {protocol.name}. Measured here in orange, published in "
        "gray; lower left is better."
    )
    drawing = figures.drawn(_drawings(evaluation), figures.scatter, points, f"{protocol.error_name}, All")
    return [Section("Size against error", [], [Illustration("scatter", caption, drawing)])]


def _abstract(evaluation: Evaluation, best: str) -> str:
    protocol = evaluation.protocols[0]
    summary = evaluation.summary(best, protocol)
    if protocol.as_used:
        return (
            f"As users get it, {best} reaches {summary.value('psnr', 'shadow'):.2f} dB in the shadow, "
            f"{summary.edge:.2f} dB along its edge and {summary.value('psnr', 'all'):.2f} dB over the frame; the worst "
            f"tenth of the pictures {summary.worst_tenth:.2f} dB in the shadow."
        )
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


def _pictures(evaluation: Evaluation, methods: Sequence[ScoredMethod], masks: MaskSource, best: str) -> Section:
    protocol = evaluation.protocols[0]
    ranked = [name for name, _ in evaluation.ranked(best, protocol)]
    middle = len(ranked) // 2
    groups = [
        ("worst", "Worst", list(reversed(ranked[-SHOWN:]))),
        ("typical", "Typical", ranked[middle - SHOWN // 2 : middle + 1 + SHOWN // 2][:SHOWN]),
        ("best", "Best", ranked[:SHOWN]),
    ]
    measure = "PSNR in the shadow" if protocol.as_used else f"{protocol.error_name} over all pixels"
    section = Section(
        "Pictures",
        [
            USED if protocol.as_used else RAW,
            f"Chosen by the {measure} of {best}, not by hand. Error maps share one scale; the number on a map is the "
            f"picture's {measure} under {protocol.name}.",
        ],
    )
    shown = [method for method in methods if not isinstance(method, Input)]
    titles = [method.name for method in shown]
    strips = _Strips(evaluation, shown, masks)
    taken: set[str] = set()
    section.content.append(extremes_table(evaluation, protocol))
    for key, word, names in groups:
        names = [name for name in names if name not in taken]
        taken |= set(names)
        if not names:
            continue
        chosen = [strips.of(name) for name in names]
        caption = f"{word} pictures of {best}. By {measure} under {protocol.name}."
        drawing = figures.drawn(_drawings(evaluation), figures.comparison, chosen, titles)
        section.content.append(Illustration(f"pictures-{key}", caption, drawing))
        caption = f"Error of the {word.lower()} pictures. The white line is the mask's edge."
        drawing = figures.drawn(_drawings(evaluation), figures.error_maps, chosen, titles)
        section.content.append(Illustration(f"errors-{key}", caption, drawing))
    return section


class _Strips:
    """Makes the lines of comparisons: from the small copies that scoring kept, else from the pictures themselves."""

    def __init__(self, evaluation: Evaluation, shown: Sequence[ScoredMethod], masks: MaskSource) -> None:
        self._evaluation, self._shown, self._masks = evaluation, shown, masks
        self._triplets = {triplet.name: triplet for triplet in evaluation.test.triplets}
        self._gallery = evaluation.gallery
        self._kind = evaluation.protocols[0].result_kind

    def of(self, name: str) -> figures.Strip:
        """Return the strip of the picture called `name`."""
        evaluation, protocol = self._evaluation, self._evaluation.protocols[0]
        picture = EvaluationPicture(self._triplets[name], self._masks)
        photo = self._copy("photo", picture, lambda: picture.photo)
        pictures = [photo]
        for method in self._shown:
            if name in evaluation.missing.get(method.name, []):
                pictures.append(np.full_like(photo, 128))
            else:
                key = evaluation.gallery_keys[method.name]
                pictures.append(self._copy(key, picture, lambda method=method: method.restore(picture, self._kind)))
        rows = [
            evaluation.rows[method].get(protocol.name, {}).get(name)
            for method in ("Input", *(m.name for m in self._shown))
            if method in evaluation.rows
        ]
        values = [math.nan if r is None else r.psnr.shadow if protocol.as_used else r.error.all for r in rows]
        scores = [*[math.nan] * (len(pictures) - len(values)), *values]
        truth = self._copy("truth", picture, lambda: self._truth(picture))
        return figures.Strip(name, truth, self._copy("mask", picture, lambda: picture.mask), pictures, scores)

    def _truth(self, picture: EvaluationPicture) -> NDArray[Any]:
        if self._kind.as_used:
            return Reference(picture.truth, picture.region, picture.photo).own_light
        return picture.truth

    def _copy(self, what: str, picture: EvaluationPicture, make: Callable[[], NDArray[Any]]) -> Levels:
        """Return a kept copy; made, and kept, where there is none."""
        found = None if self._gallery is None else self._gallery.get(what, picture.name)
        if found is None:
            copy = small_copy(make(), copy_size(picture.truth.shape))
            if self._gallery is not None:
                self._gallery.put(what, picture.name, copy)
            found = read_copy(copy)
        return found


def _signs(evaluation: Evaluation, masks: MaskSource) -> Section:
    """Show the paper's statistic that motivates MAPE's sign: x in [−1, 1] by region, over at most 60 pictures."""
    kept = None if evaluation.gallery is None else evaluation.gallery.folder / "signs.json"
    shadow, lit = _sign_shares(evaluation, masks, kept)
    caption = (
        "Values of x in [−1, 1] by region. Shadow values are mostly negative and the mask is +1 there and −1 outside, "
        "so that Mp·x flips the sign of lit pixels; the paper (§IV) reports 70 % and 97 % on ISTD."
    )
    section = Section("Why the mask's sign", [])
    drawing = figures.drawn(_drawings(evaluation), figures.sign_statistic, shadow, lit)
    section.content.append(Illustration("signs", caption, drawing))
    return section


def _sign_shares(evaluation: Evaluation, masks: MaskSource, kept: Path | None) -> tuple[Doubles, Doubles]:
    """Return the share of values in each bin, in the shadow and outside; kept beside the copies."""
    if kept is not None:
        try:
            shadow, lit = json.loads(kept.read_text(encoding="utf-8"))
            return np.array(shadow), np.array(lit)
        except (OSError, ValueError):
            pass
    triplets = evaluation.test.triplets
    counts = np.zeros((2, SIGN_BINS))
    for triplet in triplets[:: max(1, len(triplets) // SIGN_PICTURES)]:
        picture = EvaluationPicture(triplet, masks)
        values, region = as_float(picture.photo) * 2 - 1, picture.region > 127
        for row, part in enumerate((values[region], values[~region])):
            counts[row] += np.histogram(part, bins=SIGN_BINS, range=(-1, 1))[0]
    shares = counts / np.maximum(counts.sum(axis=1, keepdims=True), 1)
    if kept is not None and kept.parent.is_dir():
        kept.write_text(json.dumps(shares.tolist()), encoding="utf-8")
    return shares[0], shares[1]


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
