"""Training: a recipe, a loop that survives a kill, and validation with the field's metrics."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from shadowmaskformer.errors import MissingExtraError
from shadowmaskformer.train.config import TrainConfig, load_recipe

if TYPE_CHECKING:
    from shadowmaskformer.train.loop import RunResult, run
    from shadowmaskformer.train.tasks import task_of

__all__ = ["RunResult", "TrainConfig", "load_recipe", "run", "task_of"]


def __getattr__(name: str) -> Any:
    # The loop and its tasks need PyTorch; recipes can be read without it.
    if name not in ("run", "RunResult", "task_of"):
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    try:
        from shadowmaskformer.train import loop
    except ModuleNotFoundError as error:
        if error.name != "torch":
            raise
        raise MissingExtraError("training needs PyTorch; run: pip install 'shadowmaskformer[train]'") from error
    return getattr(loop, name)
