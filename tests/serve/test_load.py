"""Many clients at once: nothing is lost, memory stays bounded, and the server keeps answering."""

from __future__ import annotations

import threading
import time
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import requests

from serve.running import photo_parts, running
from shadowmaskformer.serve.limits import Limits
from shadowmaskformer.serve.server import Server


def client(server: Server, parts: dict[str, Any], until: float, answers: list[int], slowest: list[float]) -> None:
    """Send photos until the time is over, as often as the server allows, and wait for the last one."""
    while time.monotonic() < until:
        began = time.monotonic()
        answer = requests.post(f"{server.url}/v1/remove", files=parts, timeout=120)
        answers.append(answer.status_code)
        slowest.append(time.monotonic() - began)
        if answer.status_code in (429, 503):
            assert int(answer.headers["retry-after"]) >= 1
            time.sleep(0.5)
        else:
            assert answer.content.startswith(b"\x89PNG")


def memory() -> float:
    """Megabytes that this process holds, and its children."""
    pages = 0
    for process in Path("/proc").glob("[0-9]*"):
        try:
            fields = (process / "stat").read_text().rpartition(")")[2].split()
        except OSError:
            continue
        if str(Path("/proc/self").resolve().name) in (process.name, fields[1]):
            pages += int(fields[21])
    return pages * 4096 / 1e6


def load(clients: int, seconds: float, photo: np.ndarray, mask: np.ndarray) -> dict[str, Any]:
    parts, answers, slowest, health = photo_parts(photo, mask), [], [], []
    with running(workers=2, threads=1, limits=Limits(share=8, waiting=8)) as server:
        requests.post(f"{server.url}/v1/remove", files=parts)
        start, until = memory(), time.monotonic() + seconds
        threads = [
            threading.Thread(target=client, args=(server, parts, until, answers, slowest)) for _ in range(clients)
        ]
        for thread in threads:
            thread.start()
        most = start
        while time.monotonic() < until:
            began = time.monotonic()
            assert requests.get(f"{server.url}/healthz", timeout=10).status_code == 200
            health.append(time.monotonic() - began)
            most = max(most, memory())
            time.sleep(0.1)
        for thread in threads:
            thread.join(60)
            assert not thread.is_alive()
        figures = requests.get(f"{server.url}/metrics").text
        assert "shadowmaskformer_jobs_waiting 0.0" in figures
        done = sum(float(line.split()[-1]) for line in figures.splitlines() if 'job_seconds_count{state="done"' in line)
    assert set(answers) <= {200, 429, 503}
    assert done == answers.count(200) + 1
    return {"answers": answers, "health": sorted(health), "grown": most - start}


def test_a_crowd_for_a_moment(photo: np.ndarray, mask: np.ndarray):
    found = load(12, 3, photo, mask)
    assert found["answers"].count(200) >= 5
    assert found["health"][len(found["health"]) // 2] < 0.2
    assert found["grown"] < 200


@pytest.mark.slow
def test_fifty_clients_for_a_minute():
    rng = np.random.default_rng(0)
    photo = np.clip(140 + 30 * rng.normal(size=(480, 640, 3)), 0, 255).astype(np.uint8)
    mask = np.zeros((480, 640), np.uint8)
    mask[100:300, 200:420] = 255
    photo[mask > 0] //= 2
    found = load(50, 60, photo, mask)
    health = found["health"]
    assert found["answers"].count(200) > 30
    assert health[int(0.99 * len(health))] < 0.2
    assert found["grown"] < 400  # MB
