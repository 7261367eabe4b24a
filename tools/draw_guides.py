"""Draw the pictures of the guides that show more than the page: docs/images/drawn.jpg and embeddings.jpg.

    python tools/draw_guides.py

Everything is made from the demo photograph and its ground, which are CC0.
"""

from __future__ import annotations

from pathlib import Path

import numpy as np
from make_demo_photo import free_picture
from PIL import Image

from shadowmaskformer.arrays import Floats, average_down, from_float, to_float
from shadowmaskformer.data.synthetic import draw
from shadowmaskformer.light.relight import measure
from shadowmaskformer.network.config import ModelConfig
from shadowmaskformer.network.embedding import mape, mape_01

ROOT = Path(__file__).parents[1]
ASSETS, IMAGES = ROOT / "src" / "shadowmaskformer" / "assets", ROOT / "docs" / "images"
SIZE = (240, 320)


def in_a_row(pictures: list[Floats], name: str) -> None:
    """Write pictures of one size side by side."""
    gap = np.ones((SIZE[0], 6, 3), np.float32)
    row = [part for picture in pictures for part in (picture, gap)][:-1]
    Image.fromarray(from_float(np.concatenate(row, axis=1))).save(IMAGES / name, quality=88)


def main() -> None:
    """Draw both."""
    free = average_down(free_picture(np.random.default_rng(2024)), *SIZE)
    in_a_row([free, *(draw(free, np.random.default_rng(seed))[0] for seed in (1, 5, 8))], "drawn.jpg")
    photo = average_down(to_float(np.asarray(Image.open(ASSETS / "demo-photo.jpg"))), *SIZE)
    mask = average_down(to_float(np.asarray(Image.open(ASSETS / "demo-mask.png").convert("L"))), *SIZE)
    relit = np.clip(measure(photo, mask).correction(photo).apply(photo), 0, 1)
    x, mp, start = 2 * photo - 1, 2 * mask[..., None] - 1, 2 * relit - 1
    config = ModelConfig()
    seen = [mape(x, mp, start, config), mape_01(x, mp, start, config), mp * start]
    marked = np.repeat(mask[..., None], 3, axis=2)
    in_a_row([photo, marked, *(np.clip((each + 1) / 2, 0, 1).astype(np.float32) for each in seen)], "embeddings.jpg")


if __name__ == "__main__":
    main()
