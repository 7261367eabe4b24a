"""Remove shadows from photographs: those that a mask marks, or those that are found.

The result keeps the photo's size, format, bit depth and metadata. Changes end where the shadow's soft edge does, which
may lie a few percent of the width outside the mask; --exact-mask --feather 0 changes nothing outside it. The mask is
any picture of the photo's shape, white where the shadow is: paint over the shadow in any program that has a brush, on a
black copy or a transparent layer, and save it as PNG.

A mask that misses much of the shadow is widened to its edge; --exact-mask keeps it. Without a mask, shadows are found;
`shadowmaskformer mask` shows which, and explains hints.

Several photos or folders are a batch: all cores work, a photo that fails does not stop the others, and the same command
goes on where the last one was stopped. The manifest remembers what was done, one line of JSON for each photo.

examples:
  shadowmaskformer remove beach.jpg
      finds the shadows and writes beach-no-shadow.jpg
  shadowmaskformer remove beach.jpg --hint 420,310 --not 80,95
      there is shadow at x = 420, y = 310, and none at x = 80, y = 95
  shadowmaskformer remove beach.jpg --mask beach-mask.png
      only the shadow that is white in the mask
  shadowmaskformer remove beach.jpg --only 2
      only the second of the shadows that `mask beach.jpg --list` numbers
  shadowmaskformer remove beach.jpg --mask mask.png -o result.png --compare
      also writes result-compare.jpg: before | mask | after
  cat beach.jpg | shadowmaskformer remove - --mask mask.png -o - > result.jpg
      reads standard input, writes standard output
  shadowmaskformer remove holiday --recursive --masks holiday-masks -o results
      a folder with its subfolders; the mask of holiday/a/b.jpg is holiday-masks/a/b.png
  shadowmaskformer remove inbox -o results --watch
      each photo that arrives in the folder, with inbox/NAME-mask.png as its mask
  shadowmaskformer remove s3://bucket/photos -o s3://bucket/results --engine ray --address auto
      on a Ray cluster

exit codes: 0 all done or skipped; 1 some photos failed or had no shadow; 2 wrong usage, nothing touched; 3 nothing
could be done; 4 no shadow found in any photo; 130 interrupted
"""

from __future__ import annotations

import argparse
import json
import sys
import time
from pathlib import Path

from shadowmaskformer.cli.mask import Once, add_hints, add_reading, add_runtime, hints_of, read

HELP = "remove the shadow from a photo"


def configure(parser: argparse.ArgumentParser) -> None:
    parser.usage = "%(prog)s PHOTO [PHOTO …] [--mask MASK] [-o OUTPUT] [options; --help lists them]"
    parser.add_argument("photos", nargs="+", metavar="PHOTO", help="photos and folders, or - for standard input")
    parser.add_argument(
        "--mask",
        action=Once,
        help="the shadow: white on black, or painted on a transparent layer (default: shadows are found)",
    )
    parser.add_argument(
        "-o", "--output", help="file or folder to write to (default: PHOTO-no-shadow beside it); - for standard output"
    )
    parser.add_argument("--overwrite", action="store_true", help="replace the output if it exists")
    parser.add_argument("--compare", action="store_true", help="also write a picture: before | mask | after")
    many = parser.add_argument_group("many photos")
    many.add_argument(
        "-r", "--recursive", action="store_true", help="look into subfolders; they are kept in the output"
    )
    many.add_argument(
        "--masks", metavar="FOLDER", help="masks named like their photos (default: NAME-mask beside each photo)"
    )
    many.add_argument("--require-mask", action="store_true", help="photos without a mask fail")
    many.add_argument("--watch", action="store_true", help="go on with what is added to the folders, until Ctrl-C")
    many.add_argument("--workers", type=int, metavar="N", help="processes (default: one for each core)")
    many.add_argument("--manifest", metavar="FILE", help="what was done, as JSON lines (default: in the output folder)")
    many.add_argument("--engine", choices=("local", "ray"), default="local", help="ray: Ray Data; takes URLs too")
    many.add_argument("--address", help="of a Ray cluster (default: RAY_ADDRESS, else one on this computer)")
    look = parser.add_argument_group("result")
    look.add_argument("--format", help="jpeg, png, webp, tiff, … (default: the output's ending, else as the photo)")
    look.add_argument("--quality", type=int, help="1–100, lossy formats only (default: visually lossless)")
    look.add_argument(
        "--strength", type=float, default=1.0, metavar="S", help="how much of the shadow goes, 0 to 1 (default: 1)"
    )
    look.add_argument("--raw", action="store_true", help="the network's whole picture, not pasted into the photo")
    mask = parser.add_argument_group("mask")
    mask.add_argument(
        "--grow", dest="grow_px", type=int, default=0, metavar="PX", help="grow the mask by PX pixels; negative shrinks"
    )
    mask.add_argument(
        "--feather",
        dest="feather_px",
        type=float,
        metavar="PX",
        help="fade out over about PX around the mask (default: where the shadow fades)",
    )
    mask.add_argument("--invert-mask", action="store_true", help="the mask is black where the shadow is")
    mask.add_argument("--exact-mask", action="store_true", help="do not widen the mask to the shadow's edge")
    add_hints(parser)
    how = parser.add_argument_group("how")
    how.add_argument("--method", choices=("network", "relight"), default="network",
                     help="relight uses no network; it measures the light along the shadow's edge")  # fmt: skip
    how.add_argument("--weights", help="shipped name, folder, hf:owner/name, .onnx or .xml file (default: default)")
    add_runtime(how)
    how.add_argument("--threads", type=int, help="CPU threads (default: all; 1 for each of many workers)")
    add_reading(how)
    how.add_argument("--drop-metadata", action="store_true", help="leave out EXIF, texts and resolution; colours stay")
    parser.add_argument("--json", action="store_true", help="print machine-readable output, one line of JSON")
    parser.add_argument("-q", "--quiet", action="store_true", help="print errors only")


