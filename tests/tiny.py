"""The smallest network that has every part."""

from shadowmaskformer.config import ModelConfig

TINY = ModelConfig(depths=(1, 2, 4, 1, 1))
"""One block of every kind: with and without attention, shifted and not."""
