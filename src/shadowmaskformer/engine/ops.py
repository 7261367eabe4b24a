"""The engine's fused blocks as PyTorch operators, with gradients: what training runs on a CPU.

`torch.ops.shadowmaskformer.conv_block` and `.attention_block` each compute a whole block of the network. Their backward
operators recompute what they need from the block's input, so a training step keeps one tensor per block.
`torch.compile`, `opcheck` and `no_grad` see ordinary operators.
"""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor

from shadowmaskformer import engine

CHANNEL_STEP = 24
"""The vector loops come in panels of this many channels."""


def serves(tokens: Tensor, block: Any) -> bool:
    """Whether the engine can run `block` on `tokens`: built, float32 on a CPU, and not on the way into an export."""
    return (
        engine.why_unavailable() is None
        and tokens.device.type == "cpu"
        and tokens.dtype is torch.float32
        and block.proj.weight.dtype is torch.float32
        and tokens.shape[-1] % CHANNEL_STEP == 0
        and block.mlp[0].weight.shape[0] % CHANNEL_STEP == 0
        and not torch.is_autocast_enabled("cpu")
        and not torch.compiler.is_exporting()
        and not torch.jit.is_tracing()
    )


def conv_block(tokens: Tensor, block: Any) -> Tensor:
    """Run a block whose mixer is the depthwise convolution.

    Args:
        tokens: (B, H, W, C), float32.
        block: a `model.Block` that does not attend.

    Returns:
        What `block` makes of `tokens`, same shape.
    """
    return torch.ops.shadowmaskformer.conv_block(
        tokens,
        block.v.weight,
        block.v.bias,
        block.conv.weight,
        block.conv.bias,
        block.proj.weight,
        block.proj.bias,
        *_mlp(block),
    )


def attention_block(tokens: Tensor, block: Any, bias_table: Tensor) -> Tensor:
    """Run a block whose mixer is window attention.

    Args:
        tokens: (B, H, W, C), float32.
        block: a `model.Block` that attends.
        bias_table: what each different offset adds to the scores, ((2·window − 1)², heads).

    Returns:
        What `block` makes of `tokens`, same shape.
    """
    norm = block.norm
    return torch.ops.shadowmaskformer.attention_block(
        tokens,
        norm.weight,
        norm.bias,
        norm.meta1.weight,
        norm.meta1.bias,
        norm.meta2.weight,
        norm.meta2.bias,
        block.qkv.weight,
        block.qkv.bias,
        block.conv.weight if block.convolves else None,
        block.conv.bias if block.convolves else None,
        bias_table,
        block.proj.weight,
        block.proj.bias,
        *_mlp(block),
        block.heads,
        block.window,
        block.shift,
    )


def _mlp(block: Any) -> tuple[Tensor, Tensor, Tensor, Tensor]:
    return block.mlp[0].weight, block.mlp[0].bias, block.mlp[2].weight, block.mlp[2].bias


@torch.library.custom_op("shadowmaskformer::conv_block", mutates_args=(), device_types="cpu")
def _conv_block(
    x: Tensor,
    v_w: Tensor,
    v_b: Tensor,
    conv_w: Tensor,
    conv_b: Tensor,
    proj_w: Tensor,
    proj_b: Tensor,
    mlp0_w: Tensor,
    mlp0_b: Tensor,
    mlp2_w: Tensor,
    mlp2_b: Tensor,
) -> Tensor:
    weights = [v_w, v_b, conv_w, conv_b, proj_w, proj_b, mlp0_w, mlp0_b, mlp2_w, mlp2_b]
    x, weights = _contiguous(x), [_contiguous(weight) for weight in weights]
    _check(x, weights, _conv_block_shapes(x, mlp0_w))
    y = torch.empty_like(x)
    _native().conv_block_forward(list(x.shape), len(mlp0_w), x.data_ptr(), _addresses(weights), y.data_ptr())
    return y


