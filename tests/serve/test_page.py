"""The page in real Chromium, from a dropped photo to the saved result."""

from __future__ import annotations

import io
import re
import zipfile
from collections.abc import Generator
from contextlib import contextmanager
from typing import Any

import numpy as np
import pytest
from PIL import Image, ImageCms
from playwright.sync_api import Browser, Page

import shadowmaskformer
from pictures import encoded, exif_block, tiff
from serve.browser import at, drop, findings, idle, opened, saved, saved_mask, stroke
from serve.running import running, wait_for
from serve.test_api import DEMO
from shadowmaskformer import masks
from shadowmaskformer.serve.server import Server


def small_photo(seed: int = 0) -> np.ndarray:
    """A lawn of noise with a dark disk, (240, 320, 3)."""
    rng = np.random.default_rng(seed)
    y, x = np.mgrid[:240, :320]
    ground = np.array([150, 160, 110]) + 12 * rng.normal(size=(240, 320, 1))
    shadow = (x - 160) ** 2 + (y - 120) ** 2 < 50**2
    return np.clip(np.where(shadow[..., None], 0.45, 1) * ground, 0, 255).astype(np.uint8)


def small_mask() -> np.ndarray:
    y, x = np.mgrid[:240, :320]
    return np.where((x - 160) ** 2 + (y - 120) ** 2 < 52**2, 255, 0).astype(np.uint8)


def with_mask(page: Page, photo: bytes | None = None) -> None:
    """Open a photo and give it a known mask."""
    drop(page, lawn_png=photo or encoded(small_photo()))
    idle(page, "edit")
    drop(page, mask_png=encoded(small_mask()))
    page.wait_for_function("() => !document.querySelector('#remove').disabled")


def disks(*places: tuple[int, int, int]) -> np.ndarray:
    """A mask of the small photo with a disk for each (x, y, radius)."""
    y, x = np.mgrid[:240, :320]
    return np.where(np.any([(x - a) ** 2 + (y - b) ** 2 < r**2 for a, b, r in places], axis=0), 255, 0).astype(np.uint8)


def finds(page: Page, mask: np.ndarray) -> None:
    """From now on, this is what the page finds."""
    page.route("**/v1/mask", lambda route: route.fulfill(body=encoded(mask), content_type="image/png"))


def held(page: Page, path: str) -> list[Any]:
    """From now on, what the page asks for there waits; returns it; `unroute` lets it go."""
    routes: list[Any] = []
    page.route(path, lambda route: routes.append(route))
    return routes


def downloads(page: Page) -> list[Any]:
    files: list[Any] = []
    page.on("download", lambda file: files.append(file))
    return files


@contextmanager
def stopped(page: Page) -> Generator[None]:
    """The server does not answer; afterwards the page has noticed that it is back."""
    answers = re.compile(r"/(v1/|healthz)")
    page.route(answers, lambda route: route.abort())
    yield
    page.wait_for_selector("#offline")
    page.unroute(answers)
    page.wait_for_selector("#offline", state="hidden")


def says(page: Page, text: str) -> None:
    page.wait_for_function("text => document.querySelector('#status').textContent === text", arg=text)


def two_results(page: Page) -> None:
    """Open two photos, and remove a stroke's worth of shadow from each."""
    drop(page, one_png=encoded(small_photo(1)), two_png=encoded(small_photo(2)))
    page.wait_for_function("() => document.querySelectorAll('#strip button').length === 2")
    for name in ("one", "two"):
        page.wait_for_function("name => document.querySelector('#about').textContent.startsWith(name)", arg=name)
        idle(page, "edit")
        page.keyboard.press("Delete")
        page.keyboard.press("b")
        stroke(page, (0.35, 0.5), (0.65, 0.5))
        page.keyboard.press("r")
        idle(page, "done")
        page.locator("#about").click()
        page.keyboard.press("ArrowRight")


def jobs(server: Server, monkeypatch: Any, task: str = "remove") -> list[tuple[Any, ...]]:
    """What the page sends from now on for a full-size result, or another task: photo, mask, hints and options."""
    queue, sent = server.app.state.queue, []
    submit = queue.submit

    async def recorded(job: Any) -> None:
        if job.task == task:
            sent.append(job.arguments)
        await submit(job)

    monkeypatch.setattr(queue, "submit", recorded)
    return sent


