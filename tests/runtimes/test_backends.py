"""The table of backends: choosing, refusing, pickling, and adding a row."""

from __future__ import annotations

import pickle
import subprocess
import sys
from collections.abc import Mapping
from concurrent.futures import ProcessPoolExecutor
from multiprocessing import get_context
from pathlib import Path

import numpy as np
import pytest
from PIL import Image

from shadowmaskformer import engine
from shadowmaskformer.cli import main
from shadowmaskformer.errors import ConfigError, MissingExtraError, WeightsError
from shadowmaskformer.network.config import ModelConfig
from shadowmaskformer.removal.remover import ShadowRemover
from shadowmaskformer.runtimes import BACKENDS, Backend, choose, load_session
from shadowmaskformer.runtimes.native import NativeSession
from tiny import TINY, random_arrays

needs_engine = pytest.mark.skipif(engine.why_unavailable() is not None, reason=str(engine.why_unavailable()))


class Brighten:
    """A runtime of three lines: it doubles every pixel."""

    name, config = "brighten", ModelConfig()

    def run(self, inputs: Mapping[str, np.ndarray]) -> np.ndarray:
        head = np.zeros((*inputs["photo"].shape[:2], 4), np.float32)
        head[..., 0], head[..., 1:] = 1, -1  # restored = (1 + K)·photo − (K + B) / 2
        return head


def test_a_new_runtime_is_one_row(
    monkeypatch: pytest.MonkeyPatch, photo: np.ndarray, mask: np.ndarray, capsys: pytest.CaptureFixture[str]
):
    monkeypatch.setitem(BACKENDS, "brighten", Backend("brighten", load=lambda weights, **options: Brighten()))
    remover = ShadowRemover(runtime="brighten")
    assert remover.session is not None
    assert remover.session.name == "brighten"
    result = remover.remove(photo, mask, raw=True, exact_mask=True)
    assert np.array_equal(result, np.minimum(255, 2 * photo.astype(int)))
    assert main(["info"]) == 0
    assert "runtime   brighten  ready" in capsys.readouterr().out
    with pytest.raises(SystemExit):
        main(["remove", "--help"])
    assert "openvino,brighten" in capsys.readouterr().out


