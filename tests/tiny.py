"""The smallest network that has every part, and random weights for it."""

import numpy as np

from shadowmaskformer.network import weights
from shadowmaskformer.network.config import ModelConfig

TINY = ModelConfig(depths=(1, 2, 4, 1, 1))
"""One block of every kind: with and without attention, shifted and not."""


def random_arrays(config: ModelConfig, seed: int = 3) -> dict[str, np.ndarray]:
    """Weights for `config`, as `weights.save` takes them."""
    generator = np.random.default_rng(seed)
    shapes = weights.parameter_shapes(config)
    return {key: generator.normal(0, 0.08, shape).astype(np.float32) for key, shape in shapes.items()}
