"""Any number of photos: every core busy, memory bounded, nothing done twice, nothing lost."""

from shadowmaskformer.batch.manifest import Outcome
from shadowmaskformer.batch.many import ENGINES, Batch, remove_many
from shadowmaskformer.batch.worker import Worker

__all__ = ["ENGINES", "Batch", "Outcome", "Worker", "remove_many"]
