"""The training loop: draw a batch, take a step, average the weights; validate and save now and then."""

from __future__ import annotations

import logging
import math
import signal
import threading
import time
from collections.abc import Callable, Collection, Generator
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from pathlib import Path

from tqdm import tqdm

from shadowmaskformer.errors import ConfigError, TrainingError
from shadowmaskformer.train.batches import Batch, BatchSource, Request
from shadowmaskformer.train.checkpoint import has_checkpoint, load_checkpoint, save_checkpoint
from shadowmaskformer.train.config import TrainConfig
from shadowmaskformer.train.journal import Journal, draw_curves, read_description, write_description
from shadowmaskformer.train.learner import Learner, initial_weights, save_bad_batch
from shadowmaskformer.train.processes import Processes, join_processes
from shadowmaskformer.train.schedule import Schedule, learning_rate_at, stage_at
from shadowmaskformer.train.startup import (
    BAD_BATCHES,
    BEST,
    CHECKPOINTS,
    PANELS,
    all_pairs,
    hold_folder,
    open_samples,
    prepare_folder,
    split_data,
)
from shadowmaskformer.train.tasks import Task, Validation, task_of

MOST_BAD_STEPS = 10
"""This many steps in a row without a finite gradient end the run."""

logger = logging.getLogger(__name__)


@dataclass(frozen=True)
class RunResult:
    """What a run came to.

    Attributes:
        folder: the run's folder; its best weights are in `best/`.
        steps: optimiser steps taken, over all resumes.
        elapsed_s: seconds spent training, over all resumes.
        best: scores of the best validation, by what the validation's `decides` names; None before the first.
        finished: False when a signal stopped the run early.
    """

    folder: Path
    steps: int
    elapsed_s: float
    best: dict[str, float] | None
    finished: bool


@dataclass
class Position:
    """Where a run stands; saved in every checkpoint.

    Attributes:
        step: optimiser steps taken.
        drawn: pictures drawn.
        elapsed_s: seconds spent training, earlier sittings included, validation not.
        validated: validations done.
        bad_steps: steps in a row, up to now, that had no finite gradient.
        best: scores of the best validation.
    """

    step: int = 0
    drawn: int = 0
    elapsed_s: float = 0.0
    validated: int = 0
    bad_steps: int = 0
    best: dict[str, float] | None = None


