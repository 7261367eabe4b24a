"""Pairs and triplets on disk, masks for them, splits without leaks, augmentation and training samples."""

from shadowmaskformer.data.derive import derive_mask
from shadowmaskformer.data.layouts import Dataset, Problem, Triplet, open_dataset
from shadowmaskformer.data.scenes import fingerprint, unseen_scenes, validation_split

__all__ = [
    "Dataset",
    "Problem",
    "Triplet",
    "derive_mask",
    "fingerprint",
    "open_dataset",
    "unseen_scenes",
    "validation_split",
]