def test_a_dropped_photo_goes_all_the_way_and_equals_the_library(page: Page, server: Server, monkeypatch: Any):
    sent = jobs(server, monkeypatch)
    drop(page, beach_jpg=DEMO["photo"])
    page.wait_for_selector("#found button")
    idle(page, "edit")
    first = page.locator("#found button").first
    if first.get_attribute("aria-pressed") == "false":
        first.click()
    assert first.get_attribute("aria-pressed") == "true"
    page.click("#remove")
    idle(page, "done")
    handle = page.locator("#handle")
    middle = page.wait_for_function("() => document.querySelector('#handle').getAttribute('aria-valuenow') === '50'")
    assert middle
    page.mouse.move(*at(page, 0.5, 0.3))
    page.mouse.down()
    page.mouse.move(*at(page, 0.2, 0.3), steps=4)
    page.mouse.up()
    assert handle.get_attribute("aria-valuenow") in ("19", "20", "21")
    name, data = saved(page, lambda: page.click("#save"))
    assert name == "beach-no-shadow.jpg"
    photo, marked, _, options = sent[-1]
    assert photo == DEMO["photo"]
    assert options["exact_mask"]  # it was found, not painted
    expected = shadowmaskformer.ShadowRemover().remove_file(photo, marked, exact_mask=True)
    assert data == expected.data
    mask = np.asarray(Image.open(io.BytesIO(marked)).convert("L"))
    assert 0.01 < (mask > 127).mean() < 0.5


def test_clicks_take_and_leave_what_was_found(page: Page):
    drop(page, beach_jpg=DEMO["photo"])
    page.wait_for_selector("#found button")
    idle(page, "edit")
    chip = page.locator("#found button").first
    before = chip.get_attribute("aria-pressed")
    inside = (0.72, 0.4)  # the shadow's body
    page.mouse.click(*at(page, *inside))
    assert chip.get_attribute("aria-pressed") != before
    page.mouse.click(*at(page, *inside))
    assert chip.get_attribute("aria-pressed") == before


def test_a_click_elsewhere_is_a_hint_and_alt_takes_away(page: Page, server: Server, monkeypatch: Any):
    drop(page, lawn_png=encoded(small_photo()))
    idle(page, "edit")
    page.keyboard.press("Delete")
    sent = jobs(server, monkeypatch, "mask")
    page.mouse.click(*at(page, 0.1, 0.2))
    wait_for(lambda: page.wait_for_timeout(20) or len(sent) == 1)
    idle(page, "edit")
    _, mask, (hint,), _ = sent[0]
    assert mask is None
    assert hint.shadow
    np.testing.assert_allclose(hint.points[0], (32, 48), atol=1.5)
    # What was painted can be taken away by a click too; the mask so far goes along.
    page.keyboard.press("b")
    stroke(page, (0.1, 0.8), (0.2, 0.8))
    page.keyboard.press("v")
    page.keyboard.down("Alt")
    page.mouse.click(*at(page, 0.15, 0.8))
    page.keyboard.up("Alt")
    wait_for(lambda: page.wait_for_timeout(20) or len(sent) == 2)
    idle(page, "edit")
    _, mask, hints, _ = sent[1]
    assert np.asarray(Image.open(io.BytesIO(mask)).convert("L"))[192, 48] == 255
    assert not hints[-1].shadow


def test_photos_can_be_chosen_and_pasted(page: Page):
    with page.expect_file_chooser() as chooser:
        page.click("#choose")
    file = {"name": "chosen.png", "mimeType": "image/png", "buffer": encoded(small_photo())}
    chooser.value.set_files(file)
    idle(page, "edit")
    assert page.locator("#name").inner_text() == "chosen.png"
    page.evaluate(
        """() => { const transfer = new DataTransfer(), canvas = new OffscreenCanvas(64, 48);
        canvas.getContext("2d").fillRect(0, 0, 64, 48);
        return canvas.convertToBlob().then((blob) => { transfer.items.add(new File([blob], "image.png"));
        document.body.dispatchEvent(new ClipboardEvent("paste", { clipboardData: transfer, bubbles: true })); }); }"""
    )
    page.wait_for_function("() => document.querySelector('#dimensions').textContent === '64 × 48'")
    idle(page, "edit")
    assert page.locator("#strip button").count() == 2


def test_wheels_trackpads_and_keys_zoom_and_move(page: Page):
    drop(page, lawn_png=encoded(small_photo()))
    idle(page, "edit")

    def zoom() -> int:
        page.evaluate("() => new Promise((resolve) => requestAnimationFrame(() => requestAnimationFrame(resolve)))")
        return int(page.locator("#zoom").inner_text().split()[0])

    def under(x: float, y: float) -> list[int]:
        """The colour on the screen."""
        shot = Image.open(io.BytesIO(page.screenshot())).convert("RGB")
        return list(shot.getpixel((round(x), round(y))))

    fitting = zoom()
    middle = at(page, 0.5, 0.5)
    page.mouse.move(*middle)
    page.mouse.wheel(0, -360)  # three notches
    zoomed = zoom()
    assert zoomed > 1.5 * fitting
    before = under(*middle)
    page.mouse.wheel(40, 31)  # two fingers glide
    page.mouse.wheel(400, 31)
    assert zoom() == zoomed
    assert under(*middle) != before
    page.keyboard.press("0")
    assert zoom() == fitting
    page.keyboard.press("+")
    assert zoom() > fitting
    page.keyboard.press("1")
    assert zoom() == 100 or zoom() == fitting  # a small photo is never smaller than it fits
    page.click("#zoom")
    assert zoom() == fitting


