"""Find the shadows in a photograph and write them as a mask, white where the shadow is.

Clicks help where the detector is wrong: --hint X,Y says that there is shadow at this pixel of the upright photo,
--not X,Y that there is none, --box holds a shadow. --scribbles takes a picture of the photo's size, in which shadow is
painted over in green and what is no shadow in red. All but the picture can be given several times. --mask widens a
rough mask to the shadow's edge.

Several photos or folders get a mask each, beside them or in the folder of -o; a mask that is there already stays. Look
at them, mend those that are wrong, and `remove` uses them: beside the photos, or with --masks.

examples:
  shadowmaskformer mask beach.jpg
      writes beach-mask.png
  shadowmaskformer mask beach.jpg --list
      the shadows one by one: number, share of the photo, box
  shadowmaskformer mask beach.jpg --only 1 --only 3 --overlay
      the first and the third alone; also writes beach-mask-overlay.jpg, the photo with them in red
  shadowmaskformer mask beach.jpg --hint 420,310 --not 80,95
      there is shadow at x = 420, y = 310, and none at x = 80, y = 95
  shadowmaskformer mask holiday --recursive -o holiday-masks --overlay
      a folder with its subfolders, for `remove holiday --recursive --masks holiday-masks`
  cat beach.jpg | shadowmaskformer mask - -o - > mask.png
      reads standard input, writes standard output

exit codes: 0 done; 1 some photos failed or had no shadow; 2 wrong usage; 3 nothing could be done; 4 no shadow found
"""

from __future__ import annotations

import argparse
import json
import sys
import time
from pathlib import Path
from typing import TYPE_CHECKING, Any

from shadowmaskformer.errors import ConfigError
from shadowmaskformer.runtimes import BACKENDS

if TYPE_CHECKING:
    from shadowmaskformer.arrays import Floats
    from shadowmaskformer.detect.hints import Hint
    from shadowmaskformer.photo import Photo

HELP = "find the shadows in photos"
OVERLAY_PIXELS = 2_000_000


def configure(parser: argparse.ArgumentParser) -> None:
    parser.usage = "%(prog)s PHOTO [PHOTO …] [-o OUTPUT] [--overlay] [--list] [options; --help lists them]"
    parser.add_argument("photos", nargs="+", metavar="PHOTO", help="photos and folders, or - for standard input")
    parser.add_argument(
        "-o",
        "--output",
        help="PNG file or folder to write to (default: PHOTO-mask.png beside it); - for standard output",
    )
    parser.add_argument("--overwrite", action="store_true", help="replace the output if it exists")
    parser.add_argument(
        "-r", "--recursive", action="store_true", help="look into subfolders; they are kept in the output"
    )
    parser.add_argument("--overlay", action="store_true", help="also write the photo with the shadows in red")
    parser.add_argument("--list", action="store_true", help="print the shadows one by one and write nothing")
    add_hints(parser)
    parser.add_argument("--mask", action=Once, help="a rough mask, to be widened to the shadow's edge")
    how = parser.add_argument_group("how")
    how.add_argument("--weights", help="shipped name, folder, hf:owner/name, .onnx or .xml file (default: detector)")
    add_runtime(how)
    how.add_argument("--threads", type=int, help="CPU threads (default: all)")
    add_reading(how)
    parser.add_argument("--json", action="store_true", help="print machine-readable output, one line of JSON")
    parser.add_argument("-q", "--quiet", action="store_true", help="print errors only")


def add_runtime(group: argparse._ActionsContainer) -> None:  # pyright: ignore[reportPrivateUsage]
    """Add the options that say what runs the network, and where."""
    group.add_argument("--runtime", choices=tuple(BACKENDS), help="default: native, the fastest on a CPU")
    group.add_argument(
        "--device",
        help="cpu; on PyTorch also cuda, mps, xpu (default: cpu; on PyTorch a GPU if there is one)",
    )


def add_reading(group: argparse._ArgumentGroup) -> None:  # pyright: ignore[reportPrivateUsage]
    """Add the options that say how the photo is read."""
    group.add_argument(
        "--max-pixels", type=int, default=argparse.SUPPRESS, help="refuse larger photos (default: 178,956,970)"
    )
    group.add_argument("--frame", type=int, help="which picture of an animated or multi-page file, 0 = first")


class Once(argparse.Action):
    """Stores a value; a second one is an error, because the first would be lost without a word."""

    def __call__(self, parser: argparse.ArgumentParser, namespace: argparse.Namespace, values: Any, *_: Any) -> None:
        """Store `values`."""
        if getattr(namespace, self.dest) is not None:
            raise argparse.ArgumentError(self, "can be given only once")
        setattr(namespace, self.dest, values)


