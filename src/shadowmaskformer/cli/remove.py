"""Remove the shadow that a mask marks from a photograph.

The result keeps the photo's size, format, bit depth and metadata, and every pixel outside the mask and its soft
border. The mask is any picture of the photo's shape, white where the shadow is.

examples:
  shadowmaskformer remove beach.jpg --mask beach-mask.png
      writes beach-no-shadow.jpg
  shadowmaskformer remove beach.jpg --mask mask.png -o result.png --compare
      also writes result-compare.jpg: before | mask | after
  cat beach.jpg | shadowmaskformer remove - --mask mask.png -o - > result.jpg
      reads standard input, writes standard output
"""

from __future__ import annotations

import argparse
import json
import sys
import time
from pathlib import Path

HELP = "remove the shadow from a photo"


def configure(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("photo", help="the photo, or - for standard input")
    parser.add_argument("--mask", required=True, help="the shadow: white on black, or a painted transparent layer")
    parser.add_argument(
        "-o", "--output", help="where to write (default: PHOTO-no-shadow beside it); - for standard output"
    )
    parser.add_argument("--overwrite", action="store_true", help="replace the output if it is there")
    parser.add_argument("--compare", action="store_true", help="also write a picture: before | mask | after")
    look = parser.add_argument_group("result")
    look.add_argument("--format", help="jpeg, png, webp, tiff, … (default: the output's ending, else as the photo)")
    look.add_argument("--quality", type=int, help="1–100 for formats that lose (default: nothing visible is lost)")
    look.add_argument("--raw", action="store_true", help="the network's whole picture, not pasted into the original")
    mask = parser.add_argument_group("mask")
    mask.add_argument(
        "--grow", type=int, default=0, metavar="PX", help="grow the mask by so many pixels; negative shrinks"
    )
    mask.add_argument("--feather", type=float, metavar="PX", help="width of its soft border (default: fits the photo)")
    mask.add_argument("--invert-mask", action="store_true", help="the mask is black where the shadow is")
    how = parser.add_argument_group("how")
    how.add_argument("--method", choices=("network", "relight"), default="network",
                     help="relight: no network, the light is measured along the shadow's edge")  # fmt: skip
    how.add_argument("--weights", default="default", help="shipped name, folder, hub repository or exported file")
    how.add_argument(
        "--runtime",
        choices=("native", "torch", "onnx", "openvino"),
        help="default: native, the fastest on a CPU",
    )
    how.add_argument("--device", help="cpu, cuda, mps (default: cpu; others run on PyTorch)")
    how.add_argument("--threads", type=int, help="CPU threads (default: all)")
    how.add_argument("--max-pixels", type=int, help="refuse larger photos (default: 178,956,970)")
    how.add_argument("--frame", type=int, help="which picture of an animated or multi-page file, 0 = first")
    how.add_argument("--drop-metadata", action="store_true", help="leave out EXIF, texts and resolution; colours stay")
    parser.add_argument("--json", action="store_true", help="print what was done as one line of JSON")
    parser.add_argument("-q", "--quiet", action="store_true", help="print errors only")


def run(args: argparse.Namespace) -> int:
    from shadowmaskformer import masks
    from shadowmaskformer.errors import ConfigError, ImageReadError, OutputError
    from shadowmaskformer.files import check_output, shown, write_atomically
    from shadowmaskformer.machine import tune_allocator
    from shadowmaskformer.photo import encoding_losses, file_of, local_path, read_photo
    from shadowmaskformer.removal.remover import ShadowRemover, compare, default_output

    began = time.perf_counter()
    from_stdin, to_stdout = (
        args.photo == "-",
        args.output == "-" or (args.photo == "-" and args.output is None),
    )
    if from_stdin and args.mask == "-":
        raise ConfigError("photo and mask cannot both come from standard input; save one of them")
    if args.quality is not None and not 1 <= args.quality <= 100:
        raise ConfigError(f"--quality is {args.quality}; give 1 to 100")
    if args.max_pixels is not None and args.max_pixels < 1:
        raise ConfigError(f"--max-pixels is {args.max_pixels}; give at least 1")
    if to_stdout and (args.json or args.compare):
        raise ConfigError("--json and --compare need a file for the picture; give -o FILE")
    if "-" in (args.photo, args.mask) and sys.stdin is None:
        raise ImageReadError("standard input is closed; give the path of a picture")
    if to_stdout and sys.stdout is None:
        raise OutputError("standard output is closed; give -o FILE")
    inputs = [Path(local_path(name)) for name in (args.photo, args.mask) if name != "-"]
    chosen = _format(args)
    target = None if to_stdout else Path(args.output) if args.output else default_output(Path(args.photo))
    if target and args.format and not args.output:
        target = target.with_suffix("." + args.format.lower().removeprefix("."))
    comparison = target.with_name(f"{target.stem}-compare.jpg") if target and args.compare else None
    for path in filter(None, (target, comparison)):
        check_output(path, inputs, overwrite=args.overwrite)

    limits = {"max_pixels": args.max_pixels} if args.max_pixels else {}
    photo = read_photo(
        sys.stdin.buffer.read() if from_stdin else args.photo,
        frame=args.frame, drop_metadata=args.drop_metadata, **limits,
    )  # fmt: skip
    mask, told = masks.read_mask(sys.stdin.buffer.read() if args.mask == "-" else args.mask, **limits)
    if args.runtime == "torch":
        tune_allocator()
    with _waiting(args.quiet or args.json):
        remover = ShadowRemover(
            args.weights, method=args.method, runtime=args.runtime, device=args.device, threads=args.threads
        )
        removal = remover.remove_from_photo(
            photo,
            mask,
            grow_px=args.grow,
            feather_px=args.feather,
            invert_mask=args.invert_mask,
            raw=args.raw,
        )
    data = file_of(removal.after, format=chosen, quality=args.quality)
    warnings = [*told, *removal.warnings, *encoding_losses(removal.after, chosen)]
    if not args.quiet and not args.json:
        for line in warnings:
            print(f"warning: {line}", file=sys.stderr)
    if target is None:
        try:
            sys.stdout.buffer.write(data)
            sys.stdout.buffer.flush()
        except OSError as error:
            raise OutputError(f"standard output: the picture was lost ({error.strerror}); give -o FILE") from error
        return 0
    write_atomically(target, data, overwrite=args.overwrite)
    if comparison:
        write_atomically(comparison, compare(removal), overwrite=args.overwrite)
    seconds = time.perf_counter() - began
    if args.json:
        print(json.dumps({
            "output": str(target), "compare": str(comparison) if comparison else None, "width": photo.width,
            "height": photo.height, "shadow_share": round(float(removal.mask.mean()), 4), "method": args.method,
            "runtime": remover.runtime.name if remover.runtime else None, "seconds": round(seconds, 3),
            "warnings": warnings,
        }))  # fmt: skip
    elif not args.quiet:
        print(f"{shown(target)}  ({photo.width}×{photo.height}, {seconds:.1f} s)")
        if comparison:
            print(shown(comparison))
    return 0


def _format(args: argparse.Namespace) -> str | None:
    """The format that the options ask for; None leaves it to the photo."""
    from shadowmaskformer.errors import ConfigError, OutputError
    from shadowmaskformer.files import shown
    from shadowmaskformer.photo import choose_format

    named = None if args.output in (None, "-") else str(args.output)
    wanted = args.format or (named and Path(named).suffix)
    try:
        return None if wanted is None else choose_format("PNG", wanted=wanted)[0].name
    except OutputError as error:
        where = "--format" if args.format or named is None else shown(named)
        raise ConfigError(f"{where}: {error}") from error


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
