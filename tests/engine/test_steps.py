"""Networks that a list of steps describes, on the engine: against PyTorch, themselves, and bad input."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import numpy as np
import pytest

from engine.comparison import picture
from engine.stepwise import TOLERANCE, Steps, assert_like_pytorch, in_pytorch, lite, random_weights
from shadowmaskformer import engine
from shadowmaskformer.errors import ArrayError, WeightsError
from shadowmaskformer.network.steps import SOURCE, Step

pytestmark = pytest.mark.skipif(engine.why_unavailable() is not None, reason=str(engine.why_unavailable()))


def on_engine(steps: list[Step], channels: int = 6) -> engine.StepNetwork:
    return engine.StepNetwork(steps, channels, random_weights(steps, channels))


# --- single steps -----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("clipped", [False, True], ids=["linear", "clipped"])
@pytest.mark.parametrize("depthwise", [False, True], ids=["dense", "depthwise"])
@pytest.mark.parametrize("stride", [1, 2])
@pytest.mark.parametrize("side", [3, 5, 7])
def test_a_convolution_matches_pytorch(side: int, stride: int, depthwise: bool, clipped: bool) -> None:
    steps = Steps()
    steps.conv(SOURCE, 24, side, stride, depthwise=depthwise, clipped=clipped)
    # Wider than two runs of 64 tokens, and a map lower than the kernel.
    for size in ((10, 134), (2, 6)):
        assert_like_pytorch(steps, picture(*size, channels=24), TOLERANCE["one step"])


@pytest.mark.parametrize("clipped", [False, True], ids=["linear", "clipped"])
@pytest.mark.parametrize("channels", [1, 8, 16, 40, 56, 672])
def test_a_pointwise_convolution_matches_pytorch(channels: int, clipped: bool) -> None:
    steps = Steps()
    steps.conv(SOURCE, channels, clipped=clipped)
    for size in ((10, 134), (1, 1)):
        assert_like_pytorch(steps, picture(*size, channels=37), TOLERANCE["one step"])


@pytest.mark.parametrize("channels", [1, 6, 8, 11, 40, 72])
def test_maps_of_any_number_of_channels_match_pytorch(channels: int) -> None:
    # Inside, maps are padded to multiples of 8: every operation follows one that made such a map.
    steps = Steps()
    first = steps.conv(SOURCE, channels, 3)
    mixed = steps.conv(first, channels, 5, depthwise=True, clipped=True)
    total = steps.add(steps.enlarge(steps.conv(mixed, channels, 3, 2)), mixed)
    steps.add(total, steps.mean(first))
    assert_like_pytorch(steps, picture(6, 10, channels=5), TOLERANCE["network"])


def test_a_sum_of_maps_matches_pytorch() -> None:
    steps = Steps()
    first = steps.conv(SOURCE, 16, clipped=True)
    second = steps.conv(SOURCE, 16, clipped=True)
    steps.add(first, second)
    assert_like_pytorch(steps, picture(5, 9), TOLERANCE["one step"])


@pytest.mark.parametrize("size", [(1, 1), (1, 5), (4, 1), (7, 9)])
def test_enlarging_matches_pytorch(size: tuple[int, int]) -> None:
    steps = Steps()
    steps.enlarge(steps.enlarge(steps.conv(SOURCE, 24)))
    assert_like_pytorch(steps, picture(*size), TOLERANCE["one step"])


def test_a_mean_matches_pytorch() -> None:
    steps = Steps()
    steps.mean(steps.conv(SOURCE, 24))
    assert_like_pytorch(steps, picture(61, 83), TOLERANCE["one step"])


# --- steps that run as one --------------------------------------------------------------------------------------------


def with_two_readers() -> Steps:
    """No map between these steps may stay inside an operation: the sums read them too."""
    steps = Steps()
    narrow = steps.conv(SOURCE, 16)
    wide = steps.conv(narrow, 16, clipped=True)
    mixed = steps.conv(wide, 16, 3, depthwise=True)
    last = steps.conv(mixed, 16)
    total = steps.add(steps.add(last, mixed), steps.add(wide, last))
    steps.add(total, total)
    return steps


def with_sums_of_convolutions() -> Steps:
    """Both maps of a sum are convolutions; one of them is clipped; one adds a single token."""
    steps = Steps()
    first = steps.conv(SOURCE, 24, 3)
    second = steps.conv(first, 24)
    total = steps.add(second, steps.conv(first, 24, 3, clipped=True))
    total = steps.add(steps.conv(total, 24), steps.conv(total, 24, 5))
    steps.add(steps.conv(total, 24), steps.conv(steps.mean(total), 24))
    return steps


def with_depthwise_sums() -> Steps:
    """A depthwise convolution before a sum, and one that follows a depthwise one."""
    steps = Steps()
    first = steps.conv(SOURCE, 16, clipped=True)
    mixed = steps.conv(steps.conv(first, 16, 3, depthwise=True), 16, 5, depthwise=True)
    steps.add(mixed, first)
    return steps


@pytest.mark.parametrize("make", [with_two_readers, with_sums_of_convolutions, with_depthwise_sums])
def test_what_runs_as_one_matches_pytorch(make: Callable[[], Steps]) -> None:
    assert_like_pytorch(make(), picture(10, 14), TOLERANCE["network"])


@pytest.mark.parametrize("stride", [1, 2])
@pytest.mark.parametrize("side", [3, 5, 7])
def test_a_bottleneck_too_large_for_the_cache_matches_pytorch(side: int, stride: int) -> None:
    # The map inside has more than a MiB, so it is made row by row; its last band is not full.
    steps = Steps()
    steps.bottleneck(steps.conv(SOURCE, 16, clipped=True), 16, side, stride)
    assert_like_pytorch(steps, picture(42, 90), TOLERANCE["network"])


# --- a whole network --------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("size", [(16, 16), (32, 48), (48, 16), (112, 144)])
def test_a_whole_network_matches_pytorch(size: tuple[int, int]) -> None:
    assert_like_pytorch(lite(), picture(*size, channels=6), TOLERANCE["network"])


def test_any_number_of_threads_gives_the_same_bits() -> None:
    network, projected = on_engine(lite()), picture(112, 144, channels=6)
    alone = network.forward(projected, threads=1)
    for threads in (2, 3, 5):
        np.testing.assert_array_equal(network.forward(projected, threads=threads), alone)


def test_a_batch_gives_what_its_pictures_give() -> None:
    network, projected = on_engine(lite()), picture(32, 48, batch=3, channels=6)
    together = network.forward(projected)
    assert together.shape == (3, 8, 12, 1)
    for index in range(3):
        np.testing.assert_array_equal(together[index], network.forward(projected[index]))


def test_several_callers_at_once_get_what_each_gets_alone() -> None:
    network = on_engine(lite())
    pictures = [picture(32, 48 + 16 * (index % 3), channels=6) for index in range(12)]
    alone = [network.forward(each) for each in pictures]
    with ThreadPoolExecutor(4) as pool:
        for found, reference in zip(pool.map(network.forward, pictures), alone, strict=True):
            np.testing.assert_array_equal(found, reference)


def test_maps_that_nobody_needs_any_more_make_room() -> None:
    short, long = Steps(), Steps()
    for steps, count in ((short, 3), (long, 30)):
        at = steps.conv(SOURCE, 16, clipped=True)
        for _ in range(count):
            at = steps.conv(at, 16, 3)
    assert on_engine(long).scratch_bytes(64, 64) == on_engine(short).scratch_bytes(64, 64)


RUN_ON_ISA = """
import sys, numpy as np
sys.path.insert(0, sys.argv[4])
from engine.stepwise import lite, random_weights
from shadowmaskformer import engine
assert engine.isa() == sys.argv[3], engine.isa()
steps = lite()
np.save(sys.argv[2], engine.StepNetwork(steps, 6, random_weights(steps, 6)).forward(np.load(sys.argv[1])))
"""


@pytest.mark.parametrize("isa", ["scalar", "baseline", "avx2", "avx512"])
def test_every_instruction_set_matches_pytorch(isa: str, tmp_path: Path) -> None:
    projected, steps = picture(112, 144, channels=6), lite()
    np.save(tmp_path / "projected.npy", projected)
    files = [str(tmp_path / "projected.npy"), str(tmp_path / "head.npy")]
    command = [sys.executable, "-c", RUN_ON_ISA, *files, isa, str(Path(__file__).parents[1])]
    environment = {**os.environ, "SHADOWMASKFORMER_ISA": isa}
    done = subprocess.run(command, env=environment, capture_output=True, text=True, check=False)
    if "which this processor lacks" in done.stderr:
        pytest.skip(f"this processor has no {isa}")
    assert done.returncode == 0, done.stderr
    reference = in_pytorch(steps, random_weights(steps, 6), projected)
    scale = max(1.0, float(np.abs(reference).max()))
    np.testing.assert_allclose(np.load(files[1]), reference, rtol=0, atol=TOLERANCE["network"] * scale)


# --- bad input --------------------------------------------------------------------------------------------------------

CONV = Step("conv", (SOURCE,), 8, "first")


@pytest.mark.parametrize(
    ("steps", "message"),
    [
        ([], "at least one step"),
        ([CONV, Step("pool", (0,), 8)], r"step 1 \(pool\) is unknown; there are conv, add, enlarge and mean"),
        ([CONV, Step("add", (0,), 8)], r"step 1 \(add\) has 1 inputs, expected 2"),
        ([CONV, Step("mean", (1,), 8)], r"step 1 \(mean\) takes step 1, which does not come before it"),
        ([CONV, Step("mean", (-2,), 8)], "takes step -2"),
        ([CONV._replace(channels=0)], r"\(conv 'first'\) has 0 channels"),
        ([CONV, Step("enlarge", (0,), 16)], "makes 16 channels of 8; only dense convolutions"),
        ([CONV, Step("conv", (0,), 16, "second", 3, depthwise=True)], "makes 16 channels of 8"),
        ([Step("mean", (SOURCE,), 6)], "takes the input, whose 6 channels are no multiple of 8"),
        ([CONV, Step("mean", (0,), 8, clipped=True)], "is clipped; only convolutions are"),
        ([CONV, Step("enlarge", (0,), 8), Step("add", (0, 1), 8)], "adds maps of two sizes"),
        ([CONV, Step("mean", (0,), 8), Step("add", (1, 0), 8)], "only the second may be 1x1"),
        ([CONV, Step("mean", (0,), 8), Step("enlarge", (1,), 8)], "enlarges a 1x1 map"),
        ([CONV, Step("mean", (0,), 8), Step("conv", (1,), 8, "second", 3, 2)], "halves a 1x1 map"),
        ([CONV._replace(side=4)], "has side 4, expected an odd one"),
        ([CONV._replace(stride=3)], "has stride 3, expected 1 or 2"),
        ([CONV._replace(stride=2)], "has side 1 and stride 2"),
        ([CONV, Step("conv", (0,), 8, "second", 9, depthwise=True)], "side 9; the native engine has 3, 5 and 7"),
    ],
)
def test_a_step_that_does_not_fit_is_named(steps: list[Step], message: str) -> None:
    weights = {"first.weight": np.zeros((8, 6, 1, 1), np.float32), "first.bias": np.zeros(8, np.float32)}
    with pytest.raises(WeightsError, match=message):
        engine.StepNetwork(steps, 6, weights)


def test_a_missing_weight_is_named() -> None:
    steps = lite()
    weights = random_weights(steps, 6)
    del weights["conv4.bias"]
    with pytest.raises(WeightsError, match=r"lack 'conv4\.bias'"):
        engine.StepNetwork(steps, 6, weights)


def test_a_weight_of_another_shape_is_named() -> None:
    steps = lite()
    with pytest.raises(WeightsError, match=r"'conv0\.weight' is \(32, 6, 3, 3\), expected \(32, 3, 3, 3\)"):
        engine.StepNetwork(steps, 3, random_weights(steps, 6))


@pytest.mark.parametrize("size", [(32, 40), (8, 16), (33, 48)])
def test_a_size_that_cannot_be_halved_often_enough_is_refused(size: tuple[int, int]) -> None:
    network = on_engine(lite())
    assert network.multiple == 16
    with pytest.raises(ArrayError, match=f"{size[0]}x{size[1]}; this network takes sides that are multiples of 16"):
        network.forward(picture(*size, channels=6))


@pytest.mark.parametrize("shape", [(16, 16), (16, 16, 3), (2, 2, 16, 16, 6), (0, 16, 6)])
def test_an_array_that_is_no_picture_is_refused(shape: tuple[int, ...]) -> None:
    with pytest.raises(ArrayError, match="projected"):
        on_engine(lite()).forward(np.zeros(shape, np.float32))
