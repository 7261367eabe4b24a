"""The network of "ShadowMaskFormer: Mask Augmented Patch Embedding for Shadow Removal" (IEEE TAI 2025).

Read it from the bottom: `ShadowMaskFormer` is a `UNetwork`, five stages of `Block`s, between a patch embedding and the
soft reconstruction `J = K·x − B + x`. Between the two 3×3 convolutions, pictures are tokens (B, H, W, C):
channels last, so that every 1×1 convolution is a `Linear`.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Self

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from shadowmaskformer.engine import ops
from shadowmaskformer.network.base import Network
from shadowmaskformer.network.config import BIAS_HIDDEN, ModelConfig, UConfig
from shadowmaskformer.network.kinds import input_channels, kind_of
from shadowmaskformer.network.reconstruction import reconstruct, scaled, unscaled

STRIDE = 4
"""The U halves the picture twice, so sizes are padded to multiples of this."""


class RescaledLayerNorm(nn.Module):
    """Layer norm over the whole picture that hands its statistics on.

    A shadow is a matter of absolute brightness, which normalisation removes; `rescale` and `rebias` give it back
    after the layer.
    """

    def __init__(self, width: int, eps: float = 1e-5) -> None:
        super().__init__()
        self.eps = eps
        self.weight = nn.Parameter(torch.ones(width))
        self.bias = nn.Parameter(torch.zeros(width))
        self.meta1 = nn.Linear(1, width)
        self.meta2 = nn.Linear(1, width)
        nn.init.trunc_normal_(self.meta1.weight, std=0.02)
        nn.init.ones_(self.meta1.bias)
        nn.init.trunc_normal_(self.meta2.weight, std=0.02)
        nn.init.zeros_(self.meta2.bias)

    def forward(self, tokens: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        """Normalise (B, H, W, C); also returns rescale and rebias, (B, 1, 1, C) each."""
        mean = _mean(tokens)
        centred = tokens - mean
        std = torch.sqrt(_mean(centred.square()) + self.eps)
        return centred / std * self.weight + self.bias, self.meta1(std), self.meta2(mean)


def _mean(tokens: Tensor) -> Tensor:
    """Return the mean of each picture (B, H, W, C), as (B, 1, 1, 1)."""
    # Row by row: ONNX Runtime adds up a whole picture one number after the other and loses digits on the way.
    return tokens.mean((2, 3), keepdim=True).mean(1, keepdim=True)


class RelativePositionBias(nn.Module):
    """What the offset between two tokens of a window adds to their attention.

    A small MLP of the log-spaced offset. A window of side w has w⁴ pairs but only (2w−1)² different offsets, so
    the MLP runs on those and the pairs look them up.
    """

    log_offsets: Tensor
    index: Tensor

    def __init__(self, window: int, heads: int) -> None:
        super().__init__()
        self.mlp = nn.Sequential(nn.Linear(2, BIAS_HIDDEN), nn.ReLU(), nn.Linear(BIAS_HIDDEN, heads))
        reach = torch.arange(1 - window, window)
        offsets = torch.stack(torch.meshgrid(reach, reach, indexing="ij"), -1).view(-1, 2).float()
        self.register_buffer("log_offsets", offsets.sign() * offsets.abs().log1p(), persistent=False)
        side = torch.arange(window)
        row, column = (grid.flatten() for grid in torch.meshgrid(side, side, indexing="ij"))
        delta = (row[:, None] - row, column[:, None] - column)  # query minus key
        self.register_buffer(
            "index", (delta[0] + window - 1) * (2 * window - 1) + delta[1] + window - 1, persistent=False
        )

    def table(self) -> Tensor:
        """Bias of each different offset, ((2·window − 1)², heads)."""
        return self.mlp(self.log_offsets)

    def forward(self) -> Tensor:
        """Bias of each pair, (heads, window², window²)."""
        return self.table()[self.index].permute(2, 0, 1)


class DepthwiseConv(nn.Conv2d):
    """5×5 convolution of each channel by itself, on tokens (B, H, W, C)."""

    def __init__(self, width: int) -> None:
        super().__init__(width, width, 5, padding=2, groups=width)

    def forward(self, input: Tensor) -> Tensor:
        """Convolve (B, H, W, C), zero-padded at the picture's border."""
        return super().forward(input.permute(0, 3, 1, 2)).permute(0, 2, 3, 1)


