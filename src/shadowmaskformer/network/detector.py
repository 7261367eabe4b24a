"""The network that finds shadows: a photo in, how deep in shadow each pixel is out.

The same network finds shadows by itself, follows a user's hints and cleans up a rough mask: what is not given is zero.
"""

from __future__ import annotations

import torch
from torch import Tensor

from shadowmaskformer.network.config import DetectorConfig
from shadowmaskformer.network.model import UNetwork
from shadowmaskformer.network.reconstruction import scaled


class Detector(UNetwork):
    """Photo, hints and the mask so far in, logit of the shadow's depth out."""

    def __init__(self, config: DetectorConfig | None = None) -> None:
        super().__init__(config or DetectorConfig())

    def forward(
        self,
        photo: Tensor,
        hints: Tensor | None = None,
        mask: Tensor | None = None,
        view: tuple[int, int] | None = None,
    ) -> Tensor:
        """Find the shadows.

        Args:
            photo: RGB, (B, 3, H, W), [0, 1].
            hints: where a user said shadow, and where not, (B, 2, H, W), [0, 1]; None for no hints.
            mask: the mask so far, (B, 1, H, W), [0, 1]; None for no mask.
            view: height and width at which the network looks; see `UNetwork.look`.

        Returns:
            Logit of the depth, (B, 1, H, W): above 0 is shadow.
        """
        size = (len(photo), 1, *photo.shape[-2:])
        none = torch.zeros(size, dtype=photo.dtype, device=photo.device)
        pictures = {
            "photo": photo,
            "hints": none.expand(-1, 2, -1, -1) if hints is None else hints,
            "mask": none if mask is None else mask,
        }
        return self.look({name: scaled(picture) for name, picture in pictures.items()}, view)
