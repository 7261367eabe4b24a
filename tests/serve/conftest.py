"""A server, and its page in real Chromium."""

from __future__ import annotations

from collections.abc import Generator

import pytest
from playwright.sync_api import Browser, Page

from serve.browser import chromium, opened
from serve.running import running
from shadowmaskformer.serve.server import Server


@pytest.fixture(scope="module")
def browser() -> Generator[Browser]:
    with chromium() as browser:
        yield browser


@pytest.fixture(scope="module")
def server() -> Generator[Server]:
    with running(workers=2) as server:
        yield server


@pytest.fixture
def page(browser: Browser, server: Server) -> Generator[Page]:
    with opened(browser, server.url) as page:
        yield page
