"""The fused convolution block, in networks that have no other kind."""

from __future__ import annotations

import pytest

from engine.comparison import assert_like_pytorch, picture, randomised
from shadowmaskformer import engine
from shadowmaskformer.network.config import ModelConfig

pytestmark = pytest.mark.skipif(engine.why_unavailable() is not None, reason=str(engine.why_unavailable()))

ONLY_CONVOLUTION = {"depths": (2, 1, 1, 1, 1), "attention_shares": (0.0,) * 5}


@pytest.mark.parametrize("width", [1, 7, 8, 9, 31, 33])
@pytest.mark.parametrize("height", [1, 7, 8, 9, 31, 33])
def test_any_size_matches_pytorch(height: int, width: int) -> None:
    assert_like_pytorch(randomised(ModelConfig(**ONLY_CONVOLUTION)), picture(height, width))


def test_several_tiles_and_bands_match_pytorch() -> None:
    # Tiles are at most 64 columns wide and bands at least 16 rows high: this has three of one, five of the other.
    assert_like_pytorch(randomised(ModelConfig(**ONLY_CONVOLUTION)), picture(75, 150))


@pytest.mark.parametrize("ratio", [1, 3, 5])
def test_hidden_widths_that_are_no_multiple_of_the_slice_match_pytorch(ratio: int) -> None:
    config = ModelConfig(**ONLY_CONVOLUTION, mlp_ratios=(ratio,) * 5)
    assert_like_pytorch(randomised(config), picture(12, 21))


@pytest.mark.parametrize("width", [8, 16, 40])
def test_widths_that_leave_narrow_panels_match_pytorch(width: int) -> None:
    config = ModelConfig(**ONLY_CONVOLUTION, widths=(width, 2 * width, 32, 2 * width, width), heads=(1,) * 5)
    assert_like_pytorch(randomised(config), picture(13, 22))
