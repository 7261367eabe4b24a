"""Before the first step: check that the run may start here, and find what it trains on."""

from __future__ import annotations

import datetime
import logging
from collections.abc import Collection, Generator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any

import torch
from tqdm import tqdm

from shadowmaskformer import machine
from shadowmaskformer.data import (
    Augment,
    Cache,
    Samples,
    Split,
    Triplet,
    Truth,
    build_cache,
    check_truth,
    fingerprint,
    open_dataset,
    validation_split,
)
from shadowmaskformer.data.layouts import WHOLE, pictures_in
from shadowmaskformer.data.samples import SIDE
from shadowmaskformer.errors import ConfigError, DatasetError, OutputError
from shadowmaskformer.network.weights import lasting_name
from shadowmaskformer.train.checkpoint import has_checkpoint
from shadowmaskformer.train.config import TrainConfig, differences
from shadowmaskformer.train.journal import git_state, write_description
from shadowmaskformer.train.processes import Processes
from shadowmaskformer.train.tasks import Task, Validation

try:
    import fcntl
except ImportError:  # Windows has none
    fcntl = None

logger = logging.getLogger(__name__)

CHECKPOINTS, BEST, PANELS, BAD_BATCHES, LOCK = "checkpoints", "best", "panels", "bad-batches", ".lock"


def split_data(config: TrainConfig, data: Path, photos: str | Path | None = None) -> Split:
    """Return the data set's training triplets, split into those trained on and those validated on.

    A data set with a `valid` split of its own is validated on that. `photos` are trained on beside the pairs.
    """
    dataset = open_dataset(data)
    if {"train", "valid"} <= set(dataset.splits):
        # Samples are chosen by name, and both splits may number their pictures alike.
        valid = tuple(replace(each, name=f"valid/{each.name}") for each in dataset.split("valid"))
        split = Split(dataset.split("train"), valid, ())
    else:
        triplets = dataset.split(WHOLE if dataset.splits == (WHOLE,) else "train")
        seen = min(config.validation_pictures, round(config.validation_share * len(triplets)))
        split = validation_split(triplets, share=config.validation_share, seen=seen, seed=0)
    return split if photos is None else split._replace(train=(*split.train, *_own_truths(Path(photos))))


def _own_truths(folder: Path) -> list[Triplet]:
    """Return the photographs in `folder`, each as its own clean picture."""
    try:
        found = pictures_in(folder)
    except OSError as error:
        raise DatasetError(f"{folder}: {error.strerror}", "give {photos} a folder of photographs") from error
    if not found:
        raise DatasetError(f"{folder} holds no photographs", "give {photos} another folder")
    return [Triplet(f"photos/{path.name}", path, path) for path in found]


def all_pairs(folder: Path) -> tuple[Triplet, ...]:
    """Return every pair of a data set."""
    dataset = open_dataset(folder)
    return tuple(triplet for name in dataset.splits for triplet in dataset.split(name))


def prepare_folder(
    out: Path,
    config: TrainConfig,
    data: Path,
    triplets: Sequence[Triplet],
    task: Task,
    *,
    photos: str | Path | None,
    also: Mapping[str, Sequence[Triplet]],
    hours: float | None,
    init: str | Path | None,
    before: dict[str, Any] | None,
    allow_change: Collection[str],
    processes: Processes,
) -> tuple[str | None, dict[str, Any]]:
    """Describe the run; refuse to overwrite a run or resume another.

    Args:
        out: the run's folder.
        config: the recipe.
        data: the data set's folder.
        triplets: the pictures that the run trains on.
        task: what it trains for.
        photos: photographs that it trains on beside the data set.
        also: pairs of the data sets that it validates on beside it, by their folders.
        hours: its time budget.
        init: weights to start from.
        before: the description of the run that is being resumed; None starts a new one.
        allow_change: what may differ from `before`.
        processes: those that train together.

    Returns:
        The weights to start from: `init`, or those that the run being resumed started from. And the description,
        which is written already unless the run is resumed.
    """
    for batch in config.batches:
        if batch % processes.world:
            raise ConfigError(
                f"a batch of {batch} cannot be split over {processes.world} processes; "
                f"set batches to multiples of {processes.world}"
            )
    facts: dict[str, Any] = {"data": fingerprint(triplets), "hours": hours, **task.facts()}
    if also:
        facts["also"] = [fingerprint(pairs) for pairs in also.values()]
    about = {
        "folder": str(data.absolute()),
        "photos": None if photos is None else str(Path(photos).absolute()),
        "also": list(also),
        "started": datetime.datetime.now(datetime.UTC).isoformat(timespec="seconds"),
        "version": machine.versions("shadowmaskformer")["shadowmaskformer"],
        "git": git_state(),
        "torch": torch.__version__,
        "machine": machine.architecture(),
        "device": str(processes.device),
        "threads": torch.get_num_threads(),
        "processes": processes.world,
    }
    start = None if init is None else str(lasting_name(init))
    resumed: list[Any] = []
    if before is not None:
        recipe = TrainConfig.from_dict(before["recipe"]).to_dict()
        changes = differences(recipe | before["facts"], config.to_dict() | facts)
        _refuse_changes(changes, allow_change)
        if start not in (None, before.get("init")) and has_checkpoint(out / CHECKPOINTS):
            origin = before.get("init") or "random weights"
            raise ConfigError(f"the run has begun, from {origin}", "it cannot start from others now: leave {init} out")
        start = start or before.get("init")
        resumed = [*before["resumed_from"], before["about"] | {"changed_since": changes}]
    elif has_checkpoint(out / CHECKPOINTS):
        raise OutputError(f"{out} holds a run already", "continue it with {resume=True} or choose another {output}")
    description = {
        "recipe": config.to_dict(),
        "facts": facts,
        "init": start,
        "about": about,
        "resumed_from": resumed,
    }
    if processes.leads and before is None:
        write_description(out, description)
    processes.wait()
    return start, description


