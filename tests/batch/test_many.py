from __future__ import annotations

import json
import os
import shutil
import threading
import time
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from PIL import Image

import shadowmaskformer
from pictures import opened
from shadowmaskformer.batch import Outcome, Worker, local, many, remove_many, work
from shadowmaskformer.batch.manifest import MANIFEST
from shadowmaskformer.errors import (
    ConfigError,
    DiskFullError,
    ImageReadError,
    MaskError,
    NoShadowError,
    NotAnImageError,
    OutputError,
    WeightsError,
    WorkerDiedError,
)
from shadowmaskformer.files import make_folder
from shadowmaskformer.runtimes import BACKENDS


@pytest.fixture
def folder(tmp_path: Path, photo: np.ndarray, mask: np.ndarray) -> Path:
    """Three photos with masks beside them, one of them in a subfolder."""
    for name in ("a.png", "b.png", "sub/c.png"):
        path = tmp_path / "in" / name
        make_folder(path.parent)
        Image.fromarray(photo).save(path)
        Image.fromarray(mask).save(path.with_name(f"{path.stem}-mask.png"))
    return tmp_path


def remove(folder: Path, **options: object) -> dict[str, Outcome]:
    """Run the batch to its end; return the outcomes by the names of the photos."""
    arguments = {"output": folder / "out", "recursive": True, "method": "relight", "workers": 2, **options}
    return {Path(each.photo).name: each for each in remove_many(folder / "in", **arguments)}  # type: ignore[arg-type]


def statuses(outcomes: dict[str, Outcome]) -> dict[str, str]:
    return {name: outcome.status for name, outcome in sorted(outcomes.items())}


def results(folder: Path) -> dict[str, int]:
    """Return the files in the output with their times."""
    out = folder / "out"
    return {str(each.relative_to(out)): each.stat().st_mtime_ns for each in sorted(out.rglob("*.png"))}


ALL_DONE = {"a.png": "done", "b.png": "done", "c.png": "done"}
ALL_SKIPPED = dict.fromkeys(ALL_DONE, "skipped")


def test_results_are_those_of_one_photo(folder: Path):
    outcomes = remove(folder)
    assert statuses(outcomes) == ALL_DONE
    assert list(results(folder)) == ["a-no-shadow.png", "b-no-shadow.png", "sub/c-no-shadow.png"]
    remover = shadowmaskformer.ShadowRemover(method="relight")
    alone = remover.remove(folder / "in/a.png", folder / "in/a-mask.png", output=folder / "alone.png")
    assert alone.read_bytes() == (folder / "out/a-no-shadow.png").read_bytes()
    assert outcomes["a.png"].facts["width"] == 48
    assert outcomes["a.png"].mask == str(folder / "in/a-mask.png")


def test_the_second_run_does_nothing_and_starts_no_process(folder: Path, monkeypatch: pytest.MonkeyPatch):
    remove(folder)
    before = results(folder), (folder / "out" / MANIFEST).read_text()
    monkeypatch.setattr(Worker, "call", None)
    assert statuses(remove(folder)) == ALL_SKIPPED
    assert (results(folder), (folder / "out" / MANIFEST).read_text()) == before


def test_what_has_changed_is_done_again(folder: Path, mask: np.ndarray):
    remove(folder)
    Image.fromarray(mask.T.copy()).rotate(90, expand=True).save(folder / "in/a-mask.png")
    os.utime(folder / "in/b.png")
    expected = {"a.png": "done", "b.png": "done", "c.png": "skipped"}
    assert statuses(remove(folder)) == expected
    assert statuses(remove(folder)) == ALL_SKIPPED
    assert statuses(remove(folder, grow_px=2)) == ALL_DONE
    (folder / "out/a-no-shadow.png").unlink()
    assert statuses(remove(folder, grow_px=2)) == {**ALL_SKIPPED, "a.png": "done"}