def test_the_table_imports_nothing_heavy():
    code = (
        "import sys; from shadowmaskformer.runtimes import BACKENDS; "
        "print(*sorted({'numpy', 'torch', 'PIL', 'onnxruntime', 'openvino'} & set(sys.modules)))"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == ""


def test_an_unknown_runtime_names_the_known_ones():
    with pytest.raises(ConfigError, match="no runtime 'abacus'; choose one of native, torch, onnx, openvino"):
        load_session("abacus")


@pytest.mark.parametrize("runtime", [None, "native", "torch"])
def test_an_unknown_device_names_the_known_ones(runtime: str | None):
    with pytest.raises(ConfigError, match="no device 'banana'; choose one of cpu, cuda, mps"):
        load_session(runtime, device="banana")


def test_the_command_names_unknown_devices_too(
    photo: np.ndarray, mask: np.ndarray, tmp_path: Path, capsys: pytest.CaptureFixture[str]
):
    for name, picture in (("photo", photo), ("mask", mask)):
        Image.fromarray(picture).save(tmp_path / f"{name}.png")
    arguments = ["remove", str(tmp_path / "photo.png"), "--mask", str(tmp_path / "mask.png"), "--device", "banana"]
    assert main(arguments) == 2
    printed = capsys.readouterr().err
    assert "there is no device 'banana'; choose one of cpu, cuda, mps" in printed
    assert "--device cpu" in printed


@pytest.mark.parametrize("command", ["remove", "mask", "serve"])
def test_help_names_every_device_and_the_default_of_pytorch(command: str, capsys: pytest.CaptureFixture[str]):
    with pytest.raises(SystemExit):
        main([command, "--help"])
    printed = " ".join(capsys.readouterr().out.split())
    assert f"cpu; on PyTorch also {', '.join(BACKENDS['torch'].devices[1:])} (default: cpu; on PyTorch a GPU" in printed


@needs_engine
def test_a_device_that_the_runtime_lacks_names_the_runtime_that_has_it(tiny_weights: Path):
    with pytest.raises(ConfigError, match=r"'native' runs on cpu, not on 'cuda:1'.*runtime=\"torch\"") as caught:
        load_session("native", tiny_weights, device="cuda:1")
    assert "--runtime torch" in caught.value.said("command")


def test_a_device_that_is_not_there_is_a_configuration_error(tiny_weights: Path):
    torch = pytest.importorskip("torch")
    if torch.cuda.is_available():
        pytest.skip("there is such a device here")
    with pytest.raises(ConfigError, match=r'cuda.*try device="cpu"'):
        load_session(None, tiny_weights, device="cuda")


@pytest.mark.parametrize("threads", [0, -1, 1.5, "2", 1_000_000])
def test_threads_must_be_a_sensible_whole_number(threads: int):
    with pytest.raises(ConfigError, match=r"threads is .*whole number"):
        load_session(threads=threads)
    with pytest.raises(ConfigError, match=r"threads is .*whole number"):
        ShadowRemover(method="relight", threads=threads)


def test_an_exported_file_on_a_runtime_for_weights_names_the_right_one(tmp_path: Path):
    (tmp_path / "model.onnx").write_bytes(b"made")
    with pytest.raises(WeightsError, match=r"model\.onnx is an exported file.*runtime=\"onnx\""):
        load_session("torch", tmp_path / "model.onnx")


def test_an_exported_file_that_no_runtime_runs_is_named(tmp_path: Path):
    (tmp_path / "model.pt2").write_bytes(b"made")
    with pytest.raises(WeightsError, match=r"model\.pt2 is an exported file.*; give the weights that it was exported"):
        load_session(None, tmp_path / "model.pt2")


def test_the_first_available_backend_is_chosen_and_its_absence_explained(monkeypatch: pytest.MonkeyPatch):
    rows = {
        "a": Backend("a", load=lambda *_, **__: Brighten(), problem=lambda: "it rains"),
        "files": Backend("files", load=lambda *_, **__: Brighten(), runs_exports=True),
        "b": Backend("b", load=lambda *_, **__: Brighten(), devices=("cpu", "gpu")),
    }
    monkeypatch.setattr("shadowmaskformer.runtimes.backends.BACKENDS", rows)
    assert choose().name == "b"
    assert choose("gpu:2").name == "b"
    del rows["b"]
    with pytest.raises(MissingExtraError, match="a: it rains"):
        choose()
    with pytest.raises(MissingExtraError, match="'a' is not available"):
        load_session("a")


# --- pickling ---------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", ["native", "torch"])
def test_a_session_survives_pickling(name: str, tiny_weights: Path, monkeypatch: pytest.MonkeyPatch, tmp_path: Path):
    if BACKENDS[name].why_not():
        pytest.skip(str(BACKENDS[name].why_not()))
    monkeypatch.chdir(tiny_weights.parent)
    session = load_session(name, tiny_weights.name, threads=1)  # by a path that means nothing elsewhere
    data = pickle.dumps(session)
    assert len(data) < 1000
    monkeypatch.chdir(tmp_path)
    again = pickle.loads(data)
    inputs = {"photo": np.full((9, 14, 3), 0.3, np.float32), "mask": np.ones((9, 14, 1), np.float32)}
    np.testing.assert_array_equal(again.run(inputs), session.run(inputs))
    assert (again.name, again.config) == (name, session.config)


@needs_engine
def test_a_remover_works_in_a_process_pool(tiny_weights: Path, photo: np.ndarray, mask: np.ndarray):
    remover = ShadowRemover(tiny_weights)
    with ProcessPoolExecutor(1, mp_context=get_context("spawn")) as pool:
        result = pool.submit(remover.remove, photo, mask).result(timeout=120)
    assert np.array_equal(result, remover.remove(photo, mask))


@needs_engine
def test_a_session_made_from_arrays_says_why_it_cannot_be_pickled():
    with pytest.raises(TypeError, match="load_session"):
        pickle.dumps(NativeSession(TINY, random_arrays(TINY)))
