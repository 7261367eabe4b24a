"""Score weights, or anyone's result pictures, under the field's named protocols.

  shadowmaskformer evaluate --data SRD --weights default --method relight --mask-source derived
  shadowmaskformer evaluate --data ISTD --predictions their-results --mask-source dataset --protocol all

Prints S / NS / All of each measure beside the published rows, and writes per-image CSV, tables (Markdown,
CSV, LaTeX) and one self-contained HTML report to -o. Finished pictures are kept there: run the same command
again after an interruption and it goes on. The untouched input is always the first row.
"""

from __future__ import annotations

import argparse
import sys
from pathlib import Path

HELP = "score weights or result pictures under named protocols"


def configure(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--data", type=Path, required=True, metavar="DIR", help="the data set")
    parser.add_argument("--split", help="which split (default: test)")
    parser.add_argument(
        "--weights",
        nargs="+",
        default=[],
        metavar="W",
        help="weights to run: shipped names, folders or files",
    )
    parser.add_argument(
        "--predictions", nargs="+", default=[], type=Path, metavar="DIR", help="folders of result pictures"
    )
    parser.add_argument(
        "--method",
        nargs="+",
        default=[],
        choices=["relight"],
        help="methods without weights: the relight floor",
    )
    parser.add_argument(
        "--protocol",
        nargs="+",
        default=["standard"],
        metavar="NAME",
        help="`standard` for the data set (default), `all`, or names such as istd-256; a wrong name lists them",
    )
    parser.add_argument(
        "--mask-source",
        required=True,
        metavar="SOURCE",
        help="`dataset`, `derived` (from the pair), or a folder of masks that methods are given",
    )
    parser.add_argument(
        "--size",
        choices=["original", "256"],
        default="original",
        help="size of the pictures in --predictions (default: the truth's)",
    )
    parser.add_argument("--allow-missing", action="store_true", help="score what is there and mark it partial")
    parser.add_argument("--limit", type=int, metavar="N", help="only N pictures, spread over the set")
    parser.add_argument("--workers", type=int, metavar="N", help="processes for the metrics (default: one per core)")
    parser.add_argument("--no-report", action="store_true", help="no HTML report and figures")
    parser.add_argument(
        "-o", "--output", type=Path, default=Path("evaluation"), metavar="DIR", help="default: evaluation"
    )


def run(args: argparse.Namespace) -> int:
    import time

    from tqdm import tqdm

    from shadowmaskformer import evaluate as room
    from shadowmaskformer.cli import EXIT_INTERRUPTED, EXIT_OK, EXIT_SOME_FAILED
    from shadowmaskformer.report import figures, results

    if not args.no_report:
        figures.require()
    room.MaskSource(args.mask_source).check()
    print(f"reading {args.data}", file=sys.stderr)  # comparing test with train can take a minute
    test = room.EvaluationSet.open(args.data, args.split, args.limit)
    wanted = [protocol for name in args.protocol for protocol in room.protocols(name, test.family)]
    protocols = list(dict.fromkeys(wanted))
    masks = room.MaskSource(args.mask_source)
    methods: list[room.Method] = [room.Input()]
    side = None if args.size == "original" else int(args.size)
    methods += [room.Predictions(folder, side) for folder in args.predictions]
    methods += [room.RemoverMethod(None) for _ in dict.fromkeys(args.method)]
    methods += [room.RemoverMethod(weights) for weights in args.weights]

    started = time.monotonic()
    with tqdm(total=len(test.triplets), unit="picture", desc=test.name, file=sys.stderr) as bar:

        def progress(done: int, total: int) -> None:
            bar.total = total
            bar.update(done - bar.n)

        try:
            evaluation = room.evaluate(
                test,
                methods,
                protocols,
                masks,
                args.output,
                allow_missing=args.allow_missing,
                workers=args.workers,
                progress=progress,
            )
        except KeyboardInterrupt:
            print(f"\ninterrupted; the same command goes on from {args.output}", file=sys.stderr)
            return EXIT_INTERRUPTED
    for method in methods:
        if isinstance(method, room.Predictions) and (extra := method.extra(test.triplets)):
            print(f"{method.name}: {extra} pictures belong to no test picture; ignored", file=sys.stderr)
    for protocol in protocols:
        for subset in test.subsets:
            print(results.results_table(evaluation, protocol, subset).text() + "\n")
        print(results.interval_table(evaluation, protocol).text() + "\n")
        print(results.extremes_table(evaluation, protocol).text() + "\n")
    if len(protocols) > 1:
        print(results.protocols_table(evaluation).text() + "\n")
    if not args.no_report:
        from shadowmaskformer.report import evaluation as evaluation_report

        report = evaluation_report.build(evaluation, methods, masks, seconds=time.monotonic() - started)
        print(f"report: {report.write(args.output)}")
    for name, path in evaluation.csv_files.items():
        print(f"per image, {name}: {path}")
    return EXIT_SOME_FAILED if evaluation.missing else EXIT_OK
