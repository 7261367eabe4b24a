"""Train a network on ISTD, ISTD+, SRD or your own pairs.

  shadowmaskformer train --data SRD --recipe cpu --hours 2 -o runs/first
  shadowmaskformer train --data SRD --recipe paper --set variant=small -o runs/small
  shadowmaskformer train --resume -o runs/first
  torchrun --nproc-per-node 4 -m shadowmaskformer train --data SRD --recipe paper --set batches=[4] -o runs/g4

The best weights by validation are in RUN/best, ready for `remove` and `evaluate`. A run that was stopped or killed
continues with --resume from its last checkpoint, with the same result.
"""

from __future__ import annotations

import argparse
import logging
import math
import os
import shlex
import sys
from pathlib import Path

from shadowmaskformer.errors import ConfigError

HELP = "train a network on pairs of photos with and without shadow"


def configure(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--data", type=Path, metavar="DIR", help="the data set's folder (see `data check`)")
    parser.add_argument("--recipe", metavar="NAME", help="paper, cpu, photo, detector, or a .toml file (default: cpu)")
    parser.add_argument("-o", "--output", type=Path, required=True, metavar="RUN", help="the run's folder")
    parser.add_argument(
        "--hours",
        type=float,
        metavar="H",
        help="training time; the schedule is fitted to it, validation is not counted",
    )
    parser.add_argument("--init", metavar="WEIGHTS", help="start from these weights: a folder, a file or a name")
    parser.add_argument(
        "--photos",
        type=Path,
        metavar="DIR",
        help="photographs to train on beside the pairs, with shadows drawn on them",
    )
    parser.add_argument(
        "--also",
        type=Path,
        action="append",
        default=[],
        metavar="DIR",
        help="further pairs to validate on, with their masks as they are and the result blended into the photo; the "
        "best weights are chosen by them; repeatable",
    )
    parser.add_argument("--resume", action="store_true", help="continue the run in RUN")
    parser.add_argument(
        "--set",
        action="append",
        default=[],
        metavar="KEY=VALUE",
        help="change a key of the recipe; repeatable",
    )
    parser.add_argument(
        "--allow-change",
        action="append",
        default=[],
        metavar="KEY",
        help="with --resume: allow this recipe key, or `data`, `also`, `hours` or `floor`, to differ; repeatable",
    )
    parser.add_argument(
        "--cache",
        type=Path,
        metavar="DIR",
        help="folder for decoded pictures, which runs can share (default: RUN/cache)",
    )
    parser.add_argument("--system-allocator", action="store_true", help="do not change the C library's memory settings")
    parser.add_argument("--quiet", action="store_true", help="show no progress bar")


def run(args: argparse.Namespace) -> int:
    from shadowmaskformer.machine import calm_openmp, tune_allocator

    calm_openmp()  # before anything imports PyTorch
    from tqdm.contrib.logging import logging_redirect_tqdm

    from shadowmaskformer import train
    from shadowmaskformer.train.config import TrainConfig, load_recipe, override, without_effect

    train_run = train.run  # raises at once if PyTorch is missing
    from shadowmaskformer.train.journal import read_description

    if args.hours is not None and not 0 < args.hours < math.inf:
        raise ConfigError(f"--hours is {args.hours:g}", "give a positive number")
    data, hours, photos, also = args.data, args.hours, args.photos, args.also
    if args.resume:
        # Options that are not given again keep their values.
        before = read_description(args.output)
        data = data or Path(before["about"]["folder"])
        hours = before["facts"]["hours"] if hours is None else hours
        photos = photos or before["about"].get("photos")
        also = also or before["about"].get("also", [])
        config = (
            load_recipe(args.recipe, args.set)
            if args.recipe
            else TrainConfig.from_dict(override(before["recipe"], args.set), source="the run or --set")
        )
    else:
        config = load_recipe(args.recipe or "cpu", args.set)
    for line in without_effect(config, [text.partition("=")[0].strip() for text in args.set], hours):
        print(f"warning: {line}", file=sys.stderr)
    if data is None:
        raise ConfigError("--data is missing", "name the data set's folder")
    if not args.system_allocator:
        tune_allocator()

    logging.getLogger("shadowmaskformer.train").setLevel(logging.INFO)
    with logging_redirect_tqdm():  # a line for each validation, above the bar
        result = train_run(
            config,
            data,
            args.output,
            hours,
            init=args.init,
            resume=args.resume,
            allow_change=args.allow_change,
            photos=photos,
            also=also,
            cache=args.cache,
            quiet=args.quiet,
        )
    if int(os.environ.get("RANK", 0)):
        return 0 if result.finished else 130  # only rank 0 prints
    if not result.finished:
        words = ["shadowmaskformer", "train", "--resume", "-o", str(args.output)]
        words += ["--cache", str(args.cache)] if args.cache else []
        command = shlex.join(words)
        if "RANK" in os.environ:
            command = f"torchrun … -m {command}"
        print(f"stopped after {result.steps} steps; continue with: {command}", file=sys.stderr)
        return 130
    best = result.best or {}
    scores = [
        f"{group} scenes {best[f'{group}_psnr_all']:.2f} dB, MAE {best[f'{group}_mae_all']:.2f}"
        for group in ("unseen", "seen")
        if f"{group}_psnr_all" in best
    ]
    if "score" in best:
        scores.append(f"score {best['score']:.1f}")
    if "used" in best:
        scores.append(f"as used {best['used']:.2f} dB")
    print(f"{args.output / 'best'}, {result.steps} steps; validation: {'; '.join(scores) or 'none'}")
    return 0
