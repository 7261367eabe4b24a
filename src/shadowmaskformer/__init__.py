"""Remove cast shadows from photographs.

>>> import shadowmaskformer as smf
>>> smf.remove_shadow(photo, mask)                       # doctest: +SKIP
>>> remover = smf.ShadowRemover(); remover.remove(photo, mask)  # doctest: +SKIP
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from shadowmaskformer.errors import ShadowMaskFormerError
from shadowmaskformer.network.config import VARIANTS, ModelConfig

if TYPE_CHECKING:
    from shadowmaskformer.network.model import ShadowMaskFormer
    from shadowmaskformer.removal.remover import ShadowRemover, remove_shadow

__all__ = [
    "VARIANTS",
    "ModelConfig",
    "ShadowMaskFormer",
    "ShadowMaskFormerError",
    "ShadowRemover",
    "remove_shadow",
]

_LAZY = {"ShadowMaskFormer": "network.model", "ShadowRemover": "removal.remover", "remove_shadow": "removal.remover"}


def __getattr__(name: str) -> object:
    """Import the heavier names when they are first used."""
    if name in _LAZY:
        import importlib

        return getattr(importlib.import_module(f"shadowmaskformer.{_LAZY[name]}"), name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")


def __dir__() -> list[str]:
    return sorted(__all__)
