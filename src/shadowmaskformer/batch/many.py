"""`remove_many`: from files and folders to an outcome for each photo."""

from __future__ import annotations

import importlib
import logging
import os
import time
from collections.abc import Callable, Generator, Iterable, Iterator, Sequence
from pathlib import Path
from typing import Any, Literal, Unpack

from shadowmaskformer.batch.manifest import MANIFEST, Manifest, Outcome
from shadowmaskformer.batch.places import is_url, place_of, split
from shadowmaskformer.batch.plan import Item, plan
from shadowmaskformer.batch.work import Settings
from shadowmaskformer.errors import ConfigError, ImageReadError, ShadowMaskFormerError
from shadowmaskformer.files import shown
from shadowmaskformer.photo import choose_format, format_of_path, local_path
from shadowmaskformer.removal.options import Options, complete
from shadowmaskformer.removal.remover import Method, check_arguments
from shadowmaskformer.runtimes import BACKENDS, backend

log = logging.getLogger(__name__)

Engine = Literal["local", "ray"]
ENGINES: dict[Engine, str] = {"local": "local.run_local", "ray": "ray.run_ray"}
"""What works through a plan, by name; imported when it is used."""

_LOOK_EVERY_S = 1.0

_Run = Callable[[Sequence[Item]], Iterator[Outcome]]


class Batch(Iterator[Outcome]):
    """The outcomes of a batch, each as soon as it is known; not in the order of the photos.

    Work begins with the first outcome that is asked for, and stops when the batch is closed.

    Attributes:
        total: how many outcomes there will be; None if the batch watches folders.
        manifest: the file that remembers what was done.
    """

    def __init__(self, outcomes: Generator[Outcome], total: int | None, manifest: Path) -> None:
        self._outcomes, self.total, self.manifest = outcomes, total, manifest

    def __next__(self) -> Outcome:
        return next(self._outcomes)

    def close(self) -> None:
        """Stop: no photo is begun any more, and none is left half-written."""
        self._outcomes.close()

    def __enter__(self) -> Batch:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


def remove_many(
    photos: str | os.PathLike[str] | Iterable[str | os.PathLike[str]],
    output: str | os.PathLike[str] | None = None,
    *,
    masks: str | os.PathLike[str] | None = None,
    require_mask: bool = False,
    recursive: bool = False,
    watch: bool = False,
    overwrite: bool = False,
    compare: bool = False,
    manifest: str | os.PathLike[str] | None = None,
    workers: int | None = None,
    engine: Engine = "local",
    address: str | None = None,
    weights: str | Path | None = None,
    method: Method = "network",
    runtime: str | None = None,
    device: str | None = None,
    threads: int | None = None,
    **options: Unpack[Options],
) -> Batch:
    """Remove the shadows from any number of photos.

    A photo that fails does not stop the others, nor does a process that dies. Results that an earlier run has written
    from the same files with the same settings are skipped; unless `overwrite` is True, so are photos in which it found
    no shadow, and other whole pictures in the results' places. Each outcome is also a line of the manifest.

    Args:
        photos: a photo, a folder or several of them.
        output: folder for the results, in which subfolders are kept; None puts each beside its photo.
        masks: one mask for all photos, or a folder with a mask of each photo's name; None takes `NAME-mask.*` beside
            the photo where there is one.
        require_mask: photos without a mask fail.
        recursive: look into subfolders too.
        watch: go on for ever with what is added to the folders, as soon as it no longer grows.
        overwrite: replace files in the results' places that no earlier run has written, and look again for shadows
            that it did not find.
        compare: also write before, mask and after side by side.
        manifest: a file of JSON lines; None puts it into `output`, or else into the first folder.
        workers: processes; None makes one for each core.
        engine: `local`, or `ray` for Ray Data, on which photos and `output` may be URLs that fsspec understands.
        address: of a Ray cluster; None starts one on this computer unless RAY_ADDRESS names one.
        weights: as for `ShadowRemover`.
        method: as for `ShadowRemover`.
        runtime: as for `ShadowRemover`.
        device: as for `ShadowRemover`.
        threads: of each process; None is 1.
        **options: see `Options`.

    Returns:
        An iterator of outcomes, to be closed if it is not read to its end.

    Raises:
        ConfigError: a wrong option, or two photos that would become one file; nothing has been touched.
        ImageReadError: there are no photos.
    """
    given = [photos] if isinstance(photos, str | os.PathLike) else photos
    inputs = [_path(each, "a photo") for each in given]
    target = None if output is None else _path(output, "output")
    marks = None if masks is None else _path(masks, "masks")
    if weights is not None:
        weights = _path(weights, "weights")
    _check(inputs, target, marks, engine, address, workers, options)
    if device is None and (runtime or _first_runtime()) == "torch" and backend("torch").why_not() is None:
        from shadowmaskformer.runtimes.torch import best_device

        device = best_device()  # how many workers there are, and what Ray sets aside, depends on it
    remover: dict[str, Any] = {
        "weights": weights, "method": method, "runtime": runtime, "device": device,
        "threads": 1 if threads is None else threads,
    }  # fmt: skip
    check_arguments(**remover)
    settings = Settings(remover, options, overwrite, compare, require_mask)

    def planned() -> list[Item]:
        return plan(inputs, target, masks=marks, recursive=recursive, format=options.get("format"))

    items = planned()
    if not items and not watch:
        raise ImageReadError(f"{', '.join(map(shown, inputs))}: no photos in this folder", _remedy(recursive))
    record = Path(manifest) if manifest is not None else _manifest_path(inputs, target)

    def outcomes() -> Generator[Outcome]:
        where, _, name = ENGINES[engine].rpartition(".")
        work: Any = getattr(importlib.import_module(f"shadowmaskformer.batch.{where}"), name)
        more = {"address": address} if engine == "ray" else {}

        def run(chosen: Sequence[Item]) -> Iterator[Outcome]:
            lines = Manifest(record)
            try:
                yield from work(chosen, settings, lines, workers=workers, **more)
            finally:
                lines.close()

        yield from _watched(planned, run) if watch else run(items)

    settings.fingerprint()  # finds weights that are missing before any work is done
    return Batch(outcomes(), None if watch else len(items), record)