def add_hints(parser: argparse.ArgumentParser) -> None:
    """Add the options that say which shadow is meant, and where it is."""
    parser.add_argument(
        "--only",
        type=int,
        action="append",
        default=[],
        metavar="N",
        help="only this shadow of those that `mask --list` numbers; repeatable",
    )
    hints = parser.add_argument_group("hints, in pixels of the upright photo; repeatable")
    hints.add_argument("--hint", action="append", default=[], metavar="X,Y", help="there is shadow here")
    hints.add_argument("--not", dest="no_shadow", action="append", default=[], metavar="X,Y", help="there is none here")
    hints.add_argument("--box", action="append", default=[], metavar="L,T,R,B", help="the shadow lies in this box")
    hints.add_argument(
        "--scribbles", action=Once, metavar="PICTURE", help="shadow painted over in green, what is none in red; once"
    )


def hints_of(args: argparse.Namespace, photo: Photo | str | bytes) -> tuple[Hint, ...]:
    """Return the hints of `add_hints`, for a photo or its file."""
    from shadowmaskformer.detect.hints import Hint

    places = [("--hint", text, True) for text in args.hint] + [("--not", text, False) for text in args.no_shadow]
    hints: list[Hint] = []
    for option, text, shadow in places:
        x, y = _numbers(text, 2, option)
        hints.append(Hint.click(x, y, shadow))
    for text in args.box:
        left, top, right, bottom = _numbers(text, 4, "--box")
        hints.append(Hint.box(left, top, right, bottom))
    if args.scribbles:
        hints += _scribbles(args.scribbles, photo, args)
    return tuple(hints)


def read(source: str | bytes, args: argparse.Namespace) -> Photo:
    """Return a photo as `add_reading` says, without its metadata, which nothing here writes."""
    from shadowmaskformer.photo import read_photo

    return read_photo(source, max_pixels=_most_pixels(args), frame=args.frame, drop_metadata=True)


def _most_pixels(args: argparse.Namespace) -> int:
    from shadowmaskformer.photo import MAX_PIXELS

    return getattr(args, "max_pixels", MAX_PIXELS)


def _scribbles(path: str, photo: Photo | str | bytes, args: argparse.Namespace) -> list[Hint]:
    """Return the hints in a picture of scribbles; one of another size is scaled to the photo's."""
    import numpy as np

    from shadowmaskformer.detect.hints import read_scribbles
    from shadowmaskformer.errors import MaskError
    from shadowmaskformer.files import shown
    from shadowmaskformer.masks.read import same_proportions
    from shadowmaskformer.photo import read_photo

    drawn = read_photo(path, drop_metadata=True)
    under = read(photo, args) if isinstance(photo, str | bytes) else photo
    if not same_proportions(drawn.height, drawn.width, under.height, under.width):
        sizes = f"is {drawn.width}x{drawn.height}, but the photo is {under.width}x{under.height}"
        raise MaskError(f"{shown(path)}: {sizes} (width x height)", "save the scribbles at the photo's size")
    layers = drawn.pixels if drawn.alpha is None else np.dstack((drawn.pixels, drawn.alpha))
    across, down = under.width / drawn.width, under.height / drawn.height
    return [hint.scaled(across, down) for hint in read_scribbles(layers, under.pixels)]


def _numbers(text: str, count: int, option: str) -> list[float]:
    try:
        numbers = [float(part) for part in text.split(",")]
    except ValueError:
        numbers = []
    if len(numbers) != count:
        like = "420,310" if count == 2 else "100,80,420,310"
        raise ConfigError(f"{option} {text!r} is no place", f"write {option} {like}, in pixels of the photo")
    return numbers


def run(args: argparse.Namespace) -> int:
    first = args.photos[0]
    if len(args.photos) > 1 or args.recursive or (first not in ("", "-") and Path(first).is_dir()):
        from shadowmaskformer.cli import many_masks

        return many_masks.run(args)
    args.photo = first
    return _of_one(args)


