"""Measure a detector: what docs/detector.md and the model card print.

    python tools/measure_detector.py WEIGHTS --lists LISTS --test SRD --fresh PHOTOS -o results.json [--every N]

`LISTS` is the folder of `list_detector_data.py`; only its validation pictures are looked at,
every `--every`th of those with a shadow.
`--test` is the data set whose test split is reported.
"""

from __future__ import annotations

import argparse
import json
import time
from pathlib import Path
from typing import Any

import numpy as np
from PIL import Image

from shadowmaskformer import masks
from shadowmaskformer.arrays import Floats, Levels, to_float
from shadowmaskformer.data import Triplet, derive_mask, open_dataset, unseen_scenes
from shadowmaskformer.data.adjust import adjust_clean
from shadowmaskformer.data.layouts import pictures_in
from shadowmaskformer.data.pictures import read_dataset_mask, read_rgb, resize
from shadowmaskformer.detect.detection import LEVEL, Detection
from shadowmaskformer.detect.detector import ShadowDetector
from shadowmaskformer.detect.hints import Hint
from shadowmaskformer.detect.scores import Counts, count, next_click
from shadowmaskformer.metrics import psnr
from shadowmaskformer.network import weights
from shadowmaskformer.photo import Photo
from shadowmaskformer.removal.remover import ShadowRemover

CLICKS = (0, 1, 3, 5)
ERRORS = ("exact", "shrink 1", "shrink 2", "shrink 3", "grow 1", "grow 2", "grow 3")