def _path(value: object, name: str) -> str:
    if not isinstance(value, str | os.PathLike):
        raise ConfigError(f"{name} is a {type(value).__name__}", "give a path; a batch works on files")
    return os.fspath(value)


def _check(
    inputs: Sequence[str],
    output: str | None,
    masks: str | None,
    engine: str,
    address: str | None,
    workers: int | None,
    options: Options,
) -> None:
    if engine not in ENGINES:
        raise ConfigError(f"there is no engine {engine!r}", f"choose one of {', '.join(ENGINES)}")
    if address is not None and engine != "ray":
        raise ConfigError(f"address {address!r} is of a Ray cluster", 'use {engine="ray"} or leave {address} out')
    if not inputs:
        raise ConfigError("no photos were given", "name photos or folders")
    if workers is not None and (type(workers) is not int or workers < 1):
        raise ConfigError(f"workers is {workers!r}", "give {workers} as a whole number, at least 1")
    choose_format("PNG", wanted=complete(options).get("format"))
    for path in (*inputs, *filter(None, (output, masks))):
        if engine == "local" or not path:
            local_path(path)
    new = output and not is_url(output) and not Path(output).is_dir()
    if output and new and (Path(output).exists() or format_of_path(output)):
        raise ConfigError(f"{shown(output)}: is no folder", "many photos need {output} to be one")
    if masks and not place_of(masks).is_folder(masks) and place_of(masks).state(masks) is None:
        raise ImageReadError(f"{shown(masks)}: no such mask or folder of masks", "check its name")


def _remedy(recursive: bool) -> str:
    return (
        "name photos or another folder" if recursive else "name photos, or look into subfolders with {recursive=True}"
    )


def _manifest_path(inputs: Sequence[str], output: str | None) -> Path:
    folders = [each if place_of(each).is_folder(each) else split(each)[0] for each in inputs]
    # No folder is made for a photo that is not there.
    first = output or next((each for each in folders if is_url(each) or Path(each).is_dir()), "")
    # A manifest grows line by line, which most remote places cannot do: it stays on this computer.
    return Path(MANIFEST) if is_url(first) else Path(first) / MANIFEST


def _first_runtime() -> str | None:
    """Return the runtime that weights get where none is named; None if there is none."""
    return next((row.name for row in BACKENDS.values() if not row.runs_exports and row.why_not() is None), None)


def _watched(planned: Callable[[], list[Item]], run: _Run) -> Iterator[Outcome]:
    """Work on what has not changed between two looks, for ever.

    Looking beats being told by the system, as far as some file systems do that at all: only a second look shows
    whether a file still grows, and a file that was taken too early is tried again when it has changed.
    """
    seen: dict[Item, Any] = {}
    tried: dict[Item, Any] = {}
    trouble = ""
    while True:
        try:
            now, trouble = {item: _states(item) for item in planned()}, ""
        except ShadowMaskFormerError as error:
            # Two photos with one result, or a folder without access, must not end the watch.
            if error.message != trouble:
                trouble = error.message
                log.warning("%s; nothing new is taken until this changes", trouble)
            time.sleep(_LOOK_EVERY_S)
            continue
        ready = [item for item, state in now.items() if seen.get(item) == state != tried.get(item)]
        if ready:
            tried.update({item: now[item] for item in ready})
            yield from run(ready)
        seen = now
        time.sleep(_LOOK_EVERY_S)


def _states(item: Item) -> list[Any]:
    return [place_of(path).state(path) if path else None for path in (item.photo, item.mask)]
