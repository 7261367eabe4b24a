"""Take docs/images/page.jpg: the page with the demo photo, half before and half after.

    python tools/photograph_page.py

Needs Chromium and playwright, as the tests of the page do.
"""

from __future__ import annotations

import io
import sys
from pathlib import Path

from PIL import Image

ROOT = Path(__file__).parents[1]
sys.path.insert(0, str(ROOT / "tests"))

from serve.browser import chromium, idle, opened  # noqa: E402
from serve.running import running  # noqa: E402

LOOK = {"viewport": {"width": 1180, "height": 760}, "device_scale_factor": 1.5}


def main() -> None:
    """Remove the example's shadow and take the picture."""
    with chromium() as browser, running(workers=1) as server, opened(browser, server.url, **LOOK) as page:
        page.click("#example")
        idle(page, "edit")
        page.click("#remove")
        idle(page, "done")
        page.mouse.move(590, 20)
        page.wait_for_function("() => !document.querySelector('#status').textContent")
        picture = Image.open(io.BytesIO(page.screenshot())).convert("RGB")
    picture.save(ROOT / "docs" / "images" / "page.jpg", quality=86)


if __name__ == "__main__":
    main()
