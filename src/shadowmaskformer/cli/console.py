"""The terminal's side of a command: streams that may go away, signals, and how an error is shown."""

from __future__ import annotations

import contextlib
import io
import json
import os
import signal
import sys
import threading
from collections.abc import Generator
from typing import Any, BinaryIO, TextIO

from shadowmaskformer.errors import ConfigError, ImageReadError, OutputError, ShadowMaskFormerError

EXIT_OK, EXIT_SOME_FAILED, EXIT_INTERRUPTED = 0, 1, 130  # the rest is on the error classes


class Log:
    """Standard output or error that never ends the work: what nobody reads any more is lost."""

    def __init__(self, stream: TextIO) -> None:
        self._stream, self._why = stream, ""
        if isinstance(stream, io.TextIOWrapper):
            # A terminal that has no `×` shows an escape instead.
            stream.reconfigure(errors="backslashreplace")

    def write(self, text: str) -> int:
        """Write, or lose, the text."""
        try:
            self._stream.write(text)
        except OSError as error:
            self._lose(error)
        return len(text)

    def flush(self) -> None:
        """Flush, or lose, what was written."""
        try:
            self._stream.flush()
        except OSError as error:
            self._lose(error)

    def lost(self) -> str:
        """Return why something could not be written; a reader that went away does not count."""
        self.flush()
        return self._why

    def _lose(self, error: OSError) -> None:
        """Point the stream at nothing, so that the interpreter's last flush stays silent too."""
        if not isinstance(error, BrokenPipeError):
            self._why = self._why or error.strerror or str(error)
        with contextlib.suppress(OSError):
            os.dup2(os.open(os.devnull, os.O_WRONLY), self._stream.fileno())

    def __getattr__(self, name: str) -> Any:
        return getattr(self._stream, name)


@contextlib.contextmanager
def lasting_output() -> Generator[None]:
    """Let the command outlive its terminal."""
    before: tuple[Any, Any] = sys.stdout, sys.stderr
    # A closed standard error is None, for which `print` takes standard output.
    log = Log(before[1] or io.StringIO())
    sys.stdout, sys.stderr = (before[0] and Log(before[0])), log
    try:
        yield
    finally:
        for stream in filter(None, (sys.stdout, sys.stderr)):
            stream.flush()
        sys.stdout, sys.stderr = before


@contextlib.contextmanager
def interruptible() -> Generator[None]:
    """Turn Ctrl-C and SIGTERM into KeyboardInterrupt, so that work is tidied up and no worker stays behind."""
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    before = {each: signal.signal(each, signal.default_int_handler) for each in (signal.SIGINT, signal.SIGTERM)}
    try:
        yield
    finally:
        for each, handler in before.items():
            signal.signal(each, handler)


def read_stdin() -> bytes:
    """Return all of standard input."""
    if sys.stdin is None:
        raise ImageReadError("standard input is closed", "give the path of a picture")
    data = sys.stdin.buffer.read()
    if not data:
        raise ImageReadError("standard input is empty", "pipe a picture into it or give a path")
    return data


def check_stdout() -> None:
    """Find out before any work that standard output cannot take a picture."""
    if sys.stdout is None:
        raise OutputError("standard output is closed", "give {output} a file")
    if sys.stdout.isatty():
        raise ConfigError("standard output is a terminal, not a place for a picture", "redirect it or give -o FILE")


def write_stdout(data: bytes) -> None:
    """Write a picture to standard output, all of it."""
    stream: BinaryIO = sys.stdout.buffer
    rest = memoryview(data)
    try:
        while rest:
            # An unbuffered stream (PYTHONUNBUFFERED) may take only a part.
            rest = rest[stream.write(rest) :]
        stream.flush()
    except OSError as error:
        raise OutputError(f"standard output: the picture was lost ({error.strerror})", "give -o FILE") from error


def failed(error: ShadowMaskFormerError, *, debug: bool, as_json: bool = False) -> int:
    """Show an error as one line, or as JSON on standard output, and return its exit code."""
    if debug:
        raise error
    line = "".join(c if c.isprintable() else repr(c)[1:-1] for c in error.said("command"))
    if as_json:
        print(json.dumps({"error": {"type": type(error).__name__, "message": line}}))
    else:
        print(f"shadowmaskformer: {line}", file=sys.stderr)
    return error.exit_code
