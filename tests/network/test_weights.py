from __future__ import annotations

import dataclasses
import json
import logging
import sys
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest
from safetensors.numpy import save as serialise

from shadowmaskformer.errors import ConfigError, MissingExtraError, WeightsError
from shadowmaskformer.network import weights
from shadowmaskformer.network.config import VARIANTS, ModelConfig
from shadowmaskformer.network.embedding import EMBEDDINGS
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

    odd = ModelConfig(
        depths=(1, 2, 1, 3, 1), widths=(8, 24, 40, 24, 8), heads=(1, 2, 5, 3, 2), mlp_ratios=(1, 2, 3, 4, 5)
    )
    ablations = [dataclasses.replace(TINY, embedding=name, attention_conv=False) for name in EMBEDDINGS]
    for config in (TINY, odd, *VARIANTS.values(), *ablations):
        state = ShadowMaskFormer(config).state_dict()
        assert {key: tuple(value.shape) for key, value in state.items()} == weights.parameter_shapes(config)


def test_a_name_lasts_in_another_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.chdir(tmp_path)
    for folder in ("srd", "mine"):
        (tmp_path / folder).mkdir()
    assert weights.lasting_name("srd") == "srd"  # the shipped weights, as `locate` reads it
    assert weights.locate("srd").parent != tmp_path / "srd"
    assert weights.lasting_name("mine") == tmp_path / "mine"
    assert weights.lasting_name("hf:somebody/mine") == "hf:somebody/mine"


def test_missing_weights_say_what_is_expected(tmp_path: Path):
    with pytest.raises(WeightsError, match=r"nothing-here.*a folder with model\.safetensors.*shipped .*: default"):
        weights.load(tmp_path / "nothing-here")


def test_hub_name_without_the_extra_names_the_extra(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setitem(sys.modules, "huggingface_hub", None)
    with pytest.raises(MissingExtraError, match=r"shadowmaskformer\[hub\]"):
        weights.load("hf:someone/something")


def test_a_mistyped_path_never_asks_the_internet(monkeypatch: pytest.MonkeyPatch):
    asked: list[str] = []
    hub = SimpleNamespace(hf_hub_download=lambda name, file: asked.append(name))
    monkeypatch.setitem(sys.modules, "huggingface_hub", hub)
    with pytest.raises(WeightsError, match="hf:runs/frist"):
        weights.load("runs/frist")
    assert asked == []


def test_the_hub_is_asked_by_its_prefix(monkeypatch: pytest.MonkeyPatch, tmp_path: Path):
    weights.save(tmp_path, TINY, arrays_for())
    hub = SimpleNamespace(hf_hub_download=lambda name, file: str(tmp_path / file) if name == "them/theirs" else None)
    monkeypatch.setitem(sys.modules, "huggingface_hub", hub)
    assert weights.load("hf:them/theirs")[0] == TINY
    with pytest.raises(WeightsError, match="hf:owner/name"):
        weights.load("hf:theirs")


def test_a_hub_that_cannot_be_reached_costs_one_line(monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture):
    def unreachable(name: str, file: str) -> str:
        logging.getLogger("huggingface_hub.utils").warning("retrying in 1 s")
        raise OSError("no connection")

    monkeypatch.setitem(sys.modules, "huggingface_hub", SimpleNamespace(hf_hub_download=unreachable))
    before = logging.getLogger("huggingface_hub").level
    with pytest.raises(WeightsError, match=r"hf:them/theirs for us \(no connection\); check the name"):
        weights.load("hf:them/theirs")
    assert caplog.text == ""
    assert logging.getLogger("huggingface_hub").level == before


@pytest.mark.parametrize("name", ["p.png", "model.pt2"])
def test_a_file_of_another_kind_is_named_with_what_is_expected(name: str, tmp_path: Path):
    (tmp_path / name).write_bytes(b"\x89PNG")
    with pytest.raises(WeightsError, match=rf"{name} is not a file of weights; give a folder with model\.safetensors"):
        weights.load(tmp_path / name)


def test_a_folder_without_weights_is_named(tmp_path: Path):
    with pytest.raises(WeightsError, match=r"holds no model\.safetensors"):
        weights.load(tmp_path)


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


def test_numbers_that_are_no_floats_are_refused(tmp_path: Path):
    path = weights.save(tmp_path, TINY, arrays_for())
    quantised = {key: array.astype(np.int8) for key, array in arrays_for().items()}
    path.write_bytes(serialise(quantised))
    with pytest.raises(WeightsError, match=r"holds int8; save the weights as float32"):
        weights.load(tmp_path)
    header = b'{"head.bias": {"dtype": "BF16", "shape": [2], "data_offsets": [0, 4]}}'
    path.write_bytes(len(header).to_bytes(8, "little") + header + bytes(4))
    with pytest.raises(WeightsError, match=r"bfloat16.*save the weights as float32"):
        weights.load(tmp_path)


@pytest.mark.parametrize("change", [{"format_version": "2"}, {"format_version": None}, {"kind": ["detector"]}])
def test_values_of_another_type_are_configuration_errors(change: dict[str, object], tmp_path: Path):
    weights.save(tmp_path, TINY, arrays_for())
    (tmp_path / weights.CONFIG_FILE).write_text(json.dumps({**TINY.to_dict(), **change}))
    with pytest.raises(ConfigError, match=next(iter(change))):
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


def test_pth_given_as_weights_points_to_convert(tmp_path: Path):
    with pytest.raises(WeightsError, match="convert"):
        weights.load(tmp_path / "model.pth")