def test_a_photo_without_a_shadow_is_not_tried_again(folder: Path, monkeypatch: pytest.MonkeyPatch):
    photo = folder / "in/bare.png"
    Image.new("RGB", (96, 64), "white").save(photo)
    assert statuses(remove(folder)) == {**ALL_DONE, "bare.png": "failed"}
    with monkeypatch.context() as patch:
        patch.setattr(Worker, "call", None)
        again = remove(folder)
    assert statuses(again) == {**ALL_SKIPPED, "bare.png": "skipped"}
    assert isinstance(again["bare.png"].error, NoShadowError)
    assert "overwrite=True" in str(again["bare.png"].error)
    assert statuses(remove(folder, overwrite=True)) == {**ALL_SKIPPED, "bare.png": "failed"}
    assert statuses(remove(folder, grow_px=2)) == {**ALL_DONE, "bare.png": "failed"}
    os.utime(photo)
    assert statuses(remove(folder, grow_px=2)) == {**ALL_SKIPPED, "bare.png": "failed"}
    Image.new("L", (96, 64), 255).save(folder / "in/bare-mask.png")
    assert statuses(remove(folder, grow_px=2)) == {**ALL_SKIPPED, "bare.png": "done"}


def test_a_result_of_an_earlier_picture_is_named_and_looked_at_again(folder: Path):
    remove(folder)
    (folder / "in/a-mask.png").unlink()
    Image.new("RGB", (96, 64), "white").save(folder / "in/a.png")
    stale = remove(folder)["a.png"]
    assert stale.status == "failed"
    assert stale.warnings == (f"{folder / 'out/a-no-shadow.png'} is of an earlier picture",)
    assert statuses(remove(folder))["a.png"] == "skipped"
    assert statuses(remove(folder, overwrite=True))["a.png"] == "failed"


def test_a_result_is_made_anew_when_its_photo_has_lost_its_shadow_and_got_it_back(folder: Path):
    photo = (folder / "in/a.png").read_bytes()
    assert statuses(remove(folder)) == ALL_DONE
    (folder / "in/a-mask.png").rename(folder / "mask.png")
    Image.new("RGB", (96, 64), "white").save(folder / "in/a.png")
    assert statuses(remove(folder)) == {**ALL_SKIPPED, "a.png": "failed"}
    assert statuses(remove(folder)) == ALL_SKIPPED
    (folder / "in/a.png").write_bytes(photo)
    (folder / "mask.png").rename(folder / "in/a-mask.png")
    assert statuses(remove(folder)) == {**ALL_SKIPPED, "a.png": "done"}


def test_other_files_in_the_results_places_are_kept_unless_overwritten(folder: Path, photo: np.ndarray):
    make_folder(folder / "out")
    Image.fromarray(photo).save(folder / "out/a-no-shadow.png")
    (folder / "out/b-no-shadow.png").write_bytes(b"half a picture")
    outcomes = remove(folder)
    assert statuses(outcomes) == {"a.png": "skipped", "b.png": "failed", "c.png": "done"}
    assert isinstance(outcomes["b.png"].error, OutputError)
    assert "overwrite=True" in str(outcomes["b.png"].error)
    assert (folder / "out/b-no-shadow.png").read_bytes() == b"half a picture"
    assert statuses(remove(folder, overwrite=True)) == {**ALL_DONE, "c.png": "skipped"}


def test_a_result_that_the_user_has_changed_is_his(folder: Path, photo: np.ndarray):
    remove(folder)
    Image.fromarray(photo[:9]).save(folder / "out/a-no-shadow.png")
    assert statuses(remove(folder, grow_px=3)) == {**ALL_DONE, "a.png": "skipped"}
    assert opened(folder / "out/a-no-shadow.png").height == 9


