"""The command `serve`, as a process of its own."""

from __future__ import annotations

import os
import re
import signal
import subprocess
import sys
from collections.abc import Generator
from contextlib import contextmanager
from pathlib import Path

import pytest
import requests

from shadowmaskformer.cli import main


@contextmanager
def serving(*options: str) -> Generator[tuple[subprocess.Popen[str], str]]:
    words = [sys.executable, "-m", "shadowmaskformer", "serve", "--port", "0", *options]
    process = subprocess.Popen(words, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    try:
        line = process.stdout.readline()
        yield process, re.search(r"http://\S+", line)[0]
    finally:
        process.kill()
        process.wait()
        process.stdout.close()
        process.stderr.close()


@pytest.mark.parametrize("end", [signal.SIGINT, signal.SIGTERM])
def test_it_says_where_it_is_and_ends_quietly(end: int):
    with serving("--no-browser") as (process, url):
        assert requests.get(f"{url}healthz", timeout=10).json() == {"status": "ok"}
        process.send_signal(end)
        assert process.wait(15) == 0
        assert process.stderr.read() == ""


def test_it_opens_the_browser_with_the_token(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    opened = tmp_path / "opened"
    browser = tmp_path / "browser"
    browser.write_text(f'#!/bin/sh\necho "$1" > {opened}.part && mv {opened}.part {opened}\n')
    browser.chmod(0o755)
    monkeypatch.setenv("BROWSER", f"{browser} %s")
    with serving("--token", "sesame") as (_, url):
        while not opened.exists():
            os.sched_yield()
        assert opened.read_text().strip() == url
        assert url.endswith("/#token=sesame")


def test_a_token_stays_whole_in_the_link():
    with serving("--no-browser", "--token", "a+b&c%") as (_, url):
        assert url.endswith("/#token=a%2Bb%26c%25")


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (["--host", "0.0.0.0"], "give --token"),
        (["--port", "99999"], "port is 99999"),
        (["--workers", "0"], "workers is 0"),
        (["--token", "pässword"], "plain letters"),
        (["--device", "banana"], "banana"),
    ],
)
def test_wrong_options_are_named(options: list[str], message: str, capsys: pytest.CaptureFixture[str]):
    assert main(["serve", "--no-browser", *options]) == 2
    assert message in capsys.readouterr().err


def test_a_port_that_is_taken_is_named(capsys: pytest.CaptureFixture[str]):
    with serving("--no-browser") as (_, url):
        port = url.split(":")[-1].strip("/")
        assert main(["serve", "--no-browser", "--port", port]) == 3
    assert "choose another --port" in capsys.readouterr().err


def test_a_host_that_is_not_this_computer_is_named(capsys: pytest.CaptureFixture[str]):
    assert main(["serve", "--no-browser", "--host", "192.0.2.1", "--token", "secret"]) == 3
    assert "choose another --host" in capsys.readouterr().err


def test_without_the_extra_its_name_is_said(tmp_path: Path):
    (tmp_path / "uvicorn.py").write_text("raise ModuleNotFoundError('no uvicorn', name='uvicorn')\n")
    done = subprocess.run(
        [sys.executable, "-m", "shadowmaskformer", "serve"],
        env={**os.environ, "PYTHONPATH": str(tmp_path)}, capture_output=True, text=True,
    )  # fmt: skip
    assert done.returncode == 3
    assert "shadowmaskformer[serve]" in done.stderr
    assert len(done.stderr.splitlines()) == 1


def test_it_says_where_a_phone_finds_it():
    with serving("--no-browser", "--host", "0.0.0.0", "--token", "abc") as (process, _):
        found = re.search(r"(http://[\d.]+:\d+)/#token=abc", process.stdout.readline())
        assert found is not None
        assert requests.get(f"{found[1]}/healthz", timeout=10).json() == {"status": "ok"}


def test_it_serves_other_weights_and_misses_them_at_once(tiny_weights: Path, capsys: pytest.CaptureFixture[str]):
    assert main(["serve", "--no-browser", "--port", "0", "--weights", "nowhere/at-all"]) == 3
    assert "nowhere/at-all" in capsys.readouterr().err
    assert main(["serve", "--no-browser", "--port", "0", "--weights", "detector"]) == 3
    assert "kind 'detector'" in capsys.readouterr().err
    photo = Path(__file__).parents[2] / "src/shadowmaskformer/assets/demo-photo.jpg"
    with serving("--no-browser", "--weights", str(tiny_weights)) as (_, url), photo.open("rb") as file:
        assert requests.post(f"{url}v1/remove", files={"photo": file}, timeout=60).status_code == 200
