"""A server that runs: the application behind its guard, on a socket."""

from __future__ import annotations

import errno
import logging
import socket
from contextlib import suppress
from typing import Any

import uvicorn

from shadowmaskformer.batch import Worker
from shadowmaskformer.errors import ConfigError, OutputError
from shadowmaskformer.machine import usable_cores
from shadowmaskformer.serve.app import create_app
from shadowmaskformer.serve.limits import LOOPBACK, Guard, Limits, protocol

DEFAULT_PORT = 8430
NICENESS = 5
"""Of the workers: the server itself and the browser that shows the page come first."""


class Server(uvicorn.Server):
    """The page and the API at one address.

    Args:
        host: address to listen on; any other than this computer's own needs a token.
        port: to listen on; 0 takes a free one.
        token: what every request must bring.
        workers: processes that do the work; None chooses.
        limits: see `Limits`.
        **arguments: of the `ShadowRemover` in each worker.

    Raises:
        ConfigError: another address without a token, or a token, port or number of workers that cannot be.
        OutputError: the address is taken.
    """

    def __init__(
        self,
        *,
        host: str = "127.0.0.1",
        port: int = DEFAULT_PORT,
        token: str | None = None,
        workers: int | None = None,
        limits: Limits | None = None,
        **arguments: Any,
    ) -> None:
        if token and not token.isascii():
            raise ConfigError("the token has letters that a header cannot carry", "use plain letters and digits")
        if host not in LOOPBACK and not token:
            raise ConfigError(f"others could use a server on {host}", "give {token=SECRET}")
        if not 0 <= port <= 65535:
            raise ConfigError(f"port is {port}", "give {port} as 0 to 65535")
        if workers is not None and workers < 1:
            raise ConfigError(f"workers is {workers}", "give at least 1")
        limits = limits or Limits()
        count = workers or min(2, usable_cores())
        self.workers = [
            Worker(niceness=NICENESS, **{"threads": max(1, usable_cores() // count), **arguments}) for _ in range(count)
        ]
        app = create_app(self.workers, limits)
        self.app = app
        self._socket = _bound(host, port)
        super().__init__(
            uvicorn.Config(
                Guard(app, limits=limits, host=host, token=token, answered=app.state.metrics.answered),
                http=protocol(limits.header_s),
                h11_max_incomplete_event_size=limits.header_bytes,
                ws="none",
                lifespan="on",
                access_log=False,
                log_level=logging.WARNING,
                server_header=False,
                proxy_headers=False,
                timeout_graceful_shutdown=3,
            )
        )

    @property
    def address(self) -> tuple[str, int]:
        """Host and port that it listens on."""
        host, port = self._socket.getsockname()[:2]
        return host, port

    @property
    def url(self) -> str:
        """Where the page is, from this computer."""
        host, port = self.address
        name = "localhost" if host in ("0.0.0.0", "::", *LOOPBACK) else f"[{host}]" if ":" in host else host
        return f"http://{name}:{port}"

    @property
    def url_for_others(self) -> str | None:
        """Where the page is, from other computers, if it listens on all addresses of this one; None if not."""
        host, port = self.address
        if host not in ("0.0.0.0", "::"):
            return None
        with suppress(OSError), socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as way:
            way.connect(("192.0.2.1", 9))  # sends nothing: the system only chooses the address to send from
            return f"http://{way.getsockname()[0]}:{port}"
        return None

    async def shutdown(self, sockets: list[socket.socket] | None = None) -> None:
        """Answer what is open, then stop."""
        self.app.state.queue.drop()
        await super().shutdown(sockets)

    def serve_forever(self) -> None:
        """Serve until a signal ends it."""
        self.run(sockets=[self._socket])


def _bound(host: str, port: int) -> socket.socket:
    try:
        family = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)[0][0]
        made = socket.socket(family, socket.SOCK_STREAM)
        try:
            made.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            made.bind((host, port))
            made.listen()  # from now on connections wait, so that the address may be printed
        except OSError:
            made.close()
            raise
    except OSError as error:
        wrong = "port" if error.errno in (errno.EADDRINUSE, errno.EACCES) else "host"
        raise OutputError(f"{host}:{port}: {error.strerror or error}", f"choose another {{{wrong}}}") from error
    return made
