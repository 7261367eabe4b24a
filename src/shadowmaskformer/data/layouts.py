"""Data sets on disk: which pictures are shadow, mask and clean ones, split by split.

The name of a folder says what it holds: `train_A`, `shadow_free`, `SRD_testmask`, `cond`, `gt`. One function reads
such names for every layout in use. Pictures are paired by name, never by position: in sorted lists, one missing file
would shift all pairs after it.

- istd: `{train,test}/{train,test}_{A,B,C}`, equal names `scene-n.png`.
- istd+: the same with clean pictures in `_C_fixed` or `_C_fixed_official`, or adjusted ones repacked as `_C`.
- srd: `{train,test}/{shadow,shadow_free}`, `X.jpg` with `X_no_shadow.jpg` or `X_free.jpg`, or
  `{train,test}_{A,B,C}`; masks, where there are any, apart in a folder such as `SRD_testmask`.
- release: `{train,valid,test}/{cond,gt,mask}`, equal names.
- lists: text files with lines `input|mask|gt`; for finding shadows also `input|mask|` without a truth, and
  `input||input`, a picture without shadow.
- folders: any other pair or triple (shadow, mask, clean and kin), with or without splits.
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from shadowmaskformer.data.pictures import FORMATS
from shadowmaskformer.errors import DatasetError
from shadowmaskformer.files import first_ten
from shadowmaskformer.photo import endings

PICTURE_SUFFIXES = endings(FORMATS)

SPLITS = {
    "train": "train", "training": "train",
    "test": "test", "testing": "test",
    "valid": "valid", "val": "valid", "validation": "valid",
}  # fmt: skip
WHOLE = "all"
"""Name of the only split of a data set that has none."""

# A folder name without its split, in lower case and with `_` for any separator -> (role, rank). Where two
# folders of a split have one role the higher rank wins: ISTD+'s truth lies beside the one it replaces.
ROLES: dict[str, tuple[str, int]] = {
    "a": ("shadow", 0), "shadow": ("shadow", 0), "shadows": ("shadow", 0), "cond": ("shadow", 0),
    "input": ("shadow", 0), "inputs": ("shadow", 0), "shadow_image": ("shadow", 0),
    "shadow_images": ("shadow", 0), "shadow_img": ("shadow", 0),
    "b": ("mask", 0), "mask": ("mask", 0), "masks": ("mask", 0), "shadow_mask": ("mask", 0),
    "shadow_masks": ("mask", 0),
    "c": ("clean", 0), "c_fixed_ours": ("clean", 1), "c_fixed": ("clean", 2),
    "c_fixed_official": ("clean", 3), "non_shadow": ("clean", 0), "nonshadow": ("clean", 0), "shadowless": ("clean", 0),
    "gt": ("clean", 0),
    "clean": ("clean", 0), "shadow_free": ("clean", 0), "shadowfree": ("clean", 0), "free": ("clean", 0),
    "no_shadow": ("clean", 0), "noshadow": ("clean", 0), "target": ("clean", 0), "targets": ("clean", 0),
    "ground_truth": ("clean", 0), "groundtruth": ("clean", 0), "truth": ("clean", 0),
    "shadow_free_image": ("clean", 0), "shadow_free_images": ("clean", 0),
}  # fmt: skip
NAME_SUFFIXES = {
    "shadow": ("_shadow",),
    "mask": ("_shadow_mask", "_mask", "_shadow"),
    "clean": ("_no_shadow", "_shadow_free", "_shadowfree", "_free", "_clean", "_gt"),
}
_FOLDER = re.compile(rf"(?:(.*)[_ -])?({'|'.join(sorted(SPLITS, key=len, reverse=True))})[_ -]?(.*)", re.IGNORECASE)
_ISTD_NAME = re.compile(r"(\d+)-\d+")


@dataclass(frozen=True)
class Triplet:
    """One photo with a shadow, the same view without it and, where there is one, its mask.

    A photo whose clean picture is not known, or that has no shadow, is its own clean picture.
    """

    name: str
    shadow: Path
    clean: Path
    mask: Path | None = None
    scene: str | None = None
    """The place, if the name contains it (ISTD's `scene-n`); None leaves it to comparing clean pictures."""


ProblemKind = Literal["unpaired", "double", "maskless", "stray", "blank", "unreadable", "size", "misaligned"]


@dataclass(frozen=True)
class Problem:
    """A file that has something wrong, and what it is."""

    split: str
    file: Path
    kind: ProblemKind
    what: str


class Dataset:
    """A recognised data set: its layout, its splits and what is wrong with it."""

    def __init__(
        self, folder: Path, layout: str, triplets: dict[str, tuple[Triplet, ...]], problems: Iterable[Problem]
    ) -> None:
        self.folder = folder
        self.layout = layout
        self.problems = tuple(problems)
        self._triplets = triplets

    @property
    def splits(self) -> tuple[str, ...]:
        """Names of the splits: `train`, `valid`, `test`, or `all` for a data set without splits."""
        return tuple(sorted(self._triplets, key=("train", "valid", "test", WHOLE).index))

    def split(self, name: str, *, allow_unpaired: bool = False) -> tuple[Triplet, ...]:
        """Return the triplets of a split in order of their names.

        Raises:
            DatasetError: there is no such split, or (unless `allow_unpaired`) it has files without a partner.
        """
        if name not in self._triplets:
            raise DatasetError(
                f"{self.folder} has no split {name!r}, only {', '.join(self.splits)}",
                f"name the folder above it, or put the pictures into folders called {name}",
            )
        unpaired = [p for p in self.problems if p.split == name and p.kind == "unpaired"]
        if unpaired and not allow_unpaired:
            raise DatasetError(
                f"{self.folder}, split {name}: {len(unpaired)} pictures have no partner, "
                f"{len(self._triplets[name])} have one ({first_ten(str(p.file.name) for p in unpaired)})",
                "remove them; `shadowmaskformer data check` lists them all",
            )
        return self._triplets[name]


def open_dataset(folder: str | os.PathLike[str]) -> Dataset:
    """Recognise the data set in `folder` and pair its pictures by name.

    Args:
        folder: the data set's folder, one of its splits, or a text file with lines `input|mask|gt`.

    Raises:
        DatasetError: nothing is there, or nothing that looks like pairs.
    """
    root = Path(folder)
    if not root.exists():
        raise DatasetError(f"{root} does not exist", "name the folder that holds the data set")
    if root.is_file() and not _is_list(root):
        raise DatasetError(f"{root} is no list with lines input|mask|gt", "name a folder; unpack an archive first")
    lists = [root] if root.is_file() else sorted(p for p in root.glob("*.txt") if _is_list(p))
    if lists:
        try:
            return _open_lists(root, lists)
        except DatasetError:
            # Lists may come with code and name folders of another machine; then the folders beside them count.
            if root.is_file() or not _has_pairs(_role_folders(root, 3)):
                raise
    found = _role_folders(root, 3)
    if not _has_pairs(found):
        found = _role_folders(root, 4)
    triplets: dict[str, tuple[Triplet, ...]] = {}
    problems: list[Problem] = []
    for split, roles in found.items():
        if "shadow" in roles and "clean" in roles:
            triplets[split] = _pair(split, roles, problems)
        elif split != WHOLE and (lone := roles.get("shadow") or roles.get("clean")):
            missing = "clean" if "shadow" in roles else "shadow"
            problems.append(Problem(split, lone, "unpaired", f"split {split} has no folder of {missing} pictures"))
    if not triplets:
        listed = first_ten(f"{p.relative_to(root)}/" for roles in found.values() for p in roles.values())
        raise DatasetError(
            f"{root} has no folders that look like shadow and clean ({listed or 'no folders of pictures'})",
            "expected for example train/shadow and train/shadow_free, train_A and train_C, or cond and gt",
        )
    if not any(triplets.values()):
        raise DatasetError(
            f"{root} holds no pairs: {len(problems)} pictures without a partner "
            f"({first_ten(p.file.name for p in problems)})",
            "give both pictures of a pair the same name",
        )
    return Dataset(root, _layout_name(found, triplets), triplets, problems)


def pictures_in(folder: Path) -> list[Path]:
    """Return the picture files directly in `folder`, by name, without hidden files and other kinds."""
    with os.scandir(folder) as entries:
        names = [e.name for e in entries if not e.name.startswith(".") and e.is_file()]
    return [folder / name for name in sorted(names) if Path(name).suffix.lower() in PICTURE_SUFFIXES]


def read_folder_name(name: str) -> tuple[str | None, str | None, int]:
    """Return the split, role and rank in a folder's name; None for those that it does not name.

    >>> read_folder_name("train_C_fixed_official"), read_folder_name("SRD_testmask")
    (('train', 'clean', 3), ('test', 'mask', 0))
    >>> read_folder_name("shadow_free"), read_folder_name("Train"), read_folder_name("holiday")
    ((None, 'clean', 0), ('train', None, 0), (None, None, 0))
    >>> read_folder_name("SRD_mask_test")
    ('test', 'mask', 0)
    """
    role, rank = ROLES.get(_plain(name), (None, 0))
    if role:
        return None, role, rank
    match = _FOLDER.fullmatch(name)
    if match is None:
        return None, None, 0
    before, split, after = _plain(match[1] or ""), SPLITS[match[2].lower()], _plain(match[3])
    if after:
        return (split, *ROLES[after]) if after in ROLES else (None, None, 0)
    # The role may stand first, behind the data set's name, unless that turns it round (`without_shadow_train`).
    words = before.split("_")
    for first in range(len(words)):
        word = "_".join(words[first:])
        if word in ROLES and (first == 0 or len(word) > 1):
            return split, *ROLES[word]
        if words[first] in ROLES or words[first] in ("no", "non", "without", "wo"):
            break
    return split, None, 0


def _plain(name: str) -> str:
    return re.sub(r"[ \-_]+", "_", name.lower()).strip("_")


def _has_pairs(found: dict[str, dict[str, Path]]) -> bool:
    return any({"shadow", "clean"} <= roles.keys() for roles in found.values())


def _role_folders(root: Path, levels: int) -> dict[str, dict[str, Path]]:
    """Return folders by split and role, from the names on the path from `root`.

    Three levels hold every layout in use, a fourth what an archive may wrap around it.
    """
    ranked: dict[tuple[str, str], tuple[int, Path]] = {}
    for folder, parts in _folders(root, (), levels):
        split, role, rank = None, None, 0
        for part in parts:
            part_split, part_role, part_rank = read_folder_name(part)
            split = part_split or split
            if part_role:
                role, rank = part_role, part_rank
        if role is None or not pictures_in(folder):
            continue
        key = (split or WHOLE, role)
        if key in ranked and ranked[key][0] == rank:
            raise DatasetError(
                f"{ranked[key][1]} and {folder} both look like the {role} pictures of split {key[0]}",
                "move one away or name a folder further down",
            )
        if key not in ranked or rank > ranked[key][0]:
            ranked[key] = (rank, folder)
    found: dict[str, dict[str, Path]] = {}
    for (split, role), (_, folder) in ranked.items():
        found.setdefault(split, {})[role] = folder
    return found


def _folders(folder: Path, parts: tuple[str, ...], levels: int) -> Iterator[tuple[Path, tuple[str, ...]]]:
    if parts:
        yield folder, parts
    # A loop of links ends here too.
    if len(parts) < levels:
        for child in sorted(folder.iterdir() if folder.is_dir() else ()):
            if child.is_dir() and not child.name.startswith("."):
                yield from _folders(child, (*parts, child.name), levels)


def _pair(split: str, roles: dict[str, Path], problems: list[Problem]) -> tuple[Triplet, ...]:
    shadows = _by_key(split, "shadow", roles["shadow"], set(), problems)
    cleans = _by_key(split, "clean", roles["clean"], set(shadows), problems)
    masks = _by_key(split, "mask", roles["mask"], set(shadows), problems) if "mask" in roles else {}
    if not set(shadows) & set(cleans):
        # Shadow names may carry a suffix of their own (`X_shadow` beside `X_free`).
        shadows = {_without_suffix(key, "shadow"): path for key, path in shadows.items()}
        cleans = _by_key(split, "clean", roles["clean"], set(shadows), [])
        masks = _by_key(split, "mask", roles["mask"], set(shadows), []) if masks else {}
    problems += [
        Problem(split, p, "unpaired", "no clean picture of that name") for k, p in shadows.items() if k not in cleans
    ]
    problems += [
        Problem(split, p, "unpaired", "no shadow picture of that name") for k, p in cleans.items() if k not in shadows
    ]
    if masks:
        problems += [
            Problem(split, p, "maskless", "no mask of that name")
            for k, p in shadows.items()
            if k in cleans and k not in masks
        ]
        problems += [Problem(split, p, "stray", "no pair of that name") for k, p in masks.items() if k not in shadows]
    return tuple(
        Triplet(key, shadows[key], cleans[key], masks.get(key), _scene(key)) for key in sorted(shadows) if key in cleans
    )


def _by_key(split: str, role: str, folder: Path, wanted: set[str], problems: list[Problem]) -> dict[str, Path]:
    """Return the pictures of `folder` by the name that pairs them: the stem if `wanted`, else without its suffix."""
    files: dict[str, Path] = {}
    for path in pictures_in(folder):
        key = path.stem if path.stem in wanted or role == "shadow" else _without_suffix(path.stem, role)
        if key in files:
            problems.append(
                Problem(split, path, "double", f"second {role} picture of that name beside {files[key].name}")
            )
            continue
        files[key] = path
    return files


def _without_suffix(stem: str, role: str) -> str:
    for suffix in NAME_SUFFIXES[role]:
        if stem.lower().endswith(suffix):
            return stem[: -len(suffix)]
    return stem


def _scene(name: str) -> str | None:
    match = _ISTD_NAME.fullmatch(name)
    return match[1] if match else None


def _layout_name(found: dict[str, dict[str, Path]], triplets: dict[str, tuple[Triplet, ...]]) -> str:
    split = next(s for s, members in triplets.items() if members)
    shadow, clean = (_role_word(found[split][role]) for role in ("shadow", "clean"))
    if shadow == "a":
        if clean.startswith("c_fixed"):
            return "istd+"
        if all(t.scene is None for t in triplets[split]):
            compressed = all(t.shadow.suffix.lower() in endings(["JPEG"]) for t in triplets[split])
            return "srd" if compressed else "folders"
        from shadowmaskformer.data.adjust import looks_adjusted

        return "istd+" if looks_adjusted(triplets[split]) else "istd"
    if shadow == "cond" and clean == "gt":
        return "release"
    suffixed = any(t.clean.stem.endswith(("_no_shadow", "_free")) for t in triplets[split])
    return "srd" if suffixed and split in ("train", "test") else "folders"


def _role_word(folder: Path) -> str:
    match = _FOLDER.fullmatch(folder.name)
    plain = _plain(folder.name)
    return plain if plain in ROLES or match is None else _plain(match[3])


def _is_list(path: Path) -> bool:
    with path.open("rb") as file:
        return file.readline(4096).count(b"|") == 2


def _open_lists(root: Path, lists: list[Path]) -> Dataset:
    triplets: dict[str, tuple[Triplet, ...]] = {}
    problems: list[Problem] = []
    for path in lists:
        split = next((SPLITS[word] for word in re.split(r"[^a-z]+", path.stem.lower()) if word in SPLITS), WHOLE)
        members = {triplet.name: triplet for triplet in triplets.get(split, ())}
        try:
            text = path.read_text(encoding="utf-8")
        except UnicodeDecodeError as error:
            raise DatasetError(f"{path} is not UTF-8 (byte {error.start})", "save the list as UTF-8") from error
        for number, line in enumerate(text.splitlines(), start=1):
            if not line.strip():
                continue
            words = line.split("|")
            if len(words) != 3:
                raise DatasetError(f"{path}, line {number}: {len(words)} entries; expected input|mask|gt")
            shadow, mask, clean = ((path.parent / word.strip()) if word.strip() else None for word in words)
            clean = clean or (mask and shadow)
            if shadow is None or clean is None:
                raise DatasetError(f"{path}, line {number}: input and gt must not be empty; expected input|mask|gt")
            gone = [p for p in (shadow, mask, clean) if p is not None and not p.is_file()]
            problems += [Problem(split, p, "unpaired", f"no such file (line {number} of {path.name})") for p in gone]
            if not gone and shadow.stem in members:
                problems.append(
                    Problem(split, shadow, "double", f"second line of that name (line {number} of {path.name})")
                )
            elif not gone:
                members[shadow.stem] = Triplet(shadow.stem, shadow, clean, mask, _scene(shadow.stem))
        triplets[split] = tuple(members[name] for name in sorted(members))
    if not any(triplets.values()):
        raise DatasetError(
            f"{root} lists no pictures that exist ({len(problems)} missing: "
            f"{first_ten(str(p.file) for p in problems)}); paths count from the folder of the list"
        )
    return Dataset(root, "lists", triplets, problems)