@contextmanager
def hold_folder(out: Path, processes: Processes) -> Generator[None]:
    """Make the run's folder and keep it to this run: two in one folder would delete each other's checkpoints."""
    if not processes.leads:
        yield
        return
    try:
        (out / CHECKPOINTS).mkdir(parents=True, exist_ok=True)
        lock = (out / LOCK).open("w", encoding="utf-8")
    except OSError as error:
        raise OutputError(f"cannot write into {out}: {error.strerror}", "choose another {output}") from error
    with lock:
        try:
            if fcntl is not None:
                fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError as error:
            raise OutputError(f"another process trains in {out}", "wait for it or choose another {output}") from error
        except OSError as error:
            logger.warning("%s cannot be locked (%s): make sure that no other run uses it", out, error.strerror)
        yield


def _refuse_changes(changes: dict[str, tuple[Any, Any]], allowed: Collection[str]) -> None:
    forbidden = {key: change for key, change in changes.items() if key not in allowed}
    if forbidden:
        text = "; ".join(f"{key} was {old!r}, is {new!r}" for key, (old, new) in forbidden.items())
        options = " ".join(f'{{allow_change="{key}"}}' for key in forbidden)
        raise ConfigError(f"this is not the run that is being resumed: {text}", f"undo that or use {options}")


def open_samples(
    config: TrainConfig,
    split: Split,
    also: Mapping[str, Sequence[Triplet]],
    task: Task,
    cache: Path,
    processes: Processes,
    *,
    quiet: bool,
) -> tuple[Samples, Validation | None]:
    """Decode the pictures once into `cache`; only the leading process gets the validation."""
    if not processes.leads:
        processes.wait()
    # By name: runs that split the data differently share one cache and must find it in one order.
    triplets = sorted((*split.train, *split.unseen, *split.seen), key=lambda triplet: triplet.name)
    side = max(SIDE, max(config.sizes) * config.detail, config.validation_size)
    truth, hidden = check_truth(config.truth), quiet or not processes.leads
    decoded = _decoded(triplets, cache, side, truth, soft=config.soft_masks, relit=task.relit, quiet=hidden)

    def samples(chosen: Sequence[Triplet], augment: Augment) -> Samples:
        names = {triplet.name for triplet in chosen}
        return Samples(decoded, augment=augment, seed=config.seed, names=names, bare=task.bare)

    validation = None
    if processes.leads:
        held_out = {"unseen": split.unseen, "seen": split.seen}
        groups = {name: samples(chosen, Augment()) for name, chosen in held_out.items() if chosen}
        pictures, size = config.validation_pictures, config.validation_size
        validation = task.validation(groups, also, pictures=pictures, size=size)
        processes.wait()
    return samples(split.train, Augment(**config.augment)), validation


def _decoded(
    triplets: Sequence[Triplet], cache: Path, side: int, truth: Truth, *, soft: bool, relit: bool, quiet: bool
) -> Cache:
    """Return the cache of `triplets`, built under a progress bar if it is missing; log what could not be read."""
    with tqdm(total=len(triplets), desc="decoding", unit="picture", disable=quiet, leave=False, delay=1) as bar:

        def show(done: int, _: int) -> None:
            bar.update(done - bar.n)

        folder = f"{fingerprint(triplets)[:16]}-{side}" + ("" if truth == "as-taken" else f"-{truth}")
        folder += "-soft" * soft + "-relit" * relit
        decoded = build_cache(triplets, cache / folder, side=side, truth=truth, soft=soft, relit=relit, progress=show)
    for skipped in decoded.skipped:
        logger.warning("left out: %s", skipped)
    return decoded
