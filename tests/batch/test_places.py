from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from pictures import encoded
from shadowmaskformer.batch.manifest import Earlier
from shadowmaskformer.batch.places import place_of
from shadowmaskformer.batch.plan import Item, plan
from shadowmaskformer.batch.work import Settings, decide, execute, fingerprint
from shadowmaskformer.errors import ImageReadError, MissingExtraError, OutputError
from shadowmaskformer.removal.remover import ShadowRemover

fsspec = pytest.importorskip("fsspec")


@pytest.fixture
def remote(photo: np.ndarray, mask: np.ndarray) -> Iterator[Any]:
    """A file system in memory with a photo and its mask in `memory://in`."""
    system = fsspec.filesystem("memory")
    system.store.clear()
    system.pipe({"/in/a.png": encoded(photo), "/in/a-mask.png": encoded(mask), "/in/sub/.b.png": b"", "/in/t.txt": b""})
    yield system
    system.store.clear()


ITEM = Item("memory://in/a.png", "memory://out/a-no-shadow.png", "memory://in/a-mask.png")


def test_a_plan_of_urls(remote: Any):
    assert plan(["memory://in"], "memory://out", recursive=True) == [ITEM]
    remote.pipe({"/in/sub/c.png": b"", "/masks/sub/c.png": b"", "/masks/a.png": b""})
    assert [item.mask for item in plan(["memory://in"], masks="memory://masks", recursive=True)] == [
        "memory://masks/a.png", "memory://masks/sub/c.png",
    ]  # fmt: skip
    assert len(plan(["memory://in"])) == 1


def test_a_photo_at_a_url_is_done_and_then_skipped(remote: Any):
    remover, settings = ShadowRemover(method="relight"), Settings({"method": "relight"})
    found = fingerprint(ITEM, settings.fingerprint())
    assert decide(ITEM, None, found, Settings()) == "make"
    outcome = execute(remover, ITEM, "make", settings, found)
    assert (outcome.status, outcome.error) == ("done", None)
    assert remote.ls("/out", detail=False) == ["/out/a-no-shadow.png"]
    assert (
        remote.cat("/out/a-no-shadow.png")
        == remover.remove_file(remote.cat("/in/a.png"), remote.cat("/in/a-mask.png"), name="a.png").data
    )
    assert decide(ITEM, Earlier(outcome.facts["bytes"], found), found, Settings()) == "skip"
    remote.pipe("/in/a-mask.png", remote.cat("/in/a-mask.png") + b" ")
    assert fingerprint(ITEM, settings.fingerprint()) != found


def test_errors_name_the_url(remote: Any):
    remover, settings = ShadowRemover(method="relight"), Settings()
    for item, message in (
        (Item("memory://in/none.png", ITEM.output), "memory://in/none.png: no such file"),
        (Item("memory://in/t.txt", ITEM.output), "memory://in/t.txt is empty"),
    ):
        error = execute(remover, item, "make", settings, "").error
        assert isinstance(error, Exception)
        assert message in str(error)
    with pytest.raises(ImageReadError, match="fsspec opens"):
        place_of("nonsense://a")


def test_nothing_at_a_url_is_replaced_or_left_half_written(remote: Any, monkeypatch: pytest.MonkeyPatch):
    place = place_of("memory://out/a.png")
    place.write("memory://out/a.png", b"first", overwrite=False)
    with pytest.raises(OutputError, match="already exists"):
        place.write("memory://out/a.png", b"second", overwrite=False)

    def fail(*_: object) -> None:
        raise OSError("connection lost\nand more")

    monkeypatch.setattr(type(remote), "mv", fail)
    with pytest.raises(OutputError, match=r"cannot be written \(connection lost\)$"):
        place.write("memory://out/a.png", b"third", overwrite=True)
    assert remote.cat("/out/a.png") == b"first"
    assert remote.ls("/out", detail=False) == ["/out/a.png"]


def test_without_fsspec_the_extra_is_named(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setitem(__import__("sys").modules, "fsspec.core", None)
    with pytest.raises(MissingExtraError, match=r"shadowmaskformer\[ray\]"):
        place_of("s3://bucket/a.png")


def test_a_disk_has_no_state_of_folders(tmp_path: Path):
    assert place_of(str(tmp_path)).state(str(tmp_path)) is None
