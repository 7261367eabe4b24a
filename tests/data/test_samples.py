from __future__ import annotations

import os
import shutil
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from PIL import Image

from data.drawn import box_mask, save, scene, shade, write_srd
from shadowmaskformer.arrays import box_mean
from shadowmaskformer.data import Augment, Cache, Samples, Triplet, build_cache, derive_mask, open_dataset
from shadowmaskformer.data import samples as module
from shadowmaskformer.data.pictures import read_dataset_mask
from shadowmaskformer.errors import DatasetError
from shadowmaskformer.light.relight import start_light

STRONG = Augment(crop=0.7, flip=0.5, rot90=0.5, exposure=0.4, white_balance=0.2, mask_jitter=0.8, synthetic=0.3)


@pytest.fixture(scope="module")
def triplets(tmp_path_factory: pytest.TempPathFactory) -> tuple[Triplet, ...]:
    return open_dataset(write_srd(tmp_path_factory.mktemp("srd"), train=6)).split("train")


@pytest.fixture(scope="module")
def cache(triplets: tuple[Triplet, ...], tmp_path_factory: pytest.TempPathFactory) -> Cache:
    return build_cache(triplets, tmp_path_factory.mktemp("cache") / "train")


def same(a: module.Sample, b: module.Sample) -> bool:
    return a.name == b.name and all(
        np.array_equal(getattr(a, part), getattr(b, part)) for part in ("photo", "mask", "truth")
    )


def test_a_sample_depends_on_seed_and_position_alone(cache: Cache) -> None:
    ahead = Samples(cache, augment=STRONG, seed=4)
    later = Samples(cache, augment=STRONG, seed=4)
    drawn = [ahead.draw(position, 32) for position in range(14)]
    for position in (13, 2, 7):
        assert same(drawn[position], later.draw(position, 32))
    other = Samples(cache, augment=STRONG, seed=5)
    assert not all(same(drawn[position], other.draw(position, 32)) for position in range(6))


def test_threads_draw_the_same(cache: Cache) -> None:
    source = Samples(cache, augment=STRONG, seed=1)
    with ThreadPoolExecutor(4) as pool:
        parallel = list(pool.map(lambda position: source.draw(position, 24), range(12)))
    assert all(same(sample, source.draw(position, 24)) for position, sample in enumerate(parallel))


def test_each_epoch_shows_each_picture_once_in_a_new_order(cache: Cache) -> None:
    source = Samples(cache, augment=Augment(), seed=0)
    epochs = [[source.draw(6 * epoch + n, 8).name for n in range(6)] for epoch in range(3)]
    assert all(sorted(names) == sorted(epochs[0]) for names in epochs)
    assert len({tuple(names) for names in epochs}) > 1


def test_without_augmentation_a_draw_is_the_whole_picture(cache: Cache) -> None:
    source = Samples(cache, augment=Augment(), seed=0)
    drawn = source.draw(3, (24, 40))
    index = [entry.name for entry in cache.entries].index(drawn.name)
    assert drawn.photo.shape == (24, 40, 3)
    assert same(drawn, source.whole(index, (24, 40)))


def test_pictures_keep_their_values(cache: Cache, triplets: tuple[Triplet, ...]) -> None:
    whole = Samples(cache, augment=Augment()).whole(2, (48, 64))
    np.testing.assert_allclose(whole.truth, scene(1).astype(np.float32) / 255, atol=1e-6)
    np.testing.assert_array_equal(whole.mask, derive_mask(whole.photo, whole.truth))
    assert whole.photo.dtype == whole.mask.dtype == whole.truth.dtype == np.float32


def test_strong_augmentation_stays_in_range(cache: Cache) -> None:
    source = Samples(cache, augment=STRONG, seed=2)
    for position in range(24):
        sample = source.draw(position, 32)
        for part, shape in ((sample.photo, (32, 32, 3)), (sample.mask, (32, 32)), (sample.truth, (32, 32, 3))):
            assert part.shape == shape
            assert part.dtype == np.float32
            assert 0 <= part.min() <= part.max() <= 1