def test_painting_erasing_and_going_back(page: Page):
    drop(page, lawn_png=encoded(small_photo()))
    idle(page, "edit")
    page.keyboard.press("Delete")
    page.keyboard.press("b")
    states = [saved_mask(page)]
    assert states[0].shape == (240, 320)
    assert not states[0].any()
    stroke(page, (0.3, 0.5), (0.7, 0.5))
    states.append(saved_mask(page))
    assert states[1][120, 160] == 255
    assert states[1][20, 20] == 0
    page.keyboard.press("e")
    stroke(page, (0.5, 0.2), (0.5, 0.8))
    states.append(saved_mask(page))
    assert states[2][120, 160] == 0
    assert states[2][120, 110] == 255
    for expected in (states[1], states[0]):
        page.keyboard.press("Control+z")
        np.testing.assert_array_equal(saved_mask(page), expected)
    for expected in (states[1], states[2]):
        page.keyboard.press("Control+Shift+Z")
        np.testing.assert_array_equal(saved_mask(page), expected)
    page.keyboard.press("g")
    assert (saved_mask(page) > 127).sum() > (states[2] > 127).sum()
    page.keyboard.press("Shift+G")
    page.keyboard.press("i")
    assert saved_mask(page)[20, 20] == 255
    # Alt turns the brush into an eraser.
    page.keyboard.press("b")
    page.keyboard.down("Alt")
    stroke(page, (0.1, 0.1), (0.2, 0.1))
    page.keyboard.up("Alt")
    assert saved_mask(page)[24, 48] == 0
    size = page.locator("#size")
    before = float(size.input_value())
    page.keyboard.press("]")
    larger = float(size.input_value())
    assert larger > before
    page.mouse.move(*at(page, 0.5, 0.5))
    page.keyboard.down("Shift")
    page.mouse.wheel(0, 240)
    page.keyboard.up("Shift")
    page.wait_for_function("([id, larger]) => Number(document.querySelector(id).value) < larger", arg=["#size", larger])


def brightness(page: Page, place: tuple[float, float]) -> float:
    """Mean level of the screen around a place."""
    page.evaluate("() => new Promise((resolve) => requestAnimationFrame(() => requestAnimationFrame(resolve)))")
    clip = {"x": place[0] - 8, "y": place[1] - 8, "width": 16, "height": 16}
    return float(np.asarray(Image.open(io.BytesIO(page.screenshot(clip=clip))).convert("L")).mean())


def test_a_result_is_compared_and_undone_and_follows_the_strength(page: Page):
    with_mask(page)
    page.click("#remove")
    idle(page, "done")
    for width in (1241, 1100, 1061, 901, 620, 360, 960):  # nothing is cut off
        page.set_viewport_size({"width": width, "height": 620})
        cut = "[...document.querySelectorAll('#bar button, #bar input')].filter((each) => each.offsetParent"
        assert page.evaluate(f"{cut} && each.getBoundingClientRect().right > innerWidth).map(({{ id }}) => id)") == []
    page.mouse.move(*at(page, 0.1, 0.1))
    right = at(page, 0.55, 0.5)  # inside the shadow, on the side of the result
    lit = brightness(page, right)
    hold = page.locator("#hold")
    hold.hover()
    page.mouse.down()
    assert brightness(page, right) < lit - 20
    page.mouse.up()
    assert abs(brightness(page, right) - lit) < 3
    hold.focus()
    page.keyboard.down(" ")
    assert brightness(page, right) < lit - 20
    page.keyboard.up(" ")
    page.click("#undo")
    idle(page, "edit")
    page.click("#redo")
    idle(page, "done")
    # The line in the middle, the strength at nothing: the shadow is back, without asking the server.
    page.route("**/v1/**", lambda route: route.abort())
    page.locator("#strength").fill("0")
    assert brightness(page, right) < lit - 20
    page.locator("#strength").fill("100")
    assert abs(brightness(page, right) - lit) < 12
    page.unroute("**/v1/**")
    page.click("[data-tool=brush]")  # back to the mask
    idle(page, "edit")
    np.testing.assert_array_equal(saved_mask(page), small_mask())


