"""Batches for the loop: drawn ahead in threads, each a pure function of the run's seed and its position."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass
from types import TracebackType

import numpy as np
import torch
from torch import Tensor

from shadowmaskformer.data import Sample, Samples
from shadowmaskformer.light.relight import start_light

AHEAD = 3
"""Batches drawn in advance: enough to hide a slow one, few enough to follow a change of stage at once."""


@dataclass(frozen=True)
class Batch:
    """One step's share of this process.

    Attributes:
        photo: RGB, (B, 3, H, W), [0, 1].
        mask: 1 = shadow, (B, 1, H, W).
        truth: as `photo`.
        start: the relit photo, as `photo`, for embeddings that start from it; else None.
        view: height and width at which the network looks at them; None at their own.
        total: pictures in the step over all processes.
    """

    photo: Tensor
    mask: Tensor
    truth: Tensor
    start: Tensor | None
    view: tuple[int, int] | None
    total: int

    @property
    def seen_side(self) -> int:
        """Pixels along a side of what the network looks at."""
        return self.view[0] if self.view else self.photo.shape[-1]

    def to(self, device: torch.device) -> Batch:
        """The batch on `device`."""
        start = None if self.start is None else self.start.to(device, non_blocking=True)
        photo, mask, truth = (t.to(device, non_blocking=True) for t in (self.photo, self.mask, self.truth))
        return Batch(photo, mask, truth, start, self.view, self.total)


@dataclass(frozen=True)
class Request:
    """Which batch: the `total` pictures from `position` on, seen at `size` pixels."""

    position: int
    total: int
    size: int


def to_batch(samples: list[Sample], *, relit: bool, view: tuple[int, int] | None, total: int) -> Batch:
    """Stack samples; `relit` adds the floor's picture that `mape-physical` starts from."""
    photo = np.stack([sample.photo for sample in samples])
    start = None
    if relit:
        start = _chw(np.stack([start_light(sample.photo, sample.mask).apply(sample.photo) for sample in samples]))
    mask = np.stack([sample.mask for sample in samples])
    truth = np.stack([sample.truth for sample in samples])
    return Batch(_chw(photo), torch.from_numpy(mask[:, None]), _chw(truth), start, view, total)


def _chw(pictures: np.ndarray) -> Tensor:
    return torch.from_numpy(np.ascontiguousarray(pictures.transpose(0, 3, 1, 2)))


class BatchSource:
    """Hands out the batches that `plan` asks for, in order, while a thread prepares the next ones."""

    def __init__(
        self,
        samples: Samples,
        plan: Callable[[int, int], Request | None],
        *,
        step: int,
        position: int,
        relit: bool,
        detail: int = 1,
        rank: int = 0,
        world: int = 1,
    ) -> None:
        """Start at `step` and `position`.

        `plan(step, position)` says which batch belongs there, None that the run is over by then. Pictures are drawn
        `detail` times larger than they are seen.
        """
        self._samples, self._plan, self._relit, self._detail = samples, plan, relit, detail
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
        """The next batch; the run's plan must not be over."""
        while len(self._pending) < AHEAD and (request := self._plan(self._step, self._position)) is not None:
            self._pending.append(self._threads.submit(self._draw, request))
            self._step += 1
            self._position += request.total
        return self._pending.popleft().result()

    def _draw(self, request: Request) -> Batch:
        positions = range(request.position + self._rank, request.position + request.total, self._world)
        samples = [self._samples.draw(position, request.size * self._detail) for position in positions]
        view = (request.size, request.size) if self._detail > 1 else None
        return to_batch(samples, relit=self._relit, view=view, total=request.total)
