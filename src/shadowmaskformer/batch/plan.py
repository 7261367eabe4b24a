"""Which photo becomes which file, with which mask."""

from __future__ import annotations

import unicodedata
from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace
from pathlib import Path, PurePath

from shadowmaskformer.batch.manifest import MANIFEST
from shadowmaskformer.batch.places import Place, join, place_of, split
from shadowmaskformer.errors import ConfigError
from shadowmaskformer.files import shown
from shadowmaskformer.photo import endings
from shadowmaskformer.removal.job import RESULT, default_output

OVERLAY = "-mask-overlay"
_RESULTS = (RESULT, f"{RESULT}-compare", OVERLAY)
_MASKS = ("-mask", "_mask")


@dataclass(frozen=True)
class Item:
    """One photo of a batch.

    Attributes:
        photo: its path or URL.
        output: where the result goes.
        mask: its mask; None if it has none.
        namesake: another photo has this one's name except for the ending.
    """

    photo: str
    output: str
    mask: str | None = None
    namesake: bool = False

    @property
    def comparison(self) -> str:
        """Where before, mask and after go, side by side; never to the place of a namesake's."""
        folder, name = split(self.output)
        stem, ending = Path(name).stem, Path(name).suffix.removeprefix(".")
        if self.namesake:
            stem = f"{stem.removesuffix(RESULT)}-{ending}{RESULT}"
        return join(folder, f"{stem}-compare.jpg")

    @property
    def overlay(self) -> str:
        """Where the command `mask` puts the photo with its shadows in red."""
        folder, name = split(self.photo)
        return join(folder, f"{Path(name).stem}{OVERLAY}.jpg")


def plan(
    photos: Iterable[str],
    output: str | None = None,
    *,
    masks: str | None = None,
    recursive: bool = False,
    format: str | None = None,
) -> list[Item]:
    """Decide which photo becomes which file.

    In folders, hidden files, results (`NAME-no-shadow.*`), masks (`NAME-mask.*`), and comparisons and overlays of them
    are no photos; nor are this batch's own outputs and masks anywhere.

    Args:
        photos: photos and folders of photos.
        output: folder for the results, in which the subfolders of a folder are kept; None puts each beside its photo.
        masks: one mask for all; or a folder with masks, each where its photo is in its own folder, under the same name
            except for the ending; None takes `NAME-mask.*` beside the photo where there is one.
        recursive: look into subfolders too.
        format: of the results.

    Raises:
        ConfigError: two photos would become one file, two masks fit one photo, or no mask of a folder fits any.
    """
    folders = _Folders()
    in_folder = masks is not None and place_of(masks).is_folder(masks)
    items: dict[str, Item] = {}
    for photo, inside in _found(photos, folders, recursive, [each for each in (output, masks) if each]):
        folder, name = split(photo)
        mask = masks
        if in_folder:
            assert masks is not None
            beside = join(masks, str(PurePath(inside).parent))
            # Among the photos themselves, a file of the same name is another photo.
            same = place_of(beside).real(beside) == place_of(folder).real(folder)
            mask = folders.mask(beside, photo, _MASKS if same else ("", *_MASKS))
        elif masks is None:
            mask = folders.mask(folder, photo, _MASKS)
        named = default_output(Path(name), format).name
        target = join(folder, named) if output is None else join(output, str(PurePath(inside).with_name(named)))
        items.setdefault(place_of(photo).real(photo), Item(photo, target, mask))
    ours = {
        place_of(path).real(path)
        for item in items.values()
        for path in (item.output, item.comparison, item.mask, item.overlay)
        if path is not None
    }
    chosen = [item for real, item in items.items() if real not in ours and split(item.photo)[1] != MANIFEST]
    if in_folder and chosen and all(item.mask is None for item in chosen):
        raise ConfigError(
            f"no mask in {shown(masks or '')} has the name of a photo", "rename the masks, or leave {masks} out"
        )
    _refuse_collisions(chosen)
    stems = Counter(_stem(item) for item in chosen)
    return [replace(item, namesake=stems[_stem(item)] > 1) for item in chosen]


