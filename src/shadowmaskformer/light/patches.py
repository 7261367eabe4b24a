"""The light that a shadow took: what shaded patches lack to look like lit patches of the same material.

The picture is cut into small patches, and every shaded one is compared with every lit one around the shadow. If both
show one material, the difference of their light is what the shadow took; if not, it can be anything. Most differences
are of the second kind, but they agree on nothing, while those of the first agree with each other. So each difference is
a vote, and counts the more

- the nearer the two patches lie, and the more alike their texture is,
- the better it can be a change of light: sun and sky differ in how warm they are, and the fall of green lies half-way
  between red's and blue's,
- the nearer it lies to what all votes agree on, and then to what those of patches near it and of like colour agree on.

Every place in the shadow takes the votes of the patches that are near it and whose colour resembles its own. All
constants were fitted together, by gradient descent on the error of the relit pixels, on the training part of SRD; two
of them were moved since, with rendered pairs beside it (decision 0017).
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from shadowmaskformer.light.tone import WHITE, log_light

_PATCHES = 40  # along the picture's side
_ENOUGH = 512  # pixels along the side; of a picture with twice as many every second one is read
_FEWEST = 0.02  # of a patch's pixels, or of the fullest one's where no patch is full: fewer make no patch
_ROUNDS = 4  # after which all votes agree well enough

# At these distances a vote's weight falls to a quarter, or to a half for texture and for what is typical. Places in
# picture sides, the others in the logarithm of light.
_NEAR = 0.039
_GREEN = 0.058
_TEXTURE = 0.51
_TYPICAL = np.array([1.09, 1.04, 0.95])
_ATYPICAL = 0.87
_OTHER_DEPTH, _OTHER_HUE = 0.26, 0.064  # from what all votes say
_LOCAL_DEPTH, _LOCAL_HUE = 0.166, 0.058  # from what those of patches near it and like it say
_NEIGHBOUR, _ALIKE = 0.138, 0.72  # which patches those are
_PLACE_NEAR, _PLACE_ALIKE = 0.19, 0.8  # and which patches a place in the shadow listens to

_CROWD = 0.58  # power of a patch's votes that counts: many lit patches like it do not make it right many times over
_WHOLE, _PLACE_WHOLE = 0.376, 0.073  # mean patches' worth of what all votes say that is added to the local votes

# What the votes miss, logarithms of light: what casts the shadow hides some of the sky from the lit ground too, and a
# place brighter than the rest of the shadow has lost a little more than the one tone curve says.
_SKY = 0.022
_BRIGHT = 0.12

_AROUND = 0.15  # how near lit patches lie that say how bright lit ground is, in picture sides
_BRIGHTEST = 0.95  # share of them that is darker than that
_FEW = 5  # lit patches that say nothing about that

# Depth, warmth and green of a light (3,), such that the mean square over channels is the sum of their squares.
_AXES = np.array([[2, 6**0.5, -(2**0.5)], [2, 0, 2 * 2**0.5], [2, -(6**0.5), -(2**0.5)]]) / 6


@dataclass(frozen=True)
class _Patches:
    """Patches on one side of the shadow's edge."""

    places: np.ndarray  # (N, 2), in picture sides
    light: np.ndarray  # (N, 3), logarithm
    texture: np.ndarray  # (N,), logarithm of the spread of the logarithm of light
    weight: np.ndarray  # (N,), how full of trusted pixels


