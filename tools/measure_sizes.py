"""Measure the default command on photographs of 12, 48 and 100 megapixels, beside Pillow alone.

    python tools/measure_sizes.py [--rounds 3] [--megapixels 12 48 100] [--photo PHOTO]

Each line is `shadowmaskformer remove PHOTO -o RESULT` in a process of its own, from its start to its end: no mask, JPEG
in and out. `Pillow` is a process that opens the same file and saves it with the same quantisation. Both take turns;
times are the medians of the rounds, the peak is the largest. Without `--photo`, the packaged one is enlarged and gets
the grain of a camera, because JPEG is as slow as a picture is detailed.
"""

from __future__ import annotations

import argparse
import os
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from PIL import Image

import shadowmaskformer

DEMO = Path(shadowmaskformer.__file__).parent / "assets" / "demo-photo.jpg"
GRAIN = 3.0  # standard deviation, in levels of 255
ALLOWED = {12: (3.0, 0.5), 100: (25.0, 1.5)}  # seconds on two cores, gigabytes
PILLOW = (
    "import sys; from PIL import Image; Image.MAX_IMAGE_PIXELS = None; image = Image.open(sys.argv[1]); image.load(); "
    "image.save(sys.argv[2], qtables=image.quantization, subsampling='keep')"
)


@dataclass(frozen=True)
class Cost:
    """What one process took."""

    seconds: float
    cpu_seconds: float
    gigabytes: float


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--megapixels", type=int, nargs="+", default=[12, 48, 100])
    parser.add_argument("--photo", type=Path, help="a JPEG with a shadow, enlarged instead of the packaged one")
    args = parser.parse_args()
    load = os.getloadavg()[0]
    print(f"{len(os.sched_getaffinity(0))} cores, load {load:.1f}, medians of {args.rounds}\n")
    print("| megapixels | seconds | CPU seconds | peak GB | Pillow: seconds | CPU seconds | ratio | ratio of CPU | |")
    print("|---|---|---|---|---|---|---|---|---|")
    with tempfile.TemporaryDirectory() as folder:
        for megapixels in args.megapixels:
            photo = Path(folder, f"{megapixels}.jpg")
            enlarge(args.photo or DEMO, megapixels, photo)
            print(line(megapixels, photo, args.rounds), flush=True)
            photo.unlink()


def enlarge(source: Path, megapixels: int, target: Path) -> None:
    """Write the photo at another size, with grain."""
    with Image.open(source) as image:
        scale = (megapixels * 1e6 / (image.width * image.height)) ** 0.5
        size = (round(image.width * scale), round(image.height * scale))
        levels = np.array(image.convert("RGB").resize(size, Image.Resampling.BICUBIC))
    rng = np.random.default_rng(0)
    for first in range(0, len(levels), 256):
        strip = levels[first : first + 256]
        grain = rng.standard_normal(strip.shape, np.float32) * np.float32(GRAIN)
        strip[:] = np.clip(strip + grain + np.float32(0.5), 0, 255)
    Image.fromarray(levels).save(target, quality=92)


def line(megapixels: int, photo: Path, rounds: int) -> str:
    """Return a row of the table."""
    result = photo.with_name("result.jpg")
    command = [sys.executable, "-m", "shadowmaskformer", "remove", str(photo), "-o", str(result), "--overwrite", "-q"]
    ours, theirs = [], []
    for _ in range(rounds):
        ours.append(run(command))
        theirs.append(run([sys.executable, "-c", PILLOW, str(photo), str(photo.with_name("pillow.jpg"))]))
    mine, others = (statistics.median(cost.seconds for cost in costs) for costs in (ours, theirs))
    cpu = [statistics.median(cost.cpu_seconds for cost in costs) for costs in (ours, theirs)]
    peak = max(cost.gigabytes for cost in ours)
    verdict = ""
    if megapixels in ALLOWED:
        seconds, gigabytes = ALLOWED[megapixels]
        kept = mine <= seconds and peak <= gigabytes
        verdict = f"{'within' if kept else '**over**'} {seconds:g} s and {gigabytes:g} GB"
    return (
        f"| {megapixels} | {mine:.2f} | {cpu[0]:.2f} | {peak:.2f} | {others:.2f} | {cpu[1]:.2f} | {mine / others:.1f} "
        f"| {cpu[0] / cpu[1]:.1f} | {verdict} |"
    )


def run(command: Sequence[str]) -> Cost:
    """Run a process to its end."""
    began = time.perf_counter()
    process = subprocess.Popen(command)
    _, status, usage = os.wait4(process.pid, 0)
    seconds = time.perf_counter() - began
    if status:
        raise SystemExit(f"{' '.join(command)}: ended with {os.waitstatus_to_exitcode(status)}")
    return Cost(seconds, usage.ru_utime + usage.ru_stime, usage.ru_maxrss / 1e6 * 1.024)


if __name__ == "__main__":
    main()
