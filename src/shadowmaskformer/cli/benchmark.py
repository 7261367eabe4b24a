"""Measure the runtimes on this computer against the network written plainly in PyTorch.

Each round runs every runtime once, each in its own process. The column `faster` is the yardstick's CPU time (or clock
time) divided by the runtime's. `difference` is the largest difference from the yardstick's answer, or for a training
step the relative difference of the gradients. Pictures over a megapixel run once, one runtime after another.

  shadowmaskformer benchmark
  shadowmaskformer benchmark --runtimes native --sizes 480x640 --rounds 3 --no-train
  shadowmaskformer benchmark -o results/        writes benchmark.json and benchmark.png there
"""

from __future__ import annotations

import argparse
import sys
from pathlib import Path

from shadowmaskformer.errors import ConfigError, MissingExtraError
from shadowmaskformer.files import make_folder
from shadowmaskformer.runtimes import BACKENDS

HELP = "time the runtimes against the plain network"

SIZES = ("256x256", "480x640", "1536x2048")
TRAIN_SIZES = ("128x128", "256x256")


def configure(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "--runtimes",
        nargs="+",
        default=list(BACKENDS),
        metavar="NAME",
        help="what to measure beside the yardstick; torch-compile and yardstick-tuned (it with our memory "
        f"settings) are there too; default: {' '.join(BACKENDS)}",
    )
    parser.add_argument(
        "--sizes", nargs="*", default=list(SIZES), metavar="HxW", help=f"pictures; default: {' '.join(SIZES)}"
    )
    parser.add_argument("--rounds", type=int, default=5, metavar="N", help="timed turns of each; default: 5")
    parser.add_argument(
        "--train",
        action=argparse.BooleanOptionalAction,
        default=True,
        help="also time a training step (yardstick, torch, native)",
    )
    parser.add_argument(
        "--train-sizes",
        nargs="+",
        default=list(TRAIN_SIZES),
        metavar="HxW",
        help=f"pictures of the training step; default: {' '.join(TRAIN_SIZES)}",
    )
    network = parser.add_mutually_exclusive_group()
    network.add_argument("--variant", default="middle", help="network with random weights; default: middle")
    network.add_argument("--weights", metavar="W", help="network to run: a name, folder or file")
    parser.add_argument("-o", "--output", type=Path, metavar="FOLDER", help="write benchmark.json and a plot here")


def run(args: argparse.Namespace) -> int:
    from shadowmaskformer.benchmark import Result, Workload, benchmark
    from shadowmaskformer.benchmark.race import CONTENDERS
    from shadowmaskformer.benchmark.report import machine, table, write_json, write_plot

    if unknown := [name for name in args.runtimes if name not in CONTENDERS]:
        raise ConfigError(f"there is no runtime {unknown[0]!r} to measure", f"choose from {', '.join(CONTENDERS)}")
    if args.rounds < 1:
        raise ConfigError(f"rounds is {args.rounds}", "give at least {rounds=1}")
    workloads = [Workload(_size(text)) for text in args.sizes]
    if args.train:
        workloads += [Workload(_size(text), training=True) for text in args.train_sizes]
    if args.output:
        make_folder(args.output)
    computer = machine()
    print(f"{computer['processor']}, {computer['cores']} cores; medians of {args.rounds} rounds")
    if computer["load_at_start"] and computer["load_at_start"][0] > 1:
        # Seen: with seven others per core, the threads of PyTorch burn four times their CPU time waiting.
        print(
            f"warning: this computer is busy (load {computer['load_at_start'][0]:.0f}); threads that wait for each "
            "other inflate CPU times, so do not trust the ratios, or set OMP_NUM_THREADS=1",
            file=sys.stderr,
        )

    def show(result: Result) -> None:
        print(f"\n{table(result)}", flush=True)

    config, results = benchmark(
        workloads,
        list(dict.fromkeys(["yardstick", *args.runtimes])),
        weights=args.weights,
        variant=args.variant,
        rounds=args.rounds,
        on_result=show,
    )
    if args.output:
        write_json(args.output / "benchmark.json", results, config, computer)
        try:
            write_plot(args.output / "benchmark.png", results)
        except MissingExtraError as error:
            print(f"no plot: {error}", file=sys.stderr)
    return 0


def _size(text: str) -> tuple[int, int]:
    """Read `HxW`, or `N` for a square."""
    try:
        parts = [int(part) for part in text.lower().split("x")]
        height, width = parts if len(parts) == 2 else parts * 2
    except ValueError:
        raise ConfigError(f"size {text!r} is not HEIGHTxWIDTH; write for example 480x640") from None
    if min(height, width) < 1:
        raise ConfigError(f"size {text!r} has no pixels; both sides must be at least 1")
    return height, width
