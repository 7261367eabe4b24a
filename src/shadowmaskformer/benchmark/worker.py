"""Run one contender on one task in its own process, so that its peak memory can be measured.

`race.py` starts it as `python -m shadowmaskformer.benchmark.worker JOB`. It prepares, then reads one word per line
from standard input (`answer` or `run`) and answers each with one line of JSON.
"""

from __future__ import annotations

import dataclasses
import json
import os
import sys
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from shadowmaskformer.errors import ShadowMaskFormerError

if TYPE_CHECKING:
    from torch import nn

Arrays = dict[str, np.ndarray]

MATRIX_SIDE = 1536
"""Side of the measured matrix product: enough to run at the cores' full speed, and still short."""


@dataclass(frozen=True, kw_only=True)
class Job:
    """What a worker is to run.

    Attributes:
        contender: a name of `CONTENDERS`, or `matmul`.
        training: time training steps instead of inference.
        size: (height, width) of the picture.
        weights: folder or file with the network.
        answer: where the result goes, as `.npz`, for the comparison with the yardstick.
    """

    contender: str
    training: bool
    size: tuple[int, int]
    weights: str
    answer: str

    def to_json(self) -> str:
        """Return the job as one command-line argument."""
        return json.dumps(dataclasses.asdict(self))

    @classmethod
    def from_json(cls, text: str) -> Job:
        """Return the job that `to_json` wrote."""
        values: dict[str, Any] = json.loads(text)
        values["size"] = tuple(values["size"])
        return cls(**values)


@dataclass(frozen=True)
class Contestant:
    """A prepared contender: `answer` once, for parity and as warm-up; `run` is what is timed."""

    run: Callable[[], object]
    answer: Callable[[], Arrays]


def picture(size: tuple[int, int]) -> tuple[np.ndarray, np.ndarray]:
    """Return a synthetic photo, (H, W, 3), and its mask, (H, W), float32 in [0, 1]; always the same for a size."""
    height, width = size
    random = np.random.default_rng(7)
    rows, columns = np.mgrid[0:height, 0:width].astype(np.float32)
    texture = random.uniform(0.0, 0.2, (height, width, 3)).astype(np.float32)
    shading = 0.5 + 0.3 * np.sin(rows / 17 + columns / 29)[..., None]
    mask = ((rows - height / 2) ** 2 / max(height, 1) + (columns - width / 2) ** 2 / width < width / 8).astype(
        np.float32
    )
    photo = (shading + texture) * (1 - 0.6 * mask[..., None])
    return np.clip(photo, 0, 1).astype(np.float32), mask


def prepare(job: Job) -> Contestant:
    """Load what the job needs; the time this takes is the contender's set-up time."""
    if job.contender == "matmul":
        return _matrix_product()
    if job.training:
        return _training(job)
    if job.contender.startswith("yardstick"):
        return _yardstick(job)
    return _runtime(job)


def _matrix_product() -> Contestant:
    import torch

    left, right = torch.rand(2, MATRIX_SIDE, MATRIX_SIDE)
    return Contestant(run=lambda: left @ right, answer=lambda: {"product": (left @ right).numpy()})


def _yardstick(job: Job) -> Contestant:
    import torch

    if job.contender == "yardstick-tuned":
        _tune_allocator()
    network = _network("yardstick", job.weights).eval()
    photo, mask = (torch.from_numpy(array) for array in picture(job.size))
    start = _start(job.size, network.config)

    def run() -> np.ndarray:
        with torch.no_grad():
            restored = network(photo.permute(2, 0, 1)[None], mask[None, None], start)
        return restored[0].permute(1, 2, 0).numpy()

    return Contestant(run, lambda: {"restored": run()})


def _runtime(job: Job) -> Contestant:
    from shadowmaskformer.removal.task import correct
    from shadowmaskformer.runtimes import load_session

    if job.contender.startswith("torch"):
        _tune_allocator()  # as `remove --runtime torch` does
    session: Any = load_session(job.contender.removesuffix("-compile"), job.weights)
    if job.contender == "torch-compile":
        import torch

        session.model.predict = torch.compile(session.model.predict)
    photo, mask = picture(job.size)
    return Contestant(
        run=lambda: correct(session, photo, mask),
        answer=lambda: {"restored": correct(session, photo, mask).apply(photo)},
    )


