from __future__ import annotations

import dataclasses
import json
import pickle
from pathlib import Path

import numpy as np
import pytest

from shadowmaskformer.errors import ConfigError, MissingExtraError, UnsafeWeightsError, WeightsError
from shadowmaskformer.network import weights
from shadowmaskformer.network.config import VARIANTS
from tiny import TINY


def arrays_for(config=TINY) -> weights.Arrays:
    rng = np.random.default_rng(0)
    return {key: rng.normal(size=shape).astype(np.float32) for key, shape in weights.parameter_shapes(config).items()}


def test_round_trip_keeps_configuration_and_values(tmp_path: Path):
    arrays = arrays_for()
    weights.save(tmp_path / "w", TINY, arrays)
    config, read = weights.load(tmp_path / "w")
    assert config == TINY
    assert read.keys() == arrays.keys()
    assert all(np.array_equal(read[key], arrays[key]) for key in arrays)


def test_half_precision_halves_the_file_and_reads_back_as_float32(tmp_path: Path):
    arrays = arrays_for()
    full = weights.save(tmp_path / "full", TINY, arrays).stat().st_size
    half = weights.save(tmp_path / "half", TINY, arrays, half=True).stat().st_size
    assert half < 0.55 * full
    _, read = weights.load(tmp_path / "half")
    assert all(array.dtype == np.float32 for array in read.values())
    assert np.allclose(read["embed.weight"], arrays["embed.weight"], rtol=1e-3, atol=1e-4)


def test_shapes_agree_with_the_network():
    pytest.importorskip("torch")
    from shadowmaskformer.network.model import ShadowMaskFormer

    for config in (TINY, VARIANTS["middle"], dataclasses.replace(TINY, attention_conv=False)):
        state = ShadowMaskFormer(config).state_dict()
        assert {key: tuple(value.shape) for key, value in state.items()} == weights.parameter_shapes(config)


def test_missing_weights_name_the_places_searched(tmp_path: Path):
    with pytest.raises(WeightsError, match="searched"):
        weights.load(tmp_path / "nothing-here")


def test_hub_name_without_the_extra_names_the_extra(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setitem(__import__("sys").modules, "huggingface_hub", None)
    with pytest.raises(MissingExtraError, match=r"shadowmaskformer\[hub\]"):
        weights.load("someone/something")


def test_wrong_tensors_are_named(tmp_path: Path):
    arrays = arrays_for()
    arrays["extra"] = arrays.pop("head.bias")
    weights.save(tmp_path, TINY, arrays)
    with pytest.raises(WeightsError, match=r"head\.bias missing; extra unknown"):
        weights.load(tmp_path)


def test_nan_weights_are_refused(tmp_path: Path):
    arrays = arrays_for()
    arrays["head.bias"][0] = np.nan
    weights.save(tmp_path, TINY, arrays)
    with pytest.raises(WeightsError, match=r"head\.bias holds NaN"):
        weights.load(tmp_path)


@pytest.mark.parametrize(
    "damage",
    [lambda data: data[:-7], lambda data: data + b"tail", lambda data: b"", lambda data: b"\xff" * 64],
)
def test_damaged_file_is_refused(damage, tmp_path: Path):
    path = weights.save(tmp_path, TINY, arrays_for())
    path.write_bytes(damage(path.read_bytes()))
    with pytest.raises(WeightsError, match="safetensors"):
        weights.load(tmp_path)


def test_bad_json_and_unknown_keys_are_configuration_errors(tmp_path: Path):
    weights.save(tmp_path, TINY, arrays_for())
    config = tmp_path / weights.CONFIG_FILE
    config.write_text('{"depths": [1,')
    with pytest.raises(ConfigError, match="line 1"):
        weights.load(tmp_path)
    config.write_text(json.dumps({**TINY.to_dict(), "depth": 3}))
    with pytest.raises(ConfigError, match="'depth'"):
        weights.load(tmp_path)


def test_newer_format_asks_for_an_upgrade(tmp_path: Path):
    weights.save(tmp_path, TINY, arrays_for())
    (tmp_path / weights.CONFIG_FILE).write_text(json.dumps({"format_version": 99, **TINY.to_dict()}))
    with pytest.raises(WeightsError, match="upgrade"):
        weights.load(tmp_path)


def test_checkpoint_that_holds_code_is_not_run(tmp_path: Path):
    pytest.importorskip("torch")
    trace = tmp_path / "ran"

    class Bomb:
        def __reduce__(self):
            return (Path.touch, (trace,))

    path = tmp_path / "bomb.pth"
    path.write_bytes(pickle.dumps({"state_dict": Bomb()}))
    with pytest.raises(UnsafeWeightsError):
        weights.read_release(path)
    assert not trace.exists()


def test_checkpoint_of_something_else_is_refused(tmp_path: Path):
    torch = pytest.importorskip("torch")
    torch.save({"state_dict": {"module.fc.weight": torch.zeros(2, 2)}}, tmp_path / "other.pth")
    with pytest.raises(WeightsError, match="not a ShadowMaskFormer checkpoint"):
        weights.read_release(tmp_path / "other.pth")


def test_checkpoint_reads_with_and_without_prefix(shared: Path, tmp_path: Path):
    torch = pytest.importorskip("torch")
    content = torch.load(shared / "parity" / "small.pth", weights_only=True)
    bare = {key.removeprefix("module."): value for key, value in content["state_dict"].items()}
    torch.save(bare, tmp_path / "bare.pth")
    config, arrays = weights.read_release(shared / "parity" / "small.pth")
    again_config, again = weights.read_release(tmp_path / "bare.pth")
    assert config == again_config == dataclasses.replace(VARIANTS["small"], attention_conv=False)
    assert all(np.array_equal(arrays[key], again[key]) for key in arrays)


def test_pth_given_as_weights_points_to_convert(tmp_path: Path):
    with pytest.raises(WeightsError, match="convert"):
        weights.load(tmp_path / "model.pth")