@dataclass(frozen=True)
class Falls:
    """What the shaded patches say about the light that the shadow took.

    Attributes:
        places: where they lie, (N, 2), in picture sides.
        light: logarithm of their light, (N, 3).
        fall: logarithm of the light that the shadow took from them, (N, 3).
        weight: how far to trust each, (N,), 1 on average.
        rougher: by how much the texture of each is stronger than that of lit patches of like material, logarithm, (N,).
        whole: the fall on which all of the shadow agrees, (3,).
        level: mean logarithm of the shadow's light.
        lit: the patches around the shadow.
    """

    places: np.ndarray
    light: np.ndarray
    fall: np.ndarray
    weight: np.ndarray
    rougher: np.ndarray
    whole: np.ndarray
    level: float
    lit: _Patches

    def at(self, places: np.ndarray, light: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Return the light that the shadow took at places, (N, 3), and how much rougher than lit ground it is, (N,).

        Args:
            places: in picture sides, (N, 2).
            light: logarithm of the shaded light there, (N, 3).
        """
        weight = self._weights(places, light, _PLACE_NEAR, _PLACE_ALIKE)
        brighter = light.mean(axis=1, keepdims=True) - self.level
        rougher = weight @ self.rougher / (weight.sum(axis=1) + _PLACE_WHOLE)
        return np.maximum(self._agreed(weight, _PLACE_WHOLE) + _SKY + _BRIGHT * brighter, 0), rougher

    def among_themselves(self) -> np.ndarray:
        """Return what the patches near each patch and of like colour agree on, (N, 3)."""
        return self._agreed(self._weights(self.places, self.light, _NEIGHBOUR, _ALIKE), _WHOLE)

    def brightest(self, places: np.ndarray) -> np.ndarray:
        """Return the logarithm of the light of the brightest lit ground around `places`, (N,)."""
        if len(self.lit.weight) < _FEW:
            return np.full(len(places), WHITE)
        gray = self.lit.light.mean(axis=1)
        order = np.argsort(gray)
        apart = 1 + squared_distances(places, self.lit.places[order]) / np.float32(_AROUND**2)
        total = np.cumsum(self.lit.weight[order] / np.square(apart), axis=1, dtype=np.float64)
        darker = (total < _BRIGHTEST * total[:, -1:]).sum(axis=1)
        return gray[order][np.minimum(darker, len(gray) - 1)]

    def _weights(self, places: np.ndarray, light: np.ndarray, near: float, alike: float) -> np.ndarray:
        """Return how much each place, (N,), listens to each patch, (N, M)."""
        apart = 1 + squared_distances(places, self.places) / np.float32(near**2)
        apart *= 1 + squared_distances(light, self.light) / np.float32(alike**2)
        return self.weight / np.square(apart)

    def _agreed(self, weight: np.ndarray, whole: float) -> np.ndarray:
        return (weight @ self.fall + whole * self.whole) / (weight.sum(axis=1, keepdims=True) + whole)


def measure_falls(photo: np.ndarray, light: np.ndarray, distance: np.ndarray, side: float, *, edge: float) -> Falls:
    """Compare the shaded patches of a picture with its lit ones.

    Args:
        photo: RGB float32, (H, W, 3), [0, 1].
        light: its logarithm of light.
        distance: of each pixel to the shadow's edge, (H, W), positive inside.
        side: of the square with the whole picture's area, in pixels.
        edge: nearer to the edge than this a pixel counts less, since the penumbra lies there; in picture sides.
    """
    every = max(round(side / _ENOUGH), 1)
    photo, light, distance = (plane[::every, ::every] for plane in (photo, light, distance))
    distance, side = distance / np.float32(every), side / every
    gray = (light[..., 0] + light[..., 1] + light[..., 2]) / np.float32(3)
    shaded, lit = (_patches(photo, gray, inwards, side, edge) for inwards in (distance, -distance))
    if not len(shaded.weight) or not len(lit.weight):
        nothing = np.zeros((0, 3))
        return Falls(np.zeros((0, 2)), nothing, nothing, np.zeros(0), np.zeros(0), _TYPICAL, float(light.mean()), lit)
    ours, theirs = ((each.light @ _AXES).astype(np.float32).T for each in (shaded, lit))
    falls = theirs[:, None, :] - ours[:, :, None]
    likely = _likely(shaded, lit, falls)
    whole = _consensus(falls, likely)
    votes = likely * _agreement(falls, whole[:, None], _OTHER_DEPTH, _OTHER_HUE)
    local = _counted(shaded, lit, falls, votes, whole).among_themselves() @ _AXES
    votes = likely * _agreement(falls, local.T, _LOCAL_DEPTH, _LOCAL_HUE)
    return _counted(shaded, lit, falls, votes, whole)


def _patches(photo: np.ndarray, gray: np.ndarray, inwards: np.ndarray, side: float, edge: float) -> _Patches:
    """Return the patches where the distance `inwards` is positive; `gray` is the logarithm of light, (H, W)."""
    size = max(side / _PATCHES, 1.0)
    rows, columns = (np.arange(length, dtype=np.float32) for length in inwards.shape)
    tops, lefts = (np.unique((places / size).astype(np.intp), return_index=True)[1] for places in (rows, columns))
    trust = np.clip(inwards * np.float32(1 / (edge * side)), 0, 1)
    for _ in range(2):
        np.square(trust, out=trust)
    across, down = np.add.reduceat(trust, lefts, axis=1), np.add.reduceat(trust, tops, axis=0)
    weight = np.add.reduceat(across, tops, axis=0)
    full = weight > _FEWEST * min(size**2, weight.max())
    places = [np.add.reduceat(across * rows[:, None], tops, axis=0), np.add.reduceat(down * columns, lefts, axis=1)]
    colours = np.add.reduceat(np.add.reduceat(photo * trust[:, :, None], tops, axis=0), lefts, axis=1)
    trust *= gray
    values = [np.add.reduceat(np.add.reduceat(plane, tops, axis=0), lefts, axis=1) for plane in (trust, trust * gray)]
    *middle, mean, square = (plane[full] / weight[full] for plane in (*places, *values))
    spread = np.sqrt(np.maximum(square - np.square(mean), 0) + 1e-4)  # JPEG leaves a hundredth on plain ground
    light = log_light(colours[full] / weight[full][:, None])
    return _Patches(np.column_stack(middle) / side, light, np.log(spread), weight[full] / size**2)


def _likely(shaded: _Patches, lit: _Patches, falls: np.ndarray) -> np.ndarray:
    """Return how likely two patches, (N, M), show one material, before asking what others say."""
    typical = (_TYPICAL @ _AXES).astype(np.float32)[:, None, None]
    unlikely = 1 + squared_distances(shaded.places, lit.places) / np.float32(_NEAR**2)
    unlikely *= 1 + np.square(falls[2] / np.float32(_GREEN))
    unlikely *= unlikely
    unlikely *= 1 + np.square(falls - typical).sum(axis=0) / np.float32(_ATYPICAL**2)
    texture = (lit.texture - shaded.texture[:, None]).astype(np.float32)
    unlikely *= 1 + np.square(texture / np.float32(_TEXTURE))
    return np.outer(shaded.weight, lit.weight).astype(np.float32) / unlikely


def _consensus(falls: np.ndarray, likely: np.ndarray) -> np.ndarray:
    """Return the fall, (3,), on which most votes agree."""
    falls, likely = falls.reshape(3, -1), likely.ravel()

    def mean(votes: np.ndarray) -> np.ndarray:
        # Not `falls @ votes`: its last digits depend on the number of threads.
        return np.einsum("cn,n->c", falls, votes) / votes.sum()

    votes = likely
    for _ in range(_ROUNDS - 1):
        votes = likely * _agreement(falls, mean(votes), _OTHER_DEPTH, _OTHER_HUE)
    return mean(votes)


def _agreement(falls: np.ndarray, others: np.ndarray, depth: float, hue: float) -> np.ndarray:
    """Return how well falls (3, ..., M) agree with what others say, (3, ...)."""
    apart = falls - others[..., None].astype(np.float32)
    np.square(apart, out=apart)
    total, warm, green = apart
    warm += green
    warm *= np.float32(1 / hue**2)
    total *= np.float32(1 / depth**2)
    total += warm
    total += 1
    np.square(total, out=total)
    return np.reciprocal(total, out=total)


def _counted(shaded: _Patches, lit: _Patches, falls: np.ndarray, votes: np.ndarray, whole: np.ndarray) -> Falls:
    """Return what each shaded patch is told by its votes, (N, M)."""
    total = votes.sum(axis=1, dtype=np.float64)
    known = np.maximum(total, 1e-30)
    fall = np.einsum("nm,cnm->nc", votes, falls, optimize=True) / known[:, None]
    rougher = shaded.texture - np.einsum("nm,m->n", votes, lit.texture) / known
    weight = total**_CROWD
    back = 3 * _AXES.T
    weight /= max(weight.mean(), 1e-30)
    level = float(shaded.weight @ shaded.light.mean(axis=1) / shaded.weight.sum())
    return Falls(shaded.places, shaded.light, fall @ back, weight, rougher, whole @ back, level, lit)


def squared_distances(these: np.ndarray, those: np.ndarray) -> np.ndarray:
    """Return |a - b|² for every row a of `these` and b of `those`, (N, M) float32."""
    these, those = these.astype(np.float32), those.astype(np.float32)
    squares = np.sum(these**2, axis=1)[:, None] + np.sum(those**2, axis=1)
    return np.maximum(squares - 2 * (these @ those.T), 0)