def mask_beside(photo: str) -> str | None:
    """Return the mask `NAME-mask.*` beside a photo; None if there is none."""
    return _Folders().mask(split(photo)[0], photo, _MASKS)


def _stem(item: Item) -> str:
    return str(Path(place_of(item.output).real(item.output)).with_suffix("")).casefold()


def _found(inputs: Iterable[str], folders: _Folders, recursive: bool, others: list[str]) -> Iterator[tuple[str, str]]:
    """Yield each photo, and its path inside the folder that was named; folders for other things are left out."""
    for each in inputs:
        place = place_of(each)
        if not place.is_folder(each):
            yield each, split(each)[1]
            continue
        left_out = [real for real in map(place.real, others) if _is_inside(real, place.real(each))]
        for name in place.files(each, recursive=recursive):
            photo = join(each, name)
            if folders.is_photo(photo) and not any(_is_inside(place.real(photo), real) for real in left_out):
                yield photo, name


def _is_inside(path: str, folder: str) -> bool:
    return path.startswith(folder.rstrip("/\\") + "/") or path.startswith(folder.rstrip("/\\") + "\\")


class _Folders:
    """What lies side by side in each folder; each is listed once."""

    def __init__(self) -> None:
        self._stems: dict[str, dict[str, list[str]]] = {}

    def stems(self, folder: str) -> dict[str, list[str]]:
        """Return the names of the pictures in a folder, by their stems as `_folded` has them."""
        if folder not in self._stems:
            place: Place = place_of(folder)
            found: dict[str, list[str]] = defaultdict(list)
            for name in place.files(folder) if place.is_folder(folder) else ():
                if PurePath(name).suffix.lower() in endings():
                    found[_folded(PurePath(name).stem)].append(name)
            self._stems[folder] = found
        return self._stems[folder]

    def is_photo(self, path: str) -> bool:
        """Return whether a file in a folder is one of its photos."""
        folder, name = split(path)
        stem = PurePath(name).stem
        if PurePath(name).suffix.lower() not in endings() or stem.endswith(_RESULTS):
            return False
        beside = (*_MASKS, "-compare")
        return not any(stem.endswith(end) and _folded(stem.removesuffix(end)) in self.stems(folder) for end in beside)

    def mask(self, folder: str, photo: str, suffixes: tuple[str, ...]) -> str | None:
        """Return the mask of a photo among the pictures in `folder`; None if there is none."""
        stem, stems, place = PurePath(split(photo)[1]).stem, self.stems(folder), place_of(folder)
        names = [name for suffix in suffixes for name in stems.get(_folded(stem + suffix), ())]
        # Photos and masks of one folder may differ in nothing but the case of their letters.
        exact = [name for name in names if any(PurePath(name).stem == stem + suffix for suffix in suffixes)]
        paths = [join(folder, name) for name in exact or names]
        found = [path for path in paths if place.real(path) != place_of(photo).real(photo)]
        if len(found) > 1:
            raise ConfigError(
                f"{shown(photo)} has two masks, {shown(found[0])} and {shown(found[1])}", "take one of them away"
            )
        return found[0] if found else None


def _folded(stem: str) -> str:
    """Return a name as it is compared: cameras, computers and people write the same one in several ways."""
    return unicodedata.normalize("NFC", stem).casefold()


def _refuse_collisions(items: list[Item]) -> None:
    first: dict[str, Item] = {}
    for item in items:
        other = first.setdefault(place_of(item.output).real(item.output), item)
        if other is not item:
            raise ConfigError(
                f"{shown(other.photo)} and {shown(item.photo)} would both become {shown(item.output)}",
                "rename one of them, or give each its own {output}",
            )
