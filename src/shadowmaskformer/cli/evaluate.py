"""Score weights, or a folder of result pictures, under the field's named protocols or as users see them.

  shadowmaskformer evaluate --data SRD --weights default --method relight --mask-source derived
  shadowmaskformer evaluate --data ISTD --predictions their-results --mask-source dataset --protocol all
  shadowmaskformer evaluate --data my-pairs --weights default --mask-source dataset --as-used --mask-error shrink:2%

Prints S / NS / All of each measure beside the published rows. Writes one CSV row per picture, the tables (Markdown,
CSV, LaTeX) and a self-contained HTML report to -o. Finished pictures are kept there: after an interruption, run the
same command again to continue. The untouched input is always the first row.

--as-used scores what a user gets instead of the network's raw answer: the result blended into the photo, against the
truth in the photo's own light. It prints PSNR over the pixels of each region and along the mask's edge, the share of
fine contrast that is left, and the worst tenth of the pictures. With --mask-error it does so again with masks that
are too small, too large or shifted.
"""

from __future__ import annotations

import argparse
import sys
from pathlib import Path
from typing import TYPE_CHECKING

from shadowmaskformer.cli.mask import add_runtime

if TYPE_CHECKING:
    from shadowmaskformer import evaluate

HELP = "score weights or result pictures under named protocols"


