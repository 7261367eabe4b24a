"""One photo of a batch: what is to be done about it, and doing it, here or on a cluster."""

from __future__ import annotations

import hashlib
import json
import time
from collections.abc import Callable
from contextlib import AbstractContextManager, nullcontext, suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal

from shadowmaskformer.batch.manifest import Earlier, Outcome
from shadowmaskformer.batch.places import is_url, place_of, split
from shadowmaskformer.batch.plan import Item
from shadowmaskformer.batch.worker import Worker
from shadowmaskformer.detect.detector import WEIGHTS as DETECTOR
from shadowmaskformer.errors import (
    ImageReadError,
    MaskError,
    NoShadowError,
    OutputError,
    ShadowMaskFormerError,
    WorkerDiedError,
)
from shadowmaskformer.files import shown
from shadowmaskformer.network import weights
from shadowmaskformer.photo import choose_format, read_plain
from shadowmaskformer.removal.job import compare
from shadowmaskformer.removal.options import Options, complete
from shadowmaskformer.removal.remover import ShadowRemover

_LOOK_EVERY_S = 1.0

Action = Literal["skip", "adopt", "make", "replace"]
"""`adopt`: a file of unknown origin is in the place of the result; if it is a whole picture, it is taken for it."""


@dataclass(frozen=True)
class Settings:
    """What is the same for all photos of a batch.

    Attributes:
        remover: arguments of `ShadowRemover`.
        options: of each removal.
        overwrite: replace files of unknown origin, and look again for shadows that were not found.
        comparison: also write before, mask and after side by side.
        require_mask: photos without a mask fail.
    """

    remover: dict[str, Any] = field(default_factory=dict[str, Any])
    options: Options = field(default_factory=Options)
    overwrite: bool = False
    comparison: bool = False
    require_mask: bool = False

    def fingerprint(self) -> str:
        """Return a digest of all that decides what a result looks like; a comparison beside it changes nothing."""
        options: dict[str, Any] = {
            name: value for name, value in complete(self.options).items() if name != "max_pixels"
        }
        # The same settings, however they are written.
        options |= {
            name: None if options[name] is None else float(options[name]) for name in ("strength", "feather_px")
        }
        options["format"] = options["format"] and choose_format("PNG", wanted=options["format"])[0].name
        parts = [self.remover.get("method"), _version_of(self.remover), options]
        return _digest(json.dumps(parts, sort_keys=True, default=str))


def fingerprint(item: Item, settings: str) -> str:
    """Return a digest of the photo's and the mask's state and of the settings' fingerprint."""
    states = [place_of(path).state(path) if path else None for path in (item.photo, item.mask)]
    return _digest(json.dumps([settings, states]))


def decide(item: Item, earlier: Earlier | None, found: str, settings: Settings) -> Action:
    """Decide what to do about a photo.

    Args:
        item: the photo.
        earlier: what the manifest knows of it.
        found: the fingerprint as it is now.
        settings: of the batch.
    """
    state = place_of(item.output).state(item.output)
    if earlier is not None and earlier.bare and earlier.fingerprint == found and not settings.overwrite:
        return "skip"
    if state is None:
        return "make"
    if earlier is not None and earlier.bytes == state[0]:
        lacks = settings.comparison and not earlier.compared
        return "skip" if earlier.fingerprint == found and not lacks and not earlier.bare else "replace"
    return "replace" if settings.overwrite else "adopt"


def settle(
    worker: Worker,
    item: Item,
    earlier: Earlier | None,
    settings: Settings,
    version: str,
    room: Callable[[], AbstractContextManager[None]] = nullcontext,
    *,
    stopped: Callable[[], bool] = lambda: False,
) -> Outcome:
    """Do in `worker` what is to be done about a photo.

    A photo whose process dies is tried once more, and so is one that fails because it is still being copied.

    Args:
        worker: where to do it.
        item: the photo.
        earlier: what the manifest knows of it.
        settings: of the batch.
        version: the settings' fingerprint.
        room: waited for before the work is begun, and held meanwhile.
        stopped: whether to wait no longer for a photo that is still being copied.
    """
    outcome: Outcome | None = None
    for _ in range(2):
        found = fingerprint(item, version)
        action = decide(item, earlier, found, settings)
        if action == "skip":
            bare = _known_bare(item) if earlier and earlier.bare else None
            return Outcome(item.photo, item.output, "skipped", item.mask, bare, fingerprint=found)
        try:
            known = settings.overwrite or earlier is not None
            with room():
                outcome = worker.call(execute, item, action, settings, found, known=known)
        except WorkerDiedError as died:
            outcome = Outcome(item.photo, item.output, "failed", item.mask, died)
        else:
            if outcome.error is None or not _was_growing(item, version, found, stopped):
                break
    assert outcome is not None
    return outcome