def main() -> None:
    """Measure and write."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("weights")
    parser.add_argument("--lists", type=Path, required=True)
    parser.add_argument("--test", type=Path, required=True)
    parser.add_argument("--removal-only", action="store_true", help="keep the other figures in the output file")
    parser.add_argument(
        "--fresh", type=Path, required=True, help="photographs without cast shadow that nothing was chosen on"
    )
    parser.add_argument("--every", type=int, default=1)
    parser.add_argument("-o", "--output", type=Path, required=True)
    args = parser.parse_args()
    detector = ShadowDetector(args.weights, threads=1)
    valid = open_dataset(args.lists).split("valid", allow_unpaired=True)
    steps = {"drawn": args.every, "pair": args.every, "clean": 1, "bare": 1}
    groups = {kind: [t for t in valid if t.name.startswith(kind)][::step] for kind, step in steps.items()}
    dataset = open_dataset(args.test)
    test = dataset.split("test", allow_unpaired=True)[:: 2 * args.every]
    if args.removal_only:
        results: dict[str, Any] = json.loads(args.output.read_text(encoding="utf-8"))
    else:
        results = {"size": size_of(args.weights), "milliseconds": milliseconds(detector)}
        new = unseen_scenes(test, dataset.split("train", allow_unpaired=True))
        groups_found = {
            **groups,
            "fresh": [Triplet(p.stem, p, p) for p in pictures_in(args.fresh)],
            "test": test,
            "test, unseen scenes": [t for t, unseen in zip(test, new, strict=True) if unseen],
        }
        for name, triplets in groups_found.items():
            results[name] = found(detector, triplets)
            show(name, results[name])
        results["clicks"] = clicked(detector, groups["drawn"])
        show("clicks", results["clicks"])
        args.output.write_text(json.dumps(results, indent=1) + "\n", encoding="utf-8")
    remover = ShadowRemover(threads=1)
    remover.detector = detector
    results["removal"] = removed(remover, groups["pair"][::2])
    results["removal, test"] = removed(remover, test[::2], errors=("exact",))
    show("removal", results["removal"])
    args.output.write_text(json.dumps(results, indent=1) + "\n", encoding="utf-8")
    args.output.with_suffix(".md").write_text(tables(results), encoding="utf-8")


def tables(results: dict[str, Any]) -> str:
    """Return the figures as Markdown."""
    names = {
        "drawn": "photographs with drawn masks, held out",
        "pair": "SRD, unseen scenes of train",
        "test": "SRD test",
        "test, unseen scenes": "SRD test, unseen scenes",
        "clean": "SRD without its shadows, unseen scenes",
        "bare": "photographs without cast shadow",
        "fresh": "others of the kind, on which nothing was chosen",
    }
    lines = ["| | pictures | BER, pooled | BER, mean | IoU | found, % of the area | nothing found, % of the pictures |"]
    lines += ["|---|---|---|---|---|---|---|"]
    for key, name in names.items():
        row, empty = results[key], key in ("clean", "bare", "fresh")
        scores = ("–",) * 3 if empty else (row["ber"], row["ber_per_picture"], row["iou"])
        lines.append(f"| {name} | {row['pictures']} | " + " | ".join(map(str, scores)) + " | ")
        lines[-1] += f"{row['found']} | {row['nothing_found']} |"
    lines += ["", "| " + " | ".join(["IoU, drawn masks", *results["clicks"]]) + " |"]
    lines += ["|" + "---|" * (1 + len(results["clicks"]))]
    lines += ["| | " + " | ".join(f"{value:.3f}" for value in results["clicks"].values()) + " |", ""]
    removal = results["removal"]
    lines += ["| PSNR, all / shadow | as given | widened |", "|---|---|---|"]
    for error in ERRORS:
        pair_of = ("{:.2f} / {:.2f}".format(*removal[f"{error}, {way}"]) for way in ("as given", "snapped"))
        lines.append(f"| {error}{' %' * (error != 'exact')} | " + " | ".join(pair_of) + " |")
    lines += ["", "| PSNR, all / shadow | photo | derived mask | found |", "|---|---|---|---|"]
    for key, name in (("removal", "SRD, unseen scenes of train"), ("removal, test", "SRD test")):
        cells = ("{:.2f} / {:.2f}".format(*results[key][row]) for row in ("input", "exact, as given", "detected"))
        lines.append(f"| {name} | " + " | ".join(cells) + " |")
    return "\n".join(lines) + "\n"


def show(name: str, figures: object) -> None:
    """Print as it comes."""
    print(name, json.dumps(figures), flush=True)


def size_of(name: str) -> dict[str, int]:
    """Return parameters and bytes."""
    _, arrays = weights.load(name)
    return {"parameters": sum(a.size for a in arrays.values()), "bytes": weights.locate(name).stat().st_size}


def milliseconds(detector: ShadowDetector) -> dict[str, float]:
    """Return the median time of finding, one thread, without reading the file."""
    timed: dict[str, float] = {}
    for megapixels in (0.3, 12):
        photo = np.random.default_rng(0).integers(
            0, 256, (round(866 * megapixels**0.5), round(1155 * megapixels**0.5), 3), np.uint8
        )
        times: list[float] = []
        for _ in range(3):
            began = time.process_time()
            detector.detect(photo)
            times.append(1000 * (time.process_time() - began))
        timed[f"{megapixels} MP"] = round(float(np.median(times)), 0)
    return timed


def pair(triplet: Triplet) -> tuple[Levels, Floats]:
    """Return a photo and where its shadow is: drawn, derived, or nowhere."""
    photo = read_rgb(triplet.shadow)
    height, width = photo.shape[:2]
    if triplet.mask is not None:
        return photo, to_float(resize(read_dataset_mask(triplet.mask), height, width))
    if triplet.clean == triplet.shadow:
        return photo, np.zeros((height, width), np.float32)
    return photo, derive_mask(to_float(photo), to_float(read_rgb(triplet.clean)))


def compared(detection: Detection, wanted: Floats) -> Counts:
    """Return how a detection agrees with a mask of the photo's size."""
    mask = masks.resize(detection.mask, *wanted.shape)
    return count(mask > LEVEL, wanted > LEVEL)


