"""The API against a real worker: the same pixels as the library, and a worker that may die."""

from __future__ import annotations

import io
import json
import os
import signal
import threading
from collections.abc import Generator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import requests
from PIL import Image

import deeds
import shadowmaskformer
from pictures import encoded, exif_block, tiff
from serve.running import message, photo_parts, running, wait_for
from shadowmaskformer.arrays import average_down, to_float
from shadowmaskformer.errors import said
from shadowmaskformer.serve import tasks
from shadowmaskformer.serve.server import Server

ASSETS = Path(shadowmaskformer.__file__).parent / "assets"
DEMO = {name: (ASSETS / f"demo-{name}.{end}").read_bytes() for name, end in (("photo", "jpg"), ("mask", "png"))}


@pytest.fixture(scope="module")
def server() -> Generator[Server]:
    with running(threads=1) as server:
        yield server


def facts(answer: requests.Response) -> dict[str, Any]:
    assert answer.status_code == 200, answer.text
    return json.loads(answer.headers["Shadowmaskformer-Facts"])


def pixels(data: bytes) -> np.ndarray:
    return np.asarray(Image.open(io.BytesIO(data)))


def test_the_server_removes_a_shadow_as_the_library_does(server: Server):
    options = {"grow_px": 2, "strength": 0.8, "feather_px": 9.5, "quality": 90}
    for given in ({}, options):
        answer = requests.post(f"{server.url}/v1/remove", files=DEMO, data=given)
        about = facts(answer)
        expected = shadowmaskformer.ShadowRemover(threads=1).remove_file(DEMO["photo"], DEMO["mask"], **given)
        assert answer.content == expected.data
        assert answer.headers["content-type"] == "image/jpeg"
        warnings = [said(line, "http") for line in expected.warnings]
        assert (about["width"], about["height"], about["warnings"]) == (1024, 768, warnings)


def test_format_depth_and_metadata_stay(server: Server, photo: np.ndarray, mask: np.ndarray):
    deep = photo.astype(np.uint16) * 257
    answer = requests.post(f"{server.url}/v1/remove", files={"photo": tiff(deep), "mask": encoded(mask)})
    assert facts(answer)["ending"] == ".tif"
    assert answer.headers["content-type"] == "image/tiff"
    jpeg = encoded(Image.fromarray(photo), "JPEG", exif=exif_block(1))
    answer = requests.post(f"{server.url}/v1/remove", files={"photo": jpeg, "mask": encoded(mask)})
    assert Image.open(io.BytesIO(answer.content)).getexif()[0x010F] == "Camera Maker"
    answer = requests.post(
        f"{server.url}/v1/remove", files={"photo": jpeg, "mask": encoded(mask)}, data={"format": "png"}
    )
    assert answer.content.startswith(b"\x89PNG")


def test_warnings_and_errors_speak_http(server: Server, photo: np.ndarray, mask: np.ndarray):
    parts = photo_parts(photo, 255 - mask)
    lines = facts(requests.post(f"{server.url}/v1/remove", files=parts))["warnings"]
    assert any("invert_mask=true" in line for line in lines)
    wrong = requests.post(f"{server.url}/v1/remove", files=photo_parts(photo, mask[:, :20]))
    assert wrong.status_code == 422
    assert message(wrong).startswith("mask: is 20x32")


def test_errors_name_the_part_and_what_a_client_can_do(server: Server):
    empty = requests.post(f"{server.url}/v1/remove", files={"photo": DEMO["photo"], "mask": ("mask.png", b"")})
    assert empty.status_code == 415
    assert message(empty).startswith("mask is empty")
    huge = encoded(Image.new("1", (8000, 7000)))
    for parts in ({"photo": huge}, {"photo": DEMO["photo"], "mask": huge}):
        answer = requests.post(f"{server.url}/v1/remove", files=parts)
        assert answer.status_code == 413
        assert message(answer).endswith("more than the 50,000,000 allowed; scale it down")


