from __future__ import annotations

import json
import os
import pickle
import signal
import subprocess
import sys
import time
from pathlib import Path

import numpy as np
import pytest
from PIL import Image

from shadowmaskformer.batch.manifest import Earlier
from shadowmaskformer.batch.plan import Item
from shadowmaskformer.batch.ray import Actor
from shadowmaskformer.batch.work import Settings
from shadowmaskformer.errors import MissingExtraError, NoShadowError, ShadowMaskFormerError

MANIFEST = "shadowmaskformer-manifest.jsonl"


@pytest.fixture
def folder(tmp_path: Path, photo: np.ndarray, mask: np.ndarray) -> Path:
    (tmp_path / "in").mkdir()
    Image.fromarray(mask).save(tmp_path / "mask.png")
    Image.fromarray(photo).save(tmp_path / "in/a.png")
    return tmp_path


def test_an_actor_answers_a_path_with_an_outcome(folder: Path):
    settings = Settings({"method": "relight", "threads": 1})
    item = Item(str(folder / "in/a.png"), str(folder / "out/a-no-shadow.png"), str(folder / "mask.png"))
    actor = Actor(settings, settings.fingerprint())

    def asked(earlier: Earlier | None):  # type: ignore[no-untyped-def]
        row = actor({"index": 7, "item": pickle.dumps((item, earlier))})
        assert row["index"] == 7
        return pickle.loads(row["outcome"])

    first = asked(None)
    assert (first.status, first.error) == ("done", None)
    assert asked(Earlier(first.facts["bytes"], first.fingerprint)).status == "skipped"
    Image.new("RGB", (96, 64), "white").save(folder / "in/bare.png")
    item = Item(str(folder / "in/bare.png"), str(folder / "out/bare-no-shadow.png"))
    bare = asked(None)
    assert isinstance(bare.error, NoShadowError)
    assert asked(Earlier(None, bare.fingerprint, bare=True)).status == "skipped"
    actor._worker.__exit__()


def test_without_ray_the_extra_is_named(folder: Path, monkeypatch: pytest.MonkeyPatch):
    from shadowmaskformer.batch import remove_many

    monkeypatch.setitem(sys.modules, "ray", None)
    with pytest.raises(MissingExtraError, match=r"shadowmaskformer\[ray\]"):
        next(remove_many(folder / "in", folder / "out", masks=folder / "mask.png", method="relight", engine="ray"))


def test_an_address_where_nobody_listens_is_named(folder: Path):
    pytest.importorskip("ray")
    from shadowmaskformer.batch import remove_many

    options = {"masks": folder / "mask.png", "method": "relight", "engine": "ray"}
    with pytest.raises(ShadowMaskFormerError, match=r"no Ray cluster at '127\.0\.0\.1:9' .*check address"):
        next(remove_many(folder / "in", folder / "out", address="127.0.0.1:9", **options))  # type: ignore[arg-type]


def descendants(pid: int) -> list[int]:
    children: dict[int, list[int]] = {}
    for entry in Path("/proc").iterdir():
        if entry.name.isdigit():
            try:
                parent = int((entry / "stat").read_text().rpartition(")")[2].split()[1])
            except OSError:
                continue
            children.setdefault(parent, []).append(int(entry.name))
    found = [pid]
    for each in found:
        found += children.get(each, [])
    return found[1:]


def actors(driver: int) -> list[int]:
    names: dict[int, bytes] = {}
    for pid in descendants(driver):
        try:
            names[pid] = Path(f"/proc/{pid}/cmdline").read_bytes()
        except OSError:
            continue
    return [pid for pid, name in names.items() if name.startswith(b"ray::MapWorker")]


@pytest.mark.slow
@pytest.mark.skipif(not Path("/proc/self/stat").exists(), reason="no list of processes on this system")
def test_a_cluster_that_loses_a_worker_does_every_photo_once_and_goes_on(folder: Path, photo: np.ndarray):
    pytest.importorskip("ray")
    large = Image.fromarray(photo).resize((480, 320))
    for index in range(80):
        large.save(folder / f"in/{index:02}.png")
    (folder / "in/bad.png").write_text("text")
    url = f"file://{folder}"
    command = [sys.executable, "-m", "shadowmaskformer", "remove", f"{url}/in", "--mask", f"{url}/mask.png",
               "-o", f"{url}/out", "--method", "relight", "--engine", "ray", "--workers", "3",
               "--manifest", str(folder / MANIFEST), "-q"]  # fmt: skip
    environment = {**os.environ, "RAY_OVERRIDE_RESOURCES": '{"CPU": 3}'}
    out = folder / "out"
    running = subprocess.Popen(command, env=environment, stderr=subprocess.PIPE, text=True)
    while len(list(out.glob("*.png"))) < 4:
        assert running.poll() is None, running.communicate()[1]
        time.sleep(0.01)
    killed = actors(running.pid)[0]
    os.kill(killed, signal.SIGKILL)
    assert len(list(out.glob("*.png"))) < 75
    errors = running.communicate(timeout=300)[1]
    assert running.returncode == 1
    assert "bad.png: not a picture" in errors

    def lines() -> list[dict[str, str]]:
        return [json.loads(line) for line in (folder / MANIFEST).read_text().splitlines()]

    assert len(list(out.iterdir())) == 81
    assert sorted(line["status"] for line in lines() if line["status"] != "skipped")[-1] == "failed"
    assert len({line["output"] for line in lines()}) == len(lines()) == 82
    before = {path: path.stat().st_mtime_ns for path in out.iterdir()}
    assert subprocess.run(command, env=environment, stderr=subprocess.DEVNULL).returncode == 1
    assert {path: path.stat().st_mtime_ns for path in out.iterdir()} == before
