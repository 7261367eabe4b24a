"""Synthetic shadows cast on any picture.

A silhouette (a person, a tree, a fence...) is laid out on the ground from its point of contact, stretched,
turned and sometimes bent where the ground meets a wall. The sun is a disc, so the shadow's edge is crisp at
the contact and softer the further it falls. Where the silhouette covers a share `k` of the sun, the light
is divided: by `Daylight` as cameras see it, or by `Light` after the paper's equation. The mask is `k` itself.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable
from dataclasses import dataclass
from typing import Protocol

import numpy as np
from PIL import Image, ImageDraw, ImageFilter

from shadowmaskformer.arrays import places, sample
from shadowmaskformer.light.tone import brighter

Silhouette = tuple[np.ndarray, ...]
"""Polygons, float (N, 2) each: (across, up) in units of the thing's height, standing on (0, 0)."""

_SHARPEST_PX = 0.6  # the least blur, pixels of a picture with a side of 256
_SOFTER = 2.5  # the penumbra is interpolated between blurs that are each this much wider than the last
_LEVELS = 4
_TRIES = 6
_COVERED = (0.02, 0.6)  # share of the picture that a drawn shadow should take


class Shade(Protocol):
    """What a shadow does to a picture."""

    def cast(self, free: np.ndarray, depth: np.ndarray) -> np.ndarray:
        """Return the picture in shadow.

        Args:
            free: shadow-free RGB float32, (H, W, 3), [0, 1].
            depth: share of the shadow's full depth, float32 (H, W), [0, 1]; where it is 0, no bit changes.
        """
        ...


@dataclass(frozen=True)
class Light:
    """The paper's equations 1 to 4: `I_free = gain * I_shadow + offset` in the umbra, (3,) float32 each."""

    gain: np.ndarray
    offset: np.ndarray

    def cast(self, free: np.ndarray, depth: np.ndarray) -> np.ndarray:
        """Return `(1 - k) * I_free + k * (I_free - b) / w`; see `Shade.cast`."""
        umbra = np.maximum((free - self.offset) / self.gain, 0)
        return (free + depth[:, :, None] * (umbra - free)).astype(np.float32)


@dataclass(frozen=True)
class Daylight:
    """Light divided before the camera's curve turns it into levels; no two places of a shadow lose quite the same.

    Attributes:
        lost: logarithm of the light that the umbra loses, (n, n, 3), spread smoothly over the picture.
        black: see `light.tone`.
        shoulder: see `light.tone`.
    """

    lost: np.ndarray
    black: np.float32
    shoulder: np.float32

    def cast(self, free: np.ndarray, depth: np.ndarray) -> np.ndarray:
        """See `Shade.cast`."""
        height, width = depth.shape
        rows, columns = (places(self.lost.shape[0], length) for length in (height, width))
        lost = sample(self.lost, rows, columns) * depth[:, :, None]
        return np.maximum(brighter(free, -lost, black=self.black, shoulder=self.shoulder), 0)


@dataclass(frozen=True)
class Fall:
    """How a silhouette falls on the picture; lengths are fractions of the picture's shorter side.

    Args:
        contact: (row, column) of the silhouette's foot, fractions of height and width; may lie outside.
        angle: direction of the fall in radians, 0 to the right, pi / 2 up.
        length: of the shadow of a silhouette one unit tall.
        breadth: of the shadow of a silhouette one unit wide.
        bend: how far up the silhouette (in its own units) the ground turns into something else.
        bent_angle: direction beyond the bend.
        near_px: penumbra's blur at the contact, pixels of a picture with a side of 256.
        far_px: the same at the end of the fall.
        fade: how much of the shadow's depth is lost at its end, [0, 1): skylight reaches further in there.
    """

    contact: tuple[float, float]
    angle: float
    length: float
    breadth: float
    bend: float = np.inf
    bent_angle: float = 0.0
    near_px: float = 0.6
    far_px: float = 3.0
    fade: float = 0.0


