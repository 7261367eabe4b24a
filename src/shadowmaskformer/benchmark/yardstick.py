"""The network as the paper draws it, operator by operator in eager PyTorch: what the benchmark compares with.

Channels first, a 1x1 convolution for every projection, the position MLP on all pairs of a window, a fresh
tensor per step, nothing folded, cached or fused. It is slow on purpose: ratios in the benchmark mean "times
faster than a faithful implementation without tuning". To use the network, take `model.py`.
"""

from __future__ import annotations

from collections.abc import Mapping

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from shadowmaskformer.network.config import ModelConfig
from shadowmaskformer.network.embedding import embedding_of


class RescaleLayerNorm(nn.Module):
    """Normalise over (C, H, W) and hand back what the block needs to undo it."""

    def __init__(self, width: int) -> None:
        super().__init__()
        self.weight = nn.Parameter(torch.ones(1, width, 1, 1))
        self.bias = nn.Parameter(torch.zeros(1, width, 1, 1))
        self.meta1 = nn.Conv2d(1, width, 1)
        self.meta2 = nn.Conv2d(1, width, 1)

    def forward(self, x: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        """Map (B, C, H, W) to its normalised twin and to rescale and rebias, (B, C, 1, 1) each."""
        mean = torch.mean(x, dim=(1, 2, 3), keepdim=True)
        std = torch.sqrt((x - mean).pow(2).mean(dim=(1, 2, 3), keepdim=True) + 1e-5)
        normalized = (x - mean) / std * self.weight + self.bias
        return normalized, self.meta1(std), self.meta2(mean)


class PositionBias(nn.Module):
    """The bias that a small MLP of the relative position adds to attention, computed for every pair."""

    offsets: Tensor

    def __init__(self, window: int, heads: int) -> None:
        super().__init__()
        side = torch.arange(window)
        places = torch.stack(torch.meshgrid(side, side, indexing="ij")).flatten(1)  # (2, N)
        offsets = (places[:, :, None] - places[:, None, :]).permute(1, 2, 0).float()  # (N, N, 2)
        self.register_buffer("offsets", torch.sign(offsets) * torch.log1p(offsets.abs()), persistent=False)
        self.mlp = nn.Sequential(nn.Linear(2, 256), nn.ReLU(inplace=True), nn.Linear(256, heads))

    def forward(self) -> Tensor:
        """Bias of each pair of tokens, (heads, N, N)."""
        return self.mlp(self.offsets).permute(2, 0, 1)


class Block(nn.Module):
    """Spatial mixing, then an MLP, each around a residual."""

    def __init__(self, config: ModelConfig, stage: int, index: int) -> None:
        super().__init__()
        width, hidden = config.widths[stage], config.widths[stage] * config.mlp_ratios[stage]
        self.window, self.shift, self.heads = config.window, config.shift(index), config.heads[stage]
        self.attends = config.uses_attention(stage, index)
        self.convolves = config.attention_conv or not self.attends
        if self.attends:
            self.norm = RescaleLayerNorm(width)
            self.qk = nn.Conv2d(width, 2 * width, 1)
            self.position = PositionBias(config.window, self.heads)
        self.v = nn.Conv2d(width, width, 1)
        if self.convolves:
            self.conv = nn.Conv2d(width, width, 5, padding=2, groups=width)
        self.proj = nn.Conv2d(width, width, 1)
        self.mlp = nn.Sequential(nn.Conv2d(width, hidden, 1), nn.ReLU(inplace=True), nn.Conv2d(hidden, width, 1))

    def forward(self, x: Tensor) -> Tensor:
        """Map (B, C, H, W) to the same shape."""
        if self.attends:
            normalized, rescale, rebias = self.norm(x)
            v = self.v(normalized)
            mixed = self.attention(torch.cat([self.qk(normalized), v], dim=1))
            if self.convolves:
                mixed = self.conv(v) + mixed
            x = x + (self.proj(mixed) * rescale + rebias)
        else:
            x = x + self.proj(self.conv(self.v(x)))
        return x + self.mlp(x)

    def attention(self, qkv: Tensor) -> Tensor:
        """Attention inside windows, (B, 3C, H, W) to (B, C, H, W)."""
        (batch, channels, height, width), side, shift = qkv.shape, self.window, self.shift
        bottom, right = -height % side, -width % side
        if shift:
            bottom, right = (side - shift + bottom) % side, (side - shift + right) % side
        qkv = F.pad(qkv, (shift, right, shift, bottom))
        rows, columns = qkv.shape[2] // side, qkv.shape[3] // side
        windows = qkv.permute(0, 2, 3, 1).reshape(batch, rows, side, columns, side, channels)
        windows = windows.permute(0, 1, 3, 2, 4, 5).reshape(-1, side * side, channels)
        windows = self.window_attention(windows).reshape(batch, rows, columns, side, side, channels // 3)
        mixed = windows.permute(0, 1, 3, 2, 4, 5).reshape(batch, rows * side, columns * side, channels // 3)
        return mixed.permute(0, 3, 1, 2)[:, :, shift : shift + height, shift : shift + width].contiguous()

    def window_attention(self, qkv: Tensor) -> Tensor:
        """Attention among the N tokens of each window, (windows, N, 3C) to (windows, N, C)."""
        windows, tokens, channels = qkv.shape
        depth = channels // (3 * self.heads)
        q, k, v = qkv.reshape(windows, tokens, 3, self.heads, depth).permute(2, 0, 3, 1, 4)
        logits = (q * depth**-0.5) @ k.transpose(-2, -1) + self.position().unsqueeze(0)
        return (torch.softmax(logits, dim=-1) @ v).transpose(1, 2).reshape(windows, tokens, channels // 3)


class SelectiveFusion(nn.Module):
    """SK fusion: weigh decoder and skip per channel by what both hold together."""

    def __init__(self, width: int) -> None:
        super().__init__()
        hidden = max(width // 8, 4)
        self.mlp = nn.Sequential(
            nn.Conv2d(width, hidden, 1, bias=False), nn.ReLU(), nn.Conv2d(hidden, 2 * width, 1, bias=False)
        )

    def forward(self, x: Tensor, skip: Tensor) -> Tensor:
        """Mix two (B, C, H, W) maps into one."""
        both = torch.stack([x, skip], dim=1)  # (B, 2, C, H, W)
        logits = self.mlp(both.sum(dim=1).mean(dim=(2, 3), keepdim=True))
        weights = torch.softmax(logits.reshape(x.shape[0], 2, x.shape[1], 1, 1), dim=1)
        return (both * weights).sum(dim=1)


class Yardstick(nn.Module):
    """The whole network, in and out as `model.ShadowMaskFormer`."""

    def __init__(self, config: ModelConfig) -> None:
        super().__init__()
        self.config = config
        widths = config.widths
        self.embed = nn.Conv2d(embedding_of(config).channels, widths[0], 3, padding=1)
        self.stages = nn.ModuleList(
            nn.Sequential(*(Block(config, stage, index) for index in range(depth)))
            for stage, depth in enumerate(config.depths)
        )
        self.down = nn.ModuleList(nn.Conv2d(widths[i], widths[i + 1], 2, stride=2) for i in (0, 1))
        self.up = nn.ModuleList(nn.Conv2d(widths[i], 4 * widths[i + 1], 1) for i in (2, 3))
        self.skip = nn.ModuleList(nn.Conv2d(widths[i], widths[i], 1) for i in (3, 4))
        self.fuse = nn.ModuleList(SelectiveFusion(widths[i]) for i in (3, 4))
        self.head = nn.Conv2d(widths[4], 4, 3, padding=1)

    def forward(self, photo: Tensor, mask: Tensor, start: Tensor | None = None) -> Tensor:
        """Restore a photo; arguments and result as those of `model.ShadowMaskFormer`."""
        start = photo if start is None else start
        height, width = photo.shape[2:]
        x, mp, start = photo * 2 - 1, mask * 2 - 1, start * 2 - 1
        picture = torch.cat(embedding_of(self.config).project(x, mp, start, self.config), dim=1)
        x = self.embed(F.pad(picture, (0, -width % 4, 0, -height % 4)))
        full = self.stages[0](x)
        half = self.stages[1](self.down[0](full))
        x = F.pixel_shuffle(self.up[0](self.stages[2](self.down[1](half))), 2)
        x = self.fuse[0](x, self.skip[0](half)) + x
        x = F.pixel_shuffle(self.up[1](self.stages[3](x)), 2)
        x = self.fuse[1](x, self.skip[1](full)) + x
        head = self.head(self.stages[4](x))[:, :, :height, :width]
        gain, offset = head.split((1, 3), dim=1)
        return (gain * start - offset + start + 1) / 2

    @classmethod
    def with_weights(cls, config: ModelConfig, weights: Mapping[str, Tensor]) -> Yardstick:
        """Build it from the state of a `ShadowMaskFormer`: a `Linear` there is a 1x1 convolution here."""
        yardstick = cls(config)
        state: dict[str, Tensor] = {}
        for name, tensor in weights.items():
            if ".qkv." in name:
                qk, v = tensor.split((2 * len(tensor) // 3, len(tensor) // 3))
                state[name.replace(".qkv.", ".qk.")], state[name.replace(".qkv.", ".v.")] = qk, v
            else:
                state[name] = tensor
        shapes = {name: tensor.shape for name, tensor in yardstick.state_dict().items()}
        yardstick.load_state_dict({name: tensor.reshape(shapes[name]) for name, tensor in state.items()})
        return yardstick


def flat_by_name(tensors: Mapping[str, Tensor]) -> dict[str, Tensor]:
    """Parameters or gradients as vectors, under the names they have in a `ShadowMaskFormer`."""
    flat = {name: tensor.flatten() for name, tensor in tensors.items()}
    for name in [name for name in flat if ".qk." in name]:
        value = flat.pop(name.replace(".qk.", ".v."))
        flat[name.replace(".qk.", ".qkv.")] = torch.cat([flat.pop(name), value])
    return flat
