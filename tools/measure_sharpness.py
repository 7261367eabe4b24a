"""Measure how sharp results are at full size: fine contrast, the edge, and what is left of an outline.

    python tools/measure_sharpness.py --data SRD --photos PHOTO… [--crops FOLDER] [--every N] [--shadows 3]

`--data` is a data set of pairs, whose training pictures are used, every `--every`th, at their own size with derived
masks. On each of `--photos`, scaled to 12 megapixels if it is larger, synthetic shadows are cast, so that the truth is
known; the mask is where half of the light is gone. Prints a table. `--crops` gets the best and the worst of the edges
among the synthetic shadows at 100 %, where they are farthest from the truth: before, after, truth.
"""

from __future__ import annotations

import argparse
import itertools
import statistics
from pathlib import Path

import numpy as np
from PIL import Image

from shadowmaskformer.arrays import Floats, Levels, fit_pixels, from_float, to_float
from shadowmaskformer.data import derive_mask, open_dataset
from shadowmaskformer.data.adjust import adjust_clean
from shadowmaskformer.data.pictures import read_rgb
from shadowmaskformer.data.synthetic import draw
from shadowmaskformer.evaluate.as_used import UsedRegions, used_scores
from shadowmaskformer.masks import grow, shrink
from shadowmaskformer.removal.remover import ShadowRemover

PIXELS = 12_000_000
RINGS = (0.002, 0.004, 0.008, 0.016)
"""Distances from the mask's edge, as shares of the width, between which a ring is a possible outline."""
CROP = 360


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--data", type=Path)
    parser.add_argument("--every", type=int, default=60)
    parser.add_argument("--photos", type=Path, nargs="*", default=[])
    parser.add_argument("--shadows", type=int, default=3, help="on each photo")
    parser.add_argument("--crops", type=Path)
    args = parser.parse_args()
    remover = ShadowRemover()
    print("| pictures | PSNR in the shadow / at its edge, dB | fine contrast, share of the truth's | outline, levels |")
    print("|---|---|---|---|")
    if args.data:
        pairs = open_dataset(args.data).split("train")[:: args.every]
        rows = []
        for pair in pairs:
            photo, clean = to_float(read_rgb(pair.shadow)), to_float(read_rgb(pair.clean))
            mask = derive_mask(photo, clean)
            truth = adjust_clean(photo, clean, mask)
            rows.append(figures(remover, *map(from_float, (photo, truth, mask)))[0])
        print(line(f"{len(rows)} pictures of {args.data.name} train", rows), flush=True)
    if args.crops:
        args.crops.mkdir(parents=True, exist_ok=True)
    found: list[tuple[float, str, list[Levels]]] = []
    for path in args.photos:
        truth = _at_most(path)
        rows = []
        for seed in range(args.shadows):
            shadowed, depth = draw(to_float(truth), np.random.default_rng(seed))
            photo, mask = from_float(shadowed), from_float((depth > 0.5).astype(np.float32))
            if not mask.any():
                continue
            row, result = figures(remover, photo, truth, mask)
            rows.append(row)
            box = _farthest(mask, result, truth)
            found.append((row[1], f"{path.stem}, shadow {seed}", [each[box] for each in (photo, result, truth)]))
        print(line(f"{path.stem}, {truth.shape[1]}x{truth.shape[0]}, {len(rows)} shadows", rows), flush=True)
    if args.crops and found:
        found.sort(key=lambda each: each[0])
        for name, (edge, what, parts) in (("worst", found[0]), ("best", found[-1])):
            print(f"{name}: {what}, {edge:.1f} dB at the edge")
            gap = np.full((len(parts[0]), 8, 3), 255, np.uint8)
            picture = np.hstack([parts[0], gap, parts[1], gap, parts[2]])
            Image.fromarray(picture).save(args.crops / f"fullsize-{name}.jpg", quality=90)


def figures(
    remover: ShadowRemover, photo: Levels, truth: Levels, mask: Levels
) -> tuple[tuple[float, float, float, float], Levels]:
    """Return PSNR in the shadow and at its edge, the share of fine contrast, the outline in levels; and the result."""
    result = remover.remove(photo, mask)
    restored, wanted = (each.astype(np.float64) / 255 for each in (result, truth))
    scores = used_scores(restored, wanted, UsedRegions.of(mask))
    return (scores.shadow, scores.edge, scores.contrast, outline(restored - wanted, mask)), result


def outline(error: np.ndarray, mask: Levels) -> float:
    """Return by how much the rings along the mask's edge are brighter or darker than what lies beside them.

    Args:
        error: signed, (H, W, 3), in [0, 1].
        mask: (H, W), 255 = shadow.

    Returns:
        In levels of 255: the ring that stands out most from both the inside of the shadow and the lit ground.
    """
    soft, gray = (mask > 127).astype(np.float32), error.mean(axis=2)
    inwards, outwards = ([grown(soft, share * mask.shape[1]) for share in RINGS] for grown in (shrink, grow))
    inside, around = gray[inwards[-1] > 0], gray[(grow(soft, 0.03 * mask.shape[1]) > 0) & (outwards[-1] == 0)]
    usual = [float(np.median(each)) for each in (inside, around) if each.size]
    edges: list[Floats] = [*inwards[-2::-1], soft, *outwards[:-1]]
    rings = [gray[(larger > 0) & (smaller == 0)] for smaller, larger in itertools.pairwise(edges)]
    middles = [float(np.median(ring)) for ring in rings if ring.size]
    beyond = [max(middle - max(usual), min(usual) - middle, 0.0) for middle in middles] if usual else [0.0]
    return 255 * max(beyond)


def line(what: str, rows: list[tuple[float, float, float, float]]) -> str:
    """Return a row of the table."""
    shadow, edge, contrast, rim = zip(*rows, strict=True)
    known = sorted(each for each in contrast if each == each)
    return (
        f"| {what} | {statistics.fmean(shadow):.1f} / {statistics.fmean(edge):.1f} | "
        f"{statistics.fmean(known):.2f} ({known[0]:.2f} to {known[-1]:.2f}) | "
        f"{statistics.median(rim):.1f} (at most {max(rim):.1f}) |"
    )


def _at_most(path: Path) -> Levels:
    with Image.open(path) as image:
        height, width = fit_pixels(image.height, image.width, PIXELS)
        image = image.convert("RGB")
        return np.array(
            image if (width, height) == image.size else image.resize((width, height), Image.Resampling.LANCZOS)
        )


def _farthest(mask: Levels, result: Levels, truth: Levels) -> tuple[slice, slice]:
    """Return the square with an edge of the shadow in which the result is farthest from the truth."""
    height, width = mask.shape
    boxes = [
        (slice(top, top + CROP), slice(left, left + CROP))
        for top in range(0, height - CROP, CROP // 2)
        for left in range(0, width - CROP, CROP // 2)
    ]
    with_edge = [box for box in boxes if 0.2 < float(mask[box].mean()) / 255 < 0.8] or boxes
    return max(with_edge, key=lambda box: float(np.abs(result[box].astype(np.float32) - truth[box]).mean()))


if __name__ == "__main__":
    main()