def test_sliders_change_the_picture_at_once_and_the_file_after_them(page: Page, server: Server, monkeypatch: Any):
    with_mask(page)
    page.click("#remove")
    idle(page, "done")
    sent = jobs(server, monkeypatch)
    page.locator("#strength").fill("40")
    page.locator("#edge").fill("200")
    name, data = saved(page, lambda: page.keyboard.press("Control+s"))
    assert name == "lawn-no-shadow.png"
    photo, marked, _, options = sent[-1]
    assert (options["strength"], options["feather_px"]) == (0.4, 8)
    expected = shadowmaskformer.ShadowRemover().remove_file(photo, marked, strength=0.4, feather_px=8.0)
    assert data == expected.data


def test_the_page_weighs_borders_as_the_library_does(page: Page):
    mask = np.zeros((60, 90), np.uint8)
    mask[20:40, 30:60] = 255
    for feather in (0, 3, 8, 21):
        weights = page.evaluate(
            """async ([data, feather]) => {
                const { blendWeight } = await import("/shape.js");
                return [...blendWeight({ width: 90, height: 60, data: Uint8Array.from(data) }, feather)];
            }""",
            [mask.ravel().tolist(), feather],
        )
        grown, softer = int(feather / 4 + 0.5), int(feather / 2 + 0.5)
        expected = masks.blend_weight(mask.astype(np.float32) / 255, grow_px=grown, feather_px=softer)
        assert np.abs(np.reshape(weights, mask.shape) / 255 - expected).max() < 0.01


def test_another_shadow_starts_from_the_result(page: Page, server: Server, monkeypatch: Any):
    with_mask(page)
    sent = jobs(server, monkeypatch)
    page.click("#remove")
    idle(page, "done")
    _, first = saved(page, lambda: page.click("#save"))
    page.click("#another")
    idle(page, "edit")
    assert not saved_mask(page).any() or page.locator("#found button").count()
    page.keyboard.press("Delete")
    page.keyboard.press("b")
    stroke(page, (0.1, 0.2), (0.3, 0.2))
    page.click("#remove")
    idle(page, "done")
    assert sent[-1][0] == first


def test_removing_can_be_cancelled(page: Page):
    with_mask(page)
    held: list[Any] = []
    page.route("**/v1/correction", lambda route: held.append(route))
    page.click("#remove")
    page.wait_for_function("() => document.querySelector('#remove').textContent.trim() === 'Cancel'")
    while not held:
        page.wait_for_timeout(20)
    page.keyboard.press("Escape")
    idle(page, "edit")
    page.unroute("**/v1/correction")
    page.click("#remove")
    idle(page, "done")


def test_several_photos_as_a_filmstrip(page: Page):
    two_results(page)
    name, data = saved(page, lambda: page.click("#all"))
    assert name == "no-shadow.zip"
    with zipfile.ZipFile(io.BytesIO(data)) as archive:
        assert archive.testzip() is None
        assert archive.namelist() == ["one-no-shadow.png", "two-no-shadow.png"]
        assert Image.open(io.BytesIO(archive.read("one-no-shadow.png"))).size == (320, 240)


def test_a_format_that_browsers_do_not_read_works_too(page: Page):
    deep = small_photo().astype(np.uint16) * 257
    with_mask(page, tiff(deep))
    page.click("#remove")
    idle(page, "done")
    _, data = saved(page, lambda: page.click("#save"))
    assert data[:2] in (b"II", b"MM")
    page.click("#save-as")
    name, data = saved(page, lambda: page.click("#save-menu [data-do=savePng]"))
    assert name.endswith(".png")
    assert data.startswith(b"\x89PNG")


def test_of_an_animation_the_first_picture_is_worked_on(page: Page):
    first, second = (Image.fromarray(levels) for levels in (small_photo(), 255 - small_photo()))
    with_mask(page, encoded(first, "GIF", save_all=True, append_images=[second], duration=100))
    page.click("#remove")
    idle(page, "done")
    name, _ = saved(page, lambda: page.click("#save"))
    assert name.endswith(".png")


def test_what_is_not_a_picture_is_refused_in_words(page: Page):
    drop(page, notes_txt=b"Dear diary")
    page.wait_for_selector("#toast")
    assert "notes.txt: not a picture" in page.locator("#toast").inner_text()
    assert page.locator("#welcome").is_visible()
    page.click("#toast button")
    drop(page, lawn_png=encoded(small_photo()))
    idle(page, "edit")
    drop(page, mask_png=encoded(np.zeros((10, 90), np.uint8)))
    page.wait_for_selector("#toast")
    assert "another shape" in page.locator("#toast").inner_text()


def test_a_server_that_stops_and_comes_back_costs_no_work(browser: Browser):
    with running() as first:
        port = first.address[1]
        with_server = opened(browser, first.url)
        page = with_server.__enter__()
        with_mask(page)
    page.click("#remove")
    page.wait_for_selector("#offline")
    with running(port=port):
        page.wait_for_selector("#offline", state="hidden")
        idle(page, "done")  # what was interrupted is taken up again
        with_server.__exit__(None, None, None)


