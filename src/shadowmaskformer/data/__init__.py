"""Pairs and triplets on disk, masks for them, splits without leaks, augmentation and training samples."""

from shadowmaskformer.data.derive import derive_mask

__all__ = ["derive_mask"]
