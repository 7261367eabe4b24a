"""Many clients at once: nothing is lost, memory stays bounded, and the server keeps answering."""

from __future__ import annotations

import threading
import time
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import requests

from cli.test_serve import serving
from serve.running import photo_parts


def client(url: str, parts: dict[str, Any], until: float, answers: list[int]) -> None:
    """Send photos until the time is over, at least one, as often as the server allows."""
    while True:
        answer = requests.post(f"{url}v1/remove", files=parts, data={"exact_mask": "true"}, timeout=120)
        answers.append(answer.status_code)
        if answer.status_code == 200:
            assert answer.content.startswith(b"\x89PNG")
        else:
            assert int(answer.headers["retry-after"]) >= 1
            time.sleep(0.5)
        if time.monotonic() > until:
            return


def memory(server: int) -> float:
    """Megabytes that a process and its children hold."""
    pages = 0
    for process in Path("/proc").glob("[0-9]*"):
        try:
            fields = (process / "stat").read_text().rpartition(")")[2].split()
        except OSError:
            continue
        if str(server) in (process.name, fields[1]):
            pages += int(fields[21])
    return pages * 4096 / 1e6


def load(clients: int, seconds: float, photo: np.ndarray, mask: np.ndarray) -> dict[str, Any]:
    """Let many clients ask a server in a process of its own, and watch it."""
    parts, answers, health = photo_parts(photo, mask), [], []
    with serving("--no-browser", "--workers", "2") as (process, url):
        first = [threading.Thread(target=client, args=(url, parts, 0, answers)) for _ in range(8)]
        for thread in first:  # both workers are up
            thread.start()
        for thread in first:
            thread.join(60)
        start, until = memory(process.pid), time.monotonic() + seconds
        threads = [threading.Thread(target=client, args=(url, parts, until, answers)) for _ in range(clients)]
        for thread in threads:
            thread.start()
        most = start
        while time.monotonic() < until:
            answer = requests.get(f"{url}healthz", timeout=10)
            assert answer.status_code == 200
            health.append(answer.elapsed.total_seconds())
            most = max(most, memory(process.pid))
            time.sleep(0.1)
        for thread in threads:
            thread.join(60)
            assert not thread.is_alive()
        figures = requests.get(f"{url}metrics", timeout=10).text
        assert "shadowmaskformer_jobs_waiting 0.0" in figures
        done = sum(float(line.split()[-1]) for line in figures.splitlines() if 'job_seconds_count{state="done"' in line)
    assert set(answers) <= {200, 429, 503}
    assert done == answers.count(200)
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
    assert health[int(0.95 * len(health))] < 0.2
    assert found["grown"] < 400  # MB
