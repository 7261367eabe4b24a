from __future__ import annotations

import json
from pathlib import Path

import pytest

from shadowmaskformer.batch.manifest import Earlier, Manifest, Outcome
from shadowmaskformer.errors import MaskError, NoShadowError, OutputError

DONE = Outcome("a.jpg", "a-no-shadow.jpg", "done", "m.png", facts={"bytes": 70}, fingerprint="f1")


def lines(path: Path) -> list[dict[str, object]]:
    return [json.loads(line) for line in path.read_text().splitlines()]


@pytest.fixture
def path(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    return tmp_path / "new" / "manifest.jsonl"


def record(path: Path, *outcomes: Outcome) -> Manifest:
    manifest = Manifest(path)
    for outcome in outcomes:
        manifest.record(outcome)
    manifest.close()
    return Manifest(path)


def test_what_was_done_is_remembered_wherever_it_is_asked_from(path: Path, monkeypatch: pytest.MonkeyPatch):
    again = record(path, DONE)
    assert again.earlier("a-no-shadow.jpg") == Earlier(70, "f1")
    assert again.earlier("b-no-shadow.jpg") is None
    monkeypatch.chdir(path.parent)
    assert again.earlier("../a-no-shadow.jpg") == Earlier(70, "f1")
    again.close()


def test_the_last_line_counts(path: Path):
    later = Outcome("a.jpg", "a-no-shadow.jpg", "done", facts={"bytes": 71}, fingerprint="f2")
    again = record(path, DONE, later)
    assert again.earlier("a-no-shadow.jpg") == Earlier(71, "f2")
    again.close()


def test_a_torn_first_line_is_passed_over(path: Path):
    record(path, DONE)
    path.write_bytes(path.read_bytes()[:20])
    record(path, DONE)
    manifest = Manifest(path)
    assert manifest.earlier(DONE.output) is not None
    manifest.close()


def test_a_torn_last_line_is_passed_over_and_the_next_starts_anew(path: Path):
    record(path, DONE).close()
    with path.open("a") as file:
        file.write('{"input": "b.jpg", "output": "b-no-sh')
    again = record(path, Outcome("c.jpg", "c-no-shadow.jpg", "done", facts={"bytes": 5}, fingerprint="f3"))
    assert again.earlier("a-no-shadow.jpg") == Earlier(70, "f1")
    assert again.earlier("c-no-shadow.jpg") == Earlier(5, "f3")
    again.close()


def test_failures_and_first_skips_get_a_line_later_skips_none(path: Path):
    failed = Outcome("b.jpg", "b-no-shadow.jpg", "failed", error=MaskError("no mask", "use {grow_px=5}"))
    skipped = Outcome("c.jpg", "c-no-shadow.jpg", "skipped")
    record(path, failed, skipped, Outcome("d.jpg", "d-no-shadow.jpg", "left")).close()
    record(path, skipped).close()
    assert [line["status"] for line in lines(path)] == ["failed", "skipped"]
    assert lines(path)[0]["error"] == {"type": "MaskError", "message": "no mask; use grow_px=5"}


def test_that_no_shadow_was_found_is_remembered_with_the_result_of_an_earlier_photo(path: Path):
    bare = Outcome("a.jpg", "a-no-shadow.jpg", "failed", error=NoShadowError("none"), fingerprint="f2")
    again = record(path, bare)
    assert again.earlier("a-no-shadow.jpg") == Earlier(None, "f2", bare=True)
    again.close()
    record(path, DONE).close()
    again = record(path, bare)
    assert again.earlier("a-no-shadow.jpg") == Earlier(70, "f2", bare=True)
    again.close()


def test_names_that_are_not_unicode_survive(path: Path):
    name = b"caf\xe9\n.jpg".decode("utf-8", "surrogateescape")
    again = record(path, Outcome(name, name, "done", facts={"bytes": 1}, fingerprint="f"))
    assert again.earlier(name) == Earlier(1, "f")
    assert path.read_text("ascii").count("\n") == 1
    again.close()


def test_a_file_of_another_kind_is_not_touched(tmp_path: Path):
    (tmp_path / "diary.txt").write_text("Dear diary")
    with pytest.raises(OutputError, match=r"diary\.txt: is not a manifest"):
        Manifest(tmp_path / "diary.txt")
    assert (tmp_path / "diary.txt").read_text() == "Dear diary"


def test_a_full_disk_is_an_error(path: Path, monkeypatch: pytest.MonkeyPatch):
    manifest = record(path, DONE)
    monkeypatch.setattr("os.write", lambda *_: 3)
    with pytest.raises(OutputError, match="full"):
        manifest.record(Outcome("b.jpg", "b-no-shadow.jpg", "done"))
    manifest.close()