@pytest.fixture(scope="module")
def relit(triplets: tuple[Triplet, ...], tmp_path_factory: pytest.TempPathFactory) -> Cache:
    return build_cache(triplets, tmp_path_factory.mktemp("cache") / "relit", relit=True)


def test_light_is_measured_once_on_the_whole_picture(relit: Cache) -> None:
    whole = Samples(relit, augment=Augment(), seed=0).draw(0, (48, 64))
    assert whole.start is not None
    expected = start_light(whole.photo, whole.mask).apply(whole.photo)
    np.testing.assert_allclose(whole.start, expected, atol=0.51 / 255)
    assert np.abs(whole.start - whole.photo)[whole.mask > 0.5].mean() > 0.05


def test_the_relit_photo_is_changed_as_the_photo_is(relit: Cache) -> None:
    moved = Augment(crop=1.0, smallest_crop=0.5, flip=0.5, rot90=0.5, exposure=0.5, white_balance=0.2, gamma=0.3)
    source = Samples(relit, augment=moved, seed=3)
    for position in range(12):
        sample = source.draw(position, 48)
        assert sample.start is not None
        lit = box_mean(sample.mask, 6) == 0
        assert lit.any()
        # Relighting leaves lit ground as it is, so there both must be the same.
        np.testing.assert_allclose(sample.start[lit], sample.photo[lit], atol=2 / 255)


@pytest.mark.parametrize("change", ["synthetic", "mask_jitter", "decoys"])
def test_what_was_measured_does_not_stay_with_another_shadow_or_mask(relit: Cache, change: str) -> None:
    source = Samples(relit, augment=Augment(**{change: 1.0}), seed=3)
    assert all(source.draw(position, 48).start is None for position in range(6))


def test_a_photo_that_is_its_own_clean_picture_is_not_relit(tmp_path: Path) -> None:
    path = save(scene(0, 96, 128), tmp_path / "a.png")
    stored = build_cache([Triplet("a", path, path)], tmp_path / "cache", relit=True)
    assert stored.start(0) is None


def test_synthetic_shadows_fall_on_the_clean_picture(cache: Cache) -> None:
    source = Samples(cache, augment=Augment(synthetic=1.0), seed=0)
    sample = source.draw(0, 64)
    lit = sample.mask == 0
    assert np.abs(sample.photo - sample.truth)[lit].max() < 0.02
    assert 0 < sample.mask.mean() < 1
    assert sample.photo[sample.mask > 0.9].mean() < sample.truth[sample.mask > 0.9].mean()


def test_crops_show_shadow_and_light(cache: Cache) -> None:
    source = Samples(cache, augment=Augment(crop=1.0, smallest_crop=0.4), seed=0)
    areas = [source.draw(position, 32).mask.mean() for position in range(30)]
    assert np.mean([0.01 < area < 0.99 for area in areas]) > 0.9


def test_shared_clean_pictures_are_stored_once(cache: Cache) -> None:
    assert len(cache) == 6
    assert len({entry.clean for entry in cache.entries}) == 3


def test_large_pictures_are_stored_at_the_working_size(tmp_path: Path) -> None:
    path = save(scene(0, 96, 128), tmp_path / "a.png")
    stored = build_cache([Triplet("a", path, path)], tmp_path / "cache", side=48)
    assert (stored.entries[0].height, stored.entries[0].width) == (48, 64)


def test_masks_on_disk_are_used(tmp_path: Path) -> None:
    path, mask = save(scene(0), tmp_path / "a.png"), save(box_mask(2, 2), tmp_path / "m.png")
    stored = build_cache([Triplet("a", path, path, mask)], tmp_path / "cache")
    np.testing.assert_array_equal(stored.pictures(0)[1], box_mask(2, 2))


