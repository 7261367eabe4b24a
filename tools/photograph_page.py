"""Take docs/images/page.jpg, page-dark.jpg and page-phone.jpg: the page with the demo photo.

On the desktop it is half before and half after; in the dark and on the phone its shadow has just been found.

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

LOOKS = {
    "page": {"viewport": {"width": 1180, "height": 760}, "device_scale_factor": 1.5},
    "page-dark": {"viewport": {"width": 1180, "height": 760}, "color_scheme": "dark"},
    "page-phone": {"viewport": {"width": 390, "height": 780}, "device_scale_factor": 1.5, "has_touch": True},
}


def main() -> None:
    """Open the example in each look, remove its shadow in the first one, and take the pictures."""
    with chromium() as browser, running(workers=1) as server:
        for name, look in LOOKS.items():
            with opened(browser, server.url, **look) as page:
                page.click("#example")
                idle(page, "edit")
                if name == "page":
                    page.click("#remove")
                    idle(page, "done")
                page.mouse.move(look["viewport"]["width"] / 2, 20)
                page.wait_for_function("() => !document.querySelector('#status').textContent")
                picture = Image.open(io.BytesIO(page.screenshot())).convert("RGB")
            picture.save(ROOT / "docs" / "images" / f"{name}.jpg", quality=86)


if __name__ == "__main__":
    main()
