"""A server that runs in this process, and workers that do as they are told."""

from __future__ import annotations

import contextlib
import socket
import threading
import time
from collections.abc import Callable, Generator
from typing import Any

import numpy as np
import requests

from pictures import encoded
from shadowmaskformer.errors import WorkerDiedError
from shadowmaskformer.serve import app as app_module
from shadowmaskformer.serve.limits import Limits
from shadowmaskformer.serve.server import Server


@contextlib.contextmanager
def running(**options: Any) -> Generator[Server]:
    server = Server(**{"port": 0, "workers": 1, **options})
    thread = threading.Thread(target=server.serve_forever, daemon=True)
    thread.start()
    try:
        wait_for(lambda: server.started)
        yield server
    finally:
        server.should_exit = True
        thread.join(15)
        assert not thread.is_alive()


def wait_for(what: Callable[[], Any], seconds: float = 10) -> Any:
    end = time.monotonic() + seconds
    while not (found := what()):
        assert time.monotonic() < end, "it did not happen"
        time.sleep(0.01)
    return found


class Gate:
    """In place of a worker: holds each job until it is let through, or killed."""

    pid = None

    def __init__(self) -> None:
        self.open, self.killed, self.busy = threading.Event(), threading.Event(), threading.Event()
        self.taken = 0

    def watch(self, heard: Callable[[float], None], function: Callable[..., Any], *arguments: Any) -> Any:
        heard(0.25)
        self.taken += 1
        self.busy.set()
        try:
            while not self.open.wait(0.01):
                if self.killed.is_set():
                    self.killed.clear()
                    raise WorkerDiedError("killed")
            return app_module.tasks.Answer(b"done", "image/png", {})
        finally:
            self.busy.clear()

    def call(self, function: Callable[..., Any]) -> None:
        """Warm up; there is nothing to load."""

    def kill(self) -> None:
        if self.busy.is_set():
            self.killed.set()

    close = kill

    def join(self) -> None:
        pass


@contextlib.contextmanager
def gated(monkeypatch: Any, **limits: Any) -> Generator[tuple[Server, Gate]]:
    """A server whose one worker is a gate."""
    gate = Gate()
    monkeypatch.setattr("shadowmaskformer.serve.server.Worker", lambda **_: gate)
    with running(limits=Limits(**limits)) as server:
        yield server, gate


def photo_parts(photo: np.ndarray, mask: np.ndarray | None = None) -> dict[str, Any]:
    parts = {"photo": ("photo.png", encoded(photo), "image/png")}
    if mask is not None:
        parts["mask"] = ("mask.png", encoded(mask), "image/png")
    return parts


def raw(server: Server, request: bytes, seconds: float = 10) -> bytes:
    """Send bytes as they are and return all that comes back until the connection closes or time is up."""
    with socket.create_connection(server.address, timeout=seconds) as connection:
        connection.sendall(request)
        answer = b""
        with contextlib.suppress(TimeoutError, ConnectionResetError):
            while part := connection.recv(65536):
                answer += part
        return answer


def message(answer: requests.Response) -> str:
    assert answer.headers["content-type"] == "application/json"
    return answer.json()["error"]["message"]