def test_the_correction_is_the_result_in_small(server: Server):
    answer = requests.post(f"{server.url}/v1/correction", files=DEMO)
    about = facts(answer)
    planes = np.frombuffer(answer.content, "<f2").reshape(about["height"], about["width"], 8).astype(np.float32)
    gain, used, offset, weight = planes[..., :3], planes[..., 3], planes[..., 4:7], planes[..., 7:]
    before = average_down(pixels(DEMO["photo"]), about["height"], about["width"])
    live = before + weight * (np.clip(gain * before + offset, 0, 1) - before)
    result = requests.post(f"{server.url}/v1/remove", files=DEMO, data={"format": "png"})
    after = average_down(to_float(pixels(result.content)), about["height"], about["width"])
    shadow = used > 0.5
    assert shadow.mean() > 0.1
    assert np.abs(live - after)[shadow].mean() < 3 / 255
    assert np.quantile(np.abs(live - after)[weight[..., 0] == 0], 0.999) < 1.5 / 255


def test_the_server_finds_shadows_as_the_library_does(server: Server):
    photo = {"photo": DEMO["photo"]}
    answer = requests.post(f"{server.url}/v1/mask", files=photo)
    expected = shadowmaskformer.ShadowDetector(threads=1).detect(DEMO["photo"])
    assert np.abs(pixels(answer.content) / 255 - expected.mask).max() < 0.01
    assert facts(answer)["shadows"][0]["box"] == list(expected.shadows[0].box)
    truth = pixels(DEMO["mask"]) > 127
    found = pixels(answer.content) > 127
    assert (found & truth).sum() > 0.8 * (found | truth).sum()
    away = requests.post(
        f"{server.url}/v1/mask",
        files={"photo": DEMO["photo"], "mask": DEMO["mask"]},
        data={"hints": '[{"points": [[730, 300]], "shadow": false}]'},
    )
    assert (pixels(away.content) > 127).sum() < found.sum()
    turned = encoded(255 - pixels(DEMO["mask"]))
    parts = {"photo": DEMO["photo"], "mask": turned}
    inverted = requests.post(f"{server.url}/v1/mask", files=parts, data={"invert_mask": "true"})
    assert (pixels(inverted.content) > 127).mean() == pytest.approx(truth.mean(), abs=0.02)
    removed = requests.post(f"{server.url}/v1/remove", files=photo)
    assert removed.content == shadowmaskformer.ShadowRemover(threads=1).remove_file(DEMO["photo"]).data


def test_what_was_done_to_a_mask_is_said_when_shadows_are_looked_for(server: Server):
    smaller = encoded(pixels(DEMO["mask"])[::2, ::2])
    answer = requests.post(f"{server.url}/v1/mask", files={"photo": DEMO["photo"], "mask": smaller})
    assert any("resized" in line for line in facts(answer)["warnings"])
    refused = requests.post(f"{server.url}/v1/mask", files={"photo": DEMO["photo"]}, data={"invert_mask": "true"})
    assert "no mask to invert" in message(refused)


def test_a_photo_without_a_shadow_is_no_server_error(server: Server):
    plain = encoded(np.full((64, 80, 3), 200, np.uint8))
    answer = requests.post(f"{server.url}/v1/remove", files={"photo": plain})
    assert answer.status_code == 422
    assert "no shadow" in message(answer)
    assert facts(requests.post(f"{server.url}/v1/mask", files={"photo": plain}))["shadows"] == []


def test_a_job_that_failed_says_why_as_its_result_does(server: Server):
    plain = encoded(np.full((64, 80, 3), 200, np.uint8))
    job = requests.post(f"{server.url}/v1/jobs", files={"photo": plain}).json()
    assert job["error"] is None
    path = f"{server.url}/v1/jobs/{job['id']}"
    wait_for(lambda: requests.get(path).json()["state"] == "failed")
    assert requests.get(path).json()["error"] == requests.get(f"{path}/result").json()["error"]
    assert requests.get(path).json()["error"]["type"] == "NoShadowError"


def test_an_empty_mask_has_no_correction(server: Server, photo: np.ndarray, mask: np.ndarray):
    assert requests.post(f"{server.url}/v1/correction", files=photo_parts(photo, 0 * mask)).status_code == 422