def _of_one(args: argparse.Namespace) -> int:
    from shadowmaskformer import masks
    from shadowmaskformer.cli import console
    from shadowmaskformer.detect.detector import ShadowDetector
    from shadowmaskformer.errors import NoShadowError, said
    from shadowmaskformer.files import check_output, shown, write_atomically
    from shadowmaskformer.photo import local_path

    began = time.perf_counter()
    from_stdin = args.photo == "-"
    to_stdout = not args.list and (args.output == "-" or (from_stdin and args.output is None))
    if from_stdin and args.mask == "-":
        raise ConfigError("photo and mask cannot both come from standard input", "save one of them")
    if args.list and (args.output or args.overlay):
        raise ConfigError("--list writes no picture", "leave it out, or leave out -o and --overlay")
    if to_stdout and (args.json or args.overlay):
        raise ConfigError("--json and --overlay need a file for the mask", "give -o FILE")
    inputs = [Path(local_path(name)) for name in (args.photo, args.mask, args.scribbles) if name not in (None, "-")]
    target = None if args.list or to_stdout else _target("photo" if from_stdin else args.photo, args.output)
    overlay = target.with_name(f"{target.stem}-overlay.jpg") if target and args.overlay else None
    for path in filter(None, (target, overlay)):
        check_output(path, inputs, overwrite=args.overwrite)
    if to_stdout:
        console.check_stdout()

    photo = read(console.read_stdin() if from_stdin else args.photo, args)
    warnings, rough = [*photo.warnings], None
    if args.mask is not None:
        given = console.read_stdin() if args.mask == "-" else args.mask
        rough, notes = masks.prepare(given, photo.height, photo.width, max_pixels=_most_pixels(args))
        warnings += notes
    hints = hints_of(args, photo)
    detector = ShadowDetector(args.weights, runtime=args.runtime, device=args.device, threads=args.threads)
    found = detector.detect_in_photo(photo, hints=hints, mask=rough)
    warnings = [said(line, "command") for line in warnings]
    if not args.quiet and not args.json:
        for line in warnings:
            print(f"warning: {line}", file=sys.stderr)
    if not found.shadows:
        raise NoShadowError(f"{photo.name}: no shadow found", "if there is one, say where with {hints}")
    mask = found.only(*args.only) if args.only else found.mask
    chosen = [shadow for shadow in found.shadows if not args.only or shadow.number in args.only]
    if target:
        write_atomically(target, mask_file(mask, photo), overwrite=args.overwrite)
    if overlay:
        write_atomically(overlay, overlay_file(mask, photo), overwrite=args.overwrite)
    if to_stdout:
        console.write_stdout(mask_file(mask, photo))
    if args.json:
        print(json.dumps({
            "input": args.photo, "output": str(target) if target else None,
            "overlay": str(overlay) if overlay else None, "share": round(sum(s.share for s in chosen), 4),
            "shadows": [{"number": s.number, "share": round(s.share, 4), "box": s.box} for s in chosen],
            "note": found.note, "seconds": round(time.perf_counter() - began, 3), "warnings": warnings,
        }))  # fmt: skip
    elif args.list:
        for shadow in chosen:
            left, top, right, bottom = shadow.box
            print(f"{shadow.number:3}  {100 * shadow.share:5.1f} %  x {left} to {right}, y {top} to {bottom}")
    elif not args.quiet:
        if found.note:
            print(found.note, file=sys.stderr)
        what = f"{found}"
        if args.only:
            share = 100 * sum(shadow.share for shadow in chosen)
            what = f"{len(chosen)} of {len(found.shadows)} shadows, {share:.0f} % of the photo"
        if target:
            print(f"{shown(target)}  ({what}, {time.perf_counter() - began:.1f} s)")
        else:
            print(what, file=sys.stderr)
        if overlay:
            print(shown(overlay))
    return 0


def _target(photo: str, output: str | None) -> Path:
    """Return where the mask of a photo goes."""
    from shadowmaskformer.files import inside, shown

    source = Path(photo)
    beside = source.with_name(f"{source.stem}-mask.png")
    target = beside if output is None else inside(output, beside.name)
    if target.suffix.lower() != ".png":
        raise ConfigError(f"{shown(target)}: masks are PNG files", "give {output} a name that ends in .png")
    return target


def mask_file(mask: Floats, photo: Photo) -> bytes:
    """Return a mask as a PNG file of the photo's size."""
    import numpy as np

    from shadowmaskformer import masks
    from shadowmaskformer.arrays import from_float
    from shadowmaskformer.photo import Photo, encode_photo

    levels = from_float(masks.resize(mask, photo.height, photo.width))
    return encode_photo(Photo(np.repeat(levels[..., None], 3, axis=2), gray=True), format="PNG")


def overlay_file(mask: Floats, photo: Photo) -> bytes:
    """Return the photo with the shadows in red, as a JPEG file."""
    import numpy as np

    from shadowmaskformer import masks
    from shadowmaskformer.arrays import average_down, fit_pixels, from_float
    from shadowmaskformer.photo import Photo, encode_photo

    size = fit_pixels(photo.height, photo.width, OVERLAY_PIXELS)
    share = 0.6 * masks.resize(mask, *size)[..., None]
    red = np.array([0.9, 0.1, 0.1], np.float32)
    picture = from_float(average_down(photo.pixels, *size) * (1 - share) + share * red)
    return encode_photo(Photo(picture), format="JPEG", quality=90)