def test_bad_files_are_listed_and_the_rest_goes_on(folder: Path):
    (folder / "in/bad.jpg").write_text("text")
    (folder / "in/empty.png").touch()
    (folder / "in/short.png").write_bytes((folder / "in/a.png").read_bytes()[:200])
    outcomes = remove(folder, masks=folder / "in/a-mask.png")
    failed = {name: type(each.error) for name, each in outcomes.items() if each.status == "failed"}
    assert failed == {"bad.jpg": NotAnImageError, "empty.png": NotAnImageError, "short.png": ImageReadError}
    assert all(Path(name).name in str(outcomes[name].error) for name in failed)
    assert len(results(folder)) == 3
    lines = [json.loads(line) for line in (folder / "out" / MANIFEST).read_text().splitlines()]
    assert sorted(line["status"] for line in lines) == ["done"] * 3 + ["failed"] * 3


def test_a_photo_without_a_mask_fails_alone(folder: Path):
    (folder / "in/b-mask.png").unlink()
    outcomes = remove(folder, require_mask=True)
    assert statuses(outcomes) == {"a.png": "done", "b.png": "failed", "c.png": "done"}
    assert isinstance(outcomes["b.png"].error, MaskError)


class Mortal(Worker):
    """Dies at its first calls, as if it were killed."""

    deaths = 0

    def call(self, function, /, *arguments, **options):  # type: ignore[no-untyped-def]
        if arguments[0].photo.endswith("b.png") and Mortal.deaths > 0:
            Mortal.deaths -= 1
            super().call(function, *arguments, **options)
            raise WorkerDiedError("killed after its work")
        return super().call(function, *arguments, **options)


@pytest.mark.parametrize(
    ("deaths", "wiped", "expected"), [(1, True, "done"), (1, False, "skipped"), (2, True, "failed")]
)
def test_a_photo_whose_process_died_is_tried_once_more(
    folder: Path, monkeypatch: pytest.MonkeyPatch, deaths: int, wiped: bool, expected: str
):
    Mortal.deaths = deaths
    monkeypatch.setattr(local, "Worker", Mortal)
    if wiped:
        decide = work.decide

        def wiping(item, *rest):  # type: ignore[no-untyped-def]
            Path(item.output).unlink(missing_ok=True)
            return decide(item, *rest)

        monkeypatch.setattr(work, "decide", wiping)
    outcomes = remove(folder)
    assert statuses(outcomes) == {**ALL_DONE, "b.png": expected}
    if expected == "failed":
        assert isinstance(outcomes["b.png"].error, WorkerDiedError)


class NoSpace(Worker):
    def call(self, function, /, *arguments, **options):  # type: ignore[no-untyped-def]
        item = arguments[0]
        return Outcome(item.photo, item.output, "failed", error=DiskFullError("full"))