def test_a_token_is_asked_for_once(browser: Browser):
    with running(token="sesame") as server:
        with opened(browser, server.url) as page:
            page.fill("#login input", "sesame")
            page.click("#login button")
            page.reload()
            with_mask(page)
        with opened(browser, f"{server.url}/#token=sesame") as page:
            drop(page, lawn_png=encoded(small_photo()))
            idle(page, "edit")
            assert "sesame" not in page.url


def test_the_keyboard_alone_is_enough(page: Page):
    page.wait_for_selector("#example")

    def tab_to(selector: str) -> None:
        for _ in range(40):
            page.keyboard.press("Tab")
            if page.evaluate("selector => document.activeElement.matches(selector)", selector):
                return
        raise AssertionError(f"no way to {selector}")

    tab_to("#example")
    page.keyboard.press("Enter")
    idle(page, "edit")
    page.keyboard.press("Delete")
    page.keyboard.press("b")
    tab_to("#stage")
    for key in ("ArrowRight", "ArrowUp"):
        page.keyboard.press(f"Shift+{key}")
    page.keyboard.press("Enter")
    assert (saved_mask(page) > 127).any()
    tab_to("#remove")
    page.keyboard.press("Enter")
    idle(page, "done")
    tab_to("#handle")
    page.keyboard.press("End")
    assert page.locator("#handle").get_attribute("aria-valuenow") == "100"
    page.keyboard.press("n")  # another shadow; the tools are one group
    idle(page, "edit")
    tab_to("[data-tool=brush]")
    page.keyboard.press("ArrowRight")
    assert page.locator("[data-tool=erase]").get_attribute("aria-checked") == "true"
    page.keyboard.press("Control+z")
    idle(page, "done")
    tab_to("#save")
    name, _ = saved(page, lambda: page.keyboard.press("Enter"))
    assert name == "example-no-shadow.jpg"
    page.keyboard.press("?")
    page.wait_for_selector("#help[open]")
    page.keyboard.press("Escape")


def test_touch_on_a_phone(browser: Browser, server: Server):
    phone = {"viewport": {"width": 390, "height": 780}, "device_scale_factor": 2, "has_touch": True, "is_mobile": True}
    with opened(browser, server.url, **phone) as page:
        drop(page, lawn_png=encoded(small_photo()))
        idle(page, "edit")
        assert page.evaluate("document.documentElement.scrollWidth") <= 390
        page.keyboard.press("Delete")
        page.tap("[data-tool=brush]")
        touch = page.context.new_cdp_session(page)

        def fingers(kind: str, *places: tuple[float, float]) -> None:
            points = [{"x": x, "y": y, "id": n} for n, (x, y) in enumerate(places)]
            touch.send("Input.dispatchTouchEvent", {"type": kind, "touchPoints": points})

        fingers("touchStart", at(page, 0.3, 0.5))
        for share in (0.4, 0.5, 0.6, 0.7):
            fingers("touchMove", at(page, share, 0.5))
        fingers("touchEnd")
        painted = saved_mask(page)
        assert painted[120, 160] == 255
        x, y = at(page, 0.5, 0.5)
        fingers("touchStart", (x - 30, y))
        fingers("touchStart", (x - 30, y), (x + 30, y))
        for reach in (50, 80, 110):
            fingers("touchMove", (x - reach, y), (x + reach, y))
        fingers("touchEnd")
        zoom = int(page.locator("#zoom").inner_text().split()[0])
        page.tap("#zoom")
        page.wait_for_function("zoom => parseInt(document.querySelector('#zoom').textContent) < zoom / 2", arg=zoom)
        np.testing.assert_array_equal(saved_mask(page), painted)  # a pinch paints nothing
        page.tap("#remove")
        idle(page, "done")
        assert page.locator("#save").is_visible()


