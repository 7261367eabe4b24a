"""What the page shows where, in real Chromium: labels, messages, menus and the keyboard's place."""

from __future__ import annotations

import io

import numpy as np
import pytest
from PIL import Image
from playwright.sync_api import Page

from pictures import encoded
from serve.browser import at, drop, idle
from serve.test_api import DEMO
from serve.test_page import small_photo, with_mask


def overlap(page: Page, one: str, other: str) -> bool:
    a, b = (page.locator(name).bounding_box() for name in (one, other))
    assert a
    assert b
    return all(a[p] < b[p] + b[size] and b[p] < a[p] + a[size] for p, size in (("x", "width"), ("y", "height")))


@pytest.mark.parametrize("size", [(390, 844), (844, 390), (1280, 800)])
def test_labels_keep_clear_of_each_other_and_of_the_zoom(page: Page, size: tuple[int, int]):
    page.set_viewport_size({"width": size[0], "height": size[1]})
    with_mask(page, encoded(np.rot90(small_photo())) if size[1] < 400 else None)
    page.click("#remove")
    idle(page, "done")
    for _ in range(2):
        assert not overlap(page, "#after", "#zoom")
        assert not overlap(page, "#after", "#before")
        page.keyboard.press("+")


def test_messages_stay_together_and_leave_the_shadows_alone(page: Page):
    with_mask(page)
    for name in ("one", "two"):
        drop(page, **{f"{name}_txt": b"no picture"})
        page.wait_for_function(f"() => document.querySelector('#toast').innerText.includes('{name}.txt')")
    lines = page.locator("#toast p").inner_text().splitlines()
    assert [line.split(":")[0] for line in lines] == ["one.txt", "two.txt"]
    page.set_viewport_size({"width": 390, "height": 844})
    assert not overlap(page, "#toast", "#found")


def test_a_shadow_lights_up_under_its_button(page: Page):
    drop(page, beach_jpg=DEMO["photo"])
    page.wait_for_selector("#found button")
    idle(page, "edit")
    page.locator("#found button").first.click()  # the only one was taken already
    page.mouse.move(*at(page, 0.02, 0.98))
    dark = page.locator("#canvas").screenshot()
    page.locator("#found button").first.hover()
    page.mouse.move(60, 84)
    page.wait_for_timeout(200)
    light, dark = (
        np.asarray(Image.open(io.BytesIO(each)).convert("L"), float)
        for each in (page.locator("#canvas").screenshot(), dark)
    )
    assert ((light - dark) > 15).mean() > 0.02


def test_the_keyboard_keeps_its_place(page: Page):
    with_mask(page)
    page.focus("#mask")
    page.keyboard.press("Enter")
    page.wait_for_selector("#mask-menu")
    page.keyboard.press("End")
    page.keyboard.press("Tab")
    assert page.locator("#mask-menu").is_hidden()
    page.focus("#mask")
    page.keyboard.press("Enter")
    page.keyboard.press("Enter")  # grow
    assert page.evaluate("() => document.activeElement.id") == "mask"
    page.focus("#remove")
    page.keyboard.press("Enter")
    idle(page, "done")
    assert page.evaluate("() => document.activeElement.id") == "handle"


def test_transparency_is_shown_as_white(page: Page):
    photo = np.dstack((small_photo(), np.full((240, 320), 255, np.uint8)))
    photo[:60, :, 3] = 0
    with_mask(page, encoded(photo))
    shot = page.locator("#canvas").screenshot()
    box = page.evaluate(
        "() => { const c = document.querySelector('#canvas'); return [c.clientWidth, c.clientHeight]; }"
    )
    seen = np.asarray(Image.open(io.BytesIO(shot)).convert("RGB"))
    assert seen.shape[:2] == (box[1], box[0])
    scale = min((box[0] - 56) / 320, (box[1] - 56) / 240, 900 / 320)
    row, column = round(box[1] / 2 - 100 * scale), round(box[0] / 2)
    assert seen[row, column].min() > 240
