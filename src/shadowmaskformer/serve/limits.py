"""What a request may cost, and where it may come from: checked before any of it is parsed."""

from __future__ import annotations

import asyncio
import hmac
import ipaddress
import json
import socket
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Any

import h11
from starlette.types import ASGIApp, Message, Receive, Scope, Send
from uvicorn.protocols.http.h11_impl import H11Protocol

from shadowmaskformer.errors import RequestError, ShadowMaskFormerError

LOOPBACK = ("localhost", "127.0.0.1", "::1")
WITH_TOKEN = ("/v1/", "/metrics")
"""Where the paths begin that ask for a token, if the server has one: the page itself and its health do not."""

HEADERS = {
    "Content-Security-Policy": "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' blob: data:; "
    "connect-src 'self'; manifest-src 'self'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'",
    "X-Content-Type-Options": "nosniff",
    "Referrer-Policy": "no-referrer",
    "Cross-Origin-Opener-Policy": "same-origin",
    "Cross-Origin-Resource-Policy": "same-origin",
    "Permissions-Policy": "camera=(), geolocation=(), microphone=()",
}

_RETRY_AFTER_S = 30  # when nobody knows better


@dataclass(frozen=True)
class Limits:
    """What one request, one client and the whole server may take.

    Attributes:
        body_bytes: of one request.
        held_bytes: of all request bodies at one time, and of all photos whose jobs outlive their request.
        pixels: of a photo or a mask.
        field_bytes: of one field that is not a file.
        header_bytes: of the request line and all headers.
        header_s: seconds from the first byte of a request, or from the connection, to the end of its headers.
        idle_s: seconds that a body may pause.
        body_s: seconds until the whole body has arrived.
        job_s: seconds that one job may run.
        waiting: jobs that may wait.
        share: jobs that one client may have waiting or running.
        kept_s: seconds that a result waits to be fetched, and that a job goes on which its client does not ask for.
        kept_bytes: of all results that wait to be fetched.
    """

    body_bytes: int = 96 << 20
    held_bytes: int = 512 << 20
    pixels: int = 50_000_000
    field_bytes: int = 64 << 10
    header_bytes: int = 16 << 10
    header_s: float = 10
    idle_s: float = 10
    body_s: float = 120
    job_s: float = 120
    waiting: int = 32
    share: int = 16
    kept_s: float = 120
    kept_bytes: int = 256 << 20


def problem(error: ShadowMaskFormerError) -> dict[str, Any]:
    """Return an error as the API writes it."""
    return {"error": {"type": type(error).__name__, "message": error.said("http")}}


def error_headers(error: ShadowMaskFormerError) -> dict[str, str]:
    """Return the headers that belong to an error: when to come back, how to log in."""
    headers = {"Cache-Control": "no-store"}
    retry_after = error.retry_after if isinstance(error, RequestError) else None
    if retry_after is None and error.http_status == 503:
        retry_after = _RETRY_AFTER_S
    if retry_after is not None:
        headers["Retry-After"] = str(retry_after)
    if error.http_status == 401:
        headers["WWW-Authenticate"] = "Bearer"
    if error.http_status in (408, 413):
        headers["Connection"] = "close"  # the rest of the body is not wanted
    return headers