def test_any_format_can_be_looked_at(server: Server, photo: np.ndarray):
    answer = requests.post(f"{server.url}/v1/preview", files={"photo": tiff(photo.astype(np.uint16) * 257)})
    assert (facts(answer)["width"], facts(answer)["height"]) == (48, 32)
    assert np.abs(pixels(answer.content).astype(int) - photo).mean() < 4


def test_info_health_and_figures(server: Server):
    info = requests.get(f"{server.url}/v1/info").json()
    assert info["version"] == shadowmaskformer.__version__
    assert "JPEG" in info["reads"]
    assert "GIF" not in info["writes"]
    assert requests.get(f"{server.url}/healthz").json() == {"status": "ok"}
    assert requests.head(f"{server.url}/healthz").status_code == 200
    assert requests.get(f"{server.url}/v1/remove").headers["allow"] == "POST"
    figures = requests.get(f"{server.url}/metrics").text
    assert 'shadowmaskformer_requests_total{path="/healthz",status="200"}' in figures
    assert "shadowmaskformer_jobs_waiting 0.0" in figures


def test_workers_are_there_before_the_first_photo():
    with running(threads=1) as server:
        wait_for(lambda: server.workers[0].pid)


def test_a_worker_that_is_killed_costs_one_request(server: Server):
    requests.post(f"{server.url}/v1/remove", files=DEMO)
    (worker,) = server.workers
    answers: list[requests.Response] = []
    ask = threading.Thread(target=lambda: answers.append(requests.post(f"{server.url}/v1/remove", files=DEMO)))
    first = worker.pid
    ask.start()
    wait_for(lambda: "shadowmaskformer_jobs_running 1.0" in requests.get(f"{server.url}/metrics").text)
    os.kill(first, signal.SIGKILL)
    ask.join(20)
    assert answers[0].status_code == 503
    assert "signal 9" in message(answers[0])
    assert requests.post(f"{server.url}/v1/remove", files=DEMO).status_code == 200
    assert worker.pid != first


@pytest.mark.skipif(not Path("/proc/self/statm").exists(), reason="no figures about a process on this system")
@pytest.mark.parametrize("deed", [deeds.remove_with_little_memory, deeds.ask_for_too_much_memory])
def test_a_lack_of_memory_is_no_mistake_and_no_end(deed: Any, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setenv("PYTHONPATH", str(Path(deeds.__file__).parent))
    large = {"photo": encoded(np.zeros((2000, 3000, 3), np.uint8)), "mask": encoded(np.ones((2, 3), np.uint8))}
    with running(threads=1) as server:
        wait_for(lambda: server.workers[0].pid)
        with monkeypatch.context() as patch:
            patch.setattr(tasks, "remove", deed)
            answer = requests.post(f"{server.url}/v1/remove", files=large)
        assert answer.status_code == 503
        assert "not enough memory" in message(answer)
        assert int(answer.headers["retry-after"]) > 0
        assert requests.post(f"{server.url}/v1/remove", files=DEMO).status_code == 200


def test_no_worker_outlives_the_server(photo: np.ndarray, mask: np.ndarray):
    with running(threads=1) as server:
        assert requests.post(f"{server.url}/v1/remove", files=photo_parts(photo, mask)).status_code == 200
        pid = server.workers[0].pid
        assert Path(f"/proc/{pid}").exists() or not Path("/proc/self").exists()
    wait_for(lambda: not Path(f"/proc/{pid}/cmdline").exists() or not Path(f"/proc/{pid}/cmdline").read_bytes())


def test_a_file_sent_as_a_text_is_told_how_to_send_it(server: Server):
    answer = requests.post(f"{server.url}/v1/remove", files={"photo": (None, "beach.jpg")})
    assert answer.status_code == 422
    assert message(answer) == "'photo' came as a field; send it as a file; with curl: -F photo=@FILE"
    answer = requests.post(f"{server.url}/v1/remove", files={"photo": DEMO["photo"], "strength": DEMO["mask"]})
    assert message(answer) == "'strength' came as a file; send it as a text; with curl: -F strength=VALUE"
