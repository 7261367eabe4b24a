"""A second kind of network: the same blocks, a photo in, one channel out. All it takes is in this file."""

from __future__ import annotations

import dataclasses
import json
from dataclasses import dataclass
from pathlib import Path
from typing import ClassVar

import numpy as np
import pytest

from shadowmaskformer import engine
from shadowmaskformer.errors import ArrayError, ConfigError, WeightsError
from shadowmaskformer.network import weights
from shadowmaskformer.network.config import ModelConfig, UConfig
from shadowmaskformer.network.kinds import KINDS, Kind, config_from_dict, config_to_dict, embed
from shadowmaskformer.removal.remover import ShadowRemover
from shadowmaskformer.runtimes import load_session
from tiny import TINY, random_arrays


@dataclass(frozen=True, kw_only=True)
class ToyConfig(UConfig):
    kind: ClassVar[str] = "toy"


TOY = ToyConfig(depths=(1, 2, 4, 1, 1))


@pytest.fixture
def toy(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Path:
    """A folder of random weights for `TOY`, its row in the table."""
    torch_network = pytest.importorskip("shadowmaskformer.network.model").UNetwork
    row = Kind(
        config=ToyConfig,
        inputs=lambda config: {"photo": 3},
        project=lambda pictures, config: (pictures["photo"],),
        channels=lambda config: 3,
        head_channels=1,
        network=lambda: torch_network,
        variants={"toy": TOY},
    )
    monkeypatch.setitem(KINDS, "toy", row)
    weights.save(tmp_path / "toy", TOY, random_arrays(TOY))
    return tmp_path / "toy"


@pytest.fixture
def inputs(photo: np.ndarray) -> dict[str, np.ndarray]:
    return {"photo": (photo / 255).astype(np.float32)}


def test_it_saves_and_loads_with_its_kind(toy: Path):
    assert json.loads((toy / "config.json").read_text())["kind"] == "toy"
    config, arrays = weights.load(toy)
    assert config == TOY
    assert arrays["head.weight"].shape[0] == 1


def test_it_runs_on_pytorch(toy: Path, inputs: dict[str, np.ndarray]):
    head = load_session("torch", toy, device="cpu").run(inputs)
    assert head.shape == (32, 48, 1)
    assert np.isfinite(head).all()


@pytest.mark.skipif(engine.why_unavailable() is not None, reason=str(engine.why_unavailable()))
def test_it_runs_on_the_engine(toy: Path, inputs: dict[str, np.ndarray]):
    expected = load_session("torch", toy, device="cpu").run(inputs)
    found = load_session("native", toy).run(inputs)
    np.testing.assert_allclose(found, expected, rtol=0, atol=1e-5 * max(1, np.abs(expected).max()))


@pytest.mark.parametrize("name", ["onnx", "openvino"])
def test_it_exports(name: str, toy: Path, tmp_path: Path, inputs: dict[str, np.ndarray]):
    from shadowmaskformer.runtimes.backends import export_formats
    from shadowmaskformer.runtimes.export import export

    form = export_formats()[name]
    for module in form.needs:
        pytest.importorskip(module)
    made = export(toy, name, tmp_path / f"model{form.suffix}")
    session = load_session(None, made.path, threads=1)
    assert session.config == TOY
    expected = load_session("torch", toy, device="cpu").run(inputs)
    np.testing.assert_allclose(session.run(inputs), expected, rtol=0, atol=1e-4 * max(1, np.abs(expected).max()))


def test_it_does_not_remove_shadows(toy: Path):
    with pytest.raises(WeightsError, match="kind 'toy'"):
        ShadowRemover(toy, runtime="torch", device="cpu")


def test_it_is_not_loaded_as_another_kind(toy: Path):
    from shadowmaskformer.network.model import ShadowMaskFormer

    with pytest.raises(WeightsError, match="kind 'toy', not a ShadowMaskFormer"):
        ShadowMaskFormer.from_pretrained(toy)


def test_without_a_kind_it_is_a_shadowmaskformer():
    assert config_from_dict({"window": 8}) == ModelConfig(window=8)
    assert config_from_dict(config_to_dict(TINY)) == TINY


def test_an_unknown_kind_is_named():
    with pytest.raises(ConfigError, match="no kind of network 'gpt'; known: shadowmaskformer, detector; upgrade"):
        config_from_dict({"kind": "gpt"})


@pytest.mark.parametrize(
    ("names", "message"),
    [
        (("photo",), "takes photo, mask"),
        (("photo", "mask", "start"), "takes photo, mask"),
        (("photo", "plane"), "takes"),
    ],
)
def test_inputs_of_other_names_are_refused(names: tuple[str, ...], message: str):
    with pytest.raises(ArrayError, match=message):
        embed(TINY, {name: np.zeros((4, 6, 3), np.float32) for name in names})


def test_an_input_of_another_shape_is_refused():
    physical = dataclasses.replace(TINY, embedding="mape-physical")
    pictures = {"photo": np.zeros((4, 6, 3)), "mask": np.zeros((4, 6, 1)), "start": np.zeros((4, 5, 3))}
    with pytest.raises(ArrayError, match=r"start is \(4, 5, 3\); expected \(4, 6, 3\)"):
        embed(physical, {name: picture.astype(np.float32) for name, picture in pictures.items()})
