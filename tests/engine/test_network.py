"""The whole network on the engine: against PyTorch, the authors' release, itself, and bad input."""

from __future__ import annotations

import dataclasses
import multiprocessing
import os
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import numpy as np
import pytest

from engine.comparison import TOLERANCE, assert_like_pytorch, expected, on_engine, picture, randomised
from shadowmaskformer import engine
from shadowmaskformer.errors import ArrayError, ConfigError, WeightsError
from shadowmaskformer.network.config import VARIANTS, ModelConfig
from shadowmaskformer.network.embedding import mape
from shadowmaskformer.network.release import read_release

pytestmark = pytest.mark.skipif(engine.why_unavailable() is not None, reason=str(engine.why_unavailable()))

SHALLOW = ModelConfig(depths=(2, 2, 2, 1, 1), attention_shares=(0.5, 0.5, 0.5, 0.0, 0.0))


@pytest.mark.parametrize("conv", [False, True], ids=["plain", "convolving"])
@pytest.mark.parametrize("name", VARIANTS)
def test_every_variant_matches_pytorch(name: str, conv: bool) -> None:
    assert_like_pytorch(randomised(dataclasses.replace(VARIANTS[name], attention_conv=conv)), picture(37, 46))


def test_an_embedding_may_have_more_channels() -> None:
    model = randomised(dataclasses.replace(SHALLOW, embedding="mape-physical"))
    assert_like_pytorch(model, picture(37, 46, channels=10))
    with pytest.raises(ArrayError, match=r"\(H, W, 10\)"):
        on_engine(model).forward(picture(8, 8))


@pytest.mark.parametrize("heads", [1, 4, 7])
def test_the_head_has_as_many_channels_as_its_weight_has_rows(heads: int) -> None:
    model = randomised(SHALLOW, heads=heads)
    assert_like_pytorch(model, picture(37, 46))
    assert on_engine(model).forward(picture(5, 6, batch=2)).shape == (2, 5, 6, heads)


def test_release_checkpoint_gives_the_release_outputs(shared: Path) -> None:
    config, arrays = read_release(shared / "parity" / "small.pth")
    network = engine.Network(config.to_dict(), arrays)
    cases = np.load(shared / "parity" / "cases.npz")
    names = sorted({name.split("/")[0] for name in cases})
    assert names
    for name in names:
        x = cases[f"{name}/photo"].astype(np.float32) / 255 * 2 - 1
        mp = cases[f"{name}/mask"].astype(np.float32)[..., None] / 255 * 2 - 1
        head = network.forward(mape(x, mp, x, config))
        found = head[..., :1] * x - head[..., 1:] + x
        np.testing.assert_allclose(found, cases[f"{name}/output"], rtol=0, atol=TOLERANCE, err_msg=name)


def test_any_number_of_threads_gives_the_same_bits() -> None:
    network, projected = on_engine(randomised(SHALLOW)), picture(61, 83)
    alone = network.forward(projected, threads=1)
    for threads in (2, 3, 5):
        np.testing.assert_array_equal(network.forward(projected, threads=threads), alone)


def test_a_batch_gives_what_its_pictures_give() -> None:
    network, projected = on_engine(randomised(SHALLOW)), picture(9, 14, batch=3)
    together = network.forward(projected)
    for index in range(3):
        np.testing.assert_array_equal(together[index], network.forward(projected[index]))


def test_strided_and_double_precision_input_is_taken() -> None:
    model = randomised(SHALLOW)
    wide = picture(20, 36)[::2, ::-1].astype(np.float64)
    found = on_engine(model).forward(wide)
    np.testing.assert_allclose(found, expected(model, wide.astype(np.float32)), rtol=0, atol=TOLERANCE)


def test_calls_from_several_threads_do_not_disturb_each_other() -> None:
    network = on_engine(randomised(SHALLOW))
    pictures = [picture(8 + 4 * i, 30 - 2 * i) for i in range(8)]
    alone = [network.forward(projected, threads=1) for projected in pictures]
    with ThreadPoolExecutor(4) as pool:
        for _ in range(5):
            for found, reference in zip(pool.map(network.forward, pictures), alone, strict=True):
                np.testing.assert_array_equal(found, reference)


def _forward_in_child(network: engine.Network, projected: np.ndarray, queue: multiprocessing.Queue) -> None:  # type: ignore[type-arg]
    queue.put(network.forward(projected, threads=2))


@pytest.mark.skipif(not hasattr(os, "fork"), reason="no fork on this system")
@pytest.mark.filterwarnings("ignore:.*multi-threaded, use of fork:DeprecationWarning")
def test_a_forked_child_has_workers_of_its_own() -> None:
    network, projected = on_engine(randomised(SHALLOW)), picture(12, 20)
    reference = network.forward(projected, threads=2)  # the parent's pool runs
    context = multiprocessing.get_context("fork")
    queue = context.Queue()
    child = context.Process(target=_forward_in_child, args=(network, projected, queue))
    child.start()
    np.testing.assert_array_equal(queue.get(timeout=60), reference)
    child.join(timeout=60)


