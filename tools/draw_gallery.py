"""Draw docs/images/gallery.jpg: twelve photographs with a drawn shadow, what came out, and the truth.

    python tools/draw_gallery.py PHOTOS -o docs/images/gallery.jpg

`PHOTOS` is a folder of freely licensed photographs. Twelve are taken evenly, not by their results, and sorted from the
best to the worst. The mask is where half of the light is gone. Prints a table for docs/gallery.md.
"""

from __future__ import annotations

import argparse
from pathlib import Path

import numpy as np
from PIL import Image

from shadowmaskformer.arrays import Levels, from_float, to_float
from shadowmaskformer.data.layouts import pictures_in
from shadowmaskformer.data.pictures import read_rgb
from shadowmaskformer.data.synthetic import draw
from shadowmaskformer.evaluate.as_used import UsedRegions, used_scores
from shadowmaskformer.evaluate.protocols import as_float
from shadowmaskformer.photo import Photo
from shadowmaskformer.removal.remover import ShadowRemover

COUNT, COLUMNS, SIDE, GAP = 12, 2, 200, 6


def main() -> None:
    """Draw the gallery and print its table."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("photos", type=Path)
    parser.add_argument("-o", "--output", type=Path, required=True)
    args = parser.parse_args()
    remover, floor = ShadowRemover(), ShadowRemover(method="relight")
    found = pictures_in(args.photos)
    chosen = [found[int(i)] for i in np.linspace(0, len(found) - 1, COUNT + 2).round()[1:-1]]
    shown: list[tuple[float, str, np.ndarray]] = []
    for seed, path in enumerate(chosen):
        truth = to_float(read_rgb(path, upright=True))
        photo, depth = draw(truth, np.random.default_rng(seed))
        photo, mask = from_float(photo), from_float((depth > 0.5).astype(np.float32))
        regions = UsedRegions.of(mask)
        results = [
            each.remove_from_photo(Photo(photo), mask, exact_mask=True).after.pixels for each in (remover, floor)
        ]
        scores = [used_scores(as_float(each), truth.astype(np.float64), regions).shadow for each in results]
        cells = [thumbnail(each) for each in (photo, results[0], from_float(truth))]
        shown.append((scores[0], f"{path.stem[:8]} | {scores[0]:.1f} | {scores[1]:.1f}", np.concatenate(cells, axis=1)))
    shown.sort(key=lambda each: -each[0])
    rows = [joined([cell for *_, cell in shown[i : i + COLUMNS]], axis=1) for i in range(0, COUNT, COLUMNS)]
    args.output.parent.mkdir(parents=True, exist_ok=True)
    Image.fromarray(joined(rows, axis=0)).save(args.output, quality=85)
    for number, (_, line, _) in enumerate(shown, start=1):
        print(f"| {number} | {line} |")


def thumbnail(picture: Levels) -> np.ndarray:
    """Return the middle of a picture as a small square."""
    image = Image.fromarray(picture)
    side = min(image.size)
    left, top = ((length - side) // 2 for length in image.size)
    return np.asarray(image.resize((SIDE, SIDE), Image.Resampling.BOX, box=(left, top, left + side, top + side)))


def joined(cells: list[np.ndarray], axis: int) -> np.ndarray:
    """Return cells beside or above each other with a white gap between them."""
    shape = list(cells[0].shape)
    shape[axis] = GAP
    gap = np.full(shape, 255, np.uint8)
    return np.concatenate([part for cell in cells for part in (cell, gap)][:-1], axis=axis)


if __name__ == "__main__":
    main()
