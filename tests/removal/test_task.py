"""Shadow removal as a task: what the network is shown, and what its head means."""

from __future__ import annotations

import dataclasses

import numpy as np
import pytest

from shadowmaskformer.light.relight import start_light
from shadowmaskformer.network.reconstruction import reconstruct, scaled, unscaled
from shadowmaskformer.removal.task import Prepared, prepare, restoration
from tiny import TINY


@pytest.fixture
def given(photo: np.ndarray, mask: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    return (photo / 255).astype(np.float32), (mask / 255).astype(np.float32)


def test_the_network_is_shown_what_it_takes(given: tuple[np.ndarray, np.ndarray]):
    photo, mask = given
    assert list(prepare(TINY, *given).inputs) == ["photo", "mask"]
    shown = prepare(dataclasses.replace(TINY, embedding="mape-physical"), *given).inputs
    np.testing.assert_array_equal(shown["photo"], photo)
    np.testing.assert_array_equal(shown["mask"][..., 0], mask)
    np.testing.assert_allclose(shown["start"], start_light(photo, mask).apply(photo), atol=1e-6)


def test_a_view_reduces_every_input(given: tuple[np.ndarray, np.ndarray]):
    config = dataclasses.replace(TINY, embedding="mape-physical", view_pixels=16 * 24)
    prepared = prepare(config, *given)
    assert {picture.shape[:2] for picture in prepared.inputs.values()} == {(16, 24)}
    assert prepared.size == (32, 48)


def test_the_head_is_the_papers_reconstruction(given: tuple[np.ndarray, np.ndarray], rng: np.random.Generator):
    photo, _ = given
    head = rng.normal(0, 0.3, (32, 48, 4)).astype(np.float32)
    restored = restoration(head, Prepared({}, None, (32, 48))).correction(photo).apply(photo)
    expected = unscaled(reconstruct(head[..., :1], head[..., 1:], scaled(photo)))
    np.testing.assert_allclose(restored, expected, rtol=0, atol=1e-6)


@pytest.mark.parametrize("embedding", ["mape", "mape-physical"])
def test_training_and_removal_look_small_by_one_rule(embedding: str, given: tuple[np.ndarray, np.ndarray]):
    torch = pytest.importorskip("torch")
    from shadowmaskformer.network.model import ShadowMaskFormer
    from shadowmaskformer.removal.task import correct
    from shadowmaskformer.runtimes.torch import TorchSession

    photo, mask = given
    torch.manual_seed(0)
    model = ShadowMaskFormer(dataclasses.replace(TINY, embedding=embedding, view_pixels=16 * 24)).eval()
    start = start_light(photo, mask).apply(photo) if embedding == "mape-physical" else photo
    tensors = [torch.from_numpy(np.atleast_3d(each)).permute(2, 0, 1)[None] for each in (photo, mask, start)]
    with torch.no_grad():
        trained = model(*tensors, view=(16, 24))[0].permute(1, 2, 0).numpy()
    removed = correct(TorchSession(model), photo, mask).apply(photo)
    # The relit start is clamped in one and composed with the gain in the other: rounding, no more.
    np.testing.assert_allclose(removed, trained, rtol=0, atol=1e-5)