def test_the_cache_is_reopened_and_rebuilt_when_the_data_changed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    dataset = open_dataset(write_srd(tmp_path / "data"))
    folder = tmp_path / "cache"
    build_cache(dataset.split("train"), folder)
    writes: list[int] = []
    write = module._write_cache
    monkeypatch.setattr(module, "_write_cache", lambda *args: (writes.append(1), write(*args)))
    assert len(build_cache(dataset.split("train"), folder)) == 6
    assert writes == []
    assert len(build_cache(dataset.split("train")[:4], folder)) == 4
    assert writes == [1]
    assert sorted(p.name for p in tmp_path.iterdir()) == ["cache", "data"]


def test_pairs_of_two_sizes_stop_the_run_by_name(tmp_path: Path) -> None:
    folder = write_srd(tmp_path / "data")
    save(scene(0, 24, 32), folder / "train" / "shadow" / "IMG_2.png")
    with pytest.raises(DatasetError, match=r"1 of 6 pairs differ in size \(IMG_2: 24x32 and 48x64"):
        build_cache(open_dataset(folder).split("train"), tmp_path / "cache")
    assert not (tmp_path / "cache").exists()


def test_a_corrupt_picture_among_few_stops_the_run(tmp_path: Path) -> None:
    folder = write_srd(tmp_path / "data")
    path = folder / "train" / "shadow" / "IMG_2.png"
    path.write_bytes(path.read_bytes()[:200])
    with pytest.raises(DatasetError, match=r"1 of 6 pictures cannot be read \(IMG_2"):
        build_cache(open_dataset(folder).split("train"), tmp_path / "cache")


def test_one_corrupt_among_thousands_is_skipped_and_listed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "TOLERATED", 0.2)
    folder = write_srd(tmp_path / "data")
    (folder / "train" / "shadow" / "IMG_2.png").write_bytes(b"not a picture")
    stored = build_cache(open_dataset(folder).split("train"), tmp_path / "cache")
    assert [entry.name for entry in stored.entries] == ["IMG_0", "IMG_1", "IMG_3", "IMG_4", "IMG_5"]
    assert stored.skipped[0].startswith("IMG_2: ")


def drifted_pairs(folder: Path) -> tuple[Triplet, ...]:
    """Two pairs that share one clean picture, taken in warmer and darker light than both photos."""
    clean, mask = scene(1), box_mask()
    taken = np.round(clean * np.array([0.95, 0.9, 0.8]) + np.array([4, 3, 0])).astype(np.uint8)
    save(mask, folder / "mask.png")
    for number, exposure in enumerate((1.0, 0.8)):
        save((shade(clean, mask) * exposure).astype(np.uint8), folder / f"{number}.png")
        save(taken, folder / f"{number}_free.png")
    paths = ((folder / f"{n}.png", folder / f"{n}_free.png", folder / "mask.png") for n in range(2))
    return tuple(Triplet(str(number), *pair) for number, pair in enumerate(paths))


def test_truth_in_its_own_light_meets_the_photo_outside_the_shadow(tmp_path: Path) -> None:
    triplets = drifted_pairs(tmp_path)
    taken = build_cache(triplets, tmp_path / "cache")
    own = build_cache(triplets, tmp_path / "cache", truth="own-light")
    for index, exposure in enumerate((1.0, 0.8)):
        photo, mask, truth = (picture.astype(float) for picture in own.pictures(index))
        lit = mask == 0
        assert np.abs(truth - photo)[lit].max() <= 2
        assert np.abs(taken.pictures(index)[2] - photo)[lit].mean() > 8
        # Inside too: there the photo is in shadow, and the drawn scene says what the truth is.
        assert np.abs(truth - scene(1) * exposure)[~lit].max() <= 2
    whole = Samples(own, augment=Augment()).whole(0, (48, 64))
    np.testing.assert_array_equal(np.round(whole.truth * 255), own.pictures(0)[2])


def test_caches_of_two_truths_are_not_mixed_up(tmp_path: Path) -> None:
    triplets = drifted_pairs(tmp_path)
    taken = build_cache(triplets, tmp_path / "cache").pictures(0)[2].copy()
    own = build_cache(triplets, tmp_path / "cache", truth="own-light").pictures(0)[2].copy()
    assert (own != taken).any()
    np.testing.assert_array_equal(build_cache(triplets, tmp_path / "cache").pictures(0)[2], taken)