@torch.library.custom_op("shadowmaskformer::conv_block_backward", mutates_args=(), device_types="cpu")
def _conv_block_backward(
    dy: Tensor,
    x: Tensor,
    v_w: Tensor,
    v_b: Tensor,
    conv_w: Tensor,
    conv_b: Tensor,
    proj_w: Tensor,
    proj_b: Tensor,
    mlp0_w: Tensor,
    mlp0_b: Tensor,
    mlp2_w: Tensor,
    mlp2_b: Tensor,
) -> list[Tensor]:
    weights = [v_w, v_b, conv_w, conv_b, proj_w, proj_b, mlp0_w, mlp0_b, mlp2_w, mlp2_b]
    dy, x, weights = _contiguous(dy), _contiguous(x), [_contiguous(weight) for weight in weights]
    _check(x, weights, _conv_block_shapes(x, mlp0_w))
    _check(x, [dy], [x.shape])
    gradients = [torch.empty_like(tensor) for tensor in (x, *weights)]
    _native().conv_block_backward(
        list(x.shape),
        len(mlp0_w),
        x.data_ptr(),
        dy.data_ptr(),
        _addresses(weights),
        gradients[0].data_ptr(),
        _addresses(gradients[1:]),
    )
    return gradients


@torch.library.custom_op("shadowmaskformer::attention_block", mutates_args=(), device_types="cpu")
def _attention_block(
    x: Tensor,
    norm_w: Tensor,
    norm_b: Tensor,
    meta1_w: Tensor,
    meta1_b: Tensor,
    meta2_w: Tensor,
    meta2_b: Tensor,
    qkv_w: Tensor,
    qkv_b: Tensor,
    conv_w: Tensor | None,
    conv_b: Tensor | None,
    bias_table: Tensor,
    proj_w: Tensor,
    proj_b: Tensor,
    mlp0_w: Tensor,
    mlp0_b: Tensor,
    mlp2_w: Tensor,
    mlp2_b: Tensor,
    heads: int,
    window: int,
    shift: int,
) -> Tensor:
    norm = [norm_w, norm_b, meta1_w, meta1_b, meta2_w, meta2_b, qkv_w, qkv_b]
    rest = [bias_table, proj_w, proj_b, mlp0_w, mlp0_b, mlp2_w, mlp2_b]
    x, weights = _contiguous(x), [_contiguous(weight) for weight in (*norm, conv_w, conv_b, *rest)]
    _check(x, weights, _attention_block_shapes(x, mlp0_w, heads, window))
    y = torch.empty_like(x)
    _native().attention_block_forward(
        list(x.shape), len(mlp0_w), heads, window, shift, x.data_ptr(), _addresses(weights), y.data_ptr()
    )
    return y


@torch.library.custom_op("shadowmaskformer::attention_block_backward", mutates_args=(), device_types="cpu")
def _attention_block_backward(
    dy: Tensor,
    x: Tensor,
    norm_w: Tensor,
    norm_b: Tensor,
    meta1_w: Tensor,
    meta1_b: Tensor,
    meta2_w: Tensor,
    meta2_b: Tensor,
    qkv_w: Tensor,
    qkv_b: Tensor,
    conv_w: Tensor | None,
    conv_b: Tensor | None,
    bias_table: Tensor,
    proj_w: Tensor,
    proj_b: Tensor,
    mlp0_w: Tensor,
    mlp0_b: Tensor,
    mlp2_w: Tensor,
    mlp2_b: Tensor,
    heads: int,
    window: int,
    shift: int,
) -> list[Tensor]:
    norm = [norm_w, norm_b, meta1_w, meta1_b, meta2_w, meta2_b, qkv_w, qkv_b]
    rest = [bias_table, proj_w, proj_b, mlp0_w, mlp0_b, mlp2_w, mlp2_b]
    dy, x, weights = _contiguous(dy), _contiguous(x), [_contiguous(weight) for weight in (*norm, conv_w, conv_b, *rest)]
    _check(x, weights, _attention_block_shapes(x, mlp0_w, heads, window))
    _check(x, [dy], [x.shape])
    dx = torch.empty_like(x)
    gradients = [None if weight is None else torch.empty_like(weight) for weight in weights]
    _native().attention_block_backward(
        list(x.shape),
        len(mlp0_w),
        heads,
        window,
        shift,
        x.data_ptr(),
        dy.data_ptr(),
        _addresses(weights),
        dx.data_ptr(),
        _addresses(gradients),
    )
    return [dx, *(gradient for gradient in gradients if gradient is not None)]


