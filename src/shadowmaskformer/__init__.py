"""Remove cast shadows from photographs.

>>> import shadowmaskformer as smf
>>> smf.remove_shadow("photo.jpg")                             # doctest: +SKIP
>>> remover = smf.ShadowRemover()                              # doctest: +SKIP
>>> remover.remove("photo.jpg", "mask.png", output="out.jpg")  # doctest: +SKIP
"""

from __future__ import annotations

import importlib
import importlib.util
from typing import TYPE_CHECKING

from shadowmaskformer.errors import (
    ArrayError,
    ConfigError,
    DatasetError,
    DiskFullError,
    EvaluationError,
    ImageReadError,
    ImageTooLargeError,
    MaskError,
    MissingExtraError,
    NoShadowError,
    NotAnImageError,
    OutputError,
    ShadowMaskFormerError,
    TrainingError,
    UnsafeWeightsError,
    WeightsError,
    WorkerDiedError,
)
from shadowmaskformer.network.config import VARIANTS, ModelConfig

if TYPE_CHECKING:
    from shadowmaskformer.batch import Outcome, remove_many
    from shadowmaskformer.detect.detection import Detection, Shadow
    from shadowmaskformer.detect.detector import ShadowDetector
    from shadowmaskformer.detect.hints import Hint
    from shadowmaskformer.light.correction import Correction
    from shadowmaskformer.network.model import ShadowMaskFormer
    from shadowmaskformer.removal.job import Removal, RemovedFile
    from shadowmaskformer.removal.options import Options
    from shadowmaskformer.removal.remover import ShadowRemover, remove_shadow

    __version__: str

__all__ = [
    "VARIANTS",
    "ArrayError",
    "ConfigError",
    "Correction",
    "DatasetError",
    "Detection",
    "DiskFullError",
    "EvaluationError",
    "Hint",
    "ImageReadError",
    "ImageTooLargeError",
    "MaskError",
    "MissingExtraError",
    "ModelConfig",
    "NoShadowError",
    "NotAnImageError",
    "Options",
    "Outcome",
    "OutputError",
    "Removal",
    "RemovedFile",
    "Shadow",
    "ShadowDetector",
    "ShadowMaskFormerError",
    "ShadowRemover",
    "TrainingError",
    "UnsafeWeightsError",
    "WeightsError",
    "WorkerDiedError",
    "__version__",
    "remove_many",
    "remove_shadow",
]
if importlib.util.find_spec("torch"):
    __all__ += ["ShadowMaskFormer"]

_LAZY = {
    "Correction": "light.correction",
    "Detection": "detect.detection",
    "Hint": "detect.hints",
    "Options": "removal.options",
    "Outcome": "batch",
    "Removal": "removal.job",
    "RemovedFile": "removal.job",
    "Shadow": "detect.detection",
    "ShadowDetector": "detect.detector",
    "ShadowMaskFormer": "network.model",
    "ShadowRemover": "removal.remover",
    "remove_many": "batch",
    "remove_shadow": "removal.remover",
}


def __getattr__(name: str) -> object:
    """Import the heavier names when they are first used."""
    if name == "__version__":
        from importlib import metadata

        return metadata.version("shadowmaskformer")
    if name not in _LAZY:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    if name == "ShadowMaskFormer" and not importlib.util.find_spec("torch"):
        raise MissingExtraError("ShadowMaskFormer needs PyTorch", "pip install 'shadowmaskformer[torch]'")
    return getattr(importlib.import_module(f"shadowmaskformer.{_LAZY[name]}"), name)


def __dir__() -> list[str]:
    return sorted(__all__)
