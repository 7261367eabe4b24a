"""Real Chromium for the tests of the page, and what they do with it again and again."""

from __future__ import annotations

import base64
import io
import json
import os
import shutil
import subprocess
import tarfile
from collections.abc import Generator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from PIL import Image
from playwright.sync_api import Browser, Download, Page, sync_playwright

CHROMIUM = next(filter(None, map(shutil.which, ("chromium", "chromium-browser", "google-chrome"))), None)
# Drawn without a graphics card; as root, which is usual in a container, Chromium has no sandbox.
ARGUMENTS = ["--no-sandbox", "--use-angle=swiftshader", "--enable-unsafe-swiftshader", "--ignore-gpu-blocklist"]
PATIENCE_MS = 30_000


@contextmanager
def chromium() -> Generator[Browser]:
    if CHROMIUM is None:
        pytest.skip("there is no chromium on this machine")
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=CHROMIUM, args=ARGUMENTS)
        yield browser
        browser.close()


@contextmanager
def opened(browser: Browser, url: str, **options: Any) -> Generator[Page]:
    """A page of its own; what it complains about fails the test."""
    # Small and without motion: every frame is drawn by the processor.
    usual = {"viewport": {"width": 960, "height": 620}, "reduced_motion": "reduce"}
    context = browser.new_context(**{**usual, **options})
    page = context.new_page()
    page.set_default_timeout(PATIENCE_MS)
    errors: list[str] = []
    page.on("pageerror", lambda error: errors.append(str(error)))
    page.on("dialog", lambda dialog: dialog.accept())
    page.goto(url)
    yield page
    context.close()
    assert not errors


def drop(page: Page, **files: bytes) -> None:
    """Drop files on the page, as from a file manager; a name is written `beach_jpg`."""
    given = [[name[::-1].replace("_", ".", 1)[::-1], base64.b64encode(data).decode()] for name, data in files.items()]
    page.evaluate(
        """async (given) => {
            const transfer = new DataTransfer();
            for (const [name, data] of given) {
                const bytes = Uint8Array.from(atob(data), (letter) => letter.charCodeAt(0));
                transfer.items.add(new File([bytes], name));
            }
            const options = { dataTransfer: transfer, bubbles: true, cancelable: true };
            for (const kind of ["dragenter", "dragover", "drop"])
                document.body.dispatchEvent(new DragEvent(kind, options));
        }""",
        given,
    )


def idle(page: Page, state: str) -> None:
    """Wait until nothing is under way and the page is in this state: `edit` or `done`."""
    page.wait_for_function(
        "state => document.body.dataset.state === state && document.querySelector('#line').hidden", arg=state
    )


def at(page: Page, x: float, y: float) -> tuple[float, float]:
    """Where a place of the photo, 0 to 1, lies on the screen while the photo fits."""
    box = page.evaluate(
        """() => { const { x, y, width, height } = document.querySelector('#canvas').getBoundingClientRect();
        const [w, h] = document.querySelector('#dimensions').textContent.match(/(\\d+) × (\\d+)$/).slice(1).map(Number);
        const edge = width < 700 ? 12 : 28;
        const scale = Math.min((width - 2 * edge) / w, (height - 2 * edge) / h, Math.max(1, 900 / Math.max(w, h)));
        return [x + width / 2, y + height / 2, w * scale, h * scale]; }"""
    )
    return box[0] + (x - 0.5) * box[2], box[1] + (y - 0.5) * box[3]


def stroke(page: Page, *places: tuple[float, float]) -> None:
    page.mouse.move(*at(page, *places[0]))
    page.mouse.down()
    for place in places[1:]:
        page.mouse.move(*at(page, *place), steps=6)
    page.mouse.up()


def saved(page: Page, press: Any) -> tuple[str, bytes]:
    """Return name and bytes of what is downloaded when `press()` is called."""
    with page.expect_download() as waiting:
        press()
    download: Download = waiting.value
    return download.suggested_filename, Path(download.path()).read_bytes()


def saved_mask(page: Page) -> np.ndarray:
    """The mask as the page saves it, (H, W), 0 to 255."""
    page.click("#mask")
    _, data = saved(page, lambda: page.click("#mask-menu [data-do=saveMask]"))
    return np.asarray(Image.open(io.BytesIO(data)).convert("L"))


def axe() -> str:
    """The accessibility checker axe-core, from npm, kept between runs."""
    kept = Path(os.environ.get("XDG_CACHE_HOME", Path.home() / ".cache")) / "shadowmaskformer-tests" / "axe.min.js"
    if not kept.exists():
        if shutil.which("npm") is None:
            pytest.skip("axe-core comes from npm, which is not on this machine")
        kept.parent.mkdir(parents=True, exist_ok=True)
        packed = subprocess.run(
            ["npm", "pack", "--json", "axe-core@4"], cwd=kept.parent, capture_output=True, check=True
        ).stdout
        archive = kept.parent / json.loads(packed)[0]["filename"]
        with tarfile.open(archive) as files:
            member = files.extractfile("package/axe.min.js")
            assert member is not None
            kept.write_bytes(member.read())
        archive.unlink()
    return kept.read_text(encoding="utf-8")


def findings(page: Page) -> list[str]:
    """What axe-core finds serious or worse on the page as it is."""
    # Through the debugger: the page's own rules allow no foreign script.
    page.evaluate(axe())
    found = page.evaluate("axe.run().then((result) => result.violations)")
    return [
        f"{each['id']}: {each['nodes'][0]['html'][:120]}" for each in found if each["impact"] in ("serious", "critical")
    ]
