"""The authors' checkpoints: read without running them, and named when they are something else."""

from __future__ import annotations

import dataclasses
import pickle
from pathlib import Path

import numpy as np
import pytest

from shadowmaskformer.errors import UnsafeWeightsError, WeightsError
from shadowmaskformer.network.config import VARIANTS
from shadowmaskformer.network.release import read_release


def test_checkpoint_that_holds_code_is_not_run(tmp_path: Path, recwarn: pytest.WarningsRecorder):
    pytest.importorskip("torch")
    trace = tmp_path / "ran"

    class Bomb:
        def __reduce__(self):
            return (Path.touch, (trace,))

    path = tmp_path / "bomb.pth"
    path.write_bytes(pickle.dumps({"state_dict": Bomb()}))
    with pytest.raises(UnsafeWeightsError):
        read_release(path)
    assert not trace.exists()
    assert not recwarn.list


def test_checkpoint_of_something_else_is_refused(tmp_path: Path):
    torch = pytest.importorskip("torch")
    torch.save({"state_dict": {"module.fc.weight": torch.zeros(2, 2)}}, tmp_path / "other.pth")
    with pytest.raises(WeightsError, match="not a ShadowMaskFormer checkpoint"):
        read_release(tmp_path / "other.pth")


def test_checkpoint_reads_with_and_without_prefix(shared: Path, tmp_path: Path):
    torch = pytest.importorskip("torch")
    content = torch.load(shared / "parity" / "small.pth", weights_only=True)
    bare = {key.removeprefix("module."): value for key, value in content["state_dict"].items()}
    torch.save(bare, tmp_path / "bare.pth")
    config, arrays = read_release(shared / "parity" / "small.pth")
    again_config, again = read_release(tmp_path / "bare.pth")
    assert config == again_config == dataclasses.replace(VARIANTS["small"], attention_conv=False)
    assert all(np.array_equal(arrays[key], again[key]) for key in arrays)


@pytest.mark.parametrize("content", [b"\x89PNG\r\n", b"", b"just text"])
def test_a_file_that_is_no_checkpoint_is_named_with_what_is_expected(content: bytes, tmp_path: Path):
    (tmp_path / "p.png").write_bytes(content)
    with pytest.raises(WeightsError, match=r"p\.png: not a PyTorch checkpoint; give the \.pth file"):
        read_release(tmp_path / "p.png")


def test_a_missing_checkpoint_is_named(tmp_path: Path):
    with pytest.raises(WeightsError, match=r"none\.pth: No such file"):
        read_release(tmp_path / "none.pth")
