"""The engine's training operators against the plain blocks of model.py."""

from __future__ import annotations

import copy
from collections.abc import Iterator
from typing import Any

import pytest

torch = pytest.importorskip("torch")

from shadowmaskformer import engine  # noqa: E402
from shadowmaskformer.engine import ops  # noqa: E402
from shadowmaskformer.network.config import VARIANTS, ModelConfig  # noqa: E402
from shadowmaskformer.network.model import Block, ShadowMaskFormer  # noqa: E402

pytestmark = pytest.mark.skipif(
    engine.why_unavailable() is not None, reason=f"no native engine: {engine.why_unavailable()}"
)

SIZES = [(1, 7), (7, 1), (9, 11), (11, 31), (31, 9)]
CONVOLUTION, ATTENTION, SHIFTED_ATTENTION = 0, 12, 13

# Relative error in the Euclidean norm, against the same block in float64.
FORWARD_TOLERANCE = 1e-5  # float32 rounding over a few hundred terms; plain PyTorch in float32 is at 1e-6
GRADIENT_TOLERANCE = 1e-4  # what the project promises


@pytest.fixture(params=[1, 2], ids=["1thread", "2threads"])
def threads(request: pytest.FixtureRequest) -> Iterator[None]:
    before = torch.get_num_threads()
    torch.set_num_threads(request.param)
    yield
    torch.set_num_threads(before)


def lively_block(config: ModelConfig, stage: int, index: int) -> Block:
    """A block in which every parameter matters: none is zero, scores and statistics are far from trivial."""
    torch.manual_seed(stage + 10 * index)
    block = Block(config, stage, index)
    for parameter in block.parameters():
        fan_in = parameter[0].numel() if parameter.ndim > 1 else 9
        torch.nn.init.normal_(parameter, std=1.2 * fan_in**-0.5)
    if block.attends:
        block.norm.weight.data += 1
    block.native = True
    return block


def tokens_like(config: ModelConfig, stage: int, size: tuple[int, int], batch: int = 2) -> Any:
    return torch.randn(batch, *size, config.widths[stage]) + 0.3


def distance(found: Any, expected: Any) -> float:
    found, expected = found.detach().double(), expected.detach()
    return float((found - expected).norm() / expected.norm())


def assert_like_float64(block: Block, tokens: Any) -> None:
    """Output and all gradients of the engine agree with the plain block in double precision."""
    plain = copy.deepcopy(block).double()
    plain.native = False
    upstream = torch.randn_like(tokens)
    reference = tokens.double().requires_grad_()
    expected = plain(reference)
    expected.backward(upstream.double())

    tokens = tokens.detach().requires_grad_()
    assert ops.serves(tokens, block)
    found = block(tokens)
    found.backward(upstream)

    assert distance(found, expected) <= FORWARD_TOLERANCE
    assert distance(tokens.grad, reference.grad) <= GRADIENT_TOLERANCE
    gradients = {name: parameter.grad for name, parameter in plain.named_parameters()}
    for name, parameter in block.named_parameters():
        if name == "position.mlp.2.bias":
            # Softmax ignores what all keys have in common, so the exact gradient is 0 and has no relative error.
            assert parameter.grad.norm() <= GRADIENT_TOLERANCE * gradients["position.mlp.2.weight"].norm()
        else:
            assert distance(parameter.grad, gradients[name]) <= GRADIENT_TOLERANCE, name


@pytest.mark.usefixtures("threads")
@pytest.mark.parametrize("size", SIZES)
@pytest.mark.parametrize("stage", [0, 1, 2])
def test_convolution_blocks_match_the_plain_block(stage: int, size: tuple[int, int]) -> None:
    config = ModelConfig()
    assert_like_float64(lively_block(config, stage, CONVOLUTION), tokens_like(config, stage, size))


@pytest.mark.usefixtures("threads")
@pytest.mark.parametrize("attention_conv", [False, True])
@pytest.mark.parametrize("index", [ATTENTION, SHIFTED_ATTENTION])
@pytest.mark.parametrize("size", SIZES)
def test_attention_blocks_match_the_plain_block(size: tuple[int, int], index: int, attention_conv: bool) -> None:
    config = ModelConfig(attention_conv=attention_conv)
    assert_like_float64(lively_block(config, 0, index), tokens_like(config, 0, size))


@pytest.mark.parametrize("stage", [1, 2])
@pytest.mark.parametrize("index", [ATTENTION, SHIFTED_ATTENTION])
def test_attention_blocks_match_at_every_width(stage: int, index: int) -> None:
    config = ModelConfig()
    assert_like_float64(lively_block(config, stage, index), tokens_like(config, stage, (21, 11)))


@pytest.mark.parametrize(("heads", "window"), [(1, 4), (3, 5), (2, 10), (8, 3)])
def test_other_heads_and_windows_match(heads: int, window: int) -> None:
    config = ModelConfig(heads=(heads, 4, 6, 1, 1), window=window)
    assert_like_float64(lively_block(config, 0, SHIFTED_ATTENTION), tokens_like(config, 0, (9, 11)))


def test_wide_blocks_match() -> None:
    config = ModelConfig(widths=(72, 48, 96, 48, 72), mlp_ratios=(3, 4, 4, 2, 2))
    assert_like_float64(lively_block(config, 0, SHIFTED_ATTENTION), tokens_like(config, 0, (9, 11)))