def _training(job: Job) -> Contestant:
    """A step of the paper's recipe: forward, L1, backward, AdamW; batch 1."""
    if job.contender == "native":
        from shadowmaskformer.machine import calm_openmp

        calm_openmp()  # as the `train` command does, before PyTorch is imported
    import torch

    from shadowmaskformer.benchmark.yardstick import flat_by_name

    if job.contender != "yardstick":
        _tune_allocator()
    network = _network(job.contender, job.weights).train()
    # Plain for the yardstick and PyTorch; the trainer's own is fused.
    optimizer = torch.optim.AdamW(network.parameters(), lr=2e-4, weight_decay=0.02, fused=job.contender == "native")
    photo_array, mask_array = picture(job.size)
    photo = torch.from_numpy(photo_array).permute(2, 0, 1)[None].contiguous()
    mask = torch.from_numpy(mask_array)[None, None]
    start = _start(job.size, network.config)
    truth = photo.flip(-1)

    def gradients() -> None:
        optimizer.zero_grad(set_to_none=True)
        torch.nn.functional.l1_loss(2 * network(photo, mask, start) - 1, 2 * truth - 1).backward()

    def run() -> None:
        gradients()
        optimizer.step()

    def answer() -> Arrays:
        gradients()
        found = {name: p.grad for name, p in network.named_parameters() if p.grad is not None}
        return {name: gradient.numpy().copy() for name, gradient in flat_by_name(found).items()}

    return Contestant(run, answer)


def _network(contender: str, weights: str) -> nn.Module:
    from shadowmaskformer.benchmark.yardstick import Yardstick
    from shadowmaskformer.network.model import ShadowMaskFormer
    from shadowmaskformer.removal.task import check_network
    from shadowmaskformer.runtimes import backend

    network = ShadowMaskFormer.from_pretrained(weights)
    if contender.startswith("yardstick"):
        return Yardstick.with_weights(check_network(network.config), network.state_dict())
    if contender == "native":
        if reason := backend("native").why_not():
            raise ShadowMaskFormerError(reason)
        return network.use_native()
    if contender != "torch":
        raise ShadowMaskFormerError(f"{contender} does not train; expected yardstick, torch or native")
    return network


def _start(size: tuple[int, int], config: Any) -> Any:
    """Return the picture that the network corrects, (1, 3, H, W), or None where that is the photo."""
    import torch

    from shadowmaskformer.removal.task import prepare

    start = prepare(config, *picture(size)).inputs.get("start")
    return None if start is None else torch.from_numpy(start).permute(2, 0, 1)[None].contiguous()


def _tune_allocator() -> None:
    from shadowmaskformer.machine import tune_allocator

    tune_allocator()


def peak_bytes() -> int:
    """Return the largest resident memory that this process has had."""
    try:
        # Not getrusage: on Linux it also remembers the parent's memory from before this program started.
        status = Path("/proc/self/status").read_text()
        return 1024 * int(status.split("VmHWM:")[1].split()[0])
    except (OSError, IndexError):
        import resource  # Windows has none

        peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
        return peak if sys.platform == "darwin" else 1024 * peak


def _timed(call: Callable[[], Any]) -> tuple[Any, dict[str, float]]:
    """Call it; return its value, and time on the clock, CPU time of all threads and peak memory so far."""
    wall, cpu = time.perf_counter(), time.process_time()
    value = call()
    spent = {"cpu_s": time.process_time() - cpu, "wall_s": time.perf_counter() - wall}
    return value, {**spent, "peak_bytes": peak_bytes()}


def serve(job: Job) -> None:
    """Prepare the job, then answer one line of JSON for each word read."""
    # Replies keep the real standard output; whatever a library prints goes to standard error.
    with os.fdopen(os.dup(1), "w", buffering=1) as replies:
        os.dup2(2, 1)
        contestant, spent = _timed(lambda: prepare(job))
        print(json.dumps(spent), file=replies)
        for word in sys.stdin:
            if word.strip() == "answer":
                arrays, spent = _timed(contestant.answer)
                with Path(job.answer).open("wb") as file:
                    np.savez(file, **arrays)
            else:
                spent = _timed(contestant.run)[1]
            print(json.dumps(spent), file=replies)


if __name__ == "__main__":
    try:
        serve(Job.from_json(sys.argv[1]))
    except ShadowMaskFormerError as error:
        sys.exit(str(error))