def _native() -> Any:
    # PyTorch's thread count rules here, so that one setting limits the whole training step.
    engine.set_num_threads(torch.get_num_threads())
    return engine._native  # pyright: ignore[reportPrivateUsage]


def _contiguous(tensor: Any) -> Any:
    return None if tensor is None else tensor.contiguous()


def _addresses(tensors: list[Any]) -> list[int]:
    return [0 if tensor is None else tensor.data_ptr() for tensor in tensors]


def _conv_block_shapes(x: Tensor, mlp0_w: Tensor) -> list[tuple[int, ...]]:
    c, hidden = x.shape[-1], mlp0_w.shape[0]
    return [(c, c), (c,), (c, 1, 5, 5), (c,), (c, c), (c,), (hidden, c), (hidden,), (c, hidden), (c,)]


def _attention_block_shapes(x: Tensor, mlp0_w: Tensor, heads: int, window: int) -> list[tuple[int, ...]]:
    c, norm = x.shape[-1], [(x.shape[-1],)] * 2
    if c % heads:
        raise ValueError(f"{c} channels cannot be split into {heads} heads; use a divisor")
    meta = [(c, 1), (c,)] * 2
    table = ((2 * window - 1) ** 2, heads)
    return [*norm, *meta, (3 * c, c), (3 * c,), (c, 1, 5, 5), (c,), table, *_conv_block_shapes(x, mlp0_w)[4:]]


def _check(x: Tensor, tensors: list[Any], shapes: list[Any]) -> None:
    if x.ndim != 4 or x.numel() == 0 or x.shape[-1] % CHANNEL_STEP:
        raise ValueError(
            f"tokens are {tuple(x.shape)}; the engine needs (B, H, W, C) with C a multiple of {CHANNEL_STEP}"
        )
    for tensor, shape in zip((x, *tensors), (x.shape, *shapes), strict=True):
        if tensor is None:
            continue
        if tensor.dtype is not torch.float32:
            raise ValueError(f"the engine computes in float32, got {tensor.dtype}; convert the model and its input")
        if tensor.shape != shape:
            raise ValueError(f"a tensor of this block is {tuple(tensor.shape)}, expected {tuple(shape)}")


@_conv_block.register_fake
def _(x: Tensor, *weights: Tensor) -> Tensor:
    return x.new_empty(x.shape)


@_attention_block.register_fake
def _(x: Tensor, *arguments: Any) -> Tensor:
    return x.new_empty(x.shape)


@_conv_block_backward.register_fake
def _(dy: Tensor, *tensors: Tensor) -> list[Tensor]:
    return [tensor.new_empty(tensor.shape) for tensor in tensors]


@_attention_block_backward.register_fake
def _(dy: Tensor, *arguments: Any) -> list[Tensor]:
    return [argument.new_empty(argument.shape) for argument in arguments if isinstance(argument, Tensor)]


def _save(ctx: Any, inputs: tuple[Any, ...], output: Tensor) -> None:
    ctx.save_for_backward(*(value for value in inputs if isinstance(value, Tensor)))
    ctx.is_tensor = [isinstance(value, Tensor) for value in inputs]
    ctx.others = [value for value in inputs if not isinstance(value, Tensor)]


def _differentiate(backward: Any, ctx: Any, dy: Tensor) -> tuple[Tensor | None, ...]:
    tensors, others = iter(ctx.saved_tensors), iter(ctx.others)
    gradients = iter(backward(dy, *(next(tensors) if tensor else next(others) for tensor in ctx.is_tensor)))
    return tuple(next(gradients) if tensor else None for tensor in ctx.is_tensor)


def _conv_block_gradient(ctx: Any, dy: Tensor) -> tuple[Tensor | None, ...]:
    return _differentiate(torch.ops.shadowmaskformer.conv_block_backward, ctx, dy)


def _attention_block_gradient(ctx: Any, dy: Tensor) -> tuple[Tensor | None, ...]:
    return _differentiate(torch.ops.shadowmaskformer.attention_block_backward, ctx, dy)


_conv_block.register_autograd(_conv_block_gradient, setup_context=_save)
_attention_block.register_autograd(_attention_block_gradient, setup_context=_save)
