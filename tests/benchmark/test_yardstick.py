"""The yardstick is the same network as `model.py`, so ratios against it compare like with like."""

from __future__ import annotations

import dataclasses

import pytest

torch = pytest.importorskip("torch")

from engine.comparison import randomised  # noqa: E402
from shadowmaskformer.benchmark.yardstick import Yardstick  # noqa: E402
from shadowmaskformer.network.config import VARIANTS, ModelConfig  # noqa: E402

SMALL = ModelConfig(depths=(2, 2, 2, 1, 1))


@torch.no_grad()
@pytest.mark.parametrize("size", [(1, 1), (1, 9), (33, 52), (20, 40)])
@pytest.mark.parametrize("attention_conv", [True, False])
def test_agrees_with_the_network(size: tuple[int, int], attention_conv: bool) -> None:
    model = randomised(dataclasses.replace(SMALL, attention_conv=attention_conv))
    yardstick = Yardstick.with_weights(model.config, model.state_dict())
    photo, mask = torch.rand(2, 3, *size), torch.rand(2, 1, *size)
    torch.testing.assert_close(yardstick(photo, mask), model(photo, mask), rtol=0, atol=1e-5)


@torch.no_grad()
def test_agrees_when_it_corrects_the_relit_picture() -> None:
    model = randomised(dataclasses.replace(SMALL, embedding="mape-physical"))
    yardstick = Yardstick.with_weights(model.config, model.state_dict())
    photo, mask, start = torch.rand(1, 3, 12, 20), torch.rand(1, 1, 12, 20), torch.rand(1, 3, 12, 20)
    torch.testing.assert_close(yardstick(photo, mask, start), model(photo, mask, start), rtol=0, atol=1e-5)


def test_holds_the_parameters_of_the_paper() -> None:
    # Table 1 of the paper: 2.28 M for the middle network. The release's figure, 2,283,936, counts 22
    # convolutions in attention blocks that it drops; with the branch on we hold the same number.
    assert sum(p.numel() for p in Yardstick(VARIANTS["middle"]).parameters()) == 2_283_936
