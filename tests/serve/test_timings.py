"""How long people wait, in real Chromium.

`pytest tests/serve/test_timings.py -m slow -s` prints seconds from drop to outlines, from click to the first result
and to the full size, for photos of 2 and 12 megapixels; the median of several runs, on a machine that should be idle.
"""

from __future__ import annotations

import io
import sys
from statistics import median

import pytest
from PIL import Image

from cli.test_serve import serving
from serve.browser import chromium, drop, idle, opened
from serve.test_api import DEMO

RUNS = 3
SIZES = {"2 MP": (1632, 1224), "12 MP": (4000, 3000)}
MOTION = {"viewport": {"width": 1280, "height": 800}, "reduced_motion": "no-preference"}

WATCH = """() => {
    const seen = window.seen = {}, state = () => document.body.dataset.state;
    const note = (name) => { seen[name] ??= performance.now(); };
    addEventListener("drop", () => note("drop"), true);
    document.querySelector("#remove").addEventListener("click", () => note("click"), true);
    new MutationObserver(() => {
        if (document.querySelector("#found").children.length) note("outlines");
        if (state() !== "done") return;
        note("first");
        if (document.querySelector("#line").hidden) note("full");
    }).observe(document.body, { subtree: true, childList: true, attributes: true });
}"""


def photo(size: tuple[int, int]) -> bytes:
    """The demo photo, enlarged."""
    data = io.BytesIO()
    Image.open(io.BytesIO(DEMO["photo"])).resize(size, Image.Resampling.BICUBIC).save(data, "JPEG", quality=92)
    return data.getvalue()


@pytest.mark.slow
def test_nobody_waits_long():
    with serving("--no-browser") as (_, url), chromium() as browser:
        for label, size in {"warm": (640, 480), **SIZES}.items():
            data, runs = photo(size), []
            for _ in range(1 if label == "warm" else RUNS):
                with opened(browser, url, **MOTION) as page:
                    page.evaluate(WATCH)
                    drop(page, beach_jpg=data)
                    page.wait_for_selector("#found button")
                    idle(page, "edit")
                    if page.locator("#found [aria-pressed=true]").count() == 0:
                        page.locator("#found button").first.click()
                    page.click("#remove")
                    idle(page, "done")
                    seen = page.evaluate("window.seen")
                    spans = (("drop", "outlines"), ("click", "first"), ("click", "full"))
                    runs.append([(seen[end] - seen[start]) / 1000 for start, end in spans])
            outlines, first, full = (median(times) for times in zip(*runs, strict=True))
            line = f"drop to outlines {outlines:.2f} s, click to first result {first:.2f} s, to full size {full:.2f} s"
            sys.stdout.write(f"\n{label}: {line}\n")
            assert outlines < 10
            assert first < 10
