"""`mask` for several photos: writes the mask of each, and sums up."""

from __future__ import annotations

import argparse
import json
import time
from collections import Counter
from pathlib import Path
from typing import TYPE_CHECKING, Any

from shadowmaskformer.cli.console import EXIT_OK, EXIT_SOME_FAILED
from shadowmaskformer.cli.mask import mask_file, overlay_file, read
from shadowmaskformer.cli.progress import ProgressBar
from shadowmaskformer.errors import ConfigError, ImageReadError, NoShadowError, ShadowMaskFormerError, said

if TYPE_CHECKING:
    from shadowmaskformer.detect.detector import ShadowDetector

_ABOUT_ONE = ("hint", "no_shadow", "box", "scribbles", "only", "mask", "list")
_BARE = "without a shadow"


def run(args: argparse.Namespace) -> int:
    """Write the masks that are not there yet; a photo that fails does not stop the others."""
    from shadowmaskformer.detect.detector import ShadowDetector

    began, counts = time.perf_counter(), Counter[str]()
    targets = _targets(args)
    detector = ShadowDetector(args.weights, runtime=args.runtime, device=args.device, threads=args.threads)
    with ProgressBar("finding shadows", "photo") as bar:
        for photo, target in targets.items():
            try:
                status, facts = _settle(detector, photo, target, args)
                told = [f"warning: {line}" for line in facts.get("warnings", ())]
            except ShadowMaskFormerError as error:
                status, line = (_BARE if isinstance(error, NoShadowError) else "failed"), error.said("command")
                facts = {"error": {"type": type(error).__name__, "message": line}}
                told = [line if status == _BARE else f"shadowmaskformer: {line}"]
            counts[status] += 1
            if args.json:
                print(json.dumps({"input": photo, "output": str(target), "status": status, **facts}), flush=True)
            elif status == "failed" or not args.quiet:
                for line in told:
                    bar.say(line)
            bar(counts.total(), len(targets))
    seconds = time.perf_counter() - began
    if args.json:
        print(json.dumps({"summary": {**counts, "seconds": round(seconds, 3)}}))
    elif not args.quiet:
        print(f"{', '.join(f'{number:,} {name}' for name, number in counts.items())} in {seconds:.1f} s")
    if not counts["failed"] + counts[_BARE]:
        return EXIT_OK
    if counts["done"] + counts["skipped"]:
        return EXIT_SOME_FAILED
    return ShadowMaskFormerError.exit_code if counts["failed"] else NoShadowError.exit_code


def _targets(args: argparse.Namespace) -> dict[str, Path]:
    """Return where the mask of each photo goes."""
    from shadowmaskformer.batch.plan import plan
    from shadowmaskformer.files import shown
    from shadowmaskformer.photo import format_of_path, local_path

    if "-" in (*args.photos, args.output):
        raise ConfigError("many photos cannot come from or go to a pipe", "give files and folders")
    if any(vars(args)[name] for name in _ABOUT_ONE):
        raise ConfigError("hints, --only, --mask and --list are about one photo", "give one photo")
    if args.output and not Path(args.output).is_dir() and (Path(args.output).exists() or format_of_path(args.output)):
        raise ConfigError(f"{shown(args.output)} is one file", "give {output} a folder for the masks")
    for path in filter(None, (*args.photos, args.output)):
        local_path(path)
    targets: dict[str, Path] = {}
    photos: dict[Path, str] = {}
    for item in plan(args.photos, args.output, recursive=args.recursive):
        target = Path(item.output).with_name(f"{Path(item.photo).stem}-mask.png")
        if target in photos:
            both = f"{shown(photos[target])} and {shown(item.photo)}"
            raise ConfigError(f"{both} would have one mask, {shown(target)}", "rename one of them")
        photos[target], targets[item.photo] = item.photo, target
    if not targets:
        where = ", ".join(map(shown, args.photos))
        raise ImageReadError(f"{where}: no photos in this folder", "--recursive looks into subfolders")
    return targets


def _settle(
    detector: ShadowDetector, source: str, target: Path, args: argparse.Namespace
) -> tuple[str, dict[str, Any]]:
    """Write the mask of a photo unless it is there; return what became of it and what is told about it."""
    from shadowmaskformer.files import check_output, make_folder, write_atomically

    if target.exists() and not args.overwrite:
        return "skipped", {}
    began = time.perf_counter()
    photo = read(source, args)
    found = detector.detect_in_photo(photo)
    if not found.shadows:
        raise NoShadowError(f"{photo.name}: no shadow found", "if there is one, say where with {hints}")
    overlay = target.with_name(f"{target.stem}-overlay.jpg") if args.overlay else None
    for path in filter(None, (target, overlay)):
        make_folder(path.parent)
        check_output(path, [source], overwrite=args.overwrite)
    if overlay:  # first, so that the mask is there only when all is
        write_atomically(overlay, overlay_file(found.mask, photo), overwrite=args.overwrite)
    write_atomically(target, mask_file(found.mask, photo), overwrite=args.overwrite)
    return "done", {
        "overlay": str(overlay) if overlay else None,
        "share": round(sum(shadow.share for shadow in found.shadows), 4),
        "shadows": len(found.shadows),
        "seconds": round(time.perf_counter() - began, 3),
        "warnings": [said(line, "command") for line in photo.warnings],
    }