def run(args: argparse.Namespace) -> int:
    from shadowmaskformer.cli import many
    from shadowmaskformer.errors import ConfigError

    if args.workers is not None and args.workers < 1:
        raise ConfigError(f"--workers is {args.workers}", "give a whole number, at least 1")
    if many.is_meant(args):
        return many.run(args)
    args.photo = args.photos[0]
    return _remove_one(args)


def _remove_one(args: argparse.Namespace) -> int:
    from shadowmaskformer.batch.plan import mask_beside
    from shadowmaskformer.cli import console
    from shadowmaskformer.errors import ConfigError, NoShadowError, said
    from shadowmaskformer.files import check_output, shown, write_atomically
    from shadowmaskformer.machine import tune_allocator
    from shadowmaskformer.photo import choose_format, local_path
    from shadowmaskformer.removal.job import compare, output_path
    from shadowmaskformer.removal.options import Options, complete
    from shadowmaskformer.removal.remover import ShadowRemover

    began = time.perf_counter()
    options: Options = {name: vars(args)[name] for name in Options.__annotations__ if name in vars(args)}  # type: ignore[assignment]
    complete(options)
    from_stdin = args.photo == "-"
    to_stdout = args.output == "-" or (from_stdin and args.output is None)
    if from_stdin and args.mask == "-":
        raise ConfigError("photo and mask cannot both come from standard input", "save one of them")
    if to_stdout and (args.json or args.compare):
        raise ConfigError("--json and --compare need a file for the picture", "give -o FILE")
    if args.only and args.mask is not None:
        raise ConfigError("--only chooses among shadows that are found", "leave --mask out")
    if args.only and args.invert_mask:
        raise ConfigError("there is no mask to invert", "leave --invert-mask out")
    if args.mask is None and not from_stdin and not args.only:
        args.mask = mask_beside(args.photo)
        if args.mask and not args.quiet and not args.json:
            print(f"using the mask {shown(args.mask)}", file=sys.stderr)
    inputs = [Path(local_path(name)) for name in (args.photo, args.mask, args.scribbles) if name not in (None, "-")]
    choose_format("PNG", wanted=args.format)  # before any work
    if to_stdout:
        console.check_stdout()
    photo = console.read_stdin() if from_stdin else args.photo
    target = None if to_stdout else output_path(photo, args.output, args.format)
    if target and args.output and target == Path(args.output):
        choose_format("PNG", path=target, wanted=args.format)
    comparison = target.with_name(f"{target.stem}-compare.jpg") if target and args.compare else None
    for path in filter(None, (target, comparison)):
        check_output(path, inputs, overwrite=args.overwrite)

    hints = hints_of(args, photo)
    mask = console.read_stdin() if args.mask == "-" else args.mask
    if args.runtime == "torch":
        tune_allocator()
    with _waiting(args.quiet or args.json):
        remover = ShadowRemover(
            args.weights, method=args.method, runtime=args.runtime, device=args.device, threads=args.threads
        )
        found = None
        if args.only:
            upright = read(photo, args)
            found = remover.detector.detect_in_photo(upright, hints=hints)
            if not found.shadows:
                raise NoShadowError(f"{upright.name}: no shadow found", "if there is one, say where with {hints}")
            mask, hints = found.choose(*args.only), ()
        result = remover.remove_file(photo, mask, name=target.name if target else None, hints=hints, **options)
    warnings = [said(line, "command") for line in result.warnings]
    if not args.quiet and not args.json:
        if found:
            print(f"{len(set(args.only))} of {found}", file=sys.stderr)
        elif args.mask is None and result.removal.detection:
            print(result.removal.detection, file=sys.stderr)
        for line in warnings:
            print(f"warning: {line}", file=sys.stderr)
    if target is None:
        console.write_stdout(result.data)
        return 0
    write_atomically(target, result.data, overwrite=args.overwrite)
    if comparison:
        write_atomically(comparison, compare(result.removal), overwrite=args.overwrite)
    seconds = time.perf_counter() - began
    if args.json:
        from shadowmaskformer import __version__

        print(json.dumps({
            "input": args.photo, "mask": args.mask, "output": str(target),
            "compare": str(comparison) if comparison else None, **result.facts(), "method": args.method,
            "weights": (args.weights or "default") if remover.session else None,
            "runtime": remover.session.name if remover.session else None, "seconds": round(seconds, 3),
            "version": __version__, "warnings": warnings,
        }))  # fmt: skip
    elif not args.quiet:
        size = result.removal.before
        print(f"{shown(target)}  ({size.width}×{size.height}, {seconds:.1f} s)")
        if comparison:
            print(shown(comparison))
    return 0


class _waiting:  # noqa: N801  used as a statement: `with _waiting(quiet):`
    """Show elapsed seconds on a terminal while the network works; nothing in a pipe."""

    def __init__(self, quiet: bool) -> None:
        self.active = not quiet and sys.stderr.isatty()

    def __enter__(self) -> None:
        if self.active:
            import threading

            from tqdm import tqdm

            self.bar = tqdm(bar_format="removing the shadow … {elapsed}", leave=False)
            self.done = threading.Event()
            self.thread = threading.Thread(target=self._tick, daemon=True)
            self.thread.start()

    def _tick(self) -> None:
        while not self.done.wait(0.5):
            self.bar.refresh()

    def __exit__(self, *_: object) -> None:
        if self.active:
            self.done.set()
            self.thread.join()
            self.bar.close()