def run(
    config: TrainConfig,
    data: str | Path,
    out: str | Path,
    hours: float | None = None,
    *,
    init: str | Path | None = None,
    resume: bool = False,
    allow_change: Collection[str] = (),
    photos: str | Path | None = None,
    also: Collection[str | Path] = (),
    cache: str | Path | None = None,
    quiet: bool = True,
) -> RunResult:
    """Train a network on the pairs in `data` and leave its best weights in `out/best`.

    Args:
        config: the recipe.
        data: a data set's folder; its training pairs are split into training and validation.
        out: the run's folder; must not hold a run unless `resume`.
        hours: time budget; the schedule then follows the clock, over all resumes, not the recipe's length. Validation
            comes on top.
        init: weights to start from: a folder, a file or a name.
        resume: go on from the newest whole checkpoint in `out`, or from the start if it has none yet.
        allow_change: keys of the recipe, or "data", "also", "hours" or "floor", that may differ from the resumed run's.
        photos: folder of photographs to train on beside the pairs, with shadows drawn on them.
        also: further data sets of pairs to validate on, never to train on: the best weights are chosen by them.
        cache: folder for decoded pictures, which runs can share; None is `out/cache`.
        quiet: show no progress bar.
    """
    out, task = Path(out), task_of(config)
    split = split_data(config, Path(data), photos)
    further = {str(Path(each).absolute()): all_pairs(Path(each)) for each in also}
    named = {Path(folder).resolve().name: pairs for folder, pairs in further.items()}
    if len(named) < len(also):
        raise ConfigError("two of the data sets to validate on have one name", "rename one of them")
    # What is wrong with these is said before a folder is made.
    before = read_description(out) if resume else None
    if init is not None:
        initial_weights(config, init)
    with join_processes() as processes, hold_folder(out, processes):
        init, description = prepare_folder(
            out,
            config,
            Path(data),
            split.train,
            task,
            photos=photos,
            also=further,
            hours=hours,
            init=init,
            before=before,
            allow_change=allow_change,
            processes=processes,
        )
        learner, at = _start(config, task, processes, out, init, resume=resume)
        folder = Path(cache or out / "cache")
        samples, validation = open_samples(config, split, named, task, folder, processes, quiet=quiet)
        if resume and processes.leads:
            write_description(out, description)  # not before the run is known to go on: a slip must not change it
        schedule = Schedule(config, len(samples), hours * 3600 if hours is not None else None)
        progress = schedule.progress(at.step, at.drawn, at.elapsed_s)
        leader = None if validation is None else _Leader(out, config, task, validation, learner, at)
        if leader is not None and progress >= 1:
            logger.info("the run was finished already, after %d steps", at.step)

        def plan(step: int, drawn: int) -> Request | None:
            progress = schedule.progress(step, drawn, at.elapsed_s)
            stage = stage_at(config, progress)
            return Request(drawn, config.batches[stage], config.sizes[stage]) if progress < 1 else None

        source = BatchSource(
            samples,
            plan,
            task.batch,
            step=at.step,
            position=at.drawn,
            detail=config.detail,
            rank=processes.rank,
            world=processes.world,
        )
        started, stop = time.monotonic() - at.elapsed_s, False
        hidden = quiet or leader is None or progress >= 1
        with source, _stop_signals() as stop_wanted, _Bar(hidden=hidden, progress=progress) as bar:
            while progress < 1 and not stop:
                batch = source.next().to(processes.device)
                rate = learning_rate_at(config, progress)
                loss = learner.step(batch, at.step, rate)
                _judge(loss, batch, at, out, processes.rank)
                at.step += 1
                at.drawn += batch.total

                # One exchange per step: all agree on the loss, the leader's clock and the wish to stop.
                clock = time.monotonic() - started if processes.leads else 0.0
                wish = float(stop_wanted() or processes.orphaned)
                loss, clock, stops = processes.sum(loss / processes.world, clock, wish)
                step_s, at.elapsed_s, stop = clock - at.elapsed_s, clock, stops > 0
                progress = schedule.progress(at.step, at.drawn, at.elapsed_s)
                due = int(progress * config.validations + 1e-9)
                validate, at.validated = due > at.validated, due
                if leader is not None:
                    pixels_per_s = batch.total * batch.seen_side**2 / step_s
                    leader.log(loss, rate, batch.seen_side, pixels_per_s)
                    bar.show(progress, loss, pixels_per_s)
                    if validate:
                        # Not charged to the budget: large networks at small budgets would do nothing else.
                        started += leader.validate()
                    leader.save(validated=validate, stopping=stop)
                if validate:
                    processes.wait()
        if leader is not None:
            if progress >= 1 and at.best is None:  # resumed with a length that it had passed, before any validation
                leader.validate()
                leader.save(validated=True, stopping=False)
            leader.close()
        if at.bad_steps > 1 and not stop:
            raise _diverged(at, out)
        return RunResult(out, at.step, at.elapsed_s, at.best, progress >= 1)


def _start(
    config: TrainConfig, task: Task, processes: Processes, out: Path, init: str | Path | None, *, resume: bool
) -> tuple[Learner, Position]:
    """Return the learner at the newest checkpoint, or at the beginning."""
    if not (resume and has_checkpoint(out / CHECKPOINTS)):
        return Learner(config, processes, init, task), Position()
    state = load_checkpoint(out / CHECKPOINTS)
    learner = Learner(config, processes, task=task)
    learner.restore(state)
    return learner, Position(**state["position"])


def _judge(loss: float, batch: Batch, at: Position, out: Path, rank: int) -> None:
    """Keep a batch whose gradient was not finite, and end a run in which nothing else comes."""
    if math.isfinite(loss):
        at.bad_steps = 0
        return
    at.bad_steps += 1
    kept = save_bad_batch(out / BAD_BATCHES, at.step, rank, batch)
    logger.warning("step %d: gradient not finite, skipped; batch: %s", at.step, kept.name)
    if at.bad_steps >= MOST_BAD_STEPS:
        raise _diverged(at, out)


def _diverged(at: Position, out: Path) -> TrainingError:
    return TrainingError(
        f"the last {at.bad_steps} steps had no finite gradient; the batches are in {out / BAD_BATCHES}, "
        "the checkpoints from before are kept",
        "lower learning_rate",
    )


