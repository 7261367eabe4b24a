"""`remove` for several photos: parses what is left, shows progress, and sums up."""

from __future__ import annotations

import argparse
import contextlib
import io
import json
import sys
import time
from collections import Counter
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, TextIO

from shadowmaskformer.cli.console import EXIT_INTERRUPTED, EXIT_OK, EXIT_SOME_FAILED
from shadowmaskformer.cli.progress import ProgressBar

if TYPE_CHECKING:
    from shadowmaskformer.batch import Outcome

_ONLY_MANY = ("recursive", "masks", "require_mask", "watch", "manifest", "address")


def is_meant(args: argparse.Namespace) -> bool:
    """Return whether the arguments describe a batch rather than one photo."""
    asked = any(vars(args)[name] not in (None, False) for name in _ONLY_MANY)
    several = len(args.photos) > 1 or args.engine != "local" or asked
    return several or (args.photos[0] != "-" and Path(args.photos[0]).is_dir())


def run(args: argparse.Namespace) -> int:
    from shadowmaskformer.batch import remove_many
    from shadowmaskformer.errors import ConfigError, NoShadowError, ShadowMaskFormerError
    from shadowmaskformer.files import shown
    from shadowmaskformer.removal.options import Options

    if "-" in (*args.photos, args.output, args.mask):
        raise ConfigError("many photos cannot come from or go to a pipe", "give files and folders")
    if args.hint or args.no_shadow or args.box or args.scribbles or args.only:
        raise ConfigError("hints and --only are about one photo", "give one photo")
    if args.watch and not all(Path(photo).is_dir() for photo in args.photos):
        raise ConfigError("--watch waits for photos to arrive in a folder", "give folders only")
    if args.mask and args.masks:
        raise ConfigError("--mask is one mask for all, --masks a folder", "give one of them")
    options: Options = {name: vars(args)[name] for name in Options.__annotations__ if name in vars(args)}  # type: ignore[assignment]
    counts: Counter[str] = Counter()
    bare: Counter[str] = Counter()  # of these, photos in which no shadow was found
    unmasked = 0  # of these, photos for which the folder of masks has none
    began, interrupted, stdout = time.perf_counter(), False, sys.stdout or io.StringIO()
    with (
        remove_many(
            args.photos, args.output, masks=args.masks or args.mask, require_mask=args.require_mask,
            recursive=args.recursive, watch=args.watch, overwrite=args.overwrite, compare=args.compare,
            manifest=args.manifest, workers=args.workers, engine=args.engine, address=args.address,
            weights=args.weights, method=args.method, runtime=args.runtime, device=args.device, threads=args.threads,
            **options,
        ) as batch,
        ProgressBar("removing shadows", "photo") as bar,
        # Ray prints what happens to its processes, which must not get between lines of JSON.
        contextlib.redirect_stdout(sys.stderr),
    ):  # fmt: skip
        show = _Show(args, bar, stdout)
        if args.watch and not args.quiet:
            print(f"watching {', '.join(map(shown, args.photos))}; Ctrl-C ends it", file=sys.stderr)
        try:
            if batch.total:
                bar(0, batch.total)
            for outcome in batch:
                counts[outcome.status] += 1
                bare[outcome.status] += isinstance(outcome.error, NoShadowError)
                unmasked += bool(args.masks) and outcome.mask is None
                show.outcome(outcome)
                if batch.total:
                    bar(counts.total(), batch.total)
        except KeyboardInterrupt:
            interrupted = True
        finally:
            bar.close()
            batch.close()
            show.summary(counts, bare, unmasked, time.perf_counter() - began, batch.manifest)
    if interrupted:
        if not args.quiet:
            print("interrupted; the same command goes on from here", file=sys.stderr)
        return EXIT_INTERRUPTED
    if not counts["failed"] + counts["left"]:
        return EXIT_OK
    if counts["done"] + counts["skipped"]:
        return EXIT_SOME_FAILED
    return NoShadowError.exit_code if bare["failed"] == counts.total() else ShadowMaskFormerError.exit_code


class _Show:
    """What the user gets to see."""

    def __init__(self, args: argparse.Namespace, bar: ProgressBar, stdout: TextIO) -> None:
        self._json, self._quiet, self._watch = args.json, args.quiet, args.watch
        self._bar, self._stdout = bar, stdout

    def outcome(self, outcome: Outcome) -> None:
        """Show what became of one photo."""
        from shadowmaskformer.errors import NoShadowError
        from shadowmaskformer.files import shown

        if self._json:
            print(outcome.line("command"), file=self._stdout, flush=True)
            return
        if outcome.status == "skipped" and outcome.error:
            return  # said when no shadow was found; the summary counts it
        photo = shown(outcome.photo)
        if isinstance(outcome.error, NoShadowError):
            mask = shown(f"{Path(outcome.photo).stem}-mask.png")
            self._say("no shadow found", photo, f"if there is one, save a mask beside it as {mask}")
            self._warn(photo, outcome.warnings)
        elif outcome.error:
            self._say("shadowmaskformer", photo, outcome.error.said("command"))
        elif outcome.status == "left":
            self._say("shadowmaskformer", photo, "not done")
        else:
            self._warn(photo, outcome.warnings)
            if self._watch and outcome.status == "done" and not self._quiet:
                size = f"{outcome.facts['width']}×{outcome.facts['height']}"
                print(f"{shown(outcome.output)}  ({size}, {outcome.seconds:.1f} s)", file=self._stdout, flush=True)

    def _warn(self, photo: str, warnings: Sequence[str]) -> None:
        from shadowmaskformer.errors import said

        for line in () if self._quiet else warnings:
            self._say("warning", photo, said(line, "command"))

    def summary(self, counts: Counter[str], bare: Counter[str], unmasked: int, seconds: float, manifest: Path) -> None:
        """Show what became of all."""
        from shadowmaskformer.files import shown

        names = ("done", "skipped", "failed", "left")
        if self._json:
            numbers = {name: counts[name] for name in names}
            numbers |= {"no_shadow": bare.total(), "no_mask": unmasked}
            told = {**numbers, "seconds": round(seconds, 3), "manifest": str(manifest)}
            print(json.dumps({"summary": told}), file=self._stdout)
        elif not self._quiet and counts:
            shares = {**counts, "failed": counts["failed"] - bare["failed"], "without a shadow": bare["failed"]}
            notes = {"skipped": f" ({bare['skipped']:,} without a shadow)"} if bare["skipped"] else {}
            words = ", ".join(
                f"{shares[name]:,} {name}{notes.get(name, '')}"
                for name in (*names, "without a shadow")
                if shares.get(name)
            )
            print(f"{words} in {_duration(seconds)}; {shown(manifest)}", file=self._stdout)
            if unmasked:
                print(f"{unmasked:,} of {counts.total():,} photos had no mask of their name", file=sys.stderr)

    def _say(self, what: str, photo: str, line: str) -> None:
        text = line if line.startswith(photo) else f"{photo}: {line}"
        self._bar.say(f"{what}: " + "".join(c if c.isprintable() else repr(c)[1:-1] for c in text))


def _duration(seconds: float) -> str:
    minutes, rest = divmod(round(seconds), 60)
    return f"{minutes} min {rest} s" if minutes else f"{seconds:.1f} s"
