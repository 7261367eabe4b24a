"""Measure how many photos a second a batch removes shadows from: one process, all cores, Ray.

    python tools/measure_batch.py [--photos 40] [--megapixels 1] [--ray]

The photos are copies of the packaged one, scaled, without masks. `loop` is one `ShadowRemover` with one thread in a
single process that reads, removes and writes; `workers` are the processes of `shadowmaskformer remove FOLDER`. CPU
seconds are of all processes, those of Ray's own left out.
"""

from __future__ import annotations

import argparse
import os
import shutil
import subprocess
import sys
import tempfile
import time
from pathlib import Path

from PIL import Image

import shadowmaskformer

DEMO = Path(shadowmaskformer.__file__).parent / "assets" / "demo-photo.jpg"
LOOP = (
    "import sys; from pathlib import Path; import shadowmaskformer as smf; remover = smf.ShadowRemover(threads=1); "
    "[remover.remove(path, output=Path(sys.argv[2], path.name)) for path in Path(sys.argv[1]).iterdir()]"
)


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--photos", type=int, default=40)
    parser.add_argument("--megapixels", type=float, default=1.0)
    parser.add_argument("--ray", action="store_true", help="on a Ray cluster on this computer too")
    args = parser.parse_args()
    cores = len(os.sched_getaffinity(0))
    batch = [sys.executable, "-m", "shadowmaskformer", "remove", "PHOTOS", "-o", "RESULTS", "-q"]
    ways = {
        "loop": [sys.executable, "-c", LOOP, "PHOTOS", "RESULTS"],
        "1 worker": [*batch, "--workers", "1"],
        f"{cores} workers": [*batch, "--workers", str(cores)],
    }
    if args.ray:
        ways[f"Ray, {cores} workers"] = [*batch, "--workers", str(cores), "--engine", "ray"]
    print(f"{args.photos} photos of {args.megapixels:g} megapixels, {cores} cores, load {os.getloadavg()[0]:.1f}\n")
    print("| | seconds | photos a second | of the loop | CPU seconds a photo |\n|---|---|---|---|---|")
    with tempfile.TemporaryDirectory() as folder:
        photos, results = Path(folder, "photos"), Path(folder, "results")
        photos.mkdir()
        write_photos(photos, args.photos, args.megapixels)
        first = 0.0
        for name, command in ways.items():
            results.mkdir()
            began, cpu = time.perf_counter(), _cpu()
            subprocess.run(
                [{"PHOTOS": str(photos), "RESULTS": str(results)}.get(word, word) for word in command], check=True
            )
            seconds, cpu = time.perf_counter() - began, _cpu() - cpu
            done = len(list(results.glob("*.jpg")))
            if done != args.photos:
                raise SystemExit(f"{name}: {done} of {args.photos} photos")
            rate = done / seconds
            first = first or rate
            used = "" if "Ray" in name else f"{cpu / done:.2f}"
            print(f"| {name} | {seconds:.1f} | {rate:.2f} | {rate / first:.2f} | {used} |", flush=True)
            shutil.rmtree(results)


def write_photos(folder: Path, count: int, megapixels: float) -> None:
    """Write copies of the packaged photo."""
    with Image.open(DEMO) as image:
        scale = (megapixels * 1e6 / (image.width * image.height)) ** 0.5
        scaled = image.resize((round(image.width * scale), round(image.height * scale)))
    for number in range(count):
        scaled.save(folder / f"{number:04}.jpg", quality=92)


def _cpu() -> float:
    """Return the CPU seconds of all processes that this one has waited for."""
    times = os.times()
    return times.children_user + times.children_system


if __name__ == "__main__":
    main()
