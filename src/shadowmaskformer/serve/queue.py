"""Jobs: a bounded queue in front of the workers, with progress, cancelling and a share for each client."""

from __future__ import annotations

import asyncio
import logging
import math
import secrets
import time
from collections import deque
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from dataclasses import dataclass, field
from typing import Any, Literal

from shadowmaskformer.batch import Worker
from shadowmaskformer.errors import ImageTooLargeError, RequestError, ShadowMaskFormerError, WorkerDiedError
from shadowmaskformer.serve.limits import Limits
from shadowmaskformer.serve.metrics import Metrics
from shadowmaskformer.serve.tasks import Answer, warm_up

log = logging.getLogger(__name__)

State = Literal["waiting", "running", "done", "failed", "cancelled"]
FINAL: tuple[State, ...] = ("done", "failed", "cancelled")

_GUESS_S = 2.0  # what a job is taken to last before any has run


@dataclass(eq=False)
class Job:
    """One piece of work and what became of it.

    Attributes:
        task: its name, for figures.
        client: who asked for it.
        function: what a worker runs, `function(remover, *arguments)`.
        arguments: of the function.
        size: bytes that came in: what it holds in memory, and a measure of the time that it takes.
        kept: the result waits to be fetched; otherwise the request that asked for it is still open.
    """

    task: str
    client: str
    function: Callable[..., Answer]
    arguments: tuple[Any, ...]
    size: int
    kept: bool = False
    id: str = field(default_factory=lambda: secrets.token_hex(16))
    state: State = "waiting"
    progress: float = 0.0
    answer: Answer | None = None
    error: ShadowMaskFormerError | None = None
    expected_s: float = _GUESS_S
    began: float | None = None
    asked: float = field(default_factory=time.monotonic)
    finished: asyncio.Event = field(default_factory=asyncio.Event)

    def heard(self, share: float) -> None:
        """Take note of the share of the work that is done, 0 to 1, as its worker reports it."""
        self.progress = share

    def end(self, state: State, answer: Answer | None = None, error: ShadowMaskFormerError | None = None) -> None:
        """Reach a final state; the first one stays."""
        if self.state not in FINAL:
            self.state, self.answer, self.error = state, answer, error
            self.progress = 1.0 if state == "done" else self.progress
            self.arguments = ()
            self.finished.set()


