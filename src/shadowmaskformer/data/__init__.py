"""Pairs and triplets on disk, masks for them, splits without leaks, augmentation and training samples."""

from shadowmaskformer.data.augment import Augment
from shadowmaskformer.data.derive import derive_mask
from shadowmaskformer.data.layouts import Dataset, Problem, Triplet, open_dataset
from shadowmaskformer.data.samples import TRUTHS, Cache, Sample, Samples, Truth, build_cache, check_truth
from shadowmaskformer.data.scenes import Split, fingerprint, unseen_scenes, validation_split

__all__ = [
    "TRUTHS",
    "Augment",
    "Cache",
    "Dataset",
    "Problem",
    "Sample",
    "Samples",
    "Split",
    "Triplet",
    "Truth",
    "build_cache",
    "check_truth",
    "derive_mask",
    "fingerprint",
    "open_dataset",
    "unseen_scenes",
    "validation_split",
]
