"""Pairs and triplets on disk, masks for them, splits without leaks, augmentation and training samples."""

from shadowmaskformer.data.augment import Augment
from shadowmaskformer.data.derive import derive_mask
from shadowmaskformer.data.layouts import Dataset, Problem, Triplet, open_dataset
from shadowmaskformer.data.samples import Cache, Sample, Samples, build_cache
from shadowmaskformer.data.scenes import Split, fingerprint, unseen_scenes, validation_split

__all__ = [
    "Augment",
    "Cache",
    "Dataset",
    "Problem",
    "Sample",
    "Samples",
    "Split",
    "Triplet",
    "build_cache",
    "derive_mask",
    "fingerprint",
    "open_dataset",
    "unseen_scenes",
    "validation_split",
]
