"""Make the demo photograph and its mask from CC0 textures that scikit-image carries.

    python tools/make_demo_photo.py [--free FREE.png]

Draws a brick path, a gravel strip and a lawn, and a person's shadow across them with `data.synthetic`.
`--free` also writes the truth without the shadow, which is not shipped.
"""

from __future__ import annotations

import argparse
from pathlib import Path

import numpy as np
from PIL import Image, ImageFilter
from skimage import data

from shadowmaskformer.data.synthetic import Fall, Light, SyntheticShadow, person

ASSETS = Path(__file__).parents[1] / "src" / "shadowmaskformer" / "assets"
HEIGHT, WIDTH = 768, 1024
SUN_LIT = Light(gain=np.array([2.5, 2.3, 2.0], np.float32), offset=np.array([0.03, 0.03, 0.035], np.float32))
PASSER_BY = Fall(contact=(1.13, 0.335), angle=1.02, length=1.24, breadth=0.98, near_px=0.55, far_px=2.2, fade=0.08)


def texture(name: str) -> np.ndarray:
    """Return one of scikit-image's grey textures, (512, 512) float, [0, 1]."""
    return getattr(data, name)().astype(np.float32) / 255


def ground(name: str, across: np.ndarray, away: np.ndarray) -> np.ndarray:
    """Return the texture at ground coordinates in its pixels, mirrored endlessly, bilinear."""
    tile = texture(name)
    tile = np.block([[tile, tile[:, ::-1]], [tile[::-1], tile[::-1, ::-1]]])
    size = tile.shape[0]
    row, column = np.floor(away).astype(int), np.floor(across).astype(int)
    down, right = (away - row)[..., None], (across - column)[..., None]
    tile = tile[..., None]
    corner = [[tile[(row + i) % size, (column + j) % size] for j in (0, 1)] for i in (0, 1)]
    top = corner[0][0] * (1 - right) + corner[0][1] * right
    bottom = corner[1][0] * (1 - right) + corner[1][1] * right
    return (top * (1 - down) + bottom * down)[..., 0]


def waves(rng: np.random.Generator, scale: int) -> np.ndarray:
    """Return smooth noise over the picture, mean 0, deviation 1, features about `scale` pixels wide."""
    small = rng.standard_normal((HEIGHT // scale + 3, WIDTH // scale + 3)).astype(np.float32)
    large = np.asarray(Image.fromarray(small).resize((WIDTH, HEIGHT), Image.Resampling.BICUBIC))
    return (large - large.mean()) / large.std()


def tinted(grey: np.ndarray, dark: tuple[float, ...], bright: tuple[float, ...]) -> np.ndarray:
    """Return grey turned into colour between the two given ones."""
    share = np.clip(grey, 0, 1)[..., None]
    return np.array(dark, np.float32) * (1 - share) + np.array(bright, np.float32) * share


def free_picture(rng: np.random.Generator) -> np.ndarray:
    """Return the sunlit ground without a shadow, (H, W, 3) float32, [0, 1]."""
    y, x = np.mgrid[:HEIGHT, :WIDTH].astype(np.float32)
    away = 1 / (0.55 + 0.45 * y / HEIGHT)  # the far end of the ground is seen smaller
    across = (x - WIDTH / 2) * away
    far = 1500 * away

    bricks = np.asarray(Image.fromarray(texture("brick")).resize((WIDTH, WIDTH), Image.Resampling.BICUBIC), np.float32)[
        WIDTH - HEIGHT :
    ]
    grain = ground("gravel", x * 1.7, y * 1.7) - 0.5
    path = tinted((bricks - 0.3) / 0.45 + 0.14 * grain, (0.62, 0.42, 0.34), (0.90, 0.84, 0.76))
    path *= (1 + 0.018 * waves(rng, 140) + 0.012 * waves(rng, 30))[..., None]
    path *= 1 + 0.012 * waves(rng, 90)[..., None] * np.array([1, 0, -1], np.float32)

    pebbles = ground("gravel", across * 1.1, far * 0.9)
    strip = tinted((pebbles - 0.12) / 0.75, (0.25, 0.23, 0.20), (0.93, 0.90, 0.84))

    blades = ground("grass", across * 0.75, far * 0.62)
    lawn = tinted((blades - 0.15) / 0.75, (0.17, 0.21, 0.08), (0.80, 0.83, 0.52))
    lawn *= (1 + 0.03 * waves(rng, 150))[..., None]
    lawn *= 1 + 0.015 * waves(rng, 110)[..., None] * np.array([1, 0, -1], np.float32)

    kerb = across + 7 * waves(rng, 60) * 0.2
    rim = across + 26 * (blades - 0.5) + 5 * waves(rng, 16)
    on_strip = np.clip((kerb - 150) / 2, 0, 1)[..., None]
    on_lawn = np.clip((rim - 235) / 3, 0, 1)[..., None]
    picture = path * (1 - on_strip) + strip * on_strip
    picture = picture * (1 - on_lawn) + lawn * on_lawn
    occlusion = 1 - 0.35 * np.exp(-(((kerb - 150) / 5) ** 2)) - 0.22 * np.exp(-(((rim - 231) / 9) ** 2))
    vignette = 1 - 0.10 * (((x / WIDTH - 0.5) ** 2 + (y / HEIGHT - 0.5) ** 2) / 0.5)
    return np.clip(picture * (occlusion * vignette)[..., None], 0, 1).astype(np.float32)


def photographed(picture: np.ndarray, rng: np.random.Generator) -> Image.Image:
    """Return the picture as a camera would deliver it: a little soft, a little noisy, 8 bits."""
    noisy = picture + rng.normal(0, 0.006, picture.shape) + rng.normal(0, 0.004, picture.shape[:2])[..., None]
    image = Image.fromarray((np.clip(noisy, 0, 1) * 255 + 0.5).astype(np.uint8))
    return image.filter(ImageFilter.UnsharpMask(radius=1.2, percent=60, threshold=0))


def main() -> None:
    """Write the photograph, its mask and, if asked, the truth."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--free", type=Path, help="also write the picture without the shadow here")
    parser.add_argument("--folder", type=Path, default=ASSETS, help="where photo and mask go")
    arguments = parser.parse_args()
    free = free_picture(np.random.default_rng(2024))
    silhouette = person(np.random.default_rng(11))
    shadow, coverage = SyntheticShadow(silhouette, PASSER_BY, SUN_LIT).cast(free)

    exif = Image.Exif()
    exif[0x010E] = "Demo: brick path, gravel and lawn with a synthetic cast shadow"
    exif[0x010F] = "shadowmaskformer"
    exif[0x0110] = "tools/make_demo_photo.py"
    exif[0x0112] = 1
    exif[0x0132] = "2024:06:21 16:30:00"
    exif[0x8298] = "CC0 1.0"
    arguments.folder.mkdir(parents=True, exist_ok=True)
    photo = photographed(shadow, np.random.default_rng(5))
    photo.save(arguments.folder / "demo-photo.jpg", quality=90, subsampling=0, exif=exif, dpi=(240, 240))
    mask = Image.fromarray(((coverage > 0.5) * 255).astype(np.uint8))
    mask.save(arguments.folder / "demo-mask.png", optimize=True)
    if arguments.free:
        photographed(free, np.random.default_rng(5)).save(arguments.free)


if __name__ == "__main__":
    main()