@pytest.mark.skipif(not Path("/proc/self/statm").exists(), reason="needs /proc to see memory")
def test_memory_does_not_grow_over_a_thousand_calls() -> None:
    network = on_engine(randomised(SHALLOW))
    sizes = [picture(16, 12), picture(24, 40), picture(7, 9)]

    def resident_bytes() -> int:
        return int(Path("/proc/self/statm").read_text().split()[1]) * os.sysconf("SC_PAGE_SIZE")

    for projected in sizes * 20:
        network.forward(projected)
    before = resident_bytes()
    for index in range(1000):
        network.forward(sizes[index % 3])
    assert resident_bytes() - before < 2_000_000


RUN_ON_ISA = """
import sys, numpy as np
from shadowmaskformer import engine
from shadowmaskformer.network.config import ModelConfig
given = np.load(sys.argv[1])
arrays = {name: given[name] for name in given if name != "projected"}
config = ModelConfig(depths=(2, 2, 2, 1, 1), attention_shares=(0.5, 0.5, 0.5, 0.0, 0.0))
assert engine.isa() == sys.argv[3], engine.isa()
np.save(sys.argv[2], engine.Network(config.to_dict(), arrays).forward(given["projected"]))
"""


@pytest.mark.parametrize("isa", ["scalar", "baseline", "avx2", "avx512"])
def test_every_instruction_set_matches_the_one_in_use(isa: str, tmp_path: Path) -> None:
    model = randomised(dataclasses.replace(SHALLOW, embedding="mape-physical"))
    projected = picture(23, 38, channels=10)
    arrays = {name: tensor.numpy() for name, tensor in model.state_dict().items()}
    np.savez(tmp_path / "given.npz", projected=projected, **arrays)
    command = [sys.executable, "-c", RUN_ON_ISA, str(tmp_path / "given.npz"), str(tmp_path / "head.npy"), isa]
    environment = {**os.environ, "SHADOWMASKFORMER_ISA": isa}
    done = subprocess.run(command, env=environment, capture_output=True, text=True, check=False)
    if "which this processor lacks" in done.stderr:
        pytest.skip(f"this processor has no {isa}")
    assert done.returncode == 0, done.stderr
    found = np.load(tmp_path / "head.npy")
    np.testing.assert_allclose(found, on_engine(model).forward(projected), rtol=0, atol=TOLERANCE)


def test_an_unknown_instruction_set_is_named() -> None:
    command = [sys.executable, "-c", "from shadowmaskformer import engine; engine.isa()"]
    environment = {**os.environ, "SHADOWMASKFORMER_ISA": "mmx"}
    done = subprocess.run(command, env=environment, capture_output=True, text=True, check=False)
    assert "ConfigError: SHADOWMASKFORMER_ISA is 'mmx'" in done.stderr


def test_a_missing_weight_is_named() -> None:
    model = randomised(SHALLOW)
    arrays = {name: tensor.numpy() for name, tensor in model.state_dict().items()}
    del arrays["stages.0.1.qkv.bias"]
    with pytest.raises(WeightsError, match=r"lack 'stages\.0\.1\.qkv\.bias'"):
        engine.Network(model.config.to_dict(), arrays)


def test_a_weight_of_another_shape_is_named() -> None:
    model = randomised(SHALLOW)
    arrays = {name: tensor.numpy() for name, tensor in model.state_dict().items()}
    arrays["skip.0.weight"] = arrays["skip.0.weight"][:3]
    with pytest.raises(WeightsError, match=r"'skip\.0\.weight' is \(3, 48\), expected \(48, 48\)"):
        engine.Network(model.config.to_dict(), arrays)


def test_a_head_whose_bias_does_not_fit_its_weight_is_named() -> None:
    model = randomised(SHALLOW)
    arrays = {name: tensor.numpy() for name, tensor in model.state_dict().items()}
    arrays["head.weight"] = arrays["head.weight"][:3]
    with pytest.raises(WeightsError, match=r"'head\.bias' is \(4\), expected \(3\)"):
        engine.Network(model.config.to_dict(), arrays)


def test_a_width_it_cannot_run_names_the_other_runtimes() -> None:
    config = dataclasses.replace(SHALLOW, widths=(12, 24, 48, 24, 12), heads=(1,) * 5)
    with pytest.raises(WeightsError, match="multiples of 8, got 12; use the torch or onnx runtime"):
        on_engine(randomised(config))


@pytest.mark.parametrize("shape", [(4, 4), (4, 4, 4), (2, 2, 4, 4, 3), (0, 4, 3)])
def test_an_array_that_is_no_picture_is_refused(shape: tuple[int, ...]) -> None:
    with pytest.raises(ArrayError, match="projected"):
        on_engine(randomised(SHALLOW)).forward(np.zeros(shape, np.float32))


def test_threads_must_be_positive() -> None:
    with pytest.raises(ConfigError, match="at least 1"):
        engine.set_num_threads(0)
