"""Render pairs with and without a shadow: things lit by a lamp or the sun and by what is around them.

    pip install mitsuba    # and Debian's libllvm22, or another that Dr.Jit takes
    DRJIT_LIBLLVM_PATH=… python tools/render_pairs.py --photos DIR --count 1000 --seed 0 -o rendered

writes `shadow/`, `clean/` and `mask/`, a data set of pairs as `shadowmaskformer train --data` reads it. Shadows drawn
on photographs lie flat over everything. Here light falls on ground, walls and things as physics has it: faces turned
away from the lamp are dark as well, ground brightens towards it, soft edges widen with the distance, and colours
reflect. Photographs serve as the materials.

There are two kinds of pairs. In one, what casts the shadow is outside the picture and gone from the clean one. In the
other, things stand in the picture with their own shadows, and the clean one is lit from all around.
"""

from __future__ import annotations

import argparse
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import drjit
import mitsuba
import numpy as np
from PIL import Image

from shadowmaskformer.arrays import box_mean, from_float
from shadowmaskformer.data.derive import derive_mask
from shadowmaskformer.data.synthetic import SILHOUETTES

mitsuba.set_variant("llvm_ad_rgb")
from mitsuba import ScalarTransform4f as Transform  # noqa: E402  (exists once the variant is chosen)

Generator = np.random.Generator
Part = dict[str, Any]

HEIGHT, WIDTH = 144, 192  # a little more than the network looks at
SAMPLES = 32  # paths a pixel: what noise is left looks like a camera's
PREVIEW = 4  # a picture that many times smaller tells whether a scene is any good
OBJECT_SHARE = 0.35  # of the pairs in which things keep their own shadows
BORDERS = 0.4  # of the pairs in which two materials meet on the ground
UNEVEN = 0.3  # how far, in its logarithm, light may differ where it is no shadow
FAR = 60.0  # the sun
NEAREST = 0.3  # nothing is nearer to the camera
DARKEST = 0.01  # light of the brightest things, at least
COVERED = (0.02, 0.6)  # share of the picture in shadow, else another scene is tried