def _known_bare(item: Item) -> NoShadowError:
    return NoShadowError(
        f"{shown(item.photo)}: no shadow was found before", "add a mask, or look again with {overwrite=True}"
    )


def _was_growing(item: Item, version: str, found: str, stopped: Callable[[], bool]) -> bool:
    """Return whether the files have changed since `found`; wait until they no longer do, or the batch is stopped."""
    if not is_url(item.photo):
        with suppress(OSError):
            # A copy comes in bursts; this long after the last one, it is over.
            over = Path(item.photo).stat().st_mtime + 2 * _LOOK_EVERY_S
            time.sleep(min(max(over - time.time(), 0), 2 * _LOOK_EVERY_S))
    changed = False
    while not stopped() and (now := fingerprint(item, version)) != found:
        changed, found = True, now
        time.sleep(_LOOK_EVERY_S)
    return changed


def execute(
    remover: ShadowRemover, item: Item, action: Action, settings: Settings, found: str, *, known: bool = False
) -> Outcome:
    """Do it; an error becomes an outcome, for one photo must not stop the others.

    A comparison that is there already is replaced only if the photo is `known` from an earlier run.
    """
    began = time.perf_counter()
    warnings: tuple[str, ...] = ()
    facts: dict[str, Any] = {}
    error: ShadowMaskFormerError | None = None
    try:
        if action == "adopt":
            _check_whole(item.output)
        else:
            warnings, facts = _remove(remover, item, settings, overwrite=action == "replace", known=known)
    except ShadowMaskFormerError as expected:
        error = expected
        if isinstance(error, NoShadowError) and place_of(item.output).state(item.output) is not None:
            warnings = (f"{shown(item.output)} is of an earlier picture",)
    except Exception as unexpected:
        error = ShadowMaskFormerError(f"{shown(item.photo)}: {type(unexpected).__name__}: {unexpected}", "report this")
    status = "failed" if error else "skipped" if action == "adopt" else "done"
    seconds = time.perf_counter() - began
    comparison = item.comparison if settings.comparison and status == "done" else None
    return Outcome(item.photo, item.output, status, item.mask, error, warnings, facts, seconds, found, comparison)


def _remove(
    remover: ShadowRemover, item: Item, settings: Settings, *, overwrite: bool, known: bool
) -> tuple[tuple[str, ...], dict[str, Any]]:
    if item.mask is None and settings.require_mask:
        raise MaskError(f"{shown(item.photo)}: has no mask", "add one or leave out {require_mask}")
    if place_of(item.photo).state(item.photo) is None:  # before a folder is made for its result
        raise ImageReadError(f"{shown(item.photo)}: no such file", "check its name and folder")
    place = place_of(item.output)
    place.prepare(item.output, [path for path in (item.photo, item.mask) if path], overwrite=overwrite)
    if settings.comparison:
        place.prepare(item.comparison, [item.photo], overwrite=known)
    photo = place_of(item.photo).source(item.photo)
    mask = place_of(item.mask).source(item.mask) if item.mask else None
    result = remover.remove_file(photo, mask, name=split(item.output)[1], **settings.options)
    if settings.comparison:
        # First, so that the result is there only when all is.
        place.write(item.comparison, compare(result.removal), overwrite=known)
    place.write(item.output, result.data, overwrite=overwrite)
    return result.warnings, result.facts()


def _check_whole(path: str) -> None:
    try:
        read_plain(place_of(path).source(path))
    except ShadowMaskFormerError as error:
        raise OutputError(
            f"{shown(path)}: is there already, but is not a whole picture", "replace it with {overwrite=True}"
        ) from error


def _version_of(remover: dict[str, Any]) -> list[str]:
    """Return digests of the weights that find shadows and, unless the method has none, of those that remove them."""
    names: list[Any] = [DETECTOR]
    if remover.get("method") != "relight":
        given = remover.get("weights")
        names.append(weights.DEFAULT if given is None else given)
    files = [Path(name) if Path(name).is_file() else weights.locate(name) for name in names]
    for file in files:
        if file.name == weights.WEIGHTS_FILE:
            weights.load(file)  # says so if they are broken, before a folder is made
    files += [numbers for file in files if (numbers := file.with_suffix(".bin")).is_file()]  # of an OpenVINO file
    return [hashlib.sha256(file.read_bytes()).hexdigest() for file in files]


def _digest(text: str) -> str:
    return hashlib.sha256(text.encode("utf-8", "surrogatepass")).hexdigest()[:16]
