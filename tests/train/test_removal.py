import numpy as np
import pytest

torch = pytest.importorskip("torch")

from shadowmaskformer.data import Sample  # noqa: E402
from shadowmaskformer.light import relight  # noqa: E402
from shadowmaskformer.train import removal  # noqa: E402
from shadowmaskformer.train.config import load_recipe  # noqa: E402
from shadowmaskformer.train.removal import Removal  # noqa: E402


def sample(seed: int) -> Sample:
    rng = np.random.default_rng(seed)
    mask = np.zeros((32, 48), np.float32)
    mask[8:24, 12:30] = 1
    truth = rng.uniform(0.4, 0.8, (32, 48, 3)).astype(np.float32)
    return Sample(f"{seed}", np.where(mask[..., None] > 0, 0.5 * truth, truth), mask, truth)


@pytest.mark.parametrize(
    ("changes", "room", "measured"),
    [(["augment={}"], 1 << 20, 2), (["augment={flip=0.5}"], 1 << 20, 2), ([], 1 << 20, 4), (["augment={}"], 20_000, 3)],
    ids=["as it is", "flipped", "cropped", "no room for the second"],
)
def test_light_is_measured_once_where_pictures_come_back(
    changes: list[str], room: int, measured: int, monkeypatch: pytest.MonkeyPatch
):
    calls: list[str] = []

    def counted(photo: np.ndarray, mask: np.ndarray):
        calls.append("measured")
        return before(photo, mask)

    before = relight.start_light
    monkeypatch.setattr(relight, "start_light", counted)
    monkeypatch.setattr(removal, "REMEMBERED_BYTES", room)
    task = Removal(load_recipe("cpu", changes))
    first, again = (task.batch([sample(0), sample(1)], view=None, total=2).inputs["start"] for _ in range(2))
    assert torch.equal(first, again)
    assert len(calls) == measured
