"""The network on PyTorch: CUDA, MPS or CPU."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import torch

from shadowmaskformer.errors import ConfigError
from shadowmaskformer.light.correction import Correction
from shadowmaskformer.network.config import ModelConfig
from shadowmaskformer.network.model import ShadowMaskFormer
from shadowmaskformer.runtimes import Floats, network_input, to_correction


class TorchRuntime:
    """A `ShadowMaskFormer` behind the runtime protocol."""

    name = "torch"

    def __init__(self, model: ShadowMaskFormer, device: str | None = None) -> None:
        try:
            self.device = torch.device(device or _best_device())
            self.model = model.to(self.device).eval()
        except (RuntimeError, AssertionError) as error:
            reason = str(error).splitlines()[0]
            raise ConfigError(f"device {device!r} cannot be used ({reason}); try --device cpu") from error
        self.config: ModelConfig = model.config

    def correct(self, photo: Floats, mask: Floats) -> Correction:
        """Find the correction that removes the shadow; see `Runtime.correct`."""
        return correct(self.model, photo, mask)


def correct(model: ShadowMaskFormer, photo: Floats, mask: Floats) -> Correction:
    """What `model`, on whichever device it is, makes of a photo; see `Runtime.correct`."""
    given = network_input(model.config, photo, mask)
    projected = torch.from_numpy(given.projected(model.config)).to(model.head.weight.device)
    with torch.inference_mode():
        head = model.correction(projected.permute(2, 0, 1)[None])
    return to_correction(np.ascontiguousarray(head[0].permute(1, 2, 0).float().cpu().numpy()), given)


def _best_device() -> str:
    if torch.cuda.is_available():
        return "cuda"
    return "mps" if torch.backends.mps.is_available() else "cpu"


def load(weights: str | Path, *, device: str | None = None, threads: int | None = None) -> TorchRuntime:
    """Load weights onto a device; None takes the GPU where there is one."""
    if threads is not None:
        torch.set_num_threads(threads)
    return TorchRuntime(ShadowMaskFormer.from_pretrained(weights), device)
