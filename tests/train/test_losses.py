from __future__ import annotations

import math

import pytest

torch = pytest.importorskip("torch")

from shadowmaskformer.errors import ConfigError  # noqa: E402
from shadowmaskformer.train.losses import LOSSES, weighted_loss  # noqa: E402


@pytest.fixture
def pictures() -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
    generator = torch.Generator().manual_seed(1)
    restored, truth = (torch.rand(4, 3, 32, 48, generator=generator) for _ in range(2))
    mask = torch.zeros(4, 1, 32, 48)
    mask[:, :, 8:20, 10:30] = 1
    return restored, truth, mask


@pytest.mark.parametrize("name", LOSSES)
def test_a_batch_is_the_mean_of_its_halves(name: str, pictures: tuple[torch.Tensor, ...]) -> None:
    loss = LOSSES[name]
    halves = [loss(*(p[half] for p in pictures)) for half in (slice(0, 2), slice(2, 4))]
    assert float(loss(*pictures)) == pytest.approx(float(sum(halves)) / 2, rel=1e-5)


@pytest.mark.parametrize("name", LOSSES)
def test_a_loss_is_least_at_the_truth_and_has_a_finite_gradient(name: str, pictures: tuple[torch.Tensor, ...]) -> None:
    restored, truth, mask = pictures
    restored = restored.clone().requires_grad_()
    value = LOSSES[name](restored, truth, mask)
    value.backward()
    assert value.item() > float(LOSSES[name](truth, truth, mask))
    assert restored.grad is not None
    assert torch.isfinite(restored.grad).all()


def test_shadow_loss_sees_only_the_shadow(pictures: tuple[torch.Tensor, ...]) -> None:
    restored, truth, mask = pictures
    assert float(LOSSES["shadow"](torch.where(mask > 0, truth, restored), truth, mask)) == 0
    assert float(LOSSES["shadow"](restored, truth, torch.zeros_like(mask))) == 0


def test_psnr_loss_is_the_score(pictures: tuple[torch.Tensor, ...]) -> None:
    from shadowmaskformer.metrics import psnr

    restored, truth, mask = (p[:1] for p in pictures)
    value = -10 * float(LOSSES["psnr"](restored, truth, mask)) / math.log(10)
    arrays = (p[0].permute(1, 2, 0).numpy() for p in (restored, truth))
    assert value == pytest.approx(psnr(*arrays), abs=0.01)


def test_unknown_or_no_losses_are_refused() -> None:
    with pytest.raises(ConfigError, match="no loss 'l2'"):
        weighted_loss({"l2": 1.0})
    with pytest.raises(ConfigError, match="weight 0"):
        weighted_loss({"l1": 0.0})
