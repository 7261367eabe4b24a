"""Many clients at once: nothing is lost, memory stays bounded, and the server keeps answering.

`pytest tests/serve/test_load.py -m slow -s` prints the figures of fifty clients for a minute.
"""

from __future__ import annotations

import json
import sys
import time
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pytest
import requests

from cli.test_serve import serving
from serve.crowd import crowd, gathered


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


@dataclass
class Load:
    """What a server did under load."""

    statuses: dict[int, int]
    done: int
    health_s: list[float]
    grown_mb: float

    def __str__(self) -> str:
        median, high, worst = np.quantile(self.health_s, [0.5, 0.99, 1])
        refused = {status: count for status, count in self.statuses.items() if status != 200}
        return (
            f"{self.statuses.get(200, 0)} photos answered, {self.done} done, refused {refused}; memory grew by "
            f"{self.grown_mb:.0f} MB; /healthz median {median:.3f}, 99 % {high:.3f}, worst {worst:.3f} s "
            f"of {len(self.health_s)}"
        )


def load(clients: int, seconds: float, side: int) -> Load:
    """Let many clients ask a server, each side in a process of its own, and watch from here."""
    health: list[float] = []
    with serving("--no-browser", "--workers", "2") as (process, url):
        crowd(url, 4, 0, side)  # both workers are up
        first = _done(url)
        most = start = memory(process.pid)
        asking = gathered(url, clients, seconds, side)
        with requests.Session() as session:
            while asking.poll() is None:
                answer = session.get(f"{url}healthz", timeout=10)
                assert answer.status_code == 200
                health.append(answer.elapsed.total_seconds())
                most = max(most, memory(process.pid))
                time.sleep(0.05)
        assert asking.returncode == 0
        statuses = {int(status): count for status, count in json.load(asking.stdout).items()}
        asking.stdout.close()
        assert "shadowmaskformer_jobs_waiting 0.0" in requests.get(f"{url}metrics", timeout=10).text
        return Load(statuses, _done(url) - first, health, most - start)


def _done(url: str) -> int:
    lines = requests.get(f"{url}metrics", timeout=10).text.splitlines()
    return round(sum(float(line.split()[-1]) for line in lines if 'state="done"' in line and "seconds_count" in line))


def check(found: Load, photos: int) -> None:
    assert set(found.statuses) <= {200, 429, 503}
    assert found.done == found.statuses[200] >= photos  # nothing is lost
    assert found.grown_mb < 400


def test_a_crowd_for_a_moment():
    found = load(12, 2, 120)
    check(found, 5)
    assert np.median(found.health_s) < 0.2
    assert found.grown_mb < 200


@pytest.mark.slow
def test_fifty_clients_for_a_minute():
    found = load(50, 60, 640)
    sys.stdout.write(f"\n{found}\n")
    check(found, 30)
    assert max(found.health_s) < 0.2
