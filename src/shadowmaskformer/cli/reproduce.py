"""Run the paper's experiments on a data set and write one report.

  shadowmaskformer reproduce --all --data SRD -o report --mask-source derived --budget-minutes 120
  shadowmaskformer reproduce --experiment embedding mask-quality --data ISTD -o report --mask-source dataset

Experiments:
  tables          Tables I to III, for the data set that is given
  embedding       patch embeddings: plain, MAPE, MAPE with a mask of 0 and 1, physical
  size            sizes of the network
  mask-quality    masks of falling quality
  generalisation  train without some scenes, test on those
  sweep           the weights w1 and w2
  recipes         training recipes at equal time, by validation

Each experiment trains the networks that it needs, and experiments share them. Finished trainings are kept in -o: run
the same command again to continue after an interruption. The report lists what the data does not allow, and why.
"""

from __future__ import annotations

import argparse
import math
import sys
import time
from pathlib import Path

HELP = "run the paper's experiments and write the report"


def configure(parser: argparse.ArgumentParser) -> None:
    chosen = parser.add_mutually_exclusive_group(required=True)
    chosen.add_argument("--all", action="store_true", help="every experiment")
    chosen.add_argument("--experiment", nargs="+", metavar="NAME", help="only the named ones")
    parser.add_argument("--data", type=Path, required=True, metavar="DIR", help="a data set with train and test")
    parser.add_argument("-o", "--output", type=Path, required=True, metavar="REPORT", help="the report's folder")
    parser.add_argument(
        "--mask-source", required=True, metavar="SOURCE", help="`dataset`, `derived` or a folder of masks"
    )
    parser.add_argument(
        "--budget-minutes",
        type=float,
        metavar="N",
        help="total training time, split evenly over the runs (default: each recipe's own length)",
    )
    parser.add_argument("--recipe", help="training recipe (default: paper, or cpu with --budget-minutes)")
    parser.add_argument(
        "--set",
        action="append",
        default=[],
        metavar="KEY=VALUE",
        help="change a recipe key for all runs; repeatable",
    )
    parser.add_argument(
        "--weights", nargs="+", default=[], metavar="W", help="further weights to score in the main tables"
    )
    parser.add_argument(
        "--hold-out",
        type=Path,
        metavar="FILE",
        help="text file of scenes to keep from training, one name a line (default: drawn at random)",
    )
    parser.add_argument("--limit", type=int, metavar="N", help="score only N test pictures, spread over the set")
    parser.add_argument("--workers", type=int, metavar="N", help="processes for the metrics (default: one per core)")


def run(args: argparse.Namespace) -> int:
    from shadowmaskformer.machine import calm_openmp, tune_allocator

    calm_openmp()  # before anything imports PyTorch
    from shadowmaskformer import data, evaluate
    from shadowmaskformer.cli import EXIT_INTERRUPTED, EXIT_OK
    from shadowmaskformer.cli.progress import ProgressBar
    from shadowmaskformer.errors import ConfigError
    from shadowmaskformer.report import figures
    from shadowmaskformer.reproduce import experiments
    from shadowmaskformer.reproduce.workshop import Workshop, distinct

    names = list(experiments.NAMES) if args.all else args.experiment
    if unknown := [name for name in names if name not in experiments.NAMES]:
        raise ConfigError(f"no experiment {unknown[0]!r}", f"choose from {', '.join(experiments.NAMES)}")
    if args.budget_minutes is not None and not 0 < args.budget_minutes < math.inf:
        raise ConfigError(f"--budget-minutes is {args.budget_minutes:g}", "give a positive number")
    if args.limit is not None and args.limit < 1:
        raise ConfigError(f"limit is {args.limit}", "give at least {limit=1}")
    figures.require()
    masks = evaluate.MaskSource(args.mask_source, split="test")
    scenes: list[str] = []
    if args.hold_out:
        try:
            lines = args.hold_out.read_text(encoding="utf-8").splitlines()
        except (OSError, UnicodeDecodeError) as error:
            raise ConfigError(f"--hold-out {args.hold_out}: {error}", "give a text file, one name a line") from error
        scenes = [line.strip() for line in lines if line.strip()]
    tune_allocator()
    started = time.monotonic()
    test = evaluate.EvaluationSet.open(args.data, "test", args.limit, memory=args.output / "rows")
    held_out_folder, held_out = None, frozenset[str]()
    if "generalisation" in names:
        dataset = data.open_dataset(args.data)
        held_out_folder, held_out = experiments.hold_out(dataset, args.output / "held-out", scenes)
        held_out &= {triplet.name for triplet in test.triplets}
    runs = experiments.runs_needed(names, held_out=bool(held_out), timed=args.budget_minutes is not None)
    recipe = args.recipe or ("paper" if args.budget_minutes is None else "cpu")
    trainings = distinct(runs, recipe, args.set)
    minutes = None if args.budget_minutes is None else args.budget_minutes / max(trainings, 1)

    bar = ProgressBar("scoring")  # only while pictures are scored; trainings draw their own
    workshop = Workshop(
        args.data,
        held_out_folder,
        args.output / "runs",
        recipe=recipe,
        overrides=args.set,
        minutes=minutes,
        say=bar.say,
        quiet=False,
    )
    bar.say(f"{trainings} trainings, {workshop.budget}: {', '.join(run.name for run in runs)}")
    setting = experiments.Setting(
        test=test,
        protocol=evaluate.protocols("standard", test.family)[0],
        masks=masks,
        folder=args.output,
        workshop=workshop,
        held_out=held_out,
        extra=args.weights,
        workers=args.workers,
        progress=bar,
    )
    try:
        report = experiments.reproduce(setting, names, args.budget_minutes, lambda: time.monotonic() - started)
    except KeyboardInterrupt:
        print(f"\ninterrupted; run the same command again to continue in {args.output}", file=sys.stderr)
        return EXIT_INTERRUPTED
    page = report.write(args.output)
    for table in report.tables:
        print(table.text() + "\n")
    print(f"report: {page}")
    return EXIT_OK
