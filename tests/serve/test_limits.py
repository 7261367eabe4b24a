"""Requests that are too large, too slow, malformed or from elsewhere."""

from __future__ import annotations

import socket
import time
from collections.abc import Generator
from typing import Any

import numpy as np
import pytest
import requests

from pictures import encoded
from serve.running import message, photo_parts, raw, running, wait_for
from shadowmaskformer.errors import ConfigError
from shadowmaskformer.serve.limits import HEADERS, Limits
from shadowmaskformer.serve.server import Server

LIMITS = Limits(body_bytes=200_000, pixels=10_000, field_bytes=2000, header_s=0.6, idle_s=0.6, body_s=3)


@pytest.fixture(scope="module")
def server() -> Generator[Server]:
    with running(limits=LIMITS) as server:
        yield server


@pytest.fixture
def parts(photo: np.ndarray, mask: np.ndarray) -> dict[str, Any]:
    return photo_parts(photo, mask)


def head(server: Server, *lines: str) -> bytes:
    return "\r\n".join((f"POST /v1/remove HTTP/1.1\r\nHost: localhost:{server.address[1]}", *lines, "", "")).encode()


def test_a_body_over_the_limit_is_refused_whether_it_says_so_or_not(server: Server):
    large = b"x" * 400_000
    declared = requests.post(f"{server.url}/v1/remove", files={"photo": large})
    assert declared.status_code == 413
    assert "MB" in message(declared)
    boundary = b'--b\r\nContent-Disposition: form-data; name="photo"; filename="p"\r\n\r\n'
    chunks = iter([boundary, *[large[:65536]] * 6])
    kind = {"Content-Type": "multipart/form-data; boundary=b"}
    chunked = requests.post(f"{server.url}/v1/remove", data=chunks, headers=kind)
    assert chunked.status_code == 413


def test_a_body_that_stalls_or_is_shorter_than_it_says_is_given_up(server: Server):
    began = time.monotonic()
    answer = raw(server, head(server, "Content-Type: multipart/form-data; boundary=b", "Content-Length: 500") + b"--b")
    assert b" 408 " in answer.splitlines()[0]
    assert time.monotonic() - began < 5


def test_a_body_that_trickles_is_given_up_when_its_time_is_over(server: Server):
    with socket.create_connection(server.address, timeout=10) as connection:
        connection.sendall(head(server, "Content-Type: multipart/form-data; boundary=b", "Content-Length: 500"))
        connection.sendall(b'--b\r\nContent-Disposition: form-data; name="photo"; filename="p"\r\n\r\n')
        began = time.monotonic()
        connection.settimeout(0.2)
        answer = b""
        while not answer and time.monotonic() - began < 8:
            connection.sendall(b"-")
            try:
                answer = connection.recv(1000)
            except TimeoutError:
                continue
    assert b" 408 " in answer.splitlines()[0]
    assert 2 < time.monotonic() - began < 6


@pytest.mark.parametrize("length", ["-5", "1e3", "0x10", "5, 6"])
def test_a_length_that_is_no_length_is_malformed(server: Server, length: str):
    assert b" 400 " in raw(server, head(server, f"Content-Length: {length}")).splitlines()[0]


def test_bytes_beyond_the_length_are_not_taken_for_a_request(server: Server):
    lines = ("Content-Type: multipart/form-data; boundary=b", "Content-Length: 3")
    answer = raw(server, head(server, *lines) + b"--bGARBAGE\r\n\r\n")
    statuses = [line for line in answer.splitlines() if b"HTTP/" in line]
    assert all(b" 400 " in line or b" 422 " in line for line in statuses)


def test_headers_that_do_not_arrive_close_the_connection(server: Server):
    for start in (b"", b"POST /v1/remove HTTP/1.1\r\nHost: local"):
        began = time.monotonic()
        assert raw(server, start) == b""
        assert time.monotonic() - began < 3


def test_headers_have_a_size(server: Server):
    assert b" 431 " in raw(server, head(server, "X-Long: " + "y" * 40_000)).splitlines()[0]