def test_a_12_megapixel_photo_stays_smooth_and_full_size(page: Page):
    large = Image.fromarray(small_photo()).resize((4000, 3000), Image.Resampling.BICUBIC)
    profile = ImageCms.ImageCmsProfile(ImageCms.createProfile("sRGB")).tobytes()
    photo = encoded(large, "JPEG", quality=92, exif=exif_block(1), icc_profile=profile)
    drop(page, large_jpg=photo)
    idle(page, "edit")
    drop(page, mask_png=encoded(small_mask()))
    page.keyboard.press("b")
    page.evaluate(
        "() => { window.longest = 0; new PerformanceObserver((list) => { for (const { duration } of list.getEntries()) "
        "window.longest = Math.max(window.longest, duration); }).observe({ type: 'longtask' }); }"
    )
    stroke(page, (0.2, 0.2), (0.8, 0.3), (0.3, 0.6))
    assert page.evaluate("window.longest") < 400
    page.click("#undo")
    page.click("#remove")
    idle(page, "done")
    _, data = saved(page, lambda: page.click("#save"))
    result = Image.open(io.BytesIO(data))
    assert result.size == (4000, 3000)
    assert result.getexif()[0x010F] == "Camera Maker"
    assert result.info["icc_profile"] == profile


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_axe_finds_nothing_serious(browser: Browser, server: Server, scheme: str):
    with opened(browser, server.url, color_scheme=scheme) as page:
        page.wait_for_selector("#choose")
        assert findings(page) == []
        with_mask(page)
        assert findings(page) == []
        page.click("#mask")
        assert findings(page) == []
        page.keyboard.press("Escape")
        page.click("#remove")
        idle(page, "done")
        assert findings(page) == []
        page.keyboard.press("?")
        assert findings(page) == []


def test_a_shadow_with_a_wide_soft_border_is_selected_and_deselected(page: Page):
    core, border = disks((100, 120, 12), (220, 120, 20)), disks((100, 120, 24), (220, 120, 40))
    finds(page, np.where(core, 255, np.where(border, 60, 0)).astype(np.uint8))
    drop(page, lawn_png=encoded(small_photo()))
    idle(page, "edit")
    chip = page.locator("#found button").nth(1)
    for pressed in ("true", "false"):
        page.mouse.click(*at(page, 100 / 320, 0.5))
        assert chip.get_attribute("aria-pressed") == pressed


def test_a_double_click_saves_what_the_sliders_ask_for_once(page: Page, server: Server, monkeypatch: Any):
    with_mask(page)
    page.click("#remove")
    idle(page, "done")
    saved(page, lambda: page.click("#save"))
    sent, files = jobs(server, monkeypatch), downloads(page)
    page.locator("#strength").fill("50")
    page.dblclick("#save")
    says(page, "Saved lawn-no-shadow.png")
    page.wait_for_timeout(300)
    assert len(sent) == len(files) == 1
    assert sent[0][3]["strength"] == 0.5


def test_a_save_that_is_cancelled_or_undone_writes_nothing(page: Page):
    with_mask(page)
    files = downloads(page)
    routes = held(page, "**/v1/jobs")
    page.click("#remove")
    page.wait_for_selector("#save")
    page.click("#save")  # while the full size is made for the first time
    wait_for(lambda: page.wait_for_timeout(20) or len(routes) == 2)
    page.keyboard.press("Escape")
    says(page, "Cancelled")
    page.unroute("**/v1/jobs")
    saved(page, lambda: page.click("#save"))
    for key in ("Escape", "Control+z"):
        routes = held(page, "**/v1/jobs")
        page.locator("#strength").fill("30" if key == "Escape" else "60")
        page.click("#save")
        wait_for(lambda routes=routes: page.wait_for_timeout(20) or len(routes) == 1)
        page.keyboard.press(key)
        says(page, "Cancelled")
        page.unroute("**/v1/jobs")
    idle(page, "edit")
    assert len(files) == 1
    assert page.locator("#toast").is_hidden()


def test_another_shadow_waits_for_the_full_size_once(page: Page):
    with_mask(page)
    routes = held(page, "**/v1/jobs")
    page.click("#remove")
    page.wait_for_selector("#another")
    page.keyboard.press("n")
    page.keyboard.press("n")
    wait_for(lambda: page.wait_for_timeout(20) or len(routes) == 2)  # the first was for the result itself
    page.keyboard.press("Escape")
    says(page, "Cancelled")
    idle(page, "done")
    page.unroute("**/v1/jobs")
    page.keyboard.press("n")
    idle(page, "edit")
    page.keyboard.press("Control+z")
    idle(page, "done")


def test_only_what_was_not_saved_asks_before_the_page_is_left(page: Page):
    def asks() -> bool:
        return page.evaluate("() => !dispatchEvent(new Event('beforeunload', { cancelable: true }))")

    two_results(page)
    assert asks()
    saved(page, lambda: page.click("#all"))
    says(page, "Saved 2 photos")
    assert not asks()
    page.keyboard.press("Control+z")
    page.keyboard.press("r")
    idle(page, "done")
    assert asks()  # another result than the one that was saved