@pytest.mark.parametrize("index", [CONVOLUTION, SHIFTED_ATTENTION])
def test_strided_tokens_and_gradients_are_read_correctly(index: int) -> None:
    config = ModelConfig()
    block = lively_block(config, 0, index)
    tokens = torch.randn(2, config.widths[0], 9, 11).permute(0, 2, 3, 1)
    upstream = torch.randn(2, config.widths[0], 9, 11).permute(0, 2, 3, 1)
    answers = []
    for arrange in (lambda tensor: tensor, lambda tensor: tensor.contiguous()):
        leaf = arrange(tokens).detach().requires_grad_()
        block(leaf).backward(arrange(upstream))
        answers.append(leaf.grad)
    assert torch.equal(*answers)


@pytest.mark.parametrize("index", [CONVOLUTION, SHIFTED_ATTENTION])
def test_gradients_are_the_same_every_time(index: int) -> None:
    config = ModelConfig()
    block = lively_block(config, 1, index)
    tokens, upstream = tokens_like(config, 1, (31, 31)), tokens_like(config, 1, (31, 31))

    def gradients() -> list[Any]:
        block.zero_grad()
        block(tokens).backward(upstream)
        return [parameter.grad.clone() for parameter in block.parameters()]

    first = gradients()
    for _ in range(3):
        assert all(torch.equal(a, b) for a, b in zip(first, gradients(), strict=True))


@pytest.mark.parametrize("attention_conv", [False, True])
@pytest.mark.parametrize("index", [CONVOLUTION, SHIFTED_ATTENTION])
def test_operators_pass_opcheck(index: int, attention_conv: bool) -> None:
    config = ModelConfig(attention_conv=attention_conv)
    block = lively_block(config, 0, index)
    calls: list[tuple[Any, ...]] = []
    names = ("attention_block", "attention_block_backward") if block.attends else ("conv_block", "conv_block_backward")
    forward, backward = (getattr(torch.ops.shadowmaskformer, name).default for name in names)

    class Record(torch.utils._python_dispatch.TorchDispatchMode):
        def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
            if func is forward:
                calls.append(args)
            return func(*args, **(kwargs or {}))

    tokens = tokens_like(config, 0, (7, 9)).requires_grad_()
    with Record():
        block(tokens)
    arguments = tuple(
        value.detach().requires_grad_() if isinstance(value, torch.Tensor) else value for value in calls[0]
    )
    torch.library.opcheck(forward, arguments, rtol=1e-4, atol=1e-4)
    plain = tuple(value.detach() if isinstance(value, torch.Tensor) else value for value in arguments)
    torch.library.opcheck(backward, (torch.randn_like(tokens), *plain), rtol=1e-4, atol=1e-4)


def test_whole_network_learns_the_same_with_the_engine() -> None:
    torch.manual_seed(0)
    plain = ShadowMaskFormer(VARIANTS["nano"])
    native = copy.deepcopy(plain).use_native()
    photo, mask = torch.rand(2, 3, 26, 35), (torch.rand(2, 1, 26, 35) > 0.5).float()
    found, expected = (model(photo, mask) for model in (native, plain))
    torch.testing.assert_close(found, expected, rtol=0, atol=1e-5)
    found.square().mean().backward()
    expected.square().mean().backward()
    expected_gradients = dict(plain.named_parameters())
    for name, parameter in native.named_parameters():
        assert parameter.grad is not None, name
        if not name.endswith("position.mlp.2.bias"):
            # Both sides are float32 here, and either may be the one that is off.
            assert distance(parameter.grad, expected_gradients[name].grad.double()) <= 1e-3, name


def test_compiled_network_runs_the_operators() -> None:
    torch.manual_seed(0)
    model = ShadowMaskFormer(ModelConfig(depths=(2, 2, 2, 1, 1))).use_native()
    photo, mask = torch.rand(1, 3, 12, 16), torch.rand(1, 1, 12, 16)
    compiled = torch.compile(model, backend="aot_eager", fullgraph=True)
    torch.testing.assert_close(compiled(photo, mask), model(photo, mask), rtol=1e-5, atol=1e-5)


def test_nothing_is_recorded_without_gradients() -> None:
    config = ModelConfig()
    with torch.no_grad():
        assert not lively_block(config, 0, CONVOLUTION)(tokens_like(config, 0, (7, 9))).requires_grad


def test_engine_leaves_other_types_and_widths_to_pytorch() -> None:
    block = lively_block(ModelConfig(), 0, CONVOLUTION).double()
    tokens = torch.randn(1, 7, 9, 24, dtype=torch.float64)
    assert not ops.serves(tokens, block)
    assert block(tokens).dtype is torch.float64
    narrow = ModelConfig(widths=(8, 16, 24, 16, 8))
    assert not ops.serves(tokens_like(narrow, 0, (7, 9)), lively_block(narrow, 0, CONVOLUTION))


def test_wrong_shapes_are_refused_with_a_reason() -> None:
    block = lively_block(ModelConfig(), 0, CONVOLUTION)
    block.proj.weight = torch.nn.Parameter(torch.zeros(24, 48))
    with pytest.raises(ValueError, match=r"\(24, 48\), expected \(24, 24\)"):
        ops.conv_block(tokens_like(ModelConfig(), 0, (7, 9)), block)
