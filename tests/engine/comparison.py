"""Networks of any shape, run on the engine and in PyTorch."""

from __future__ import annotations

import numpy as np
import pytest

torch = pytest.importorskip("torch")

from shadowmaskformer.engine import Floats, Network  # noqa: E402
from shadowmaskformer.network.config import ModelConfig  # noqa: E402
from shadowmaskformer.network.model import ShadowMaskFormer  # noqa: E402

# Largest absolute difference from PyTorch where values are of order 1, as the project promises; in proportion where
# they are larger. Float32 rounding of sums in another order measures 1e-6.
TOLERANCE = 1e-5


def randomised(config: ModelConfig, heads: int = 4) -> ShadowMaskFormer:
    """A network with every parameter off its starting value, biases too, so that no path is hidden by a zero.

    `heads` is the number of channels of its result.
    """
    torch.manual_seed(3)
    model = ShadowMaskFormer(config).eval()
    model.head = torch.nn.Conv2d(config.widths[4], heads, 3, padding=1)
    with torch.no_grad():
        for parameter in model.parameters():
            parameter.add_(0.02 * torch.randn_like(parameter))
    return model


def on_engine(model: ShadowMaskFormer) -> Network:
    return Network(model.config.to_dict(), {name: tensor.numpy() for name, tensor in model.state_dict().items()})


def picture(height: int, width: int, batch: int | None = None, channels: int = 3) -> Floats:
    """An embedded picture in the network's scale."""
    shape = (height, width, channels) if batch is None else (batch, height, width, channels)
    return np.random.default_rng(height * 1000 + width).uniform(-2, 2, shape).astype(np.float32)


def expected(model: ShadowMaskFormer, projected: Floats) -> Floats:
    batch = torch.from_numpy(projected).reshape(-1, *projected.shape[-3:])
    with torch.no_grad():
        head = model.predict(batch.permute(0, 3, 1, 2)).permute(0, 2, 3, 1)
    return head.reshape(*projected.shape[:-1], -1).numpy()


def assert_like_pytorch(model: ShadowMaskFormer, projected: Floats, tolerance: float = TOLERANCE) -> None:
    head = on_engine(model).forward(projected)
    reference = expected(model, projected)
    assert head.shape == reference.shape
    scale = max(1.0, float(np.abs(reference).max()))
    np.testing.assert_allclose(head, reference, rtol=0, atol=tolerance * scale)
