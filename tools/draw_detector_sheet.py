"""Draw docs/images/detector.jpg: 24 freely licensed photographs with what the detector finds in red.

    python tools/draw_detector_sheet.py PHOTOS -o docs/images/detector.jpg

`PHOTOS` is a folder of photographs without cast shadows. Twelve carry a synthetic shadow, drawn beside what was found.
"""

from __future__ import annotations

import argparse
from pathlib import Path

import numpy as np
from PIL import Image

from shadowmaskformer.arrays import Floats, from_float, to_float
from shadowmaskformer.data.layouts import pictures_in
from shadowmaskformer.data.pictures import read_rgb
from shadowmaskformer.data.synthetic import draw
from shadowmaskformer.detect.detector import ShadowDetector

COLUMNS, SIDE = 6, 150
RED = np.array([0.95, 0.1, 0.1], np.float32)


def main() -> None:
    """Draw the sheet."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("photos", type=Path)
    parser.add_argument("-o", "--output", type=Path, required=True)
    args = parser.parse_args()
    detector = ShadowDetector()
    held_out = pictures_in(args.photos)[::10]  # as list_detector_data.py does
    chosen = [held_out[int(i)] for i in np.linspace(0, len(held_out) - 1, 24).round()]
    cells = [
        cell(detector, path, None if index % 2 else np.random.default_rng(index)) for index, path in enumerate(chosen)
    ]
    rows = [np.concatenate(cells[i : i + COLUMNS], axis=1) for i in range(0, len(cells), COLUMNS)]
    args.output.parent.mkdir(parents=True, exist_ok=True)
    Image.fromarray(np.concatenate(rows)).save(args.output, quality=82)


def cell(detector: ShadowDetector, path: Path, rng: np.random.Generator | None) -> np.ndarray:
    """Return photo, truth and what was found, one below the other."""
    photo = to_float(read_rgb(path, upright=True))
    truth = np.zeros(photo.shape[:2], np.float32)
    if rng is not None:
        photo, truth = draw(photo, rng)
    found = detector.detect(from_float(photo)).mask
    return np.concatenate([thumbnail(photo), thumbnail(marked(photo, truth)), thumbnail(marked(photo, found))])


def marked(photo: Floats, mask: Floats) -> Floats:
    """Return the photo with the mask in red."""
    share = 0.65 * mask[..., None]
    return photo * (1 - share) + share * RED


def thumbnail(photo: Floats) -> np.ndarray:
    """Return a small square."""
    return np.asarray(Image.fromarray(from_float(photo)).resize((SIDE, SIDE), Image.Resampling.BOX))


if __name__ == "__main__":
    main()