@dataclass(frozen=True)
class SyntheticShadow:
    """A silhouette, the way it falls and the light it takes: casts the same shadow on every picture."""

    silhouette: Silhouette
    fall: Fall
    light: Shade

    def cast(self, free: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Return the picture with this shadow on it, and the shadow's mask.

        Args:
            free: shadow-free RGB float32, (H, W, 3), [0, 1].

        Returns:
            RGB float32 (H, W, 3) in [0, 1], bit-equal to `free` where the mask is 0; mask float32 (H, W), the
            share of the shadow's full depth, [0, 1].
        """
        mask = self.coverage(*free.shape[:2])
        return self.light.cast(free, mask), mask

    def coverage(self, height: int, width: int) -> np.ndarray:
        """Return the share of the shadow's full depth at every pixel, (height, width) float32, [0, 1]."""
        fall, side = self.fall, min(height, width)
        stencil = Image.new("L", (width, height))
        pen = ImageDraw.Draw(stencil)
        for outline in self.silhouette:
            points = _on_the_ground(outline, fall, height, width)
            pen.polygon([(float(x), float(y)) for x, y in points], fill=255)
        up = np.clip(_height_above_contact(fall, height, width), 0, 1)
        near, far = (np.log(px / _SHARPEST_PX) / np.log(_SOFTER) for px in (fall.near_px, fall.far_px))
        level = np.clip(near + np.float32(far - near) * up, 0, _LEVELS - 1).astype(np.float32)
        coverage = np.zeros((height, width), np.float32)
        for index in range(int(level.min()), int(np.ceil(level.max())) + 1):
            blur = ImageFilter.GaussianBlur(_SHARPEST_PX * _SOFTER**index * side / 256)
            layer = np.asarray(stencil.filter(blur), np.float32) / 255
            coverage += np.maximum(1 - np.abs(level - index), 0) * layer
        return np.clip(coverage * (1 - fall.fade * up), 0, 1).astype(np.float32)


def draw(free: np.ndarray, rng: np.random.Generator) -> tuple[np.ndarray, np.ndarray]:
    """Return the picture with a random shadow on it, and the shadow's mask; the same for the same `rng`.

    Args:
        free: shadow-free RGB float32, (H, W, 3), [0, 1].
        rng: all randomness comes from here.

    Returns:
        RGB float32 (H, W, 3) in [0, 1], bit-equal to `free` where the mask is 0; mask float32 (H, W), [0, 1].
    """
    light = random_light(rng)
    height, width = free.shape[:2]
    thumbnail = (max(8, height * 48 // max(height, width)), max(8, width * 48 // max(height, width)))
    shadow = SyntheticShadow((), Fall((0, 0), 0, 1, 1), light)
    for _ in range(_TRIES):
        shadow = random_shadow(light, rng)
        covered = float(np.mean(shadow.coverage(*thumbnail) > 0.5))
        if _COVERED[0] <= covered <= _COVERED[1]:
            break
    return shadow.cast(free)


def paste_decoy(
    photo: np.ndarray, mask: np.ndarray, truth: np.ndarray, rng: np.random.Generator
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Return photo, mask and truth with a dark thing pasted in that has a shadow's shape and is none.

    It is of one dark colour, or shows a darkened other part of the picture.

    Args:
        photo: RGB float32, (H, W, 3), [0, 1].
        mask: float32 (H, W), [0, 1]; 0 where the thing lies.
        truth: as `photo`; the thing is there too.
        rng: all randomness comes from here.
    """
    thing = random_shadow(random_light(rng), rng).coverage(*mask.shape) > 0.5
    if rng.random() < 0.5:
        dark = np.broadcast_to(rng.uniform(0.02, 0.3) + rng.normal(0, 0.03, 3), photo.shape)
        dark = dark + rng.normal(0, rng.uniform(0, 0.03), photo.shape)
    else:
        shift = [int(rng.uniform(0.25, 0.75) * side) for side in mask.shape]
        dark = np.roll(truth[:, ::-1], shift, (0, 1)) * rng.uniform(0.15, 0.5)
    dark = np.clip(dark, 0, 1).astype(np.float32)
    photo, truth = (np.where(thing[:, :, None], dark, picture) for picture in (photo, truth))
    return photo, np.where(thing, np.float32(0), mask), truth


def random_shadow(light: Shade, rng: np.random.Generator) -> SyntheticShadow:
    """Return a random silhouette that falls across the picture at random."""
    kind = list(SILHOUETTES)[rng.choice(len(SILHOUETTES), p=_SHARES)]
    # The foot lies anywhere, often outside the picture; the fall then points roughly at the middle.
    contact = rng.uniform(-0.25, 1.25, 2)
    aim = rng.uniform(0.25, 0.75, 2)
    angle = float(np.arctan2(contact[0] - aim[0], aim[1] - contact[1]))
    distance = float(np.hypot(*(contact - aim)))
    length = (distance + 0.2) * rng.uniform(0.9, 1.6)
    near_px = float(np.exp(rng.uniform(np.log(0.6), np.log(1.6))))
    fall = Fall(
        contact=(float(contact[0]), float(contact[1])),
        angle=angle,
        length=length,
        breadth=length * float(np.exp(rng.uniform(np.log(0.4), np.log(1.2)))),
        bend=float(rng.uniform(0.2, 0.8)) if rng.random() < 0.25 else np.inf,
        bent_angle=angle + float(rng.uniform(-0.8, 0.8)),
        near_px=near_px,
        far_px=near_px * float(np.exp(rng.uniform(0, np.log(6)))),
        fade=float(rng.uniform(0, 0.25)),
    )
    return SyntheticShadow(SILHOUETTES[kind](rng), fall, light)


def random_light(rng: np.random.Generator) -> Daylight:
    """Return what a shadow might take away.

    As real pairs show it: depth varies most, then how much warmer sun is than sky; green lies half-way between red and
    blue. Within a shadow, what is reflected from near things makes it vary.
    """
    depth, warmth = float(np.clip(rng.normal(1.05, 0.38), 0.35, 2.2)), rng.normal(0.08, 0.08)
    mean = depth + np.array([warmth, rng.normal(0, 0.02), -warmth])
    uneven, tinted = rng.uniform(0, 0.15), rng.uniform(0, 0.03)
    lost = mean * (1 + uneven * rng.standard_normal((3, 3, 1))) + tinted * rng.standard_normal((3, 3, 3))
    return Daylight(
        np.maximum(lost, 0.1).astype(np.float32),
        black=np.float32(rng.uniform(0.005, 0.04)),
        shoulder=np.float32(rng.uniform(0.6, 0.95)),
    )


def person(rng: np.random.Generator) -> Silhouette:
    """Return a person standing or walking, arms at rest or raised."""
    stride, sway = rng.uniform(0.02, 0.16), rng.uniform(-0.03, 0.03)
    hip, shoulder = np.array([sway / 2, 0.5]), np.array([sway, 0.8])
    head = np.array([sway * 1.2, 0.93])
    parts = [
        _ellipse(head, 0.055, 0.072),
        _limb(head, shoulder, 0.04, 0.05),
        _polygon(
            shoulder + _step(-0.125, -0.005),
            shoulder + _step(-0.06, 0.035),
            shoulder + _step(0.06, 0.035),
            shoulder + _step(0.125, -0.005),
            hip + _step(0.095, 0),
            hip + _step(-0.095, 0),
        ),
    ]
    for side in (-1, 1):
        foot = np.array([side * stride, 0])
        knee = (hip + foot) / 2 + _step(side * 0.02, 0.01)
        parts += [_limb(hip + _step(side * 0.045, 0.02), knee, 0.065, 0.05), _limb(knee, foot, 0.05, 0.035)]
        parts.append(_limb(foot + _step(0, 0.012), foot + _step(side * 0.05, 0.004), 0.03, 0.02))
        reach = rng.uniform(-1.4, -0.9) if rng.random() < 0.75 else rng.uniform(-0.3, 1.3)
        elbow = shoulder + _step(side * 0.115, -0.01) + 0.16 * np.array([side * np.cos(reach), np.sin(reach)])
        fold = reach + rng.uniform(-0.2, 0.9)
        hand = elbow + 0.16 * np.array([side * np.cos(fold), np.sin(fold)])
        parts += [
            _limb(shoulder + _step(side * 0.105, -0.012), elbow, 0.042, 0.034),
            _limb(elbow, hand, 0.034, 0.026),
        ]
        parts.append(_ellipse(hand, 0.024, 0.03))
    return tuple(parts)


def tree(rng: np.random.Generator) -> Silhouette:
    """Return a trunk, its branches and a crown of leaves that lets light through."""
    parts: list[np.ndarray] = []
    tips: list[np.ndarray] = []

    def branch(start: np.ndarray, direction: float, length: float, thickness: float, depth: int) -> None:
        end = start + length * np.array([np.sin(direction), np.cos(direction)])
        parts.append(_limb(start, end, thickness, thickness * 0.65))
        tips.append(end)
        if depth:
            for turn in rng.uniform(-0.8, 0.8, rng.integers(2, 4)):
                branch(end, direction + turn, length * rng.uniform(0.55, 0.8), thickness * 0.6, depth - 1)

    branch(np.zeros(2), float(rng.uniform(-0.15, 0.15)), float(rng.uniform(0.3, 0.45)), 0.07, 3)
    leaf = rng.uniform(0.02, 0.06)
    for _ in range(int(rng.integers(60, 180))):
        tip = tips[int(rng.integers(len(tips)))] + rng.normal(0, 0.07, 2)
        if tip[1] > 0.25:
            parts.append(_ellipse(tip, leaf, leaf * rng.uniform(0.35, 0.8), float(rng.uniform(0, np.pi))))
    return tuple(parts)


def twig(rng: np.random.Generator) -> Silhouette:
    """Return a bough with pointed leaves along it, as it hangs into a picture."""
    bow = rng.uniform(-0.4, 0.4)
    stations = np.linspace(0, 1.1, 12)
    stem = np.column_stack([bow * stations**2, stations])
    parts = [_limb(a, b, 0.022, 0.018) for a, b in itertools.pairwise(stem)]
    size = rng.uniform(0.08, 0.16)
    for station in rng.uniform(0.15, 1.1, int(rng.integers(12, 30))):
        turn = rng.choice([-1, 1]) * rng.uniform(0.3, 1.5)
        foot = np.array([bow * station**2, station])
        parts.append(_leaf(foot, float(turn), float(size * rng.uniform(0.5, 1.4))))
    return tuple(parts)


def pole(rng: np.random.Generator) -> Silhouette:
    """Return a lamp post or a road sign."""
    thickness = rng.uniform(0.02, 0.07)
    parts = [_limb(np.zeros(2), np.array([0, 1.0]), thickness, thickness * rng.uniform(0.6, 1))]
    top, size = np.array([0, 0.95]), rng.uniform(0.07, 0.16)
    shape = rng.integers(4)
    if shape == 0:
        parts.append(_ellipse(top, size, size))
    elif shape == 1:
        parts.append(_box(top, size, size * rng.uniform(0.5, 1.3)))
    elif shape == 2:
        arm = top + _step(rng.choice([-1, 1]) * 0.3, 0.06)
        parts += [_limb(top, arm, thickness * 0.7, thickness * 0.5), _ellipse(arm, 0.07, 0.025)]
    return tuple(parts)


def lattice(rng: np.random.Generator) -> Silhouette:
    """Return a fence or a railing: posts and rails with the sun between them."""
    pitch, top = rng.uniform(0.12, 0.4), rng.uniform(0.7, 1)
    thickness = pitch * rng.uniform(0.15, 0.5)
    posts = np.arange(-3, 3, pitch) + rng.uniform(0, pitch)
    rails = np.array([top * rng.uniform(0.85, 0.98), *rng.uniform(0.08, 0.8, int(rng.integers(1, 3)))])
    uprights = (_box(np.array([post, top / 2]), thickness / 2, top / 2) for post in posts)
    return (*uprights, *(_box(np.array([0, rail]), 3, thickness * rng.uniform(0.3, 0.6)) for rail in rails))


def building(rng: np.random.Generator) -> Silhouette:
    """Return the skyline of a wall: gables, flat roofs and chimneys."""
    edges = np.sort(np.concatenate([[-1.6, 1.6], rng.uniform(-1.2, 1.2, int(rng.integers(0, 4)))]))
    parts: list[np.ndarray] = []
    for left, right in itertools.pairwise(edges):
        tall, ridge = rng.uniform(0.35, 0.9), rng.uniform(0, 0.25) * (rng.random() < 0.6)
        middle = (left + right) / 2
        parts.append(np.array([[left, 0], [left, tall], [middle, tall + ridge], [right, tall], [right, 0]]))
        if rng.random() < 0.3:
            parts.append(_box(np.array([rng.uniform(left, right), tall]), 0.05, 0.15))
    return tuple(parts)


def thing(rng: np.random.Generator) -> Silhouette:
    """Return one rounded, irregular thing: a rock, a bag, a hand without fingers, an umbrella from above."""
    around = np.linspace(0, 2 * np.pi, 72, endpoint=False)
    radius = np.ones_like(around)
    for wave in range(2, 8):
        radius += rng.normal(0, 0.35 / wave) * np.cos(wave * around + rng.uniform(0, 2 * np.pi))
    radius = 0.45 * np.maximum(radius, 0.2)
    blob = np.column_stack([radius * np.cos(around) * rng.uniform(0.7, 1.3), 0.5 + radius * np.sin(around)])
    return (blob,) if rng.random() < 0.6 else (blob, _limb(np.zeros(2), np.array([0, 0.5]), 0.05, 0.05))


def polygon(rng: np.random.Generator) -> Silhouette:
    """Return a few overlapping straight-edged boards."""
    boards: list[np.ndarray] = []
    for _ in range(int(rng.integers(1, 4))):
        corners = np.sort(rng.uniform(0, 2 * np.pi, int(rng.integers(3, 7))))
        size = rng.uniform(0.25, 0.6)
        middle = np.array([rng.uniform(-0.3, 0.3), rng.uniform(0.3, 0.8)])
        boards.append(middle + size * np.column_stack([np.cos(corners), np.sin(corners)]))
    return tuple(boards)


SILHOUETTES: dict[str, Callable[[np.random.Generator], Silhouette]] = {
    "person": person,
    "tree": tree,
    "twig": twig,
    "pole": pole,
    "lattice": lattice,
    "building": building,
    "thing": thing,
    "polygon": polygon,
}
_SHARES = (0.25, 0.13, 0.1, 0.1, 0.07, 0.1, 0.17, 0.08)


def _step(across: float, up: float) -> np.ndarray:
    return np.array([across, up])


def _polygon(*points: np.ndarray) -> np.ndarray:
    return np.stack(points)


def _ellipse(middle: np.ndarray, across: float, up: float, turn: float = 0.0) -> np.ndarray:
    around = np.linspace(0, 2 * np.pi, 20, endpoint=False)
    x, y = across * np.cos(around), up * np.sin(around)
    cos, sin = np.cos(turn), np.sin(turn)
    return middle + np.column_stack([cos * x - sin * y, sin * x + cos * y])


def _box(middle: np.ndarray, half_across: float, half_up: float) -> np.ndarray:
    return middle + np.array([[-1, -1], [-1, 1], [1, 1], [1, -1]]) * np.array([half_across, half_up])


def _limb(start: np.ndarray, end: np.ndarray, thickness: float, end_thickness: float) -> np.ndarray:
    """Return a bar with round ends."""
    along = np.arctan2(end[1] - start[1], end[0] - start[0])
    half = np.linspace(np.pi / 2, 3 * np.pi / 2, 6) + along
    back = start + thickness / 2 * np.column_stack([np.cos(half), np.sin(half)])
    front = end - end_thickness / 2 * np.column_stack([np.cos(half), np.sin(half)])
    return np.concatenate([back, front])


def _leaf(foot: np.ndarray, turn: float, length: float) -> np.ndarray:
    along = np.linspace(0, 1, 7)
    width = 0.22 * np.sin(np.pi * along**0.8)
    outline = np.concatenate([np.column_stack([width, along]), np.column_stack([-width, along])[::-1]])
    cos, sin = np.cos(turn), np.sin(turn)
    return foot + length * outline @ np.array([[cos, -sin], [sin, cos]])


def _on_the_ground(outline: np.ndarray, fall: Fall, height: int, width: int) -> np.ndarray:
    """Return the outline's pixel coordinates, (N, 2) as x, y; edges are cut up so that they can bend."""
    if np.isfinite(fall.bend):
        share = np.arange(8)[:, None] / 8
        corners = zip(outline, np.roll(outline, -1, axis=0), strict=True)
        outline = np.concatenate([start + share * (end - start) for start, end in corners])
    side = min(height, width)
    across, up = outline[:, 0] * fall.breadth * side, outline[:, 1] * fall.length * side
    before = np.minimum(up, fall.bend * fall.length * side)
    beyond = up - before
    cos, sin = np.cos(fall.angle), np.sin(fall.angle)
    x = fall.contact[1] * width + before * cos + beyond * np.cos(fall.bent_angle) + across * sin
    y = fall.contact[0] * height - before * sin - beyond * np.sin(fall.bent_angle) + across * cos
    return np.column_stack([x, y])


def _height_above_contact(fall: Fall, height: int, width: int) -> np.ndarray:
    """Return how far along the fall every pixel lies, (height, width), 0 at the contact, 1 at the end."""
    side = min(height, width)
    x = (np.arange(width, dtype=np.float32) - fall.contact[1] * width) * np.cos(fall.angle)
    y = (fall.contact[0] * height - np.arange(height, dtype=np.float32)) * np.sin(fall.angle)
    return (y[:, None] + x[None, :]) / np.float32(fall.length * side)