@dataclass(frozen=True)
class Camera:
    """Where the camera stands and what it looks at; the ground is z = 0 and the target near the origin."""

    eye: np.ndarray
    target: np.ndarray
    fov: float

    def part(self, shrink: int = 1) -> Part:
        """Return the sensor, of a picture that is `shrink` times smaller."""
        return {
            "type": "perspective",
            "fov": self.fov,
            "to_world": Transform().look_at(origin=list(self.eye), target=list(self.target), up=[0, 0.01, 1]),
            "film": {"type": "hdrfilm", "width": WIDTH // shrink, "height": HEIGHT // shrink},
            "sampler": {"type": "independent", "sample_count": SAMPLES // shrink},
        }


def random_camera(rng: Generator) -> Camera:
    """Return a camera that looks down on the ground, at 15 to 80 degrees."""
    down, around = np.radians(rng.uniform(15, 80)), rng.uniform(0, 2 * np.pi)
    away = rng.uniform(2.5, 4.5)
    eye = away * np.array([np.cos(around) * np.cos(down), np.sin(around) * np.cos(down), np.sin(down)])
    target = np.append(rng.uniform(-0.2, 0.2, 2), 0.15)
    return Camera(eye + target, target, float(rng.uniform(30, 55)))


class Materials:
    """Photographs and patterns as the colour of surfaces."""

    def __init__(self, photos: list[Path], rng: Generator) -> None:
        self.photos, self.rng = photos, rng

    def surface(self, *, repeats: float = 1.0) -> Part:
        """Return a surface: a part of a photograph, a pattern, or plain; sometimes a little glossy."""
        rng = self.rng
        kind = rng.random()
        if kind < 0.3:
            colour = self._plain()
        else:
            colour = self._bitmap(self._pattern() if kind < 0.45 else self._part(), repeats)
        inner: Part = {"type": "diffuse", "reflectance": colour}
        if rng.random() < 0.15:
            rough = float(rng.uniform(0.15, 0.5))
            inner = {"type": "roughplastic", "alpha": rough, "diffuse_reflectance": colour}
        return {"type": "twosided", "inner": inner}

    def _plain(self) -> Part:
        return {"type": "rgb", "value": self._colour().tolist()}

    def _colour(self) -> np.ndarray:
        level = np.exp(self.rng.uniform(np.log(0.06), np.log(0.75)))
        return np.clip(level * np.exp(self.rng.normal(0, self.rng.choice([0.05, 0.22]), 3)), 0.02, 0.85)

    def _bitmap(self, levels: np.ndarray, repeats: float) -> Part:
        return {
            "type": "bitmap",
            "bitmap": mitsuba.Bitmap(np.ascontiguousarray(levels)),
            "wrap_mode": "mirror",
            "to_uv": Transform().scale([repeats, repeats, 1]),
        }

    def _part(self) -> np.ndarray:
        image = Image.open(self.photos[self.rng.integers(len(self.photos))]).convert("RGB")
        side = min(image.size) * self.rng.uniform(0.35, 1)
        left, top = (self.rng.uniform(0, length - side) for length in image.size)
        part = image.resize((384, 384), Image.Resampling.BICUBIC, box=(left, top, left + side, top + side))
        levels = np.asarray(part, np.float32)
        # No thing reflects all light, and none nothing.
        return np.clip(levels * self.rng.uniform(0.75, 0.95), 25, 235).astype(np.uint8)

    def _pattern(self) -> np.ndarray:
        """Return tiles, bricks or boards with joints."""
        rng, side = self.rng, 384
        down, across = (int(rng.integers(2, 9)) for _ in range(2))
        rows, columns = np.mgrid[:side, :side] / side
        shift = 0.5 * (np.floor(rows * down) % 2) * (rng.random() < 0.6)
        tile = np.floor(rows * down) * 64 + np.floor(columns * across + shift) % across
        tones = np.exp(rng.normal(0, rng.choice([0.05, 0.4]), 64 * 64))[tile.astype(int)]
        in_row, in_column = (rows * down) % 1, (columns * across + shift) % 1
        joint = (in_row < rng.uniform(0.01, 0.08)) | (in_column < rng.uniform(0.01, 0.08))
        colour = np.where(joint[..., None], self._colour(), self._colour() * tones[..., None])
        colour = colour * np.exp(rng.normal(0, rng.uniform(0.01, 0.12), (side, side, 1)))
        return from_float(np.clip(colour, 0.01, 0.85).astype(np.float32) ** np.float32(1 / 2.2))


def room(materials: Materials, rng: Generator) -> Part:
    """Return the ground, sometimes of two materials that meet, and sometimes one or two walls or a step."""
    parts: Part = {
        "ground": {
            "type": "rectangle",
            "to_world": Transform().rotate([0, 0, 1], float(rng.uniform(0, 360))).scale(12),
            "surface": materials.surface(repeats=float(rng.uniform(2, 9))),
        }
    }
    if rng.random() < BORDERS:
        turned = Transform().rotate([0, 0, 1], float(rng.uniform(0, 360)))
        parts["beside"] = {
            "type": "rectangle",
            "to_world": turned.translate([0, 8 + float(rng.normal(0, 0.3)), 0.002]).scale(8),
            "surface": materials.surface(repeats=float(rng.uniform(2, 6))),
        }
    turn = float(rng.uniform(0, 360))
    for number in range(int(rng.choice([0, 1, 2], p=[0.6, 0.25, 0.15]))):
        away = float(rng.uniform(0.4, 1.2))
        upright = Transform().rotate([0, 0, 1], turn + 90 * number).translate([0, away, 0]).rotate([1, 0, 0], 90)
        parts[f"wall{number}"] = {
            "type": "rectangle",
            "to_world": upright.scale(8),
            "surface": materials.surface(repeats=float(rng.uniform(2, 6))),
        }
    if rng.random() < 0.15:
        parts["step"] = {
            "type": "cube",
            "to_world": Transform()
            .rotate([0, 0, 1], turn + float(rng.uniform(0, 90)))
            .translate([0, float(rng.uniform(1.2, 2)), 0])
            .scale([4, 1, float(rng.uniform(0.08, 0.35))]),
            "surface": materials.surface(repeats=2),
        }
    return parts


def things(materials: Materials, rng: Generator, count: int) -> Part:
    """Return things that stand on the ground near the origin."""
    parts: Part = {}
    for number in range(count):
        x, y = (float(place) for place in rng.normal(0, 0.45, 2))
        across, tall = (float(length) for length in (rng.uniform(0.12, 0.45), rng.uniform(0.1, 0.6)))
        turned = Transform().translate([x, y, 0]).rotate([0, 0, 1], float(rng.uniform(0, 360)))
        kind = rng.choice(["cube", "sphere", "cylinder"], p=[0.45, 0.25, 0.3])
        surface = materials.surface()
        if kind == "cube":
            deep = across * float(rng.uniform(0.3, 1.2))
            place = turned.translate([0, 0, tall]).scale([across, deep, tall])
            parts[f"thing{number}"] = {"type": "cube", "to_world": place, "surface": surface}
        elif kind == "sphere":
            place = turned.translate([0, 0, across]).scale([across, across, across])
            parts[f"thing{number}"] = {"type": "sphere", "to_world": place, "surface": surface}
        else:
            place = turned.scale([across, across, 2 * tall])
            parts[f"thing{number}"] = {"type": "cylinder", "to_world": place, "surface": surface}
            lid = turned.translate([0, 0, 2 * tall]).scale([across, across, 1])
            parts[f"lid{number}"] = {"type": "disk", "to_world": lid, "surface": surface}
    return parts


def towards_lamp(rng: Generator) -> np.ndarray:
    """Return the direction from the ground to the lamp or the sun."""
    up, around = np.radians(rng.uniform(18, 75)), rng.uniform(0, 2 * np.pi)
    return np.array([np.cos(around) * np.cos(up), np.sin(around) * np.cos(up), np.sin(up)])


def lamp(towards: np.ndarray, away: float, width: float, irradiance: np.ndarray) -> Part:
    """Return a glowing ball in a direction, that is so bright that it gives the origin `irradiance`."""
    radius = away * width
    radiance = irradiance / (np.pi * width**2)
    return {
        "type": "sphere",
        "center": (towards * away).tolist(),
        "radius": float(radius),
        "glow": {"type": "area", "radiance": {"type": "rgb", "value": radiance.tolist()}},
    }


def surroundings(radiance: np.ndarray, rng: Generator) -> Part:
    """Return the light of sky, walls and ceiling: brighter on one side than on the other."""
    height, width = 16, 32
    across, up = np.meshgrid(np.linspace(0, 2 * np.pi, width), np.linspace(1, -1, height))
    uneven = 1 + rng.uniform(0, 0.9) * np.cos(across - rng.uniform(0, 2 * np.pi)) * np.sqrt(1 - up**2 * 0.9)
    uneven *= np.exp(rng.uniform(-0.6, 0.6) * up)
    picture = radiance * (uneven / uneven.mean())[..., None] * np.exp(rng.normal(0, 0.06, (height, width, 3)))
    upright = Transform().rotate([1, 0, 0], 90)
    return {
        "type": "envmap",
        "bitmap": mitsuba.Bitmap(picture.astype(np.float32)),
        "to_world": upright,
    }


def casters(towards: np.ndarray, lamp_away: float, rng: Generator) -> Part:
    """Return what stands between the lamp and the picture: boards with the outline of things, boxes and balls."""
    parts: Part = {}
    side = np.cross(towards, [0, 0, 1])
    side /= np.linalg.norm(side)
    above = np.cross(side, towards)
    black = {"type": "twosided", "inner": {"type": "diffuse", "reflectance": {"type": "rgb", "value": 0.2}}}
    for number in range(int(rng.choice([1, 2, 3], p=[0.7, 0.2, 0.1]))):
        away = rng.uniform(0.35, 0.8) * min(lamp_away, 8)
        foot = rng.normal(0, 0.5, 2)
        middle = np.append(foot, 0) + away * towards
        size = float(np.exp(rng.uniform(np.log(0.35), np.log(2.2)))) * (1 - away / lamp_away if lamp_away < FAR else 1)
        kind = rng.random()
        if kind < 0.65:
            place = Transform().look_at(origin=middle.tolist(), target=(middle + towards).tolist(), up=above.tolist())
            turned = place.rotate([0, 0, 1], float(rng.uniform(0, 360))).scale(size * 1.6)
            parts[f"caster{number}"] = outline(turned, rng)
        elif kind < 0.85:
            axis, turn = rng.normal(0, 1, 3).tolist(), float(rng.uniform(0, 360))
            place = Transform().translate(middle.tolist()).rotate(axis, turn)
            stretched = place.scale((size * 0.6 * np.exp(rng.normal(0, 0.5, 3))).tolist())
            parts[f"caster{number}"] = {"type": "cube", "to_world": stretched, "surface": black}
        else:
            parts[f"caster{number}"] = {
                "type": "sphere",
                "center": middle.tolist(),
                "radius": size * 0.6,
                "surface": black,
            }
    return parts


def outline(place: Transform, rng: Generator) -> mitsuba.Mesh:
    """Return a flat silhouette that fills most of the square from -1 to 1, moved to its place."""
    corners: list[np.ndarray] = []
    faces: list[np.ndarray] = []
    start = 0
    for polygon in SILHOUETTES[list(SILHOUETTES)[rng.integers(len(SILHOUETTES))]](rng):
        # Every part of a silhouette can be seen whole from its middle.
        around = np.arange(len(polygon))
        faces.append(start + np.column_stack([around, np.roll(around, -1), np.full_like(around, len(polygon))]))
        corners.append(np.vstack([polygon, polygon.mean(axis=0)]))
        start += len(polygon) + 1
    flat = np.concatenate(corners) * 1.8 - [0, 0.9]
    matrix = np.asarray(place.matrix, np.float64)
    points = np.column_stack([flat, np.zeros(start), np.ones(start)]) @ matrix.T
    mesh = mitsuba.Mesh("outline", start, sum(map(len, faces)))
    parameters = mitsuba.traverse(mesh)
    parameters["vertex_positions"] = points[:, :3].ravel().astype(np.float32)
    parameters["faces"] = np.concatenate(faces).ravel().astype(np.uint32)
    parameters.update()
    return mesh


def seen(scene: Part, seed: int) -> np.ndarray:
    """Return the light that reaches the camera, (HEIGHT, WIDTH, 3), linear."""
    return np.asarray(mitsuba.render(mitsuba.load_dict(scene), seed=seed), np.float32)[..., :3]


def distances(scene: Part) -> np.ndarray:
    """Return how far away what the camera sees is; quickly."""
    return np.asarray(mitsuba.render(mitsuba.load_dict(scene | {"integrator": {"type": "depth"}}), spp=4))[..., 0]


@dataclass(frozen=True)
class Development:
    """What a camera makes of light: white balance, curve and noise."""

    white: float  # share of the clean picture that is darker than the level of `exposure`
    exposure: float
    balance: np.ndarray
    black: float
    shoulder: float
    power: float
    contrast: float
    noise: np.ndarray  # in levels

    @classmethod
    def random(cls, rng: Generator) -> Development:
        """Return a camera."""
        film = rng.random() < 0.5
        noise = rng.normal(0, rng.uniform(0.001, 0.008), (HEIGHT, WIDTH, 3))
        return cls(
            white=float(rng.uniform(0.95, 0.999)),
            exposure=float(rng.uniform(0.5, 1.05)),
            balance=np.exp(rng.normal(0, 0.12, 3) * [1, 0, 1]),
            black=float(rng.uniform(0.002, 0.03)) if film else 0.0,
            shoulder=float(rng.uniform(0.6, 0.92)) if film else 0.0,
            power=1.0 if film else float(1 / rng.uniform(1.9, 2.6)),
            contrast=0.0 if film else float(rng.uniform(0, 0.6)),
            noise=noise + noise.mean(axis=2, keepdims=True),
        )

    def levels(self, light: np.ndarray) -> np.ndarray:
        """Return the levels, [0, 1], of light that is 1 where the brightest things are."""
        light = np.minimum(light * self.exposure * self.balance, 4)
        if self.shoulder:
            light = light / (1 - self.shoulder)
            plain = (light - self.black) / (1 + self.shoulder * light)
        else:
            plain = np.minimum(light**self.power, 1)
            plain += self.contrast * (plain * plain * (3 - 2 * plain) - plain)
        height, width = light.shape[:2]
        return np.clip(plain + self.noise[:height, :width], 0, 1).astype(np.float32)


@dataclass(frozen=True)
class Scene:
    """What stands where, and how it is lit in the photo and in the clean picture."""

    camera: Camera
    stage: Part  # without what casts shadows from outside
    casters: Part
    photographed: Part
    unshaded: Part
    own_shadows: bool
    seed: int

    @classmethod
    def random(cls, photos: list[Path], rng: Generator) -> Scene:
        """Return a scene."""
        materials, camera = Materials(photos, rng), random_camera(rng)
        own_shadows = rng.random() < OBJECT_SHARE
        indoors = rng.random() < (0.8 if own_shadows else 0.3)
        towards = towards_lamp(rng)
        # Near lamps light the ground unevenly, which is not the shadow's doing.
        away = float(rng.uniform(6, 14) if own_shadows else rng.uniform(2.5, 8)) if indoors else FAR
        width = float(np.exp(rng.uniform(np.log(0.004), np.log(0.12 if indoors else 0.02))))
        depth = float(np.clip(rng.normal(0.9, 0.45), 0.3, 2.2))
        warmth = rng.normal(0.04 if indoors else 0.09, 0.08)
        sky = np.exp(np.array([0, rng.normal(0, 0.015), 0]) + warmth * np.array([-0.5, 0, 0.5]))
        # What is around lights flat ground with 1, so shadows are `exp(depth)` times darker.
        key = (np.exp(depth) - 1) * np.exp(warmth * np.array([0.5, 0, -0.5]))
        lit = {"lamp": lamp(towards, away, width, key / max(float(towards[2]), 0.3))}
        around = surroundings(sky / np.pi, rng)
        stage = room(materials, rng)
        stage |= things(materials, rng, int(rng.integers(1, 4) if own_shadows else rng.choice(4)))
        stage |= {"type": "scene", "integrator": {"type": "path", "max_depth": 4}, "around": around}
        blocked = casters(towards, away, rng) if not own_shadows or rng.random() < 0.2 else {}
        # From near the camera, or from all around alone: no side of a thing is left in the dark.
        place, share = camera.eye + rng.normal(0, 0.3, 3), float(rng.choice([0, 0.7, 1.5]))
        distance = float(np.linalg.norm(place))
        flash = {"flash": lamp(place / distance, distance + 0.6, 0.1, sky * share)} if share else {}
        unshaded = stage | (flash if own_shadows else lit)
        return cls(camera, stage, blocked, stage | blocked | lit, unshaded, own_shadows, int(rng.integers(2**31)))

    def shot(self, shrink: int = 1) -> tuple[np.ndarray, np.ndarray] | None:
        """Return the light in the photo and in the clean picture; None if something is in the camera's way."""
        sensor = {"camera": self.camera.part(shrink)}
        empty = distances(self.stage | sensor)
        if (empty < NEAREST).mean() > 0.01 or (distances(self.stage | self.casters | sensor) != empty).any():
            return None
        dark, free = (seen(scene | sensor, self.seed) for scene in (self.photographed, self.unshaded))
        if self.own_shadows:
            level, uneven = level_of(dark, free)
            if uneven > UNEVEN:
                return None
            free = free * level
        return (dark, free) if np.isfinite(dark).all() and np.isfinite(free).all() else None


def pair(photos: list[Path], rng: Generator) -> tuple[np.ndarray, np.ndarray, np.ndarray] | None:
    """Return photo and clean picture, uint8 RGB, and mask, uint8; None if the scene is no good."""
    scene, development = Scene.random(photos, rng), Development.random(rng)
    made = None
    for shrink in (PREVIEW, 1):
        shot = scene.shot(shrink)
        white = np.quantile(shot[1], development.white) if shot else 0
        if shot is None or white < DARKEST:
            return None
        photo, clean = (development.levels(light / white) for light in shot)
        mask = derive_mask(photo, clean)
        if not COVERED[0] <= mask.mean() <= COVERED[1]:
            return None
        made = from_float(photo), from_float(clean), from_float(mask)
    return made


def level_of(dark: np.ndarray, free: np.ndarray) -> tuple[np.ndarray, float]:
    """Return the factors, (3,), that give `free` the level of `dark` where the lamp reaches, and how they vary."""
    ratio = np.log((dark + 1e-4) / (free + 1e-4))
    smooth = box_mean(ratio.mean(axis=2), 3)
    lit = ratio[smooth >= np.quantile(smooth, 0.65)]
    return np.exp(np.median(lit, axis=0)), float(np.ptp(np.quantile(smooth, [0.65, 0.99])))


def main() -> None:
    """Render the pairs that are not there yet."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--photos", type=Path, required=True, help="photographs that serve as materials")
    parser.add_argument("--count", type=int, default=1000, help="scenes to try; about three of four are kept")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("-o", "--output", type=Path, required=True)
    args = parser.parse_args()
    drjit.set_thread_count(1)  # start several of these with different seeds
    # Step by step: compiled whole, each scene costs seconds of compiling, as no two have the same parts.
    for whole in (drjit.JitFlag.SymbolicCalls, drjit.JitFlag.SymbolicLoops):
        drjit.set_flag(whole, False)
    photos = sorted(args.photos.iterdir())
    for kind in ("shadow", "clean", "mask"):
        (args.output / kind).mkdir(parents=True, exist_ok=True)
    for number in range(args.count):
        name = f"{args.seed:02d}-{number:05d}.png"
        if (args.output / "mask" / name).exists():
            continue
        made = pair(photos, np.random.default_rng((args.seed, number)))
        if made is None:
            continue
        for kind, picture in zip(("shadow", "clean", "mask"), made, strict=True):
            Image.fromarray(picture).save(args.output / kind / name)
        print(name, file=sys.stderr)


if __name__ == "__main__":
    main()
