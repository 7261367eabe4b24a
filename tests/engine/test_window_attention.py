"""The fused attention block, in networks that have no other kind."""

from __future__ import annotations

import pytest

from engine.comparison import assert_like_pytorch, picture, randomised
from shadowmaskformer import engine
from shadowmaskformer.network.config import ModelConfig

pytestmark = pytest.mark.skipif(engine.why_unavailable() is not None, reason=str(engine.why_unavailable()))

# Two blocks at full size, so that one of them is shifted.
ONLY_ATTENTION = {"depths": (2, 1, 1, 1, 2), "attention_shares": (1.0,) * 5}


@pytest.mark.parametrize("conv", [False, True], ids=["plain", "convolving"])
@pytest.mark.parametrize(("height", "width"), [(1, 7), (7, 1), (8, 9), (9, 31), (33, 8), (31, 33)])
def test_any_size_matches_pytorch(height: int, width: int, conv: bool) -> None:
    assert_like_pytorch(randomised(ModelConfig(**ONLY_ATTENTION, attention_conv=conv)), picture(height, width))


@pytest.mark.parametrize("conv", [False, True], ids=["plain", "convolving"])
@pytest.mark.parametrize(("window", "size"), [(8, 12), (8, 16), (8, 20), (10, 36), (10, 40), (10, 44)])
def test_sizes_around_whole_windows_match_pytorch(window: int, size: int, conv: bool) -> None:
    # The network pads to multiples of 4, so these are the sizes next to whole windows, and whole windows themselves. In
    # shifted blocks the windows at both ends are cut.
    model = randomised(ModelConfig(**ONLY_ATTENTION, window=window, attention_conv=conv))
    assert_like_pytorch(model, picture(size, 40))
    assert_like_pytorch(model, picture(20, size))


@pytest.mark.parametrize("size", [9, 10, 11, 15, 20, 21])
def test_sizes_that_are_padded_match_pytorch(size: int) -> None:
    assert_like_pytorch(randomised(ModelConfig(**ONLY_ATTENTION)), picture(size, 40))


@pytest.mark.parametrize("window", [2, 3, 4, 7, 8, 9])
def test_other_windows_match_pytorch(window: int) -> None:
    # With window 4 and 8 the unshifted windows fit exactly; 7 and 9 leave lanes unused in the last vector of queries.
    assert_like_pytorch(randomised(ModelConfig(**ONLY_ATTENTION, window=window)), picture(32, 24))


@pytest.mark.parametrize("heads", [1, 3, 8, 24])
def test_heads_of_any_depth_match_pytorch(heads: int) -> None:
    assert_like_pytorch(randomised(ModelConfig(**ONLY_ATTENTION, heads=(heads,) * 5)), picture(14, 18))


def test_large_scores_do_not_overflow() -> None:
    model = randomised(ModelConfig(**ONLY_ATTENTION))
    for stage in model.stages:
        for block in stage:
            block.qkv.weight.data[: 2 * block.proj.in_features] *= 12  # scores in the hundreds: one key takes all
    # A score of 300 is rounded by 3e-5, in PyTorch as here, and the softmax passes that on.
    assert_like_pytorch(model, picture(16, 12), tolerance=2e-3)


def test_a_picture_far_from_zero_keeps_its_variance() -> None:
    model = randomised(ModelConfig(**ONLY_ATTENTION))
    model.embed.bias.data += 30  # mean much larger than spread: sums of squares would lose the spread
    for fusion in model.fuse:
        fusion.mlp[0].weight.data *= 0.01
    assert_like_pytorch(model, picture(16, 12))
