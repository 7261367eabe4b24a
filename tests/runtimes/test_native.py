"""The native engine as a session."""

from __future__ import annotations

import dataclasses
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import ClassVar

import numpy as np
import pytest

from shadowmaskformer import engine
from shadowmaskformer.errors import ConfigError
from shadowmaskformer.network import weights
from shadowmaskformer.network.config import NetworkConfig
from shadowmaskformer.network.kinds import KINDS, Kind, embed
from shadowmaskformer.network.steps import SOURCE, Step
from shadowmaskformer.removal.task import correct
from shadowmaskformer.runtimes import load_session
from shadowmaskformer.runtimes.native import NativeSession
from tiny import TINY, random_arrays

pytestmark = pytest.mark.skipif(engine.why_unavailable() is not None, reason=str(engine.why_unavailable()))


@pytest.mark.parametrize("embedding", ["mape", "plain", "mape-physical"])
def test_corrections_equal_those_of_pytorch(
    embedding: str, photo: np.ndarray, mask: np.ndarray, tmp_path: Path
) -> None:
    pytest.importorskip("torch")
    config = dataclasses.replace(TINY, embedding=embedding)
    weights.save(tmp_path, config, random_arrays(config))
    given = (photo / 255).astype(np.float32), (mask / 255).astype(np.float32)
    native, torch = (correct(load_session(name, tmp_path), *given) for name in ("native", "torch"))
    # Random weights make gains of 10; the bound is meant for values of order 1, so it grows with them.
    for found, expected in ((native.gain, torch.gain), (native.offset, torch.offset)):
        np.testing.assert_allclose(found, expected, rtol=0, atol=1e-5 * max(1, np.abs(expected).max()))


def test_threads_do_not_change_the_correction(tiny_weights: Path, photo: np.ndarray, mask: np.ndarray) -> None:
    config, arrays = weights.load(tiny_weights)
    given = (photo / 255).astype(np.float32), (mask / 255).astype(np.float32)
    one, three = (correct(NativeSession(config, arrays, threads), *given) for threads in (1, 3))
    np.testing.assert_array_equal(one.gain, three.gain)
    np.testing.assert_array_equal(one.offset, three.offset)


@pytest.mark.parametrize("embedding", ["mape", "mape-physical"])
def test_a_small_view_answers_at_the_pictures_size(embedding: str, photo: np.ndarray, mask: np.ndarray) -> None:
    config = dataclasses.replace(TINY, embedding=embedding)
    arrays = random_arrays(config)
    given = (photo / 255).astype(np.float32), (mask / 255).astype(np.float32)
    head = {name: array * (0 if name.startswith("head") else 1) for name, array in arrays.items()}
    small = dataclasses.replace(config, view_pixels=16 * 24)
    # A head of zeros leaves the start as it is: relit at full size, whatever the view.
    start, seen_small = (correct(NativeSession(each, head), *given) for each in (config, small))
    np.testing.assert_array_equal(seen_small.gain, start.gain)
    answer = correct(NativeSession(small, arrays), *given)
    assert answer.gain.shape == photo.shape
    assert not np.array_equal(answer.gain, start.gain)


@dataclass(frozen=True, kw_only=True)
class StepwiseConfig(NetworkConfig):
    kind: ClassVar[str] = "stepwise"


@pytest.mark.parametrize("size", [(32, 48), (31, 45), (1, 1)])
def test_a_kind_of_steps_sees_zeros_beyond_a_picture_of_any_size(
    size: tuple[int, int], monkeypatch: pytest.MonkeyPatch
) -> None:
    stepwise = pytest.importorskip("engine.stepwise")
    steps = [
        Step("conv", (SOURCE,), 8, "first", 3, 2, clipped=True),
        Step("conv", (0,), 8, "second", 5, 2, depthwise=True),
        Step("enlarge", (1,), 8),
        Step("enlarge", (2,), 8),
        Step("conv", (3,), 1, "head"),
    ]
    row = Kind(
        config=StepwiseConfig,
        inputs=lambda config: {"photo": 3},
        project=lambda pictures, config: (pictures["photo"],),
        channels=lambda config: 3,
        head_channels=1,
        network=lambda: pytest.fail("the engine needs no PyTorch"),
        variants={},
        steps=lambda config: steps,
    )
    monkeypatch.setitem(KINDS, "stepwise", row)
    inputs = {"photo": np.random.default_rng(1).random((*size, 3), np.float32)}
    arrays = stepwise.random_weights(steps, 3)
    head = NativeSession(StepwiseConfig(), arrays).run(inputs)
    below, right = (-side % 4 for side in size)
    padded = np.pad(embed(StepwiseConfig(), inputs), ((0, below), (0, right), (0, 0)))
    expected = stepwise.in_pytorch(steps, arrays, padded)[: size[0], : size[1]]
    np.testing.assert_allclose(head, expected, rtol=0, atol=stepwise.TOLERANCE["network"])


def test_a_gpu_is_refused(tiny_weights: Path) -> None:
    with pytest.raises(ConfigError, match="cuda"):
        load_session("native", tiny_weights, device="cuda")


def test_it_runs_without_pytorch(tiny_weights: Path) -> None:
    program = (
        "import sys; sys.modules['torch'] = None\n"
        "import numpy as np\n"
        "from shadowmaskformer.runtimes import load_session\n"
        "session = load_session(None, sys.argv[1])\n"
        "photo, mask = np.full((9, 14, 3), 0.5, np.float32), np.zeros((9, 14, 1), np.float32)\n"
        "head = session.run({'photo': photo, 'mask': mask})\n"
        "assert session.name == 'native' and head.shape == (9, 14, 4)\n"
    )
    done = subprocess.run(
        [sys.executable, "-c", program, str(tiny_weights)], capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr
