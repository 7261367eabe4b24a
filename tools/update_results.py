"""Copy measured scores into README.md and the model cards, so that no figure is typed by hand.

    shadowmaskformer evaluate --data SRD --weights srd --method relight --mask-source derived -o REPORT
    python tools/update_results.py srd REPORT RUN

REPORT is what `evaluate` wrote; RUN is the folder of the training run that the weights `srd` come from.

    shadowmaskformer evaluate --data PAIRS --weights default --method relight --mask-source dataset --as-used -o GIVEN
    shadowmaskformer evaluate --data PAIRS --weights default --method relight --mask-source MASKS --as-used -o FOUND
    python tools/update_results.py default GIVEN FOUND

MASKS is a folder with the masks that `shadowmaskformer mask` finds in the photos of the pairs.
"""

from __future__ import annotations

import argparse
import csv
import json
from pathlib import Path

from shadowmaskformer.train.journal import read_log

ROOT = Path(__file__).parents[1]
PRETRAINED = ROOT / "src" / "shadowmaskformer" / "pretrained"
METHODS = {"input": "Input", "floor": "Relight floor", "these weights": "srd"}


def test_rows(report: Path) -> dict[str, str]:
    """Return the rows of SRD test by their first cell, without marks for bold."""
    rows: dict[str, str] = {}
    for table, pictures in (("srd-256", "all 408"), ("srd-256-unseen", "50 unseen scenes")):
        with (report / "tables" / f"{table}.csv").open(encoding="utf-8", newline="") as file:
            scores = {line["Method"]: line for line in csv.DictReader(file) if line["measured here"] == "yes"}
        for name, method in METHODS.items():
            masks = ", derived masks" if pictures == "all 408" and name != "input" else ""
            label = f"{name}, {pictures}{masks}"
            cells = [
                " / ".join(
                    f"{float(scores[method][f'{measure} {region}']):.{digits}f}" for region in ("S", "NS", "All")
                )
                for measure, digits in (("MAE", 2), ("PSNR", 2), ("SSIM", 3))
            ]
            shown = f"**{label}**" if name == "these weights" else label
            rows[label] = f"| {shown} | " + " | ".join(cells) + " |"
    return rows


def validation_rows(run: Path) -> list[str]:
    """Return input, floor and best weights on unseen and on seen scenes, as the run validated them."""
    log = list(read_log(run))
    pictures = json.loads((run / "run.json").read_text(encoding="utf-8"))["recipe"]["validation_pictures"]
    best = max((line for line in log if line.get("psnr") is not None), key=lambda line: line["psnr"])
    rows: list[str] = []
    for group in ("unseen", "seen"):
        for name, prefix in (("input", "input_"), ("floor", "floor_"), ("these weights", "")):
            scores = best if not prefix else next(line for line in log if f"{prefix}psnr" in line)
            cells = [
                " / ".join(
                    f"{scores[f'{prefix}{group}_{measure}_{region}']:.2f}" for region in ("shadow", "lit", "all")
                )
                for measure in ("psnr", "mae")
            ]
            label = f"{pictures} of {group} scenes: input" if name == "input" else name
            rows.append(f"| {label} | {cells[0]} | {cells[1]} |")
    return rows


def used_rows(given: Path, found: Path) -> dict[str, str]:
    """Return the rows of the pairs from other cameras by their first cell, without marks for bold."""
    rows: dict[str, str] = {}
    for report, masks in ((given, "the pairs' masks"), (found, "found shadows")):
        with (report / "tables" / "as-used.csv").open(encoding="utf-8", newline="") as file:
            scores = {line["Method"]: {k: _number(v) for k, v in line.items()} for line in csv.DictReader(file)}
        methods = {"Input": ["input"], "Relight floor": ["floor"], "default": ["`default`", "these weights"]}
        for method, names in methods.items():
            line = scores[method]
            cells = " / ".join(f"{line[f'PSNR {region}']:.2f}" for region in ("S", "edge", "All"))
            contrast = f"{line['Contrast mean']:.2f} ({line['Contrast median']:.2f})"
            for name in names:
                label = name if name == "input" else f"{name}, {masks}"
                shown = f"**{label}**" if method == "default" else label
                rows[label] = f"| {shown} | {cells} | {line['Worst tenth, S']:.2f} | {contrast} |"
    return rows


def _number(text: str) -> float:
    try:
        return float(text)
    except ValueError:
        return float("nan")


def main() -> None:
    """Rewrite the rows in place; other lines stay."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("weights", choices=("srd", "default"))
    parser.add_argument("report", type=Path)
    parser.add_argument("other", type=Path, help="for srd the run, for default the report with found masks")
    args = parser.parse_args()
    srd = args.weights == "srd"
    tested = test_rows(args.report) if srd else used_rows(args.report, args.other)
    validated = validation_rows(args.other) if srd else []
    placed: set[str] = set()
    for path in (ROOT / "README.md", PRETRAINED / args.weights / "README.md"):
        lines = path.read_text(encoding="utf-8").splitlines()
        for number, line in enumerate(lines):
            first = line.split("|")[1].strip().strip("*") if line.startswith("|") else ""
            if first in tested:
                lines[number] = tested[first]
                placed.add(first)
            elif validated and first.endswith("of unseen scenes: input"):
                lines[number : number + len(validated)] = validated
        path.write_text("\n".join(lines) + "\n", encoding="utf-8")
    if missing := sorted(set(tested) - placed):
        raise SystemExit(f"no table has a row for {', '.join(missing)}")


if __name__ == "__main__":
    main()