def test_what_a_killed_run_has_left_is_removed(triplets: tuple[Triplet, ...], tmp_path: Path) -> None:
    old, new = (tmp_path / f"cache.partial-{number}" for number in (4_000_000, 4_000_001))
    for leftover in (old, new):
        leftover.mkdir()
        (leftover / module.PICTURES).write_bytes(b"half")
    for path in (old / module.PICTURES, old):
        os.utime(path, (0, 0))
    build_cache(triplets, tmp_path / "cache")
    assert not old.exists()
    assert new.exists()  # another run may be writing it


def test_a_run_of_the_same_process_number_elsewhere_keeps_what_it_writes(
    triplets: tuple[Triplet, ...], tmp_path: Path
) -> None:
    other = tmp_path / f"cache.partial-{os.getpid()}"  # by a container that shares this folder
    other.mkdir()
    (other / module.PICTURES).write_bytes(b"half")
    assert len(build_cache(triplets, tmp_path / "cache")) == 6
    assert (other / module.PICTURES).read_bytes() == b"half"


def test_a_run_that_finishes_while_its_files_are_looked_at_does_no_harm(
    triplets: tuple[Triplet, ...], tmp_path: Path
) -> None:
    other = tmp_path / "cache.partial-other"
    other.mkdir()
    (other / module.PICTURES).symlink_to(tmp_path / "renamed")  # listed, and gone when it is asked for its age
    assert len(build_cache(triplets, tmp_path / "cache")) == 6


def test_a_cache_that_another_run_has_written_meanwhile_is_kept(
    triplets: tuple[Triplet, ...], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    write = module._write_cache

    def overtaken(chosen: Any, folder: Path, *rest: Any) -> None:
        write(chosen, folder, *rest)
        shutil.copytree(folder, tmp_path / "cache")
        (tmp_path / "cache/mark").touch()

    monkeypatch.setattr(module, "_write_cache", overtaken)
    build_cache(triplets, tmp_path / "cache")
    assert (tmp_path / "cache/mark").exists()
    assert len(list(tmp_path.iterdir())) == 1


def test_no_pictures() -> None:
    with pytest.raises(DatasetError, match="no pictures to train on"):
        build_cache([], Path("nowhere"))


@pytest.mark.parametrize("damage", ["cut pictures", "no pictures", "cut index", "no index"])
def test_a_damaged_cache_is_made_again(tmp_path: Path, damage: str) -> None:
    triplets = open_dataset(write_srd(tmp_path / "data")).split("train")
    whole = build_cache(triplets, tmp_path / "cache").pictures(0)[0].copy()
    file = tmp_path / "cache" / ("index.json" if "index" in damage else "pictures.bin")
    if damage.startswith("no "):
        file.unlink()
    else:
        file.write_bytes(file.read_bytes()[:100])
    np.testing.assert_array_equal(build_cache(triplets, tmp_path / "cache").pictures(0)[0], whole)


@pytest.mark.parametrize("kind", ["zeros and ones", "dark red palette", "transparency", "16 bits", "CMYK", "no layer"])
def test_masks_of_every_kind_are_read(tmp_path: Path, kind: str) -> None:
    mask = box_mask()
    image = Image.fromarray(mask)
    if kind == "zeros and ones":
        image = Image.fromarray(mask // 255)
    elif kind == "dark red palette":
        image = Image.fromarray(mask // 255, "P")
        image.putpalette([0, 0, 0, 128, 0, 0])
    elif kind == "transparency":
        image = Image.new("RGBA", image.size, (0, 0, 0, 0))
        image.putalpha(Image.fromarray(mask))
    elif kind == "no layer":
        image = Image.merge("RGBA", [image, image, image, Image.new("L", image.size, 0)])
    elif kind == "CMYK":
        image = image.convert("RGB").convert("CMYK")
    elif kind == "16 bits":
        image = Image.fromarray(mask.astype(np.uint16) * 257)
    image.save(tmp_path / "mask.tif")
    np.testing.assert_array_equal(read_dataset_mask(tmp_path / "mask.tif"), mask)
