"""Many clients of a server, in a process of their own: `python -m serve.crowd URL CLIENTS SECONDS SIDE`.

Clients that share a process with whoever takes the time would spoil it: Python runs one thread at a time.
"""

from __future__ import annotations

import json
import subprocess
import sys
import threading
import time
from collections import Counter
from pathlib import Path

import numpy as np
import requests

from serve.running import photo_parts

TESTS = Path(__file__).parents[1]


def picture(side: int) -> tuple[np.ndarray, np.ndarray]:
    """A photo with a shadow, as wide as `side`, and its mask."""
    rng, height = np.random.default_rng(0), 3 * side // 4
    photo = np.clip(140 + 30 * rng.normal(size=(height, side, 3)), 0, 255).astype(np.uint8)
    mask = np.zeros((height, side), np.uint8)
    mask[height // 5 : height // 2, side // 3 : side // 2] = 255
    photo[mask > 0] //= 2
    return photo, mask


def crowd(url: str, clients: int, seconds: float, side: int) -> Counter[int]:
    """Let clients send photos until the time is over, each at least one, as often as the server allows."""
    parts, statuses, until = photo_parts(*picture(side)), Counter[int](), time.monotonic() + seconds

    def ask() -> None:
        while True:
            answer = requests.post(f"{url}v1/remove", files=parts, data={"exact_mask": "true"}, timeout=120)
            statuses[answer.status_code] += 1
            if answer.status_code == 200:
                assert answer.content.startswith(b"\x89PNG")
            else:
                time.sleep(int(answer.headers["retry-after"]))
            if time.monotonic() > until:
                return

    threads = [threading.Thread(target=ask) for _ in range(clients)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    return statuses


def gathered(url: str, clients: int, seconds: float, side: int) -> subprocess.Popen[str]:
    """Start a crowd in a process of its own."""
    words = [sys.executable, "-m", "serve.crowd", url, str(clients), str(seconds), str(side)]
    return subprocess.Popen(words, cwd=TESTS, stdout=subprocess.PIPE, text=True)


if __name__ == "__main__":
    json.dump(crowd(sys.argv[1], int(sys.argv[2]), float(sys.argv[3]), int(sys.argv[4])), sys.stdout)