class Guard:
    """Middleware around the whole application: hosts, origins, token, bytes and time of a body, headers of an answer.

    Args:
        app: what is guarded.
        limits: see `Limits`.
        host: the address that the server listens on.
        token: what every request to the API must bring; None asks for none.
        answered: told the route and the status of each answer.
    """

    def __init__(
        self,
        app: ASGIApp,
        *,
        limits: Limits,
        host: str,
        token: str | None = None,
        answered: Callable[[str, int], None] = lambda route, status: None,
    ) -> None:
        self._app, self._limits, self._token, self._answered = app, limits, token, answered
        self._any_address = host in ("", "0.0.0.0", "::")
        self._hosts = {*LOOPBACK, host.lower(), socket.gethostname().lower()}
        self._held = 0

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Serve one request, or refuse it."""
        if scope["type"] == "lifespan":
            await self._app(scope, receive, send)
            return
        if scope["type"] != "http":
            await send({"type": "websocket.close", "code": 1000})
            return

        def started(status: int) -> None:
            self._answered(getattr(scope.get("route"), "path", "other"), status)

        guarded = _with_headers(send, started)
        try:
            self._check(scope)
            body = _Body(receive, self, _declared(scope))
        except RequestError as error:
            await _drain(receive)
            await _answer(guarded, error)
            return
        try:
            await self._app(scope, body.receive, guarded)
        finally:
            self._held -= body.count

    def _check(self, scope: Scope) -> None:
        """Raise RequestError for a request from elsewhere."""
        headers = {name: value.decode("latin-1") for name, value in scope["headers"]}
        if sum(len(name) + len(value) for name, value in scope["headers"]) > self._limits.header_bytes:
            raise RequestError("the headers are too long", status=431)
        host = headers.get(b"host", "")
        if not self._is_ours(_name_of(host)):
            raise RequestError(f"this server is not called {host!r}", "use the address that it printed", status=400)
        if scope["method"] not in ("GET", "HEAD", "OPTIONS"):
            origin, site = headers.get(b"origin"), headers.get(b"sec-fetch-site", "none")
            foreign = origin is not None and origin.partition("://")[2].lower() != host.lower()
            if foreign or site not in ("same-origin", "none"):
                raise RequestError("another page may not use this server", status=403)
        if self._token and scope["path"].startswith(WITH_TOKEN):
            scheme, _, given = headers.get(b"authorization", "").partition(" ")
            given = given if scheme.lower() == "bearer" else ""
            if not hmac.compare_digest(given.encode(), self._token.encode()):
                raise RequestError("the token is missing or wrong", "send it as `Authorization: Bearer …`", status=401)

    def _is_ours(self, name: str) -> bool:
        if name in self._hosts:
            return True
        try:
            ipaddress.ip_address(name)
        except ValueError:
            return False
        return self._any_address

    def take(self, count: int, so_far: int) -> None:
        """Count bytes of a body that has `so_far` already; raise RequestError when they are too many."""
        if so_far + count > self._limits.body_bytes:
            most = self._limits.body_bytes >> 20
            raise RequestError(f"the request has more than {most} MB", "send a smaller file", status=413)
        if self._held + count > self._limits.held_bytes:
            raise RequestError("the server is receiving too much at once", "try again", status=503, retry_after=2)
        self._held += count

    @property
    def patience(self) -> tuple[float, float]:
        """Seconds that a body may pause, and until all of it must be there."""
        return self._limits.idle_s, self._limits.body_s

    @property
    def body_bytes(self) -> int:
        """Most bytes of one body."""
        return self._limits.body_bytes


class _Body:
    """The body of one request, counted and timed while it arrives."""

    def __init__(self, receive: Receive, guard: Guard, declared: int | None) -> None:
        if declared is not None and declared > guard.body_bytes:
            guard.take(declared, 0)
        self._receive, self._guard = receive, guard
        self._ends = asyncio.get_running_loop().time() + guard.patience[1]
        self._whole, self.count = False, 0

    async def receive(self) -> Message:
        if self._whole:  # only the client's leaving can follow
            return await self._receive()
        left = self._ends - asyncio.get_running_loop().time()
        try:
            message = await asyncio.wait_for(self._receive(), max(0, min(self._guard.patience[0], left)))
        except TimeoutError as error:
            raise RequestError("the request arrives too slowly, or is shorter than it says", status=408) from error
        if message["type"] == "http.request":
            count = len(message.get("body", b""))
            try:
                self._guard.take(count, self.count)
            except RequestError:
                await _drain(self._receive)
                raise
            self.count += count
            self._whole = not message.get("more_body", False)
        return message


async def _drain(receive: Receive, seconds: float = 3) -> None:
    """Read and forget the rest of a body, for a while: a client that is still sending would not see the answer."""
    try:
        async with asyncio.timeout(seconds):
            while (await receive()).get("more_body", False):
                pass
    except TimeoutError:
        pass


def _declared(scope: Scope) -> int | None:
    lengths = [value for name, value in scope["headers"] if name == b"content-length"]
    return int(lengths[0]) if lengths and lengths[0].isdigit() else None


def _name_of(host: str) -> str:
    """Return the name in a Host header, without the port.

    >>> [_name_of(host) for host in ("localhost:8000", "[::1]:8000", "Example.org")]
    ['localhost', '::1', 'example.org']
    """
    if host.startswith("["):
        return host[1:].partition("]")[0].lower()
    return host.partition(":")[0].lower()


def _with_headers(send: Send, started: Callable[[int], None]) -> Send:
    async def guarded(message: Message) -> None:
        if message["type"] == "http.response.start":
            started(message["status"])
            own: Iterable[tuple[bytes, bytes]] = message.get("headers", ())
            extra = [(name.lower().encode(), value.encode()) for name, value in HEADERS.items()]
            message = {**message, "headers": [*own, *extra]}
        await send(message)

    return guarded


async def _answer(send: Send, error: RequestError) -> None:
    data = json.dumps(problem(error)).encode()
    headers = {"Content-Type": "application/json", "Content-Length": str(len(data)), "Connection": "close"}
    pairs = [(name.lower().encode(), value.encode()) for name, value in (headers | error_headers(error)).items()]
    await send({"type": "http.response.start", "status": error.http_status, "headers": pairs})
    await send({"type": "http.response.body", "body": data})


def protocol(seconds: float) -> type[H11Protocol]:
    """Return uvicorn's HTTP protocol with a deadline for the headers of a request, which it lacks."""

    class Protocol(H11Protocol):
        _deadline: asyncio.TimerHandle | None = None

        def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
            super().connection_made(transport)
            self._watch()

        def data_received(self, data: bytes) -> None:
            super().data_received(data)
            self._watch()

        def connection_lost(self, exc: Exception | None) -> None:
            super().connection_lost(exc)
            if self._deadline:
                self._deadline.cancel()

        def _watch(self) -> None:
            expecting = self.conn.their_state is h11.IDLE
            if expecting and self._deadline is None:
                self._deadline = self.loop.call_later(seconds, self._give_up)
            elif not expecting and self._deadline is not None:
                self._deadline.cancel()
                self._deadline = None

        def _give_up(self) -> None:
            self.transport.abort()

    return Protocol
