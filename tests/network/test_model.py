from __future__ import annotations

import dataclasses
from pathlib import Path

import numpy as np
import pytest

torch = pytest.importorskip("torch")
from hypothesis import given, settings  # noqa: E402
from hypothesis import strategies as st  # noqa: E402
from torch import Tensor  # noqa: E402

from shadowmaskformer.network.config import VARIANTS, ModelConfig  # noqa: E402
from shadowmaskformer.network.embedding import EMBEDDINGS, mape  # noqa: E402
from shadowmaskformer.network.model import (  # noqa: E402
    Block,
    RelativePositionBias,
    RescaledLayerNorm,
    SelectiveFusion,
    ShadowMaskFormer,
)
from tiny import TINY  # noqa: E402


def randomised(config: ModelConfig, seed: int = 0) -> ShadowMaskFormer:
    """A network with every parameter random, biases too, so that no path is hidden by a zero."""
    torch.manual_seed(seed)
    model = ShadowMaskFormer(config)
    with torch.no_grad():
        for parameter in model.parameters():
            parameter.normal_(0, 0.08)
    return model.eval()


def inputs(height: int, width: int, batch: int = 1) -> tuple[Tensor, Tensor]:
    generator = torch.Generator().manual_seed(height * 100 + width)
    photo = torch.rand(batch, 3, height, width, generator=generator)
    return photo, (torch.rand(batch, 1, height, width, generator=generator) > 0.6).float()


def test_variants_have_the_papers_parameter_counts():
    # 1.94 M, 2.28 M and 2.52 M in the paper.
    counts = {name: sum(p.numel() for p in ShadowMaskFormer(c).parameters()) for name, c in VARIANTS.items()}
    assert counts["small"] == 1_940_272
    assert counts["middle"] == 2_283_936
    assert counts["large"] == 2_517_612


def test_released_checkpoint_reproduces_the_released_outputs(shared: Path):
    from shadowmaskformer.network.release import read_release

    config, arrays = read_release(shared / "parity" / "small.pth")
    model = ShadowMaskFormer(config).eval()
    model.load_state_dict({key: torch.from_numpy(array) for key, array in arrays.items()})
    cases = np.load(shared / "parity" / "cases.npz")
    for size in sorted({name.split("/")[0] for name in cases.files}):
        photo = torch.from_numpy(cases[f"{size}/photo"]).permute(2, 0, 1)[None] / 255
        mask = torch.from_numpy(cases[f"{size}/mask"])[None, None] / 255
        with torch.no_grad():
            output = 2 * model(photo, mask)[0].permute(1, 2, 0).numpy() - 1
        assert np.abs(output - cases[f"{size}/output"]).max() < 1e-5, size


def test_mape_equals_the_papers_equations_by_hand():
    # Eq. 5-7: Ms in {0, 1}, Mp in {-1, 1}; a shadow pixel is multiplied by +2.5, a lit one by -1.
    x = torch.tensor([0.2, -0.4])
    assert torch.allclose(mape(x, torch.tensor(1.0), x, ModelConfig()), 2.5 * x)
    assert torch.allclose(mape(x, torch.tensor(-1.0), x, ModelConfig()), -x)
    half = mape(x, torch.tensor(0.5), x, ModelConfig(w1=3, w2=1))
    assert torch.allclose(half, 0.5 * (3 * 0.75 + 0.25) * x)


def test_layer_norm_statistics_run_over_the_whole_picture():
    norm = RescaledLayerNorm(6)
    tokens = torch.randn(2, 5, 7, 6) * 3 + 2
    normed, rescale, rebias = norm(tokens)
    for sample in range(2):
        values = tokens[sample]
        std = torch.sqrt(values.var(unbiased=False) + 1e-5)
        assert torch.allclose(normed[sample], (values - values.mean()) / std, atol=1e-5)
        assert torch.allclose(rescale[sample, 0, 0], norm.meta1.weight[:, 0] * std + norm.meta1.bias)
        assert torch.allclose(rebias[sample, 0, 0], norm.meta2.weight[:, 0] * values.mean() + norm.meta2.bias)


def test_position_bias_of_a_pair_depends_on_query_minus_key():
    position = RelativePositionBias(4, 2)
    bias = position()
    query, key = (1, 3), (2, 0)
    offset = torch.tensor([[1.0 - 2.0, 3.0 - 0.0]])
    expected = position.mlp(offset.sign() * (1 + offset.abs()).log())[0]
    assert torch.allclose(bias[:, query[0] * 4 + query[1], key[0] * 4 + key[1]], expected, atol=1e-6)


def test_fusion_of_equal_maps_is_that_map():
    tokens = torch.randn(2, 4, 6, 24)
    assert torch.allclose(SelectiveFusion(24)(tokens, tokens), tokens, atol=1e-6)


@pytest.mark.parametrize("shift", [0, 1])
def test_attention_stays_within_its_window(shift: int):
    block = Block(TINY, 2, 2 + shift)
    assert block.attends
    tokens = torch.randn(1, 23, 27, 96)
    changed = tokens.clone()
    changed[0, 12, 13] += 1
    block.convolves = False
    with torch.no_grad():
        moved = (block.attention(changed) - block.attention(tokens)).abs().amax(-1)[0] > 1e-7
    rows, columns = torch.where(moved)
    first = 10 if not shift else 5  # windows of 10 start at 0, or at -5 when shifted
    assert rows.min() == first
    assert columns.min() == first
    assert rows.max() == first + 9
    assert columns.max() == first + 9


