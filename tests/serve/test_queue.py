"""The queue: shares, cancelling, progress, and jobs that nobody asks for any more."""

from __future__ import annotations

import asyncio
import socket
import threading
import time
from typing import Any

import numpy as np
import pytest
import requests

from serve.running import Gate, gated, message, photo_parts, running, wait_for
from shadowmaskformer.serve.limits import Limits
from shadowmaskformer.serve.metrics import Metrics
from shadowmaskformer.serve.queue import Job, Queue
from shadowmaskformer.serve.server import Server


@pytest.fixture
def parts(photo: np.ndarray, mask: np.ndarray) -> dict[str, Any]:
    return photo_parts(photo, mask)


def start(server: Server, parts: dict[str, Any]) -> requests.Response:
    return requests.post(f"{server.url}/v1/jobs", files=parts)


def state(server: Server, id: str) -> str:
    return requests.get(f"{server.url}/v1/jobs/{id}").json()["state"]


def test_a_client_over_its_share_and_a_full_queue_are_told_when_to_come_back(monkeypatch: Any, parts: dict[str, Any]):
    size = sum(len(part[1]) for part in parts.values())
    for limits, status in (({"share": 2}, 429), ({"waiting": 1}, 503), ({"held_bytes": 5 * size // 2}, 503)):
        with gated(monkeypatch, **limits) as (server, gate):
            first = start(server, parts)
            assert first.status_code == 202
            wait_for(gate.busy.is_set)
            assert start(server, parts).status_code == 202
            refused = start(server, parts)
            assert refused.status_code == status
            assert int(refused.headers["retry-after"]) >= 1
            assert requests.get(f"{server.url}/healthz").status_code == 200
            gate.open.set()
            wait_for(lambda: start(server, parts).status_code == 202)


def test_a_job_is_followed_and_fetched(monkeypatch: Any, parts: dict[str, Any]):
    with gated(monkeypatch) as (server, gate):
        answer = start(server, parts)
        job = answer.json()
        path = server.url + answer.headers["location"]
        assert len(job["id"]) == 32
        wait_for(lambda: state(server, job["id"]) == "running")
        second = start(server, parts).json()
        assert (second["state"], second["place"]) == ("waiting", 0)
        assert requests.get(f"{path}/result").status_code == 409
        assert requests.get(path).json()["progress"] == 0.25  # as the worker says
        gate.open.set()
        wait_for(lambda: state(server, job["id"]) == "done")
        assert requests.get(path).json()["progress"] == 1
        assert requests.get(f"{path}/result").content == b"done"


def test_cancelling_twice_or_too_late_changes_nothing(monkeypatch: Any, parts: dict[str, Any]):
    with gated(monkeypatch) as (server, gate):
        running_job, waiting = (start(server, parts).json()["id"] for _ in range(2))
        wait_for(gate.busy.is_set)
        for id in (waiting, running_job, running_job):
            assert requests.delete(f"{server.url}/v1/jobs/{id}").json()["state"] == "cancelled"
        assert requests.get(f"{server.url}/v1/jobs/{waiting}/result").status_code == 409
        wait_for(lambda: not gate.busy.is_set())
        gate.open.set()
        done = start(server, parts).json()["id"]
        wait_for(lambda: state(server, done) == "done")
        assert requests.delete(f"{server.url}/v1/jobs/{done}").json()["state"] == "done"
        assert requests.get(f"{server.url}/v1/jobs/{done}/result").status_code == 404  # forgotten, with its bytes


def test_unknown_jobs_are_not_found(monkeypatch: Any):
    with gated(monkeypatch) as (server, _):
        for id in ("0" * 32, "x", "%00"):
            assert requests.get(f"{server.url}/v1/jobs/{id}").status_code == 404
            assert requests.delete(f"{server.url}/v1/jobs/{id}").status_code == 404


def test_a_client_that_leaves_cancels_its_request(monkeypatch: Any, parts: dict[str, Any]):
    with gated(monkeypatch) as (server, gate):
        request = requests.Request("POST", f"{server.url}/v1/remove", files=parts).prepare()
        lines = [f"{name}: {value}" for name, value in request.headers.items()]
        head = "\r\n".join(("POST /v1/remove HTTP/1.1", f"Host: {server.url[7:]}", *lines, "", ""))
        with socket.create_connection(server.address) as connection:
            connection.sendall(head.encode() + request.body)
            wait_for(gate.busy.is_set)
        wait_for(lambda: not gate.busy.is_set())


def test_a_job_that_takes_too_long_is_ended(monkeypatch: Any, parts: dict[str, Any]):
    with gated(monkeypatch, job_s=0.3) as (server, gate):
        answer = requests.post(f"{server.url}/v1/remove", files=parts)
        assert answer.status_code == 503
        assert "0.3 s" in message(answer)
        wait_for(lambda: not gate.busy.is_set())


def test_what_nobody_asks_for_is_forgotten(monkeypatch: Any, parts: dict[str, Any]):
    with gated(monkeypatch, kept_s=0.4) as (server, gate):
        job = start(server, parts).json()["id"]
        wait_for(gate.busy.is_set)
        wait_for(lambda: not gate.busy.is_set())  # given up, although it is not done
        assert requests.get(f"{server.url}/v1/jobs/{job}").status_code == 404


def test_results_that_nobody_fetches_are_forgotten(monkeypatch: Any, parts: dict[str, Any]):
    with gated(monkeypatch, kept_s=0.4) as (server, gate):
        gate.open.set()
        for _ in range(2):  # whoever tidies up has to live on
            job = start(server, parts).json()["id"]
            time.sleep(1.5)  # not asked meanwhile, which would keep it
            assert requests.get(f"{server.url}/v1/jobs/{job}").status_code == 404


def test_results_that_wait_have_a_limit(monkeypatch: Any, parts: dict[str, Any]):
    with gated(monkeypatch, kept_bytes=6) as (server, gate):
        gate.open.set()
        jobs = [start(server, parts).json()["id"] for _ in range(3)]
        wait_for(lambda: requests.get(f"{server.url}/v1/jobs/{jobs[0]}").status_code == 404)
        assert requests.get(f"{server.url}/v1/jobs/{jobs[-1]}/result").content == b"done"


def test_a_full_store_of_results_ends_no_job_that_has_none_yet(monkeypatch: Any, parts: dict[str, Any]):
    gates = [Gate(), Gate()]
    unused = iter(gates)
    monkeypatch.setattr("shadowmaskformer.serve.server.Worker", lambda **_: next(unused))
    with running(workers=2, limits=Limits(kept_bytes=2)) as server:
        slow = start(server, parts).json()["id"]
        wait_for(lambda: any(gate.busy.is_set() for gate in gates))
        free = next(gate for gate in gates if not gate.busy.is_set())
        free.open.set()
        done = start(server, parts).json()["id"]
        wait_for(lambda: requests.get(f"{server.url}/v1/jobs/{done}").status_code == 404)
        assert state(server, slow) == "running"


def test_stopping_answers_what_is_open(monkeypatch: Any, parts: dict[str, Any]):
    answers: list[requests.Response] = []
    with gated(monkeypatch) as (server, gate):
        asking = [
            threading.Thread(target=lambda: answers.append(requests.post(f"{server.url}/v1/remove", files=parts)))
            for _ in range(2)
        ]
        for ask in asking:
            ask.start()
        wait_for(gate.busy.is_set)
        wait_for(lambda: "jobs_waiting 1" in requests.get(f"{server.url}/metrics").text)
    for ask in asking:
        ask.join(10)
    assert [answer.status_code for answer in answers] == [503, 503]


def test_what_waits_when_it_stops_is_never_begun():
    async def stopped() -> list[str]:
        queue = Queue([gate], Limits(), Metrics())  # type: ignore[list-item]
        jobs = [Job("remove", "somebody", lambda *_: None, (), 1) for _ in range(2)]  # type: ignore[arg-type, return-value]
        await queue.start()
        for job in jobs:
            await queue.submit(job)
        while not gate.busy.is_set():
            await asyncio.sleep(0.01)
        queue.drop()
        gate.open.set()
        await asyncio.sleep(0.2)
        await queue.stop()
        return [job.state for job in jobs]

    gate = Gate()
    assert asyncio.run(stopped()) == ["failed", "failed"]
    assert gate.taken == 1


def test_a_mistake_in_a_task_is_no_secret_and_no_end(monkeypatch: Any, parts: dict[str, Any]):
    def broken(self: Gate, *_: Any) -> Any:
        raise RuntimeError("secret")

    monkeypatch.setattr(Gate, "watch", broken)
    with gated(monkeypatch) as (server, _):
        for _ in range(2):
            answer = requests.post(f"{server.url}/v1/remove", files=parts)
            assert answer.status_code == 500
            assert "secret" not in answer.text