@pytest.mark.parametrize(
    ("kind", "body", "status"),
    [
        ("multipart/form-data", b"--b--", 400),  # no boundary
        ("multipart/form-data; boundary=b", b"what is this", 400),
        ("multipart/form-data; boundary=b", b"--b\r\nContent-Disposition: form-data\r\n\r\nx\r\n--b--\r\n", 400),
        ("application/json", b"{}", 415),
        ("application/x-www-form-urlencoded", b"photo=http://example.org/a.jpg", 415),
        ("image/png", b"\x89PNG", 415),
        (None, b"x", 415),
    ],
)
def test_what_is_not_a_form_is_refused(server: Server, kind: str | None, body: bytes, status: int):
    headers = {"Content-Type": kind} if kind else {}
    answer = requests.post(f"{server.url}/v1/remove", data=body, headers=headers)
    assert answer.status_code == status
    assert message(answer)


def test_parts_are_counted_and_known_by_name(server: Server, parts: dict[str, Any]):
    url = f"{server.url}/v1/remove"
    assert requests.post(url, files={"mask": parts["mask"]}).status_code == 422
    extra = requests.post(url, files=parts, data={"url": "http://127.0.0.1/secret"})
    assert extra.status_code == 422
    assert "'url'" in message(extra)
    third = requests.post(url, files={**parts, "third": parts["mask"]})
    assert (third.status_code, message(third)) == (422, "'third' is no file of this form; the files are photo, mask")
    many = [*parts.items(), *((f"f{n}", parts["mask"]) for n in range(30))]
    assert requests.post(url, files=many).status_code == 400
    masked = requests.post(f"{server.url}/v1/preview", files=parts)
    assert (masked.status_code, message(masked)) == (422, "'mask' is no file of this form; the files are photo")
    assert requests.post(url, files=[("photo", parts["photo"])] * 2).status_code == 422
    assert requests.post(url, files=parts, data={"hints": " " * 3000}).status_code == 400
    assert requests.post(url, files=parts, data={f"f{n}": "1" for n in range(30)}).status_code == 400


@pytest.mark.parametrize(
    ("field", "value"),
    [("quality", "900"), ("quality", "high"), ("strength", "2"), ("strength", "nan"), ("grow_px", "1e9"),
     ("format", "exe"), ("hints", "[{}]"), ("hints", "{"), ("hints", '[{"points": [[1]]}]'), ("frame", "-1"),
     ("hints", '[{"points": [[1e999, 2]]}]'), ("max_pixels", "5")],
)  # fmt: skip
def test_options_are_checked(server: Server, parts: dict[str, Any], field: str, value: str):
    answer = requests.post(f"{server.url}/v1/remove", files=parts, data={field: value})
    assert answer.status_code == 422, answer.text
    assert field in message(answer) or "hint" in message(answer) or value in message(answer)


@pytest.mark.parametrize(
    ("field", "value", "line"),
    [("strength", "abc", "strength is 'abc'; give a number"), ("frame", "1.5", "frame is '1.5'; give a whole number"),
     ("raw", "perhaps", "raw is 'perhaps'; give true or false"),
     ("hints", '[{"point": [[9, 1]]}]',
      "hints[0]['point'] is '[[9, 1]]'; give a list in JSON, each with points or box")],
)  # fmt: skip
def test_a_wrong_kind_is_named_with_what_it_should_be(
    server: Server, parts: dict[str, Any], field: str, value: str, line: str
):
    answer = requests.post(f"{server.url}/v1/remove", files=parts, data={field: value})
    assert message(answer).startswith(line)


@pytest.mark.parametrize("data", [b"", b"<svg xmlns='http://www.w3.org/2000/svg'/>", b"<html><script>", b"%PDF-1.7"])
def test_what_is_not_a_picture_is_refused(server: Server, data: bytes):
    answer = requests.post(f"{server.url}/v1/remove", files={"photo": ("a.jpg", data)})
    assert answer.status_code == 415
    assert message(answer).startswith("photo")


def test_too_many_pixels_are_refused_from_the_header(server: Server):
    bomb = encoded(np.zeros((3000, 3000), np.uint8))
    assert requests.post(f"{server.url}/v1/remove", files={"photo": bomb}).status_code == 413


def test_names_of_files_are_nobodys_path(server: Server, parts: dict[str, Any]):
    for name in ("../../etc/passwd", 'a"b\r\nX-Evil: 1.png', "C:\\x.png", "\x00"):
        files = {**parts, "photo": (name, parts["photo"][1], "image/png")}
        answer = requests.post(f"{server.url}/v1/remove", files=files)
        assert answer.status_code == 200
        assert answer.headers["content-disposition"] == 'attachment; filename="no-shadow.png"'
        assert "x-evil" not in answer.headers


