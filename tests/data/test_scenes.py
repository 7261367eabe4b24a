from __future__ import annotations

import shutil
from pathlib import Path

import numpy as np
import pytest
from PIL import Image

from data.drawn import save, scene, write_srd
from shadowmaskformer.data import Triplet, fingerprint, open_dataset, unseen_scenes, validation_split
from shadowmaskformer.data.scenes import CleanPictures, scene_groups
from shadowmaskformer.errors import DatasetError


def test_validation_shares_no_scene_with_train(tmp_path: Path) -> None:
    triplets = open_dataset(write_srd(tmp_path, train=20)).split("train")
    split = validation_split(triplets, share=0.3, seed=1)
    assert len(split.train) + len(split.unseen) == 20
    assert len(split.unseen) == 6
    cleans = [{t.clean.read_bytes() for t in part} for part in (split.train, split.unseen)]
    assert not cleans[0] & cleans[1]


def test_pictures_of_seen_scenes_leave_their_scene_in_train(tmp_path: Path) -> None:
    triplets = open_dataset(write_srd(tmp_path, train=20)).split("train")
    split = validation_split(triplets, share=0.3, seen=4, seed=1)
    assert len(split.seen) == 4
    assert {*split.train, *split.unseen, *split.seen} == set(triplets)
    assert {t.clean.read_bytes() for t in split.seen} <= {t.clean.read_bytes() for t in split.train}


def test_no_scene_is_emptied_for_validation(tmp_path: Path) -> None:
    paths = [save(scene(number), tmp_path / f"{number}.png") for number in range(4)]
    assert validation_split([Triplet(p.stem, p, p) for p in paths], share=0.25, seen=2).seen == ()


def test_the_seed_decides_which_scenes(tmp_path: Path) -> None:
    triplets = open_dataset(write_srd(tmp_path, train=20)).split("train")
    drawn = {validation_split(triplets, share=0.2, seed=seed)[1] for seed in (0, 0, 1, 2, 3)}
    assert 1 < len(drawn) <= 4
    assert validation_split(triplets, share=0.2, seed=0) == validation_split(triplets, share=0.2, seed=0)


def test_another_shot_of_a_view_stays_with_it(tmp_path: Path, rng: np.random.Generator) -> None:
    again = np.clip(scene(0) + rng.normal(1.5, 2, scene(0).shape), 0, 255).astype(np.uint8)
    paths = [save(p, tmp_path / f"{n}.png") for n, p in enumerate((scene(0), again, scene(1)))]
    groups = scene_groups([Triplet(p.stem, p, p) for p in paths])
    assert groups == (0, 0, 1)


def test_scenes_by_name_where_names_tell(tmp_path: Path) -> None:
    path = save(scene(0), tmp_path / "clean.png")
    assert scene_groups([Triplet(f"{s}-1", path, path, None, s) for s in ("7", "8", "7")]) == (0, 1, 0)


def test_pictures_of_one_scene_are_split_by_clean_picture_or_by_picture(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    paths = [save(scene(number), tmp_path / f"{number}.png") for number in range(2)]
    for cleans, unit in ((paths, "clean picture"), (paths[:1] * 2, "picture")):
        triplets = [Triplet(f"1-{number}", paths[0], clean, scene="1") for number, clean in enumerate(cleans)]
        split = validation_split(triplets, share=0.95)
        assert (len(split.train), len(split.unseen)) == (1, 1)
        assert f"split off by {unit}" in caplog.messages[-1]
    with pytest.raises(DatasetError, match="1 pairs"):
        validation_split(triplets[:1], share=0.5)


def test_something_is_always_left_to_train_on(tmp_path: Path) -> None:
    triplets = [
        Triplet(str(number), path, path)
        for number in range(4)
        for path in [save(scene(number, 96, 128), tmp_path / f"{number}.png")]
    ]
    assert validation_split(triplets, share=0.95).train


@pytest.mark.parametrize("change", ["as it is", "reduced", "recompressed"])
def test_seen_scenes_are_found_in_any_size_and_quality(tmp_path: Path, change: str) -> None:
    def view(number: int) -> Image.Image:
        return Image.fromarray(scene(number, 192, 256))

    train: list[Triplet] = []
    for number in range(4):
        image, path = view(number), tmp_path / f"train-{number}.{'jpg' if change == 'recompressed' else 'png'}"
        if change == "reduced":
            image = image.resize((128, 96), Image.Resampling.BICUBIC)
        image.save(path, quality=80)
        train.append(Triplet(path.stem, path, path))
    test: list[Triplet] = []
    for number in (3, 9, 0):
        path = tmp_path / f"test-{number}.png"
        view(number).save(path)
        test.append(Triplet(path.stem, path, path))
    assert unseen_scenes(test, train) == (False, True, False)


def test_identical_clean_files_are_one_picture(tmp_path: Path) -> None:
    dataset = open_dataset(write_srd(tmp_path, train=6))
    pictures = CleanPictures(dataset.split("train"))
    assert (len(pictures), pictures.which) == (3, [0, 0, 1, 1, 2, 2])


def test_the_fingerprint_knows_content_and_not_place(tmp_path: Path) -> None:
    first = write_srd(tmp_path / "here")
    second = Path(shutil.copytree(first, tmp_path / "there"))
    marks = [fingerprint(open_dataset(folder).split("train")) for folder in (first, second)]
    assert marks[0] == marks[1]
    save(scene(7), second / "train" / "shadow" / "IMG_3.png")
    assert fingerprint(open_dataset(second).split("train")) != marks[0]
    assert fingerprint(open_dataset(first).split("train")[1:]) != marks[0]


def test_an_unreadable_clean_picture_is_a_scene_of_its_own(tmp_path: Path) -> None:
    folder = write_srd(tmp_path, train=6)
    (folder / "train" / "shadow_free" / "IMG_3_no_shadow.png").write_bytes(b"no picture")
    dataset = open_dataset(folder)
    assert scene_groups(dataset.split("train")) == (0, 0, 1, 2, 3, 3)
    assert unseen_scenes(dataset.split("test"), dataset.split("train")) == (False, False, False)
    assert unseen_scenes(dataset.split("train"), dataset.split("test"))[3]