class Block(nn.Module):
    """A token mixer, then an MLP; both residual.

    The mixer is a depthwise convolution of V, or window attention between a rescaled layer norm and its undoing.
    With `native` set, the engine runs the whole block as one operator where it can.
    """

    native = False

    def __init__(self, config: UConfig, stage: int, index: int) -> None:
        super().__init__()
        width, hidden = config.widths[stage], config.widths[stage] * config.mlp_ratios[stage]
        self.heads, self.window, self.shift = config.heads[stage], config.window, config.shift(index)
        self.attends = config.uses_attention(stage, index)
        self.convolves = not self.attends or config.attention_conv
        if self.attends:
            self.norm = RescaledLayerNorm(width)
            self.qkv = nn.Linear(width, 3 * width)
            self.position = RelativePositionBias(config.window, self.heads)
        else:
            self.v = nn.Linear(width, width)
        if self.convolves:
            self.conv = DepthwiseConv(width)
        self.proj = nn.Linear(width, width)
        self.mlp = nn.Sequential(nn.Linear(width, hidden), nn.ReLU(), nn.Linear(hidden, width))
        self._initialise(gain=(8 * sum(config.depths)) ** -0.25)

    def _initialise(self, gain: float) -> None:
        if self.attends:
            query_key, value = (
                self.qkv.weight[: -len(self.proj.weight)],
                self.qkv.weight[-len(self.proj.weight) :],
            )
            _xavier_(query_key, 1.0)
            _xavier_(value, gain)
            nn.init.zeros_(self.qkv.bias)
        else:
            _initialise_layer(self.v, gain)
        if self.convolves:
            _initialise_layer(self.conv, gain)
        for layer in (self.proj, self.mlp[0], self.mlp[2]):
            _initialise_layer(layer, gain)

    def forward(self, tokens: Tensor) -> Tensor:
        """Mix (B, H, W, C) into tokens of the same shape."""
        if self.native and ops.serves(tokens, self):
            if self.attends:
                return ops.attention_block(tokens, self, self.position.table())
            return ops.conv_block(tokens, self)
        if self.attends:
            normed, rescale, rebias = self.norm(tokens)
            tokens = tokens + self.attention(normed) * rescale + rebias
        else:
            tokens = tokens + self.proj(self.conv(self.v(tokens)))
        return tokens + self.mlp(tokens)

    def attention(self, tokens: Tensor) -> Tensor:
        """Attention within windows, (B, H, W, C) to the same.

        The picture is padded to whole windows after Q, K and V are made: padded tokens are zeros that take part
        in the softmax, as in the authors' release.
        """
        batch, height, width, channels = tokens.shape
        side, shift = self.window, self.shift
        qkv = self.qkv(tokens)
        bottom, right = ((-shift - size) % side for size in (height, width))
        padded = F.pad(qkv, (0, 0, shift, right, shift, bottom))
        rows, columns = padded.shape[1] // side, padded.shape[2] // side
        windows = padded.view(batch, rows, side, columns, side, 3, self.heads, channels // self.heads)
        windows = windows.permute(5, 0, 1, 3, 6, 2, 4, 7).flatten(5, 6)  # (3, B, rows, columns, heads, side², d)
        query, key, value = windows.flatten(1, 3).unbind(0)  # (windows, heads, side², d) each
        weight = query * (channels // self.heads) ** -0.5 @ key.transpose(-2, -1) + self.position()
        mixed = weight.softmax(-1) @ value
        mixed = mixed.view(batch, rows, columns, self.heads, side, side, channels // self.heads)
        mixed = mixed.permute(0, 1, 4, 2, 5, 3, 6).reshape(batch, rows * side, columns * side, channels)
        mixed = mixed[:, shift : shift + height, shift : shift + width]
        if self.convolves:
            mixed = mixed + self.conv(qkv[..., 2 * channels :])
        else:
            # A copy in any case: whether a slice is all of the map must not become part of an exported program.
            mixed = mixed.clone(memory_format=torch.contiguous_format)
        return self.proj(mixed)


class SelectiveFusion(nn.Module):
    """Weigh two token maps against each other, channel by channel (selective kernels)."""

    def __init__(self, width: int) -> None:
        super().__init__()
        hidden = max(width // 8, 4)
        self.mlp = nn.Sequential(
            nn.Linear(width, hidden, bias=False), nn.ReLU(), nn.Linear(hidden, 2 * width, bias=False)
        )

    def forward(self, first: Tensor, second: Tensor) -> Tensor:
        """Blend two (B, H, W, C) into one."""
        weight = self.mlp((first + second).mean((1, 2), keepdim=True))
        weight = weight.unflatten(-1, (2, -1)).softmax(-2)  # (B, 1, 1, 2, C)
        return first * weight[..., 0, :] + second * weight[..., 1, :]


class Downsample(nn.Conv2d):
    """Merge 2×2 tokens into one, (B, H, W, C) to (B, H/2, W/2, C')."""

    def __init__(self, width: int, out: int) -> None:
        super().__init__(width, out, 2, stride=2)

    def forward(self, input: Tensor) -> Tensor:
        """Halve the token map."""
        return super().forward(input.permute(0, 3, 1, 2)).permute(0, 2, 3, 1)


class Upsample(nn.Linear):
    """Split a token into 2×2, (B, H, W, C) to (B, 2H, 2W, C')."""

    def __init__(self, width: int, out: int) -> None:
        super().__init__(width, 4 * out)

    def forward(self, input: Tensor) -> Tensor:
        """Double the token map."""
        return F.pixel_shuffle(super().forward(input).permute(0, 3, 1, 2), 2).permute(0, 2, 3, 1)


class UNetwork(Network):
    """Five stages of blocks in a U."""

    reduction = STRIDE

    def __init__(self, config: UConfig) -> None:
        super().__init__(config)
        kind, width = kind_of(config), config.widths
        self.embed = nn.Conv2d(kind.channels(config), width[0], 3, padding=1)
        self.stages = nn.ModuleList(
            nn.Sequential(*(Block(config, stage, index) for index in range(depth)))
            for stage, depth in enumerate(config.depths)
        )
        self.down = nn.ModuleList(Downsample(width[i], width[i + 1]) for i in (0, 1))
        self.up = nn.ModuleList(Upsample(width[i], width[i + 1]) for i in (2, 3))
        self.skip = nn.ModuleList(nn.Linear(width[i], width[i]) for i in (3, 4))
        self.fuse = nn.ModuleList(SelectiveFusion(width[i]) for i in (3, 4))
        self.head = nn.Conv2d(width[4], kind.head_channels, 3, padding=1)

    def predict(self, projected: Tensor) -> Tensor:
        """Return the head, (B, n, H, W), for an embedded picture (B, C, H, W)."""
        height, width = projected.shape[-2:]
        padded = F.pad(projected, (0, -width % STRIDE, 0, -height % STRIDE))
        tokens = self.embed(padded).permute(0, 2, 3, 1)
        full = self.stages[0](tokens)
        half = self.stages[1](self.down[0](full))
        tokens = self.up[0](self.stages[2](self.down[1](half)))
        tokens = self.fuse[0](tokens, self.skip[0](half)) + tokens
        tokens = self.up[1](self.stages[3](tokens))
        tokens = self.fuse[1](tokens, self.skip[1](full)) + tokens
        head = self.head(self.stages[4](tokens).permute(0, 3, 1, 2))
        return head[..., :height, :width]

    def use_native(self, enabled: bool = True) -> Self:
        """Run the blocks on the native engine, gradients too, wherever tokens are float32 on a CPU and it is built."""
        for module in self.modules():
            if isinstance(module, Block):
                module.native = enabled
        return self


class ShadowMaskFormer(UNetwork):
    """Photo and shadow mask in, shadow-free photo out."""

    def __init__(self, config: ModelConfig | None = None) -> None:
        super().__init__(config or ModelConfig())

    def forward(
        self, photo: Tensor, mask: Tensor, start: Tensor | None = None, view: tuple[int, int] | None = None
    ) -> Tensor:
        """Remove the shadow.

        Args:
            photo: RGB, (B, 3, H, W), [0, 1].
            mask: 1 = shadow, (B, 1, H, W), [0, 1].
            start: the picture to correct, as `photo`. The paper corrects the photo itself (None); `mape-physical`
                corrects the relit photo.
            view: height and width at which the network looks at the picture; K and B are enlarged to its own. None
                looks at the picture as it is.

        Returns:
            RGB, (B, 3, H, W), around [0, 1], not clamped.
        """
        if start is None and "start" in input_channels(self.config):
            raise ValueError("this network corrects the relit photo; pass it as `start`")
        pictures = {"photo": photo, "mask": mask, "start": photo if start is None else start}
        pictures = {name: scaled(picture) for name, picture in pictures.items()}
        return self.restore(self.look(pictures, view), pictures["start"])

    def restore(self, head: Tensor, start: Tensor) -> Tensor:
        """Return the corrected picture, around [0, 1], for K and B, (B, 4, H, W), and the start, in [-1, 1]."""
        gain, offset = head.split((1, 3), dim=1)
        return unscaled(reconstruct(gain, offset, start))

    def outputs(self, pictures: Mapping[str, Tensor]) -> dict[str, Tensor]:
        """Return the restored picture, not clamped, and the head."""
        head = super().outputs(pictures)["head"]
        start = pictures["start"] if "start" in pictures else pictures["photo"]
        return {"restored": self.restore(head, scaled(start)), "head": head}


def _xavier_(weight: Tensor, gain: float) -> None:
    """Truncated normal of std `gain · sqrt(2 / (fan_in + fan_out))`, in place."""
    fan_in = weight[0].numel()
    fan_out = weight.shape[0] * weight[0, 0].numel()
    with torch.no_grad():
        nn.init.trunc_normal_(weight, std=gain * math.sqrt(2 / (fan_in + fan_out)))


def _initialise_layer(layer: nn.Module, gain: float) -> None:
    assert isinstance(layer, nn.Linear | nn.Conv2d)
    _xavier_(layer.weight, gain)
    if layer.bias is not None:
        nn.init.zeros_(layer.bias)