def test_a_full_disk_stops_the_batch_and_lists_the_rest(folder: Path, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(local, "Worker", NoSpace)
    assert statuses(remove(folder, workers=1)) == {"a.png": "failed", "b.png": "left", "c.png": "left"}


def test_closing_stops_the_work_and_its_processes(folder: Path, photo: np.ndarray):
    for index in range(30):
        Image.fromarray(photo).save(folder / f"in/more{index}.png")
    before = threading.active_count()
    with remove_many(
        folder / "in", folder / "out", masks=folder / "in/a-mask.png", method="relight", workers=2
    ) as batch:
        next(batch)
    assert threading.active_count() == before
    done = results(folder)
    assert len(done) < 32
    time.sleep(0.3)
    assert results(folder) == done
    assert not list((folder / "out").glob(".*"))


def test_memory_bounds_how_many_photos_are_worked_on_at_once(folder: Path, monkeypatch: pytest.MonkeyPatch):
    inside, most = [0], [0]
    guard = threading.Lock()

    class Counting(Worker):
        def call(self, function, /, *arguments, **options):  # type: ignore[no-untyped-def]
            with guard:
                inside[0] += 1
                most[0] = max(most[0], inside[0])
            time.sleep(0.05)
            with guard:
                inside[0] -= 1
            return Outcome(arguments[0].photo, arguments[0].output, "done", facts={"bytes": 1})

    monkeypatch.setattr(local, "Worker", Counting)
    for memory, expected in ((10**10, 3), (2 * local._WORKER_BYTES, 1)):
        monkeypatch.setattr(local, "available_memory", lambda memory=memory: memory)
        most[0] = 0
        remove(folder, workers=3, output=folder / f"out{memory:g}")
        assert most[0] == expected


def test_a_photo_that_is_still_being_copied_is_waited_for(folder: Path):
    picture = (folder / "in/a.png").read_bytes()
    (folder / "in/a.png").write_bytes(picture[:300])
    rest = threading.Timer(1.2, lambda: (folder / "in/a.png").write_bytes(picture))
    rest.start()
    assert statuses(remove(folder)) == ALL_DONE
    rest.join()


def test_a_stopped_batch_does_not_wait_for_a_photo_that_grows(folder: Path):
    path, ended = folder / "in/a.png", threading.Event()
    path.write_bytes(path.read_bytes()[:300])

    def grow() -> None:
        while not ended.wait(0.1):
            with path.open("ab") as file:
                file.write(b"more")

    growing = threading.Thread(target=grow)
    growing.start()
    batch = remove_many(folder / "in", folder / "out", method="relight", workers=2)
    assert next(batch).status == "done"
    time.sleep(2)
    began = time.monotonic()
    batch.close()
    assert time.monotonic() - began < 10
    ended.set()
    growing.join()


def test_where_pytorch_takes_a_gpu_a_batch_knows_it(folder: Path, monkeypatch: pytest.MonkeyPatch):
    torch = pytest.importorskip("shadowmaskformer.runtimes.torch")
    monkeypatch.setattr(torch, "best_device", lambda: "cuda")
    seen: list[work.Settings] = []

    def run(items: object, settings: work.Settings, *_: object, **__: object) -> list[Outcome]:
        seen.append(settings)
        return []

    monkeypatch.setattr(local, "run_local", run)
    assert not list(remove_many(folder / "in", folder / "out", runtime="torch"))
    assert local._default_workers(seen[0]) == 1


def test_without_the_engine_a_batch_knows_that_pytorch_takes_a_gpu(folder: Path, monkeypatch: pytest.MonkeyPatch):
    torch = pytest.importorskip("shadowmaskformer.runtimes.torch")
    monkeypatch.setattr(torch, "best_device", lambda: "cuda")
    monkeypatch.setitem(BACKENDS, "native", replace(BACKENDS["native"], package="not_installed"))
    seen: list[work.Settings] = []
    monkeypatch.setattr(local, "run_local", lambda items, settings, *_, **__: seen.append(settings) or [])
    assert not list(remove_many(folder / "in", folder / "out"))
    assert seen[0].remover["device"] == "cuda"


@pytest.mark.parametrize(
    "arguments",
    [
        {"photos": [Image.new("RGB", (8, 8))]},
        {"output": b"out"},
        {"masks": np.zeros((4, 4))},
        {"weights": object()},
    ],
)
def test_other_things_than_paths_are_refused(folder: Path, arguments: dict[str, object]):
    with pytest.raises(ConfigError, match="give a path"):
        remove_many(**{"photos": folder / "in", "output": folder / "out", **arguments})  # type: ignore[arg-type]
    assert not (folder / "out").exists()


def test_comparisons_are_written_too(folder: Path):
    remove(folder, compare=True)
    assert (folder / "out/sub/c-no-shadow-compare.jpg").exists()
    assert statuses(remove(folder, compare=True)) == ALL_SKIPPED


def test_a_comparison_of_somebody_else_is_not_replaced(folder: Path):
    theirs = folder / "out/a-no-shadow-compare.jpg"
    theirs.parent.mkdir()
    theirs.write_bytes(b"mine")
    outcome = remove(folder, compare=True)["a.png"]
    assert outcome.status == "failed"
    assert "compare.jpg" in str(outcome.error)
    assert theirs.read_bytes() == b"mine"
    assert remove(folder, compare=True, overwrite=True)["a.png"].status == "done"
    assert theirs.read_bytes() != b"mine"


def test_a_photo_that_cannot_be_measured_does_not_stop_the_others(folder: Path, monkeypatch: pytest.MonkeyPatch):
    def measure(path: str, **_: object) -> int:
        raise AssertionError(path)

    monkeypatch.setattr(local, "count_pixels", measure)
    assert statuses(remove(folder)) == ALL_DONE


def test_equal_settings_may_be_written_differently(folder: Path):
    assert statuses(remove(folder, strength=1.0, feather_px=2.0, format="png")) == ALL_DONE
    assert statuses(remove(folder, strength=1, feather_px=2, format="PNG")) == ALL_SKIPPED


def test_no_folder_is_made_for_a_photo_that_is_not_there(folder: Path, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.chdir(folder)
    photos = ["typo/a.png", "in/a.png"]
    outcomes = list(remove_many(photos, masks="in/a-mask.png", method="relight", workers=1))
    assert [each.status for each in outcomes] == ["failed", "done"]
    assert not Path("typo").exists()
    assert Path("in", MANIFEST).exists()


def test_a_batch_that_does_nothing_leaves_nothing(folder: Path):
    with pytest.raises(WeightsError):
        list(remove_many(folder / "in", folder / "new", runtime="onnx", workers=1))
    assert not (folder / "new").exists()


def test_an_address_is_for_ray(folder: Path):
    with pytest.raises(ConfigError, match="address"):
        remove_many(folder / "in", folder / "new", address="auto")


def test_results_are_made_again_for_comparisons_that_are_lacking_and_not_without_them(folder: Path):
    assert remove(folder)["a.png"].comparison is None
    again = remove(folder, compare=True)
    assert statuses(again) == ALL_DONE
    assert again["a.png"].comparison == str(folder / "out/a-no-shadow-compare.jpg")
    assert statuses(remove(folder)) == ALL_SKIPPED
    assert statuses(remove(folder, compare=True)) == ALL_SKIPPED
    assert statuses(remove(folder, grow_px=2)) == ALL_DONE
    assert statuses(remove(folder, grow_px=2, compare=True)) == ALL_DONE


def test_without_an_output_results_lie_beside_the_photos(folder: Path):
    assert statuses(remove(folder, output=None)) == ALL_DONE
    assert (folder / "in/sub/c-no-shadow.png").exists()
    assert (folder / "in" / MANIFEST).exists()
    assert statuses(remove(folder, output=None)) == ALL_SKIPPED


@pytest.mark.parametrize(
    ("options", "error"),
    [
        ({"workers": 0}, ConfigError),
        ({"threads": 0}, ConfigError),
        ({"engine": "steam"}, ConfigError),
        ({"format": "foo"}, ConfigError),
        ({"quality": 0}, ConfigError),
        ({"output": "result.png"}, ConfigError),
        ({"masks": "nowhere"}, ImageReadError),
        ({"masks": "s3://bucket/masks"}, ImageReadError),
        ({"method": "network", "weights": "nowhere"}, WeightsError),
        ({"method": "network", "weights": ""}, WeightsError),
        ({"weights": "default"}, ConfigError),
        ({"method": "magic"}, ConfigError),
        ({"runtime": "steam"}, ConfigError),
        ({"device": "banana"}, ConfigError),
    ],
)
def test_wrong_usage_is_found_before_anything_is_touched(folder: Path, options: dict[str, object], error: type):
    before = sorted(folder.rglob("*"))
    with pytest.raises(error):
        remove(folder, **options)
    assert sorted(folder.rglob("*")) == before


def test_broken_weights_are_found_before_anything_is_touched(folder: Path, tiny_weights: Path):
    broken = shutil.copytree(tiny_weights, folder / "broken")
    (broken / "config.json").write_text("{}")
    before = sorted(folder.rglob("*"))
    with pytest.raises(WeightsError, match="weights do not fit"):
        remove(folder, method="network", weights=broken)
    assert sorted(folder.rglob("*")) == before


def test_a_folder_without_photos_is_named(folder: Path):
    (folder / "none/sub").mkdir(parents=True)
    with pytest.raises(ImageReadError, match=r"none: no photos in this folder; .*recursive=True"):
        remove_many(folder / "none")
    with pytest.raises(ConfigError, match="no photos were given"):
        remove_many([])


def test_watching_takes_what_arrives_when_it_no_longer_grows(folder: Path, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(many, "_LOOK_EVERY_S", 0.1)
    picture = (folder / "in/a.png").read_bytes()
    stop = threading.Event()

    def arrive() -> None:
        time.sleep(0.3)
        with (folder / "in/late.png").open("wb") as file:
            for byte in range(0, len(picture), max(1, len(picture) // 10)):
                file.write(picture[byte : byte + max(1, len(picture) // 10)])
                file.flush()
                stop.wait(0.04)

    thread = threading.Thread(target=arrive)
    thread.start()
    seen: list[tuple[str, str]] = []
    options = {"masks": folder / "in/a-mask.png", "method": "relight", "workers": 1, "recursive": True}
    with remove_many(folder / "in", folder / "out", watch=True, **options) as batch:  # type: ignore[arg-type]
        assert batch.total is None
        for outcome in batch:
            seen.append((Path(outcome.photo).name, outcome.status))
            if outcome.photo.endswith("late.png"):
                break
    thread.join()
    assert sorted(seen) == [("a.png", "done"), ("b.png", "done"), ("c.png", "done"), ("late.png", "done")]


def test_watching_tries_a_file_again_when_it_has_changed(folder: Path, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(many, "_LOOK_EVERY_S", 0.1)
    picture = (folder / "in/a.png").read_bytes()
    target = folder / "drop/a.png"
    make_folder(target.parent)
    target.write_bytes(picture[:300])
    statuses: list[str] = []
    with remove_many(target.parent, masks=folder / "in/a-mask.png", method="relight", workers=1, watch=True) as batch:
        for outcome in batch:
            statuses.append(outcome.status)
            if outcome.status == "done":
                break
            target.write_bytes(picture)
    assert statuses == ["failed", "done"]


def test_watching_survives_a_conflict(folder: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture):
    monkeypatch.setattr(many, "_LOOK_EVERY_S", 0.05)
    picture = (folder / "in/a.png").read_bytes()
    drop = folder / "drop"
    make_folder(drop)
    (drop / "a.png").write_bytes(picture)
    seen: list[str] = []
    with remove_many(drop, masks=folder / "in/a-mask.png", method="relight", workers=1, watch=True) as batch:
        assert Path(next(batch).photo).name == "a.png"
        (drop / "a.gif").write_bytes(picture)  # its result is a PNG, too
        threading.Timer(0.5, (drop / "a.gif").rename, [drop / "b.png"]).start()
        seen.append(Path(next(batch).photo).name)
    assert seen == ["b.png"]
    assert len([line for line in caplog.messages if "would both become" in line]) == 1


def test_a_conflict_does_not_make_a_growing_file_ready(folder: Path, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(many, "_LOOK_EVERY_S", 0.01)
    (item,) = many.plan([str(folder / "in/a.png")], str(folder / "out"))
    looks = iter(["grows", "conflict", "grown", "grown"])
    taken: list[str] = []

    def planned() -> list[work.Item]:
        nonlocal look
        look = next(looks)
        if look == "conflict":
            raise ConfigError("two photos would become one", "rename one")
        return [item]

    look = ""
    monkeypatch.setattr(many, "_states", lambda _: look)
    watched = many._watched(planned, lambda items: taken.append(look) or iter([Outcome(items[0].photo, "", "done")]))
    next(watched)
    assert taken == ["grown"]
