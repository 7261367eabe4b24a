"""Exported files compute what the network computes, at any size, and run where there is no PyTorch."""

from __future__ import annotations

import dataclasses
import subprocess
import sys
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
import pytest

from shadowmaskformer.errors import ConfigError, WeightsError
from shadowmaskformer.network import weights
from shadowmaskformer.network.kinds import config_to_dict
from shadowmaskformer.removal.task import correct
from shadowmaskformer.runtimes import export as exporting
from shadowmaskformer.runtimes import load_session
from shadowmaskformer.runtimes.backends import BACKENDS, export_formats
from tiny import TINY, random_arrays

if TYPE_CHECKING:
    from shadowmaskformer.runtimes.backends import Outputs

pytest.importorskip("torch")
pytest.importorskip("onnx")

NEEDS = {"onnx": "onnxruntime", "openvino": "openvino"}
SUFFIXES = {name: form.suffix for name, form in export_formats().items()}
SIZES = [(1, 1), (1, 23), (33, 52), (12, 20)]


@pytest.fixture(scope="module")
def relit_weights(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """As `tiny_weights`, for the embedding that corrects the relit photo."""
    folder = tmp_path_factory.mktemp("relit")
    config = dataclasses.replace(TINY, embedding="mape-physical")
    weights.save(folder, config, random_arrays(config, seed=4))
    return folder


@pytest.fixture(scope="module", params=["onnx", "openvino"])
def exported(request: pytest.FixtureRequest, tiny_weights: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The tiny network as a file of each format that we run."""
    pytest.importorskip(NEEDS[request.param])
    path = tmp_path_factory.mktemp("exported") / f"model{SUFFIXES[request.param]}"
    return exporting.export(tiny_weights, request.param, path).path


def runtime_of(path: Path) -> str:
    return next(name for name, suffix in SUFFIXES.items() if suffix == path.suffix)


def shaded(height: int, width: int) -> tuple[np.ndarray, np.ndarray]:
    random = np.random.default_rng(height * 1000 + width)
    photo = random.uniform(0.2, 0.9, (height, width, 3)).astype(np.float32)
    mask = np.zeros((height, width), np.float32)
    mask[height // 3 :, width // 4 : 3 * width // 4 + 1] = 1
    return photo * (1 - 0.5 * mask[..., None]), mask


@pytest.mark.parametrize("size", SIZES)
def test_correction_equals_that_of_the_network(exported: Path, tiny_weights: Path, size: tuple[int, int]) -> None:
    photo, mask = shaded(*size)
    found = correct(load_session(runtime_of(exported), exported, threads=1), photo, mask)
    expected = correct(load_session("torch", tiny_weights, device="cpu"), photo, mask)
    scale = max(1, np.abs(expected.apply(photo)).max())  # random weights leave [0, 1]
    np.testing.assert_allclose(found.apply(photo) / scale, expected.apply(photo) / scale, rtol=0, atol=1e-5)


def test_relit_start_reaches_an_exported_network(relit_weights: Path, tmp_path: Path) -> None:
    pytest.importorskip("onnxruntime")
    path = exporting.export(relit_weights, "onnx", tmp_path / "model.onnx").path
    photo, mask = shaded(32, 48)
    found = correct(load_session("onnx", path, threads=1), photo, mask).apply(photo)
    expected = correct(load_session("torch", relit_weights, device="cpu"), photo, mask).apply(photo)
    np.testing.assert_allclose(found, expected, rtol=0, atol=1e-5 * max(1, np.abs(expected).max()))


def test_configuration_travels_in_the_file(exported: Path) -> None:
    assert load_session(runtime_of(exported), exported).config == TINY


def test_runtime_is_chosen_by_the_ending(exported: Path) -> None:
    assert load_session(None, exported).name == runtime_of(exported)


def test_runs_where_pytorch_cannot_be_imported(exported: Path) -> None:
    program = """
import sys
sys.modules["torch"] = None  # makes `import torch` fail
import numpy as np
from shadowmaskformer.runtimes import load_session
session = load_session(sys.argv[1], sys.argv[2], threads=1)
print(session.run({"photo": np.full((9, 14, 3), 0.5, np.float32), "mask": np.ones((9, 14, 1), np.float32)}).shape)
"""
    command = [sys.executable, "-c", program, runtime_of(exported), str(exported)]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.stdout.strip() == "(9, 14, 4)", done.stderr


@pytest.mark.slow
def test_torch_program_takes_sizes_with_and_without_padding(tmp_path: Path) -> None:
    # Attention without its convolution branch at every size: nothing but a slice lies between window and projection.
    config = dataclasses.replace(
        TINY, depths=(1, 1, 1, 1, 1), attention_shares=(1.0, 1.0, 1.0, 0.0, 0.0), attention_conv=False
    )
    random = np.random.default_rng(4)
    shapes = weights.parameter_shapes(config)
    weights.save(tmp_path, config, {k: random.normal(0, 0.08, s).astype(np.float32) for k, s in shapes.items()})
    assert exporting.export(tmp_path, "torch", tmp_path / "model.pt2").differences


@pytest.mark.slow
def test_torch_program_agrees_and_carries_the_configuration(tiny_weights: Path, tmp_path: Path) -> None:
    import json

    import torch

    made = exporting.export(tiny_weights, "torch", tmp_path / "model.pt2")
    assert len(made.differences) >= 5
    extra = {"shadowmaskformer.config": ""}
    program = torch.export.load(made.path, extra_files=extra).module()
    restored, head = program(torch.rand(1, 3, 6, 9), torch.rand(1, 1, 6, 9))
    assert restored.shape == (1, 3, 6, 9)
    assert head.shape == (1, 4, 6, 9)
    assert json.loads(extra["shadowmaskformer.config"]) == config_to_dict(TINY)


def replace_onnx(monkeypatch: pytest.MonkeyPatch, run: Outputs) -> None:
    """Let the file of the onnx backend answer with `run`."""
    row = BACKENDS["onnx"]
    assert row.export
    form = dataclasses.replace(row.export, write=lambda _, path: path.write_bytes(b"made"), open=lambda _: run)
    monkeypatch.setitem(BACKENDS, "onnx", dataclasses.replace(row, export=form))


def test_a_file_that_differs_is_not_left(tiny_weights: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    replace_onnx(monkeypatch, lambda arrays: {"restored": arrays["photo"] + 0.001})
    (tmp_path / "model.onnx").write_bytes(b"the one before")
    with pytest.raises(WeightsError, match="not kept"):
        exporting.export(tiny_weights, "onnx", tmp_path / "model.onnx")
    assert [file.name for file in tmp_path.iterdir()] == ["model.onnx"]
    assert (tmp_path / "model.onnx").read_bytes() == b"the one before"


def test_a_difference_that_is_not_a_number_is_a_difference(
    tiny_weights: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    replace_onnx(monkeypatch, lambda arrays: {"restored": arrays["photo"] * np.nan})
    with pytest.raises(WeightsError, match="not kept"):
        exporting.export(tiny_weights, "onnx", tmp_path / "model.onnx")


def test_an_ending_of_another_format_is_refused(tiny_weights: Path, tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match=r"\.onnx"):
        exporting.export(tiny_weights, "onnx", tmp_path / "model.xml")


@pytest.mark.parametrize("name", ["onnx", "openvino"])
def test_weights_that_are_no_export_are_refused_with_the_way_to_make_one(tiny_weights: Path, name: str) -> None:
    pytest.importorskip(NEEDS[name])
    with pytest.raises(WeightsError, match=f"to {name} first"):
        load_session(name, tiny_weights)


@pytest.mark.parametrize("name", ["onnx", "openvino"])
def test_a_damaged_file_is_refused(tmp_path: Path, name: str) -> None:
    pytest.importorskip(NEEDS[name])
    path = tmp_path / f"model{SUFFIXES[name]}"
    path.write_bytes(b"\x08\x07not a model")
    with pytest.raises(WeightsError, match="export it again"):
        load_session(name, path)


def test_a_foreign_onnx_file_is_refused(tmp_path: Path) -> None:
    onnx = pytest.importorskip("onnx")
    pytest.importorskip("onnxruntime")
    value = onnx.helper.make_tensor_value_info("x", onnx.TensorProto.FLOAT, [1])
    other = onnx.helper.make_tensor_value_info("y", onnx.TensorProto.FLOAT, [1])
    graph = onnx.helper.make_graph([onnx.helper.make_node("Relu", ["x"], ["y"])], "foreign", [value], [other])
    opset = onnx.helper.make_opsetid("", 17)
    onnx.save(onnx.helper.make_model(graph, opset_imports=[opset], ir_version=9), str(tmp_path / "foreign.onnx"))
    with pytest.raises(WeightsError, match="no network configuration"):
        load_session("onnx", tmp_path / "foreign.onnx")
