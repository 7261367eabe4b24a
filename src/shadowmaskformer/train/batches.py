"""Batches for the loop: drawn ahead in a thread, each a pure function of the run's seed and its position."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass
from types import TracebackType
from typing import Protocol

import numpy as np
import torch
from torch import Tensor

from shadowmaskformer.data import Sample, Samples

AHEAD = 3
"""Batches drawn in advance: enough to hide a slow one, few enough to follow a change of stage at once."""


@dataclass(frozen=True)
class Batch:
    """One step's share of this process.

    Attributes:
        inputs: arguments of the network by name, (B, channels, H, W), [0, 1].
        targets: what the task's loss compares its output with, by name.
        view: height and width at which the network looks at them; None at their own.
        total: pictures in the step over all processes.
    """

    inputs: dict[str, Tensor]
    targets: dict[str, Tensor]
    view: tuple[int, int] | None
    total: int

    @property
    def seen_side(self) -> int:
        """Pixels along a side of what the network looks at."""
        return self.view[0] if self.view else next(iter(self.inputs.values())).shape[-1]

    def to(self, device: torch.device) -> Batch:
        """Return the batch on `device`."""
        inputs, targets = (
            {name: tensor.to(device, non_blocking=True) for name, tensor in tensors.items()}
            for tensors in (self.inputs, self.targets)
        )
        return Batch(inputs, targets, self.view, self.total)


@dataclass(frozen=True)
class Request:
    """Which batch: the `total` pictures from `position` on, seen at `size` pixels."""

    position: int
    total: int
    size: int


def channels_first(pictures: np.ndarray) -> Tensor:
    """Return pictures (B, H, W, C) as a float32 tensor (B, C, H, W)."""
    return torch.from_numpy(np.ascontiguousarray(pictures.transpose(0, 3, 1, 2), np.float32))


def plane(pictures: np.ndarray) -> Tensor:
    """Return planes (B, H, W) as a float32 tensor (B, 1, H, W)."""
    return channels_first(pictures[..., None])


def spread(length: int, wanted: int) -> list[int]:
    """Return at most `wanted` of `length` indices, evenly: pictures of one scene are neighbours.

    >>> spread(10, 4)
    [0, 3, 6, 9]
    """
    return [int(index) for index in np.linspace(0, length - 1, min(wanted, length)).round()]


class ToBatch(Protocol):
    """Stacks samples into a batch; `tasks.Task.batch`."""

    def __call__(self, samples: Sequence[Sample], *, view: tuple[int, int] | None, total: int) -> Batch:
        """Stack `samples`."""
        ...


class BatchSource:
    """Hands out the batches that `plan` asks for, in order, while a thread prepares the next ones."""

    def __init__(
        self,
        samples: Samples,
        plan: Callable[[int, int], Request | None],
        to_batch: ToBatch,
        *,
        step: int,
        position: int,
        detail: int = 1,
        rank: int = 0,
        world: int = 1,
    ) -> None:
        """Start at `step` and `position`.

        `plan(step, position)` says which batch belongs there, None that the run is over by then. Pictures are drawn
        `detail` times larger than they are seen.
        """
        self._samples, self._plan, self._to_batch, self._detail = samples, plan, to_batch, detail
        self._rank, self._world = rank, world
        self._step, self._position = step, position
        self._pending: deque[Future[Batch]] = deque()
        self._threads = ThreadPoolExecutor(1, thread_name_prefix="batches")

    def __enter__(self) -> BatchSource:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._threads.shutdown(wait=True, cancel_futures=True)

    def next(self) -> Batch:
        """Return the next batch; the run's plan must not be over."""
        while len(self._pending) < AHEAD and (request := self._plan(self._step, self._position)) is not None:
            self._pending.append(self._threads.submit(self._draw, request))
            self._step += 1
            self._position += request.total
        return self._pending.popleft().result()

    def _draw(self, request: Request) -> Batch:
        positions = range(request.position + self._rank, request.position + request.total, self._world)
        samples = [self._samples.draw(position, request.size * self._detail) for position in positions]
        view = (request.size, request.size) if self._detail > 1 else None
        return self._to_batch(samples, view=view, total=request.total)