class _Leader:
    """What one process of a run does beside learning: log, validate, save."""

    def __init__(
        self, out: Path, config: TrainConfig, task: Task, validation: Validation, learner: Learner, at: Position
    ) -> None:
        self._out, self._task, self._validation, self._learner, self._at = out, task, validation, learner, at
        self._journal = Journal(out, resumed_at=at.step)
        self._every_s, self._saved = config.checkpoint_every_s, time.monotonic()
        if at.step == 0:
            for name, scores in validation.baselines().items():
                logger.info("validation, %s: %s", name, scores)
                self._journal.write(0, {f"{name}_{key}": value for key, value in scores.to_dict().items()})

    def log(self, loss: float, learning_rate: float, size: int, pixels_per_s: float) -> None:
        """Write down the step just taken."""
        facts = {"loss": loss, "learning_rate": learning_rate, "size": size, "pixels_per_s": round(pixels_per_s)}
        self._journal.write(self._at.step, facts | {"elapsed_s": round(self._at.elapsed_s, 3)})

    def validate(self) -> float:
        """Score the averaged weights, log it, keep them if they are the best so far; return the seconds it took."""
        began, at = time.monotonic(), self._at
        scores = self._validation.score(self._learner.averaged, self._out / PANELS / f"step-{at.step:09d}.jpg")
        named, decides = scores.to_dict(), self._validation.decides
        self._journal.write(at.step, named | {"elapsed_s": round(at.elapsed_s, 3)})
        logger.info("validation, step %d, %.2f h: %s", at.step, at.elapsed_s / 3600, scores)
        if math.isfinite(named[decides]) and named[decides] > (at.best or {}).get(decides, -math.inf):
            at.best = named
            self._learner.averaged.save_pretrained(self._out / BEST)
        return time.monotonic() - began

    def save(self, *, validated: bool, stopping: bool) -> None:
        """Write a checkpoint, if it is time to; not of weights that lead nowhere, unless it is the last chance."""
        due = validated or time.monotonic() - self._saved > self._every_s
        if stopping or (due and self._at.bad_steps == 0):
            state = self._learner.state() | {"position": asdict(self._at)}
            save_checkpoint(self._out / CHECKPOINTS, self._at.step, state)
            self._saved = time.monotonic()

    def close(self) -> None:
        """End the log and draw its curves."""
        self._journal.close()
        draw_curves(self._out, self._task.curves)


class _Bar:
    """The progress bar: share of the run, running loss, speed, time left."""

    def __init__(self, *, hidden: bool, progress: float) -> None:
        self._bar = tqdm(total=100.0, disable=hidden, bar_format="{percentage:3.0f}%|{bar}| {desc}")
        self._first, self._began, self._loss = progress, time.monotonic(), math.nan

    def __enter__(self) -> _Bar:
        return self

    def __exit__(self, *error: object) -> None:
        self._bar.close()

    def show(self, progress: float, loss: float, pixels_per_s: float) -> None:
        """Move on to `progress`."""
        if self._bar.disable:
            return
        if math.isfinite(loss):
            self._loss = loss if math.isnan(self._loss) else 0.98 * self._loss + 0.02 * loss
        left_s = (time.monotonic() - self._began) * (1 - progress) / max(1e-9, progress - self._first)
        left = tqdm.format_interval(left_s)
        self._bar.n = round(100 * progress, 2)
        self._bar.set_description_str(f"loss {self._loss:.4f}, {pixels_per_s / 1e3:.0f} kpixel/s, {left} left", False)
        self._bar.update(0)


@contextmanager
def _stop_signals() -> Generator[Callable[[], bool]]:
    """Turn the first SIGTERM or Ctrl-C into a wish to stop after the step; the second interrupts at once."""
    wanted = threading.Event()
    if threading.current_thread() is not threading.main_thread():
        yield wanted.is_set
        return

    def ask(number: int, frame: object) -> None:
        if wanted.is_set():
            raise KeyboardInterrupt
        wanted.set()

    before = {number: signal.signal(number, ask) for number in (signal.SIGTERM, signal.SIGINT)}
    try:
        yield wanted.is_set
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)