def test_photos_are_closed_one_by_one(page: Page):
    drop(page, one_png=encoded(small_photo(1)), two_png=encoded(small_photo(2)))
    page.wait_for_function("() => document.querySelectorAll('#strip button').length === 2")
    idle(page, "edit")
    page.click("#close")
    page.wait_for_function("() => document.querySelector('#name').textContent === 'two.png'")
    idle(page, "edit")
    assert page.locator("#strip").is_hidden()
    page.keyboard.press("w")
    page.wait_for_selector("#choose")
    assert page.locator("#stage, #bar, #close, #name >> visible=true").count() == 0
    drop(page, three_png=encoded(small_photo(3)))
    idle(page, "edit")
    assert page.locator("#name").inner_text() == "three.png"
    assert page.locator("#strip button").count() < 2


def test_a_photo_whose_result_is_not_saved_asks_before_it_is_closed(page: Page):
    page.evaluate("() => { window.asked = []; window.confirm = (text) => { asked.push(text); return false; }; }")
    with_mask(page)
    page.click("#remove")
    idle(page, "done")
    page.click("#close")
    name = page.locator("#name").inner_text()
    assert page.evaluate("() => asked") == [f"The result of {name} is not saved. Close it?"]
    assert page.locator("#stage").is_visible()
    saved(page, lambda: page.click("#save"))
    page.wait_for_function("() => document.querySelector('#status').textContent.startsWith('Saved')")
    page.click("#close")
    page.wait_for_selector("#choose")
    assert len(page.evaluate("() => asked")) == 1


def test_the_filmstrip_shows_what_the_stage_does(page: Page):
    drop(page, one_png=encoded(small_photo(1)), two_png=encoded(small_photo(2)))
    page.wait_for_function("() => document.querySelectorAll('#strip button').length === 2")
    idle(page, "edit")
    picture = page.locator("#strip img").first
    before = picture.get_attribute("src")
    page.keyboard.press("b")
    stroke(page, (0.35, 0.5), (0.65, 0.5))
    page.keyboard.press("r")
    idle(page, "done")
    assert picture.get_attribute("src") != before
    page.keyboard.press("Control+z")
    idle(page, "edit")
    assert picture.get_attribute("src") == before


def test_the_menu_never_offers_another_format_than_it_saves(page: Page):
    with_mask(page)
    routes = held(page, "**/v1/jobs")
    page.click("#remove")
    page.click("#save-as")
    assert page.locator("#save-own").inner_text() == "Save"
    wait_for(lambda: page.wait_for_timeout(20) or len(routes) == 1)
    page.unroute("**/v1/jobs")
    idle(page, "done")
    assert page.locator("#save-menu button:visible").all_inner_texts() == ["Save as PNG", "Save the mask"]


def chips(page: Page) -> list[str | None]:
    """Which of the shadows that were found are selected."""
    return [each.get_attribute("aria-pressed") for each in page.locator("#found button").all()]


def searching(page: Page) -> Any:
    """Open a photo whose shadows are being looked for until what is returned is called."""
    routes = held(page, "**/v1/mask")
    drop(page, lawn_png=encoded(small_photo()))
    wait_for(lambda: page.wait_for_timeout(20) or len(routes) == 1)

    def end(mask: np.ndarray) -> None:
        routes[0].fulfill(body=encoded(mask), content_type="image/png")
        idle(page, "edit")

    return end


def test_undo_keeps_what_was_found_while_painting(page: Page):
    end = searching(page)
    page.keyboard.press("b")
    stroke(page, (0.1, 0.9), (0.2, 0.9))
    end(disks((80, 60, 30), (220, 120, 40)))
    assert chips(page) == ["false", "false"]
    page.keyboard.press("Control+z")
    assert chips(page) == ["false", "false"]
    assert not saved_mask(page).any()


def test_undo_does_not_end_the_search(page: Page):
    end = searching(page)
    page.keyboard.press("b")
    stroke(page, (0.1, 0.9), (0.2, 0.9))
    page.keyboard.press("Control+z")
    end(disks((220, 120, 40)))
    assert chips(page) == ["true"]


def test_a_search_that_undo_ended_is_made_up_for_and_a_cancelled_one_is_not(page: Page):
    with_mask(page)
    page.click("#remove")
    idle(page, "done")
    routes = held(page, "**/v1/mask")
    page.keyboard.press("n")
    wait_for(lambda: page.wait_for_timeout(20) or len(routes) == 1)
    page.keyboard.press("Control+z")
    idle(page, "done")
    page.unroute("**/v1/mask")
    finds(page, disks((80, 60, 30), (220, 120, 40)))
    page.keyboard.press("Control+Shift+Z")
    page.wait_for_selector("#found button")
    idle(page, "edit")
    page.unroute("**/v1/mask")
    searching(page)
    page.keyboard.press("Escape")
    page.keyboard.press("i")
    page.keyboard.press("Control+z")
    idle(page, "edit")
    assert chips(page) == []


