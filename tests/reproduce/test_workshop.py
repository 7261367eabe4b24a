"""`Workshop`: a run is trained anew when what determines it changes, and only then."""

import shutil
from pathlib import Path

import pytest

pytest.importorskip("torch")

from shadowmaskformer import train
from shadowmaskformer.light import relight
from shadowmaskformer.reproduce.workshop import FINISHED, Run, Workshop
from shadowmaskformer.train.loop import RunResult


@pytest.fixture
def folders(monkeypatch: pytest.MonkeyPatch) -> list[tuple[Path, Path]]:
    """Stands in for training; folder and cache of each run that was trained."""
    asked: list[tuple[Path, Path]] = []

    def run(config: object, source: Path, out: Path, hours: float | None, *, cache: Path, **_: object) -> RunResult:
        asked.append((out, cache))
        out.mkdir(parents=True, exist_ok=True)
        return RunResult(out, 1, 1.0, None, finished=True)

    monkeypatch.setattr(train, "run", run)
    return asked


def workshop(istd: Path, folder: Path) -> Workshop:
    return Workshop(istd, istd, folder, recipe="paper", minutes=None, say=lambda line: None)


@pytest.mark.parametrize(("embedding", "trainings"), [("mape", 1), ("mape-physical", 2)])
def test_another_floor_concerns_only_networks_that_start_from_it(
    istd: Path,
    tmp_path: Path,
    folders: list[tuple[Path, Path]],
    monkeypatch: pytest.MonkeyPatch,
    embedding: str,
    trainings: int,
) -> None:
    run = Run("any", (f"embedding={embedding}",))
    workshop(istd, tmp_path).train(run)
    monkeypatch.setattr(relight, "RULE", "another")
    workshop(istd, tmp_path).train(run)
    assert len(folders) == trainings


def test_caches_are_named_by_what_they_hold(istd: Path, tmp_path: Path, folders: list[tuple[Path, Path]]) -> None:
    shop = workshop(istd, tmp_path)
    shop.train(Run("all"))
    shop.train(Run("some", ("seed=1",), held_out=True))
    assert [cache.name for _, cache in folders] == ["cache-all-scenes", "cache-without-held-out"]


def test_a_finished_run_is_found_and_one_killed_at_its_end_goes_on(
    istd: Path, tmp_path: Path, folders: list[tuple[Path, Path]]
) -> None:
    shop, run = workshop(istd, tmp_path), Run("any")
    first = shop.train(run)
    assert shop.train(run) == first
    assert len(folders) == 1
    (folders[0][0] / FINISHED).write_text("")
    assert shop.train(run) == first
    assert shop.train(run) == first
    assert [out for out, _ in folders] == [folders[0][0]] * 2


def test_other_pictures_to_validate_on_are_another_run(
    istd: Path, tmp_path: Path, folders: list[tuple[Path, Path]]
) -> None:
    for letter in "ABC":
        shutil.copytree(istd / "test" / f"test_{letter}", istd / "valid" / f"valid_{letter}")
    workshop(istd, tmp_path).train(Run("any"))
    for letter in "ABC":
        (istd / "valid" / f"valid_{letter}" / "90-1.png").unlink()
    workshop(istd, tmp_path).train(Run("any"))
    assert folders[0][0] != folders[1][0]
