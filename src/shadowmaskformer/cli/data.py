"""Check a data set, and add what it lacks.

Recognises ISTD, ISTD+, SRD, the released code's cond/gt/mask folders, lists of input|mask|gt and plain folders
(shadow, mask, clean). Pictures are paired by name.

  check    report pairs, sizes, files that are unreadable, unpaired or misaligned, and scenes that train and test
           share; draw a contact sheet; exit with code 1 if files are unfit for training
  masks    derive a mask for each pair that has none
  adjust   make ISTD+ from ISTD: truth in the light of the shadow pictures
  draw     make a data set by drawing shadows on photographs that have none

examples:
  shadowmaskformer data check SRD
  shadowmaskformer data masks SRD -o SRD-masks
  shadowmaskformer data adjust ISTD -o ISTD-plus
  shadowmaskformer data draw holiday-photos -o drawn --per-photo 8
"""

from __future__ import annotations

import argparse
import json
import sys
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from shadowmaskformer.data import Dataset
    from shadowmaskformer.data.check import DatasetReport
    from shadowmaskformer.data.writers import Written

HELP = "check a data set, derive its masks, adjust its truth, draw shadows"
LISTED = 20
SHEET_FORMATS = ("JPEG", "PNG")


def configure(parser: argparse.ArgumentParser) -> None:
    actions = parser.add_subparsers(dest="action", metavar="ACTION", required=True)
    check = actions.add_parser("check", help="report what a data set holds and what is wrong with it")
    check.add_argument(
        "-o",
        "--output",
        type=Path,
        metavar="SHEET",
        help="contact sheet, .jpg or .png (default: NAME-sheet.jpg in the current folder; none with --json)",
    )
    check.add_argument("--json", action="store_true", help="print the full report as JSON")
    masks = actions.add_parser("masks", help="derive a mask for each pair that has none")
    masks.add_argument("-o", "--output", type=Path, help="folder to write (default: beside the shadow pictures)")
    adjust = actions.add_parser("adjust", help="make ISTD+ from ISTD")
    adjust.add_argument("-o", "--output", type=Path, required=True, help="folder to write")
    draw = actions.add_parser("draw", help="draw synthetic shadows on photographs")
    draw.add_argument("-o", "--output", type=Path, required=True, help="folder to write")
    draw.add_argument("--per-photo", type=int, default=4, metavar="N", help="shadows per photo (default: 4)")
    draw.add_argument("--seed", type=int, default=0, help="which shadows are drawn (default: 0)")
    for action in (check, masks, adjust, draw):
        holds = "folder of photographs without shadows" if action is draw else "the data set's folder"
        action.add_argument("folder", type=Path, help=holds)
        action.add_argument("--overwrite", action="store_true", help="replace existing files")
        action.add_argument("--debug", action="store_true", default=argparse.SUPPRESS, help=argparse.SUPPRESS)


def run(args: argparse.Namespace) -> int:
    return _check(args.folder, args.output, args) if args.action == "check" else _write(args.action, args)


def _check(folder: Path, sheet: Path | None, args: argparse.Namespace) -> int:
    from shadowmaskformer.cli.progress import ProgressBar
    from shadowmaskformer.data import open_dataset
    from shadowmaskformer.data.check import check
    from shadowmaskformer.errors import ConfigError
    from shadowmaskformer.files import check_output
    from shadowmaskformer.photo import endings

    if sheet is not None:
        if sheet.suffix.lower() not in endings(SHEET_FORMATS):
            raise ConfigError(f"{sheet}: not a .jpg or .png name", "name the contact sheet so with {output}")
        check_output(sheet, overwrite=args.overwrite)
    dataset = open_dataset(folder)
    report = check(dataset, progress=ProgressBar("checking", "pair"))
    print(json.dumps(report.as_json(), indent=2) if args.json else _text(report))
    if sheet is not None:
        _save_sheet(dataset, sheet, args.overwrite)
    elif not args.json:
        _save_default_sheet(dataset, folder, args.overwrite)
    return 1 if report.faults else 0