def test_a_mask_that_is_dropped_stays_as_it_is(page: Page):
    end = searching(page)
    given = disks((60, 60, 30))
    drop(page, mask_png=encoded(given))
    page.wait_for_function("() => !document.querySelector('#undo').disabled")
    end(disks((220, 120, 40)))
    assert chips(page) == ["false"]
    np.testing.assert_array_equal(saved_mask(page), given)


def test_a_mask_that_is_dropped_on_a_result_goes_back_to_the_mask(page: Page):
    with_mask(page)
    page.click("#remove")
    idle(page, "done")
    given = disks((60, 60, 30))
    drop(page, mask_png=encoded(given))
    idle(page, "edit")
    np.testing.assert_array_equal(saved_mask(page), given)


def test_a_mask_in_a_format_that_browsers_do_not_read_is_refused_in_words(page: Page):
    drop(page, lawn_png=encoded(small_photo()))
    idle(page, "edit")
    drop(page, mask_tiff=tiff(small_mask()))
    page.wait_for_selector("#toast")
    assert "mask.tiff cannot be read as a mask here; save it as PNG" in page.locator("#toast").inner_text()


def test_a_shadow_alone_that_is_deselected_is_not_removed(page: Page):
    finds(page, disks((220, 120, 40)))
    drop(page, lawn_png=encoded(small_photo()))
    idle(page, "edit")
    assert chips(page) == ["true"]
    assert page.locator("#remove").is_enabled()
    page.locator("#found button").click()
    assert page.locator("#remove").is_disabled()


def test_a_mask_found_after_clearing_what_was_painted_is_exact(page: Page, server: Server, monkeypatch: Any):
    finds(page, disks((80, 60, 30), (220, 120, 40)))
    drop(page, lawn_png=encoded(small_photo()))
    idle(page, "edit")
    page.keyboard.press("b")
    stroke(page, (0.1, 0.9), (0.2, 0.9))
    page.keyboard.press("Delete")
    page.locator("#found button").first.click()
    sent = jobs(server, monkeypatch)
    page.click("#remove")
    idle(page, "done")
    assert sent[-1][3]["exact_mask"]


def test_a_double_click_means_the_first_click(page: Page):
    page.dblclick("#example")
    idle(page, "edit")
    page.wait_for_timeout(300)
    assert page.locator("#strip button").count() < 2
    if page.locator("#remove").is_disabled():
        page.keyboard.press("i")
    held(page, "**/v1/correction")
    page.dblclick("#remove")
    page.unroute("**/v1/correction")
    idle(page, "done")


def test_of_several_files_the_first_that_can_be_read_is_shown_and_all_others_are_named(page: Page):
    drop(page, one_png=encoded(small_photo(1)))
    idle(page, "edit")
    drop(
        page,
        bad_jpg=b"x" * 100,
        worse_jpg=b"y" * 100,
        two_png=encoded(small_photo(2)),
        three_png=encoded(small_photo(3)),
    )
    page.wait_for_function("() => document.querySelectorAll('#strip button').length === 3")
    idle(page, "edit")
    assert page.locator("#name").inner_text() == "two.png"
    said = page.locator("#toast").inner_text()
    assert "bad.jpg" in said
    assert "worse.jpg" in said


def test_a_photo_that_is_dropped_while_the_server_is_stopped_appears_later(page: Page):
    with stopped(page):
        drop(page, deep_tiff=tiff(small_photo().astype(np.uint16) * 257))
    idle(page, "edit")
    assert page.locator("#name").inner_text() == "deep.tiff"


def test_a_photo_of_the_filmstrip_that_only_the_server_reads_waits_for_it(page: Page):
    drop(page, one_png=encoded(small_photo(1)), deep_tiff=tiff(small_photo().astype(np.uint16) * 257))
    page.wait_for_function("() => document.querySelectorAll('#strip button').length === 2")
    idle(page, "edit")
    with stopped(page):
        page.locator("#strip button").nth(1).click()
        page.wait_for_selector("#offline")
        assert page.locator("#name").inner_text() == "one.png"
    page.wait_for_function("() => document.querySelector('#name').textContent === 'deep.tiff'")
    idle(page, "edit")


def test_a_save_and_a_removal_that_a_stopped_server_interrupted_go_on(page: Page):
    with_mask(page)
    routes = held(page, "**/v1/jobs")
    page.click("#remove")
    wait_for(lambda: page.wait_for_timeout(20) or len(routes) == 1)
    with stopped(page):
        routes[0].abort()
    page.unroute("**/v1/jobs")
    idle(page, "done")
    with page.expect_download() as waiting, stopped(page):
        page.locator("#strength").fill("50")
        page.click("#save")
    assert waiting.value.suggested_filename == "lawn-no-shadow.png"
    page.keyboard.press("Control+z")  # one step, though the removal began twice
    idle(page, "edit")
