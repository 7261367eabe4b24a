"""List the photographs that the detector is trained and validated on.

    python tools/list_detector_data.py --drawn DIR [DIR …] --pairs SRD --bare DIR -o LISTS

writes `LISTS/train.txt` and `LISTS/valid.txt` for `shadowmaskformer train --data LISTS --recipe detector`, and
`LISTS/test.txt`: pictures that are neither trained on nor chosen by.

- `--drawn`: folders with `photo/` and `mask/`. Of the first one, every third group of photographs is for the test and
  every fifteenth for validation, groups being photographs that look alike, in the order of their names; photographs
  of the other folders that look like one of these are left out. Each is listed `--repeat` times: there are few.
- `--pairs`: a data set of pairs. Validation takes the scenes that validation of the remover takes. `--most-pairs` of
  the others are listed, spread evenly, and clean pictures as pictures without shadow where its test shows other scenes.
- `--bare`: photographs without cast shadows; every tenth is held out.
- `--apart`: data sets of pairs; drawn photographs that look like one of theirs are not trained on.
"""

from __future__ import annotations

import argparse
from pathlib import Path

import numpy as np

from shadowmaskformer.data import Triplet, open_dataset, unseen_scenes, validation_split
from shadowmaskformer.data.layouts import pictures_in
from shadowmaskformer.data.scenes import SAME_VIEW, CleanPictures, scene_groups


def main() -> None:
    """Write the lists."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--drawn", type=Path, nargs="+", required=True)
    parser.add_argument("--pairs", type=Path, required=True)
    parser.add_argument("--bare", type=Path, required=True)
    parser.add_argument("--apart", type=Path, nargs="*", default=[])
    parser.add_argument("-o", "--output", type=Path, required=True)
    parser.add_argument("--repeat", type=int, default=3)
    parser.add_argument("--most-pairs", type=int, default=700)
    args = parser.parse_args()
    links = args.output / "links"
    links.mkdir(parents=True, exist_ok=True)

    train: list[str] = []
    valid: list[str] = []

    def line(photo: Path, mask: Path | None, clean: Path | None, name: str) -> str:
        link = links / f"{name}{photo.suffix.lower()}"
        if not link.is_symlink():
            link.symlink_to(photo.resolve())
        return f"{link.absolute()}|{mask.absolute() if mask else ''}|{(clean.absolute() if clean else '')}"

    def bare(photo: Path, name: str) -> str:
        listed = line(photo, None, None, name)
        return listed + listed.partition("|")[0]

    first, *more = (drawn_photos(folder) for folder in args.drawn)
    groups = scene_groups(first)
    parts: dict[str, list[Triplet]] = {"train": [], "valid": [], "test": []}
    for triplet, group in zip(first, groups, strict=True):
        parts["test" if group % 3 == 2 else "valid" if group % 15 == 0 else "train"].append(triplet)
    kept, held = parts["train"], [*parts["valid"], *parts["test"]]
    kept += [triplet for each in more for triplet in _unlike(each, held)]
    for folder in args.apart:
        dataset = open_dataset(folder)
        kept = _unlike(kept, [triplet for name in dataset.splits for triplet in dataset.split(name)])
    valid += [line(t.shadow, t.mask, None, f"drawn-{t.name}") for t in parts["valid"]]
    test = [line(t.shadow, t.mask, None, f"drawn-{t.name}") for t in parts["test"]]
    for copy in range(args.repeat):
        train += [line(t.shadow, t.mask, None, f"drawn-{copy}-{i:03d}-{t.name}") for i, t in enumerate(kept)]

    dataset = open_dataset(args.pairs)
    pairs, others = dataset.split("train", allow_unpaired=True), dataset.split("test", allow_unpaired=True)
    split = validation_split(pairs, share=0.05, seen=64, seed=0)
    listed = [split.train[int(i)] for i in np.linspace(0, len(split.train) - 1, args.most_pairs).round()]
    train += [line(t.shadow, None, t.clean, f"pair-{t.name}") for t in listed]
    valid += [line(t.shadow, None, t.clean, f"pair-{t.name}") for t in split.unseen]
    away = [t for t, new in zip(listed, unseen_scenes(listed, others), strict=True) if new]
    cleans = {t.clean.name: t for t in away}
    train += [bare(t.clean, f"clean-{t.name}") for t in list(cleans.values())[: args.most_pairs // 5]]
    scenes = dict(zip((t.name for t in split.unseen), scene_groups(split.unseen), strict=True))
    one_each = {scene: t for t in split.unseen for name, scene in scenes.items() if name == t.name}
    valid += [bare(t.clean, f"clean-{t.name}") for t in one_each.values()]

    photos = pictures_in(args.bare)
    valid += [bare(path, f"bare-{path.stem}") for path in photos[::10]]
    train += [bare(path, f"bare-{path.stem}") for index, path in enumerate(photos) if index % 10]
    for name, lines in (("train", train), ("valid", valid), ("test", test)):
        (args.output / f"{name}.txt").write_text("\n".join(lines) + "\n", encoding="utf-8")
        counts = {kind: sum(f"/{kind}-" in each for each in lines) for kind in ("drawn", "pair", "clean", "bare")}
        print(name, len(lines), counts)


def drawn_photos(folder: Path) -> list[Triplet]:
    """Return the photographs of a folder with their masks; each is its own clean picture."""
    masks = {path.stem: path for path in pictures_in(folder / "mask")}
    return [Triplet(p.stem, p, p, masks[p.stem]) for p in pictures_in(folder / "photo") if p.stem in masks]


def _unlike(triplets: list[Triplet], others: list[Triplet]) -> list[Triplet]:
    """Return the triplets whose clean picture looks like none of the others'."""
    apart = CleanPictures(triplets).nearest(CleanPictures(others)) > SAME_VIEW
    return [triplet for triplet, new in zip(triplets, apart, strict=True) if new]


if __name__ == "__main__":
    main()