def found(detector: ShadowDetector, triplets: list[Triplet] | tuple[Triplet, ...]) -> dict[str, float]:
    """Return balance error rate (pooled, and mean over pictures), IoU and found area."""
    counts: list[Counts] = []
    for triplet in triplets:
        photo, wanted = pair(triplet)
        counts.append(compared(detector.detect(photo), wanted))
    return {
        "pictures": len(counts),
        "ber": round(100 * Counts.sum(counts).ber, 2),
        "ber_per_picture": round(100 * float(np.mean([c.ber for c in counts])), 2),
        "iou": round(float(np.mean([c.iou for c in counts])), 3),
        "found": round(100 * float(np.mean([c.found for c in counts])), 2),
        "nothing_found": round(100 * float(np.mean([c.found == 0 for c in counts])), 1),
    }


def clicked(detector: ShadowDetector, triplets: list[Triplet]) -> dict[str, float]:
    """Return the mean IoU after so many clicks, each into the largest error, and from one scribble."""
    ious: dict[str, list[float]] = {f"{n} clicks": [] for n in CLICKS} | {"scribble": []}
    for triplet in triplets:
        photo, wanted = pair(triplet)
        hints: list[Hint] = []
        for number in range(max(CLICKS) + 1):
            detection = detector.detect(photo, hints=hints)
            if number in CLICKS:
                ious[f"{number} clicks"].append(compared(detection, wanted).iou)
            mask = masks.resize(detection.mask, *wanted.shape)
            hint = next_click(mask > LEVEL, wanted > LEVEL)
            if hint is not None:
                hints.append(hint)
        ious["scribble"].append(compared(detector.detect(photo, hints=scribble(wanted)), wanted).iou)
    return {name: round(float(np.mean(values)), 3) for name, values in ious.items()}


def scribble(wanted: Floats) -> list[Hint]:
    """Return a stroke of eight points along the inside of the shadow, from left to right."""
    inside = masks.shrink((wanted > LEVEL).astype(np.float32), 0.01 * max(wanted.shape)) > 0
    columns = np.flatnonzero(inside.any(axis=0))
    if not columns.size:
        return []
    points: list[tuple[float, float]] = []
    for column in columns[np.linspace(0, columns.size - 1, 8).astype(int)]:
        rows = np.flatnonzero(inside[:, column])
        points.append((float(column) + 0.5, float(rows[len(rows) // 2]) + 0.5))
    return [Hint.click(x, y) for x, y in points]


def removed(
    remover: ShadowRemover, triplets: list[Triplet] | tuple[Triplet, ...], errors: tuple[str, ...] = ERRORS
) -> dict[str, list[float]]:
    """Return PSNR over all and over the shadow, own light, photos reduced to half: masks as given, and snapped."""
    rows: dict[str, list[tuple[float, float]]] = {}
    for triplet in triplets:
        photo, clean = (np.asarray(Image.fromarray(read_rgb(p)).reduce(2)) for p in (triplet.shadow, triplet.clean))
        mask = derive_mask(to_float(photo), to_float(clean))
        if (mask > 0).sum() < 100:
            continue
        truth, shadow = adjust_clean(to_float(photo), to_float(clean), mask), mask > LEVEL

        def score(name: str, result: Levels, truth: Floats = truth, shadow: object = shadow) -> None:
            value = to_float(result)
            rows.setdefault(name, []).append((psnr(value, truth, None), psnr(value, truth, shadow)))  # type: ignore[arg-type]

        score("input", photo)
        detection = remover.detector.detect(photo)
        found_mask = detection.mask if detection.shadows else np.zeros_like(mask)
        score("detected", remover.remove_from_photo(Photo(photo), found_mask, exact_mask=True).after.pixels)
        for error in errors:
            kind, _, percent = error.partition(" ")
            reach = float(percent or 0) / 100 * mask.shape[1]
            given = masks.shrink(mask, reach) if kind == "shrink" else masks.grow(mask, reach)
            for way, exact in (("as given", True), ("snapped", False)):
                result = remover.remove_from_photo(Photo(photo), given, exact_mask=exact)
                score(f"{error}, {way}", result.after.pixels)
    return {name: np.mean(values, axis=0).round(2).tolist() for name, values in rows.items()}


if __name__ == "__main__":
    main()