@settings(max_examples=12, deadline=None)
@given(height=st.integers(1, 43), width=st.integers(1, 43), batch=st.integers(1, 3))
def test_any_size_comes_back_at_that_size(height: int, width: int, batch: int):
    photo, mask = inputs(height, width, batch)
    with torch.no_grad():
        restored = randomised(TINY)(photo, mask)
    assert restored.shape == photo.shape
    assert torch.isfinite(restored).all()


def test_samples_of_a_batch_do_not_touch_each_other():
    model = randomised(TINY)
    photo, mask = inputs(21, 34, batch=2)
    with torch.no_grad():
        together, alone = model(photo, mask), model(photo[1:], mask[1:])
    assert torch.allclose(together[1:], alone, atol=1e-5)


def check_training_and_storage(config: ModelConfig, folder: Path) -> None:
    """Every parameter gets a gradient, and the saved network answers as the one in memory."""
    torch.manual_seed(0)
    model = ShadowMaskFormer(config)
    photo, mask = inputs(13, 22)
    start = (photo * 1.5).clamp(0, 1) if EMBEDDINGS[config.embedding].starts_relit else None
    model(photo, mask, start).square().mean().backward()
    assert [name for name, p in model.named_parameters() if p.grad is None] == []
    model.save_pretrained(folder)
    with torch.no_grad():
        again = ShadowMaskFormer.from_pretrained(folder)(photo, mask, start)
        assert torch.equal(again, model.eval()(photo, mask, start))


@pytest.mark.parametrize("variant", VARIANTS)
def test_every_variant_trains_saves_and_loads(variant: str, tmp_path: Path):
    check_training_and_storage(VARIANTS[variant], tmp_path)


@pytest.mark.parametrize("embedding", EMBEDDINGS)
@pytest.mark.parametrize("attention_conv", [True, False])
def test_every_ablation_trains_saves_and_loads(attention_conv: bool, embedding: str, tmp_path: Path):
    config = dataclasses.replace(TINY, embedding=embedding, attention_conv=attention_conv)
    check_training_and_storage(config, tmp_path)


@pytest.mark.slow
@pytest.mark.parametrize("embedding", EMBEDDINGS)
@pytest.mark.parametrize("attention_conv", [True, False])
@pytest.mark.parametrize("variant", VARIANTS)
def test_every_variant_with_every_ablation(variant: str, attention_conv: bool, embedding: str, tmp_path: Path):
    config = dataclasses.replace(VARIANTS[variant], embedding=embedding, attention_conv=attention_conv)
    check_training_and_storage(config, tmp_path)


def test_physical_embedding_asks_for_its_start():
    model = ShadowMaskFormer(dataclasses.replace(TINY, embedding="mape-physical"))
    with pytest.raises(ValueError, match="start"):
        model(*inputs(8, 8))


def test_initial_weights_follow_the_release():
    # As the authors' code starts: std g*sqrt(2/(fan_in+fan_out)), g = (8*sum(depths))^(-1/4); g = 1 for Q and K.
    torch.manual_seed(0)
    config = VARIANTS["middle"]
    gain = (8 * sum(config.depths)) ** -0.25
    block = Block(config, 2, 13)
    assert block.qkv.weight[:192].std().item() == pytest.approx((2 / (96 + 192)) ** 0.5, rel=0.03)
    assert block.qkv.weight[192:].std().item() == pytest.approx(gain * (2 / 192) ** 0.5, rel=0.03)
    assert block.conv.weight.std().item() == pytest.approx(gain * (2 / (25 + 96 * 25)) ** 0.5, rel=0.06)
    assert block.mlp[0].weight.std().item() == pytest.approx(gain * (2 / (96 + 384)) ** 0.5, rel=0.03)
    assert not block.qkv.bias.any()
    assert (block.norm.meta1.bias == 1).all()


def test_compiles_without_graph_breaks():
    model = randomised(TINY)
    explained = torch._dynamo.explain(model)(*inputs(12, 20))
    assert explained.graph_break_count == 0


def test_a_view_of_the_pictures_own_size_changes_nothing():
    model, (photo, mask) = randomised(TINY), inputs(24, 32)
    with torch.no_grad():
        torch.testing.assert_close(model(photo, mask, view=(24, 32)), model(photo, mask))


def test_a_small_view_corrects_a_large_picture_smoothly():
    model, (photo, mask) = randomised(TINY), inputs(48, 64)
    with torch.no_grad():
        restored = model(photo, mask, view=(24, 32))
        pictures = {"photo": photo, "mask": mask}
        seen = {name: torch.nn.functional.avg_pool2d(2 * picture - 1, 2) for name, picture in pictures.items()}
        small = model.predict(model.embedded(seen))
        gain, offset = torch.nn.functional.interpolate(small, scale_factor=2, mode="bilinear").split((1, 3), dim=1)
    torch.testing.assert_close(restored, (1 + gain) * photo - (gain + offset) / 2)


def test_physical_embedding_shows_its_factors():
    model = ShadowMaskFormer(dataclasses.replace(TINY, embedding="mape-physical"))
    photo, mask, start = torch.rand(1, 3, 4, 6), torch.ones(1, 1, 4, 6), torch.rand(1, 3, 4, 6)
    shown = model.embedded({"photo": photo, "mask": mask, "start": start})
    assert model.embed.in_channels == shown.shape[1] == 10
    torch.testing.assert_close(shown, torch.cat((start, start, photo, mask), dim=1))