def configure(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--data", type=Path, required=True, metavar="DIR", help="the data set")
    parser.add_argument("--split", help="which split to score (default: test)")
    parser.add_argument(
        "--weights", nargs="+", default=[], metavar="W", help="weights to run: shipped names, folders or files"
    )
    add_runtime(parser)
    parser.add_argument(
        "--predictions", nargs="+", default=[], type=Path, metavar="DIR", help="folders of result pictures"
    )
    parser.add_argument(
        "--method", nargs="+", default=[], choices=["relight"], help="methods without weights: the relight floor"
    )
    parser.add_argument(
        "--protocol",
        nargs="+",
        metavar="NAME",
        help="`standard` for the data set (default), `all`, or names such as istd-256; an unknown name lists them",
    )
    parser.add_argument(
        "--as-used", action="store_true", help="score the pictures that users get; short for --protocol as-used"
    )
    parser.add_argument(
        "--mask-error",
        nargs="+",
        default=[],
        metavar="ERROR",
        help="with --as-used: score again with wrong masks, such as shrink:2%%, grow:2%% or shift:2%% of the width",
    )
    parser.add_argument(
        "--mask-source",
        required=True,
        metavar="SOURCE",
        help="`dataset`, `derived` (from the pair), or a folder of masks to give to the methods, also one that "
        "`data masks -o` wrote",
    )
    parser.add_argument(
        "--size",
        choices=["original", "256"],
        default="original",
        help="size of the pictures in --predictions (default: original, the truth's size)",
    )
    parser.add_argument("--allow-missing", action="store_true", help="score what is there and mark it partial")
    parser.add_argument("--limit", type=int, metavar="N", help="score only N pictures, spread over the set")
    parser.add_argument("--workers", type=int, metavar="N", help="processes for the metrics (default: one per core)")
    parser.add_argument("--no-report", action="store_true", help="write no HTML report and no figures")
    parser.add_argument(
        "-o",
        "--output",
        type=Path,
        default=Path("evaluation"),
        metavar="DIR",
        help="folder to write (default: evaluation)",
    )


def run(args: argparse.Namespace) -> int:
    from shadowmaskformer.machine import calm_blas, tune_allocator

    calm_blas()  # before anything imports NumPy
    tune_allocator()
    import time
    from dataclasses import replace

    from shadowmaskformer import evaluate
    from shadowmaskformer.cli import EXIT_INTERRUPTED, EXIT_OK, EXIT_SOME_FAILED
    from shadowmaskformer.cli.progress import ProgressBar
    from shadowmaskformer.errors import ConfigError
    from shadowmaskformer.report import figures

    started = time.monotonic()
    if not args.no_report:
        figures.require()
    if args.limit is not None and args.limit < 1:
        raise ConfigError(f"limit is {args.limit}", "give at least {limit=1}")
    masks = evaluate.MaskSource(args.mask_source)
    changes = [evaluate.MaskChange.parse(text) for text in args.mask_error]
    print(f"reading {args.data}", file=sys.stderr)  # the first time, comparing test with train can take a minute
    test = evaluate.EvaluationSet.open(args.data, args.split, args.limit, memory=args.output / "rows")
    masks = replace(masks, split=test.split)
    protocols = _protocols(args, test.family)
    if changes and not any(protocol.as_used for protocol in protocols):
        raise ConfigError("mask_error needs the protocol as-used", "add {as_used=True}")
    methods: list[evaluate.ScoredMethod] = [evaluate.Input()]
    side = None if args.size == "original" else int(args.size)
    methods += [evaluate.Predictions(folder, side) for folder in args.predictions]
    methods += [evaluate.RemoverMethod(None) for _ in dict.fromkeys(args.method)]
    methods += [evaluate.RemoverMethod(w, runtime=args.runtime, device=args.device) for w in args.weights]

    with ProgressBar(test.name) as bar:

        def score(
            masks: evaluate.MaskSource,
            scored: list[evaluate.ScoredMethod],
            rules: list[evaluate.Protocol],
            pictures: bool,
        ) -> evaluate.Evaluation:
            return evaluate.evaluate(
                test,
                scored,
                rules,
                masks,
                args.output,
                allow_missing=args.allow_missing,
                workers=args.workers,
                pictures=pictures,
                progress=bar,
                say=bar.say,
            )

        try:
            evaluation = score(masks, methods, protocols, not args.no_report)
            used = [protocol for protocol in protocols if protocol.as_used]
            masked = [method for method in methods if method.heavy]  # the others never see a mask
            changed = {str(change): score(replace(masks, change=change), masked, used, False) for change in changes}
        except KeyboardInterrupt:
            bar.close()
            print(f"\ninterrupted; run the same command again to continue in {args.output}", file=sys.stderr)
            return EXIT_INTERRUPTED
    for method in methods:
        if isinstance(method, evaluate.Predictions) and (extra := method.extra(test.triplets)):
            print(f"{method.name}: {extra} pictures belong to no test picture; ignored", file=sys.stderr)
    _print_tables(evaluation, changed)
    if not args.no_report:
        from shadowmaskformer.report import evaluation as evaluation_report

        seconds = time.monotonic() - started
        report = evaluation_report.build(evaluation, methods, masks, seconds=seconds, changed=changed)
        print(f"report: {report.write(args.output)}")
    for name, path in evaluation.csv_files.items():
        print(f"per image, {name}: {path}")
    return EXIT_SOME_FAILED if evaluation.missing else EXIT_OK


def _protocols(args: argparse.Namespace, family: str) -> list[evaluate.Protocol]:
    """Return the protocols that the command line names, each once, `as-used` first if asked for.

    `standard` and `all` stand for several: without those that cannot score results of the size that --size names.
    """
    from shadowmaskformer import evaluate

    names = ["as-used"] if args.as_used else []
    names += args.protocol or ([] if args.as_used else ["standard"])
    found = list(dict.fromkeys(protocol for name in names for protocol in evaluate.protocols(name, family)))
    if not args.predictions or args.size == "original":
        return found
    unfit = [protocol.name for protocol in found if not protocol.resizes and protocol.name not in names]
    if unfit:
        print(f"left out with --size {args.size}, because they do not resize: {', '.join(unfit)}", file=sys.stderr)
    return [protocol for protocol in found if protocol.name not in unfit]


def _print_tables(evaluation: evaluate.Evaluation, changed: dict[str, evaluate.Evaluation]) -> None:
    from shadowmaskformer.report import results

    for protocol in evaluation.protocols:
        for subset in evaluation.test.subsets:
            print(results.results_table(evaluation, protocol, subset).text() + "\n")
        if not protocol.as_used:
            print(results.interval_table(evaluation, protocol).text() + "\n")
        elif changed:
            print(results.mask_error_table(evaluation, changed, protocol).text() + "\n")
        print(results.extremes_table(evaluation, protocol).text() + "\n")
    if sum(not protocol.as_used for protocol in evaluation.protocols) > 1:
        print(results.protocols_table(evaluation).text() + "\n")