def _write(action: str, args: argparse.Namespace) -> int:
    from shadowmaskformer.cli.progress import ProgressBar
    from shadowmaskformer.data import open_dataset
    from shadowmaskformer.data.writers import write_adjusted, write_masks, write_synthetic
    from shadowmaskformer.errors import ConfigError

    output, overwrite = args.output, args.overwrite
    if action == "masks":
        done = write_masks(
            open_dataset(args.folder), output, overwrite=overwrite, progress=ProgressBar("deriving", "pair")
        )
        if done.not_needed and not (done.written or done.already_there or done.failed):
            print(f"nothing to derive: all {done.not_needed:,} pairs have masks of the data set's own")
            return 0
        if done.not_needed:
            print(f"{done.not_needed:,} pairs have masks of the data set's own and are left alone")
        return _summary("masks", done)
    if action == "adjust":
        done = write_adjusted(
            open_dataset(args.folder), output, overwrite=overwrite, progress=ProgressBar("adjusting", "pair")
        )
        return _summary("clean pictures", done)
    if args.per_photo < 1 or args.seed < 0:
        raise ConfigError(
            f"--per-photo {args.per_photo} --seed {args.seed} cannot be", "give at least {per_photo=1} and {seed=0}"
        )
    done = write_synthetic(
        args.folder,
        output,
        per_photo=args.per_photo,
        seed=args.seed,
        overwrite=overwrite,
        progress=ProgressBar("drawing", "shadow"),
    )
    return _summary("triplets", done)


def _summary(what: str, done: Written) -> int:
    kept = " (--overwrite makes them again)" if done.already_there else ""
    print(f"{done.written} {what} written, {done.already_there} already there{kept}, {len(done.failed)} failed")
    for line in done.failed:
        print(f"shadowmaskformer: {line}", file=sys.stderr)
    if done.failed:
        return 1 if done.written or done.already_there else 3
    return 0


def _save_default_sheet(dataset: Dataset, folder: Path, overwrite: bool) -> None:
    from shadowmaskformer.errors import OutputError
    from shadowmaskformer.files import check_output

    sheet = Path(f"{folder.resolve().stem}-sheet.jpg")
    try:
        if Path.cwd().is_relative_to(folder.resolve()):
            raise OutputError("it would lie among the data", "name a place for it with {output}")
        check_output(sheet, overwrite=overwrite)  # before the pictures are read for it
        _save_sheet(dataset, sheet, overwrite)
    except OutputError as error:
        print(f"no contact sheet: {error.said('command')}", file=sys.stderr)


def _save_sheet(dataset: Dataset, path: Path, overwrite: bool) -> None:
    import io

    from shadowmaskformer.data.check import contact_sheet
    from shadowmaskformer.files import write_atomically
    from shadowmaskformer.photo import choose_format

    buffer = io.BytesIO()
    contact_sheet(dataset).save(buffer, choose_format("JPEG", path=path)[0].name, quality=90)
    write_atomically(path, buffer.getvalue(), overwrite=overwrite)
    print(f"contact sheet: {path}", file=sys.stderr)


def _text(report: DatasetReport) -> str:
    lines = [f"{report.folder}: {report.layout}"]
    for name, split in report.splits.items():
        sizes = ", ".join(f"{count:,} of {size}" for size, count in split.sizes.items())
        masks = f"{split.masks:,} masks" if split.masks else "no masks (derived when needed)"
        lines.append(f"  {name}: {split.pairs:,} pairs, {masks}, {split.clean_pictures:,} different clean pictures")
        lines.append(f"    height x width: {sizes}")
    for overlap in report.overlaps:
        pairs = report.splits[overlap.test].pairs
        lines.append(
            f"  {overlap.same_picture:,} of {pairs:,} {overlap.test} pictures share their scene with train "
            f"(same clean picture); {pairs - overlap.same_picture:,} are unseen, "
            f"{overlap.same_view:,} of them with a view of train in another shot"
        )
    for title, problems in (("unfit", report.faults), ("worth a look", report.notes)):
        if problems:
            lines.append(f"  {title}: {len(problems):,}")
        lines += [f"    {_within(report.folder, p.file)}: {p.what}" for p in problems[:LISTED]]
        if len(problems) > LISTED:
            lines.append(f"    and {len(problems) - LISTED:,} more; use --json to list all")
    if not report.faults:
        lines.append("  every picture can be read and has its partner")
    return "\n".join(lines)


def _within(folder: str, file: Path) -> str:
    from shadowmaskformer.files import shown

    return shown(file.relative_to(folder) if file.is_relative_to(folder) else file)