class Queue:
    """Runs jobs on workers, first come first served.

    Args:
        workers: processes that do the work.
        limits: how many jobs may wait, how long one may take.
        metrics: what is counted.
    """

    def __init__(self, workers: list[Worker], limits: Limits, metrics: Metrics) -> None:
        self._workers, self._limits, self._metrics = workers, limits, metrics
        self._waiting: deque[Job] = deque()
        self._running: dict[Job, Worker] = {}
        self._kept: dict[str, Job] = {}
        self._more = asyncio.Condition()
        self._pace: dict[str, float] = {}  # seconds for each byte that came in
        self._threads = ThreadPoolExecutor(len(workers), thread_name_prefix="worker")
        self._loops: list[asyncio.Task[None]] = []
        self._stopping = False
        self._killed: set[Worker] = set()

    async def start(self) -> None:
        """Begin to take jobs."""
        self._loops = [asyncio.create_task(self._serve(worker)) for worker in self._workers]
        self._loops.append(asyncio.create_task(self._tidy()))

    def drop(self) -> None:
        """End all jobs and take no more."""
        self._stopping = True
        for job in [*self._waiting, *self._running]:
            job.end("failed", error=_stopping())
        self._waiting.clear()

    async def stop(self) -> None:
        """End everything, the workers too."""
        self.drop()
        for loop in self._loops:
            loop.cancel()
        for worker in self._workers:
            worker.close()
        await asyncio.gather(*self._loops, return_exceptions=True)
        self._threads.shutdown(wait=False)

    @property
    def counts(self) -> tuple[int, int]:
        """Jobs that wait and jobs that run."""
        return len(self._waiting), len(self._running)

    async def submit(self, job: Job) -> None:
        """Queue a job.

        Raises:
            RequestError: 429, the client has its share already; or 503, the queue is full.
        """
        if self._stopping:
            raise _stopping()
        later = max(1, math.ceil(sum(other.expected_s for other in self._waiting) / len(self._workers)))
        own = sum(other.client == job.client for other in [*self._waiting, *self._running])
        if own >= self._limits.share:
            raise RequestError(
                f"{own} of your requests are waiting already", "wait for one of them", status=429, retry_after=later
            )
        if len(self._waiting) >= self._limits.waiting:
            raise RequestError("the queue is full", "try again", status=503, retry_after=later)
        held = sum(other.size for other in [*self._waiting, *self._running] if other.kept)
        if job.kept and held + job.size > self._limits.held_bytes:
            raise RequestError("the queue holds too much", "try again", status=503, retry_after=later)
        job.expected_s = max(0.2, self._pace.get(job.task, _GUESS_S / 1e6) * job.size)
        self._waiting.append(job)
        if job.kept:
            self._kept[job.id] = job
        async with self._more:
            self._more.notify()

    def find(self, id: str) -> Job | None:
        """Return a job whose result is kept, or None; whoever asks keeps it alive."""
        job = self._kept.get(id)
        if job is not None:
            job.asked = time.monotonic()
        return job

    def place(self, job: Job) -> int:
        """Return how many jobs are before this one."""
        return self._waiting.index(job) if job in self._waiting else 0

    def cancel(self, job: Job) -> None:
        """End a job, at whatever stage; forget one that is done, with its result."""
        if job.state == "done":
            self._kept.pop(job.id, None)
            return
        job.end("cancelled")
        with suppress(ValueError):
            self._waiting.remove(job)
        self._interrupt(job)

    async def _serve(self, worker: Worker) -> None:
        loop = asyncio.get_running_loop()
        with suppress(Exception):  # what is wrong, the first job will say
            await loop.run_in_executor(self._threads, worker.call, warm_up)
        while True:
            async with self._more:
                await self._more.wait_for(lambda: bool(self._waiting))
                job = self._waiting.popleft()
            self._running[job] = worker
            job.state, job.began = "running", time.monotonic()
            timer = loop.call_later(self._limits.job_s, self._overrun, job)
            try:
                answer = await loop.run_in_executor(self._threads, _run, worker, job)
                self._learn(job)
                job.end("done", answer)
            except WorkerDiedError as error:
                if worker in self._killed and job.state == "running":
                    # Killed for the job before, which had ended already when the signal came.
                    job.state, job.progress = "waiting", 0.0
                    self._waiting.appendleft(job)
                else:
                    job.end("failed", error=error)
                self._killed.discard(worker)
            except ImageTooLargeError as error:
                error.remedy = "scale it down"  # the limits are the server's, not the client's
                job.end("failed", error=error)
            except ShadowMaskFormerError as error:
                job.end("failed", error=error)
            except MemoryError:
                error = RequestError("there is not enough memory", "send a smaller photo", status=503)
                job.end("failed", error=error)
            except Exception:
                log.exception("a %s failed", job.task)
                job.end("failed", error=RequestError("the server made a mistake", "report it", status=500))
            finally:
                timer.cancel()
                del self._running[job]
                if job.state in FINAL:
                    self._metrics.finished(job.task, job.state, time.monotonic() - job.began)

    def _overrun(self, job: Job) -> None:
        seconds = self._limits.job_s
        error = RequestError(f"not done after {seconds:g} s", "send a smaller photo", status=503, retry_after=60)
        job.end("failed", error=error)
        self._interrupt(job)

    def _interrupt(self, job: Job) -> None:
        if job in self._running:
            self._killed.add(self._running[job])
            self._running[job].kill()

    def _learn(self, job: Job) -> None:
        assert job.began is not None
        pace = (time.monotonic() - job.began) / max(1, job.size)
        self._pace[job.task] = 0.6 * self._pace.get(job.task, pace) + 0.4 * pace

    async def _tidy(self) -> None:
        """Forget results that nobody fetches, and cancel jobs that nobody asks for."""
        while True:
            await asyncio.sleep(min(1.0, self._limits.kept_s / 4))
            kept = [*self._kept.values()]
            held = sum(len(job.answer.data) for job in kept if job.answer)
            for job in kept:
                size = len(job.answer.data) if job.answer else 0
                if time.monotonic() - job.asked > self._limits.kept_s or (size and held > self._limits.kept_bytes):
                    held -= size
                    self.cancel(job)
                    self._kept.pop(job.id, None)


def _run(worker: Worker, job: Job) -> Answer:
    return worker.watch(job.heard, job.function, *job.arguments)


def _stopping() -> RequestError:
    return RequestError("the server is stopping", "try again", status=503, retry_after=5)
