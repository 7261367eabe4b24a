"""Shadow masks: (H, W) arrays in [0, 1], 1 = shadow."""

from shadowmaskformer.masks.read import (
    as_mask,
    describe,
    fit,
    interpret,
    looks_inverted,
    prepare,
    read_mask,
    snap,
    strengthen,
)
from shadowmaskformer.masks.shape import (
    Mask,
    blend_weight,
    check_distance,
    feather,
    grow,
    invert,
    resize,
    resize_with_photo,
    shrink,
)

__all__ = [
    "Mask",
    "as_mask",
    "blend_weight",
    "check_distance",
    "describe",
    "feather",
    "fit",
    "grow",
    "interpret",
    "invert",
    "looks_inverted",
    "prepare",
    "read_mask",
    "resize",
    "resize_with_photo",
    "shrink",
    "snap",
    "strengthen",
]
