import dataclasses

import numpy as np
import pytest

torch = pytest.importorskip("torch")

from shadowmaskformer.data import Sample  # noqa: E402
from shadowmaskformer.light import relight  # noqa: E402
from shadowmaskformer.train.config import load_recipe  # noqa: E402
from shadowmaskformer.train.removal import Removal  # noqa: E402


def sample(seed: int) -> Sample:
    rng = np.random.default_rng(seed)
    mask = np.zeros((32, 48), np.float32)
    mask[8:24, 12:30] = 1
    truth = rng.uniform(0.4, 0.8, (32, 48, 3)).astype(np.float32)
    return Sample(f"{seed}", np.where(mask[..., None] > 0, 0.5 * truth, truth), mask, truth)


def test_the_network_starts_from_the_photo_as_it_was_relit():
    task, plain = Removal(load_recipe("cpu")), sample(0)
    given = dataclasses.replace(sample(1), start=np.full_like(plain.photo, 0.25))
    starts = task.batch([plain, given], view=None, total=2).inputs["start"].numpy().transpose(0, 2, 3, 1)
    np.testing.assert_array_equal(starts[0], relight.start_light(plain.photo, plain.mask).apply(plain.photo))
    np.testing.assert_array_equal(starts[1], given.start)


@pytest.mark.parametrize(("embedding", "relit"), [("mape", False), ("mape-physical", True)])
def test_light_is_measured_only_for_networks_that_start_from_it(embedding: str, relit: bool):
    task = Removal(load_recipe("cpu", [f"embedding={embedding}"]))
    assert task.relit == relit
    assert ("start" in task.batch([sample(0)], view=None, total=1).inputs) == relit