@pytest.mark.parametrize("host", ["evil.example", "evil.example:80", "10.0.0.1", "", "localhost.evil.example"])
def test_a_foreign_host_is_refused(server: Server, host: str):
    assert requests.get(f"{server.url}/v1/info", headers={"Host": host}).status_code == 400


@pytest.mark.parametrize(
    "headers",
    [{"Origin": "http://evil.example"}, {"Origin": "null"}, {"Sec-Fetch-Site": "cross-site"},
     {"Origin": "http://localhost:1"}],
)  # fmt: skip
def test_another_page_may_not_post(server: Server, headers: dict[str, str], parts: dict[str, Any]):
    answer = requests.post(f"{server.url}/v1/remove", files=parts, headers=headers)
    assert answer.status_code == 403
    assert "access-control-allow-origin" not in answer.headers
    own = requests.post(f"{server.url}/v1/remove", files=parts, headers={"Origin": server.url})
    assert own.status_code == 200


def test_every_answer_has_the_headers_that_keep_a_browser_safe(server: Server):
    for path in ("/", "/main.js", "/v1/info", "/nothing", "/metrics"):
        answer = requests.get(server.url + path)
        for name, value in HEADERS.items():
            assert answer.headers[name] == value
    assert requests.get(f"{server.url}/main.js").headers["content-type"].startswith("text/javascript")


def test_methods_paths_and_websockets_that_do_not_exist(server: Server):
    assert requests.get(f"{server.url}/v1/remove").status_code == 405
    assert requests.get(f"{server.url}/v1/nothing").status_code == 404
    assert requests.get(f"{server.url}/..%2f..%2fapp.py").status_code == 404
    lines = ("GET /v1/jobs HTTP/1.1", f"Host: localhost:{server.address[1]}", "Upgrade: websocket",
             "Connection: Upgrade, close", "Sec-WebSocket-Version: 13", "Sec-WebSocket-Key: AAAA", "", "")  # fmt: skip
    assert b" 405 " in raw(server, "\r\n".join(lines).encode(), seconds=3).splitlines()[0]
    lines = ("GET /socket HTTP/1.1", *lines[1:])
    assert b" 404 " in raw(server, "\r\n".join(lines).encode(), seconds=3).splitlines()[0]


def test_another_address_needs_a_token():
    with pytest.raises(ConfigError, match="token"):
        Server(host="0.0.0.0", port=0)


def test_a_token_is_asked_for_and_compared(parts: dict[str, Any]):
    with running(host="0.0.0.0", token="sesame") as server:
        url = f"{server.url}/v1/info"
        for headers in ({}, {"Authorization": "Bearer wrong"}, {"Authorization": "Bearer sesam\u00e9".encode()}):
            answer = requests.get(url, headers=headers)
            assert answer.status_code == 401
            assert answer.headers["www-authenticate"] == "Bearer"
        for scheme in ("Bearer", "bearer"):
            assert requests.get(url, headers={"Authorization": f"{scheme} sesame"}).status_code == 200
        assert requests.get(f"{server.url}/metrics").status_code == 401
        assert requests.get(f"{server.url}/healthz").status_code == 200
        assert requests.get(f"{server.url}/").status_code == 200


def test_bodies_together_have_a_limit(photo: np.ndarray):
    with running(limits=Limits(held_bytes=1000)) as server:
        answer = requests.post(f"{server.url}/v1/remove", files=photo_parts(photo))
    assert answer.status_code == 503
    assert int(answer.headers["retry-after"]) > 0


def test_a_client_that_leaves_in_the_middle_of_its_upload_is_no_fault_of_the_server():
    start = (
        b"POST /v1/remove HTTP/1.1\r\nHost: localhost\r\nContent-Type: multipart/form-data; boundary=x\r\n"
        b'Content-Length: 9000\r\n\r\n--x\r\nContent-Disposition: form-data; name="photo"; filename="a.png"\r\n\r\n'
    )
    with running() as server:
        with socket.create_connection(server.address, timeout=10) as connection:
            connection.sendall(start)
            time.sleep(0.2)
        wait_for(lambda: "/v1/remove" in requests.get(f"{server.url}/metrics").text)
        figures = requests.get(f"{server.url}/metrics").text
    assert 'status="400"' in figures
    assert 'status="500"' not in figures
