"""Measure a detector: what docs/detector.md and the model card print.

    python tools/measure_detector.py WEIGHTS --lists LISTS --pairs SRD --fresh PHOTOS -o results.json
        [--parts found,clicks,removal,snapping] [--every N] [--runtime NAME]

`LISTS` is the folder of `list_detector_data.py`: its validation pictures are those that constants were chosen on, its
test pictures are looked at here alone. Of `--pairs` the test split is reported. Parts that are not measured keep their
figures in the output file. `--every` takes only every Nth picture of the large groups.
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
from shadowmaskformer.metrics import lab_d50, lab_mae, psnr
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
    parser.add_argument("--pairs", type=Path, required=True)
    parser.add_argument(
        "--fresh", type=Path, required=True, help="photographs without cast shadow that nothing was chosen on"
    )
    parser.add_argument("--parts", default="found,clicks,removal,snapping")
    parser.add_argument("--every", type=int, default=1)
    parser.add_argument("--runtime")
    parser.add_argument("-o", "--output", type=Path, required=True)
    args = parser.parse_args()
    detector = ShadowDetector(args.weights, runtime=args.runtime, threads=1)
    remover = ShadowRemover(threads=1)
    remover.detector = detector
    groups = pictures(args.lists, args.pairs, args.fresh, args.every)
    results: dict[str, Any] = {}
    if args.output.is_file():
        results = json.loads(args.output.read_text(encoding="utf-8"))
    results["size"] = size_of(args.weights)

    def keep(name: str, figures: Any) -> None:
        results[name] = figures
        show(name, figures)
        args.output.write_text(json.dumps(results, indent=1) + "\n", encoding="utf-8")

    parts = args.parts.split(",")
    if "found" in parts:
        keep("milliseconds", milliseconds(detector))
        for name in GROUPS:
            keep(name, found(detector, groups[name]))
    if "clicks" in parts:
        keep("clicks", clicked(detector, groups["drawn"][:: args.every]))
    if "removal" in parts:
        for size in SIZES:
            keep(f"removal {size[0]}x{size[1]}", removed(remover, groups["test"][::2], size))
        keep("removal, validation", removed(remover, groups["pair"][::2], (420, 320)))
    if "snapping" in parts:
        keep("snapping", snapped(remover, groups["pair"][::2]))
    args.output.with_suffix(".md").write_text(tables(results), encoding="utf-8")


GROUPS = {
    "drawn": "photographs with drawn masks",
    "test": "SRD test",
    "test, unseen scenes": "SRD test, scenes that are not in its train",
    "fresh": "photographs of clothing, without cast shadow",
    "drawn, validation": "photographs with drawn masks, validation",
    "pair": "SRD train, unseen scenes, validation",
    "clean": "the same without their shadows, validation",
    "bare": "photographs of clothing, validation",
}
"""What is looked at, and how the table calls it."""
EMPTY = ("fresh", "clean", "bare")
SIZES = ((256, 256), (840, 640))
MEASURES, CELL = "PSNR; Lab MAE, all / shadow", "{:.2f} / {:.2f}; {:.2f} / {:.2f}"


def pictures(lists: Path, pairs: Path, fresh: Path, every: int) -> dict[str, list[Triplet]]:
    """Return the groups of pictures."""
    valid, test = (open_dataset(lists).split(name, allow_unpaired=True) for name in ("valid", "test"))
    kinds = {kind: [t for t in valid if t.name.startswith(kind)] for kind in ("drawn", "pair", "clean", "bare")}
    dataset = open_dataset(pairs)
    tested = dataset.split("test", allow_unpaired=True)
    new = unseen_scenes(tested, dataset.split("train", allow_unpaired=True))
    return {
        "drawn": list(test),
        "test": list(tested[:: 2 * every]),
        "test, unseen scenes": [t for t, unseen in zip(tested, new, strict=True) if unseen],
        "fresh": [Triplet(p.stem, p, p) for p in pictures_in(fresh)][::every],
        "drawn, validation": kinds["drawn"],
        "pair": kinds["pair"][::every],
        "clean": kinds["clean"],
        "bare": kinds["bare"][::every],
    }


def tables(results: dict[str, Any]) -> str:
    """Return the figures as Markdown."""
    lines = ["| | pictures | BER, pooled | BER, mean | IoU | found, % of the area | nothing found, % of the pictures |"]
    lines += ["|---|---|---|---|---|---|---|"]
    for key, name in GROUPS.items():
        if row := results.get(key):
            scores = ("–",) * 3 if key in EMPTY else (row["ber"], row["ber_per_picture"], row["iou"])
            cells = (row["pictures"], *scores, row["found"], row["nothing_found"])
            lines.append(f"| {name} | " + " | ".join(map(str, cells)) + " |")
    if clicks := results.get("clicks"):
        lines += ["", "| " + " | ".join(["IoU, drawn masks", *clicks]) + " |", "|" + "---|" * (1 + len(clicks))]
        lines += ["| | " + " | ".join(f"{value:.3f}" for value in clicks.values()) + " |"]
    removals = [key for key in results if key.startswith("removal")]
    if removals:
        lines += ["", f"| {MEASURES} | photo | derived mask | found |", "|---|---|---|---|"]
        for key in removals:
            cells = (CELL.format(*results[key][row]) for row in ("input", "derived", "detected"))
            lines.append(f"| {key} | " + " | ".join(cells) + " |")
    if snapping := results.get("snapping"):
        lines += ["", f"| {MEASURES} | as given | widened |", "|---|---|---|"]
        for error in ERRORS:
            pair_of = (CELL.format(*snapping[f"{error}, {way}"]) for way in ("as given", "snapped"))
            lines.append(f"| {error}{' %' * (error != 'exact')} | " + " | ".join(pair_of) + " |")
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
    """Return eight clicks along the inside of the shadow, from left to right."""
    inside = masks.shrink((wanted > LEVEL).astype(np.float32), 0.01 * max(wanted.shape)) > 0
    columns = np.flatnonzero(inside.any(axis=0))
    if not columns.size:
        return []
    points: list[tuple[float, float]] = []
    for column in columns[np.linspace(0, columns.size - 1, 8).astype(int)]:
        rows = np.flatnonzero(inside[:, column])
        points.append((float(column) + 0.5, float(rows[len(rows) // 2]) + 0.5))
    return [Hint.click(x, y) for x, y in points]


def shown(triplet: Triplet, size: tuple[int, int]) -> tuple[Levels, Floats, Floats] | None:
    """Return a photo at (width, height), its derived mask and the truth in its own light; None without a shadow."""
    photo, clean = (
        np.asarray(Image.fromarray(read_rgb(path)).resize(size, Image.Resampling.BICUBIC, reducing_gap=3.0))
        for path in (triplet.shadow, triplet.clean)
    )
    mask = derive_mask(to_float(photo), to_float(clean))
    if (mask > 0).sum() < 100:
        return None
    return photo, mask, adjust_clean(to_float(photo), to_float(clean), mask)


def removed(remover: ShadowRemover, triplets: list[Triplet], size: tuple[int, int]) -> dict[str, list[float]]:
    """Return the scores of the photo, of the result with the derived mask, and of that with what was found."""
    rows: dict[str, list[tuple[float, ...]]] = {"input": [], "derived": [], "detected": []}
    for triplet in triplets:
        known = shown(triplet, size)
        if known is None:
            continue
        photo, mask, truth = known
        detection = remover.detector.detect(photo)
        masks_given = {"derived": mask, "detected": detection.mask if detection.shadows else np.zeros_like(mask)}
        results = {"input": photo} | {
            name: remover.remove_from_photo(Photo(photo), given, exact_mask=True).after.pixels
            for name, given in masks_given.items()
        }
        for name, result in results.items():
            rows[name].append(_scores(result, truth, mask))
    return {name: np.mean(values, axis=0).round(2).tolist() for name, values in rows.items()}


def snapped(remover: ShadowRemover, triplets: list[Triplet]) -> dict[str, list[float]]:
    """Return the scores at half size with masks as given, and snapped."""
    rows: dict[str, list[tuple[float, ...]]] = {}
    for triplet in triplets:
        known = shown(triplet, (420, 320))
        if known is None:
            continue
        photo, mask, truth = known
        for error in ERRORS:
            kind, _, percent = error.partition(" ")
            reach = float(percent or 0) / 100 * mask.shape[1]
            given = masks.shrink(mask, reach) if kind == "shrink" else masks.grow(mask, reach)
            for way, exact in (("as given", True), ("snapped", False)):
                result = remover.remove_from_photo(Photo(photo), given, exact_mask=exact)
                rows.setdefault(f"{error}, {way}", []).append(_scores(result.after.pixels, truth, mask))
    return {name: np.mean(values, axis=0).round(2).tolist() for name, values in rows.items()}


def _scores(result: Levels, truth: Floats, mask: Floats) -> tuple[float, ...]:
    """Return PSNR and Lab MAE, each over all and over the shadow."""
    restored, shadow = to_float(result), mask > LEVEL
    labs = lab_d50(restored), lab_d50(truth)
    return psnr(restored, truth), psnr(restored, truth, shadow), lab_mae(*labs), lab_mae(*labs, shadow)


if __name__ == "__main__":
    main()
