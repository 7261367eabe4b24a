"""Masks of a chosen quality: pixels along the edge are flipped at random, up to a balance error rate."""

from __future__ import annotations

import zlib
from collections.abc import Iterable
from pathlib import Path

import numpy as np

from shadowmaskformer import data, masks, metrics
from shadowmaskformer.arrays import Levels
from shadowmaskformer.evaluate.methods import EvaluationPicture, MaskSource
from shadowmaskformer.files import write_atomically
from shadowmaskformer.photo import Photo, encode_photo

PAPER_LEVELS = (0.61, 1.29, 1.82, 2.85, 3.36, 4.39)
"""Balance error rates (%) of the paper's mask-quality table."""
MOST_FLIPPED = 0.5
"""Share of a band that may flip: at more, the band would be the mask's inverse rather than noise."""


def damage(mask: Levels, ber: float, rng: np.random.Generator) -> Levels:
    """Return a mask with the balance error rate `ber` against `mask`, wrong only along the edge.

    The band around the edge is the narrowest in which flipping at most half of the pixels suffices; inside and
    outside flip with the same probability.

    Args:
        mask: (H, W), 255 = shadow; above 127 counts.
        ber: percent, at least 0.
        rng: which pixels.

    Returns:
        (H, W), 0 or 255. A mask of one class, which has no edge and no rate, comes back as it is.

    >>> mask = np.zeros((64, 96), np.uint8)
    >>> mask[16:48, 20:70] = 255
    >>> damaged = damage(mask, 2.85, np.random.default_rng(0))
    >>> round(metrics.balance_error_rate(damaged / 255, mask / 255), 1)
    2.9
    """
    shadow = mask > 127
    positives, negatives = int(shadow.sum()), int((~shadow).sum())
    if not positives or not negatives or ber <= 0:
        return np.where(shadow, 255, 0).astype(np.uint8)
    soft = shadow.astype(np.float32)
    width = 1
    while True:
        inside = shadow & (masks.shrink(soft, width) < 0.5)
        outside = ~shadow & (masks.grow(soft, width) > 0.5)
        # BER = 50 · p · (|inside| / positives + |outside| / negatives), solved for p.
        share = ber / (50 * (inside.sum() / positives + outside.sum() / negatives))
        if share <= MOST_FLIPPED or width >= max(mask.shape):
            break
        width += 1
    damaged = shadow.copy()
    for band in (inside, outside):
        places = np.flatnonzero(band)
        chosen = rng.choice(places, size=min(len(places), round(share * len(places))), replace=False)
        damaged.flat[chosen] = ~damaged.flat[chosen]
    return np.where(damaged, 255, 0).astype(np.uint8)


def write_damaged(triplets: Iterable[data.Triplet], source: MaskSource, ber: float, folder: Path) -> float:
    """Write a damaged mask of every picture to `folder`.

    A file that is already there and right stays as it is, so that rows scored with it are found again.

    Returns:
        The mean balance error rate reached over the pictures that have one.
    """
    folder.mkdir(parents=True, exist_ok=True)
    rates: list[float] = []
    for triplet in triplets:
        path = folder / f"{triplet.name}.png"
        truth = EvaluationPicture(triplet, source).region
        # Seeded by the name: the same picture gets the same damage in any subset and order.
        rng = np.random.default_rng(zlib.crc32(triplet.name.encode("utf-8", "surrogateescape")))
        damaged = damage(truth, ber, rng)
        stored = encode_photo(Photo(np.repeat(damaged[..., None], 3, axis=2), gray=True))
        # By what is in it, not by its name: other data, mask sources and rules give the same names.
        if not path.is_file() or path.read_bytes() != stored:
            write_atomically(path, stored, overwrite=True)
        rates.append(metrics.balance_error_rate(damaged / 255, (truth > 127).astype(np.float64)))
    known = [rate for rate in rates if np.isfinite(rate)]
    return float(np.mean(known)) if known else 0.0
