"""The command `shadowmaskformer`: parses, calls, prints.

Each module of this folder is one command: `HELP` (one line), `configure(parser)` and `run(args) -> exit code`.
Heavy rooms are imported inside `run`, so that `--help` answers at once.
"""

from __future__ import annotations

import argparse
import contextlib
import importlib
import importlib.metadata
import io
import os
import signal
import sys
import threading
from collections.abc import Generator
from typing import Any, TextIO

from shadowmaskformer import errors

COMMANDS = ("remove", "info", "convert", "export", "benchmark", "data", "train", "evaluate", "reproduce")

EXIT_OK, EXIT_SOME_FAILED, EXIT_USAGE, EXIT_NOTHING_DONE, EXIT_INTERRUPTED = 0, 1, 2, 3, 130


def build_parser(only: str | None = None) -> argparse.ArgumentParser:
    """The parser with all commands; arguments are filled in for `only` (all if None)."""
    parser = argparse.ArgumentParser(
        prog="shadowmaskformer",
        description="Remove cast shadows from photographs.",
        epilog="Start with: shadowmaskformer remove photo.jpg --mask mask.png\n"
        "`shadowmaskformer COMMAND --help` explains a command and shows examples.",
        formatter_class=lambda prog: argparse.RawDescriptionHelpFormatter(prog, max_help_position=16),
    )
    parser.add_argument("--version", action="version", version=importlib.metadata.version("shadowmaskformer"))
    commands = parser.add_subparsers(dest="command", metavar="COMMAND", required=True)
    for name in COMMANDS:
        module = importlib.import_module(f"shadowmaskformer.cli.{name}")
        command = commands.add_parser(
            name,
            help=module.HELP,
            description=module.__doc__,
            formatter_class=argparse.RawDescriptionHelpFormatter,
        )
        command.add_argument("--debug", action="store_true", help="show the traceback of an error")
        if only in (None, name):
            module.configure(command)
    return parser


def main(argv: list[str] | None = None) -> int:
    """Run one command; exit code 0 done, 1 some inputs failed, 2 usage, 3 nothing done, 130 interrupted."""
    argv = sys.argv[1:] if argv is None else argv
    only = next((word for word in argv if not word.startswith("-")), None)
    with _lasting_output():
        args = build_parser(only).parse_args(argv)
        _silence_decoders()
        code = _run(args)
        product = args.command == "info" or getattr(args, "json", False)
        if code == EXIT_OK and product and isinstance(sys.stdout, _Log) and (why := sys.stdout.lost()):
            return _failed(errors.OutputError(f"standard output: {why}; nothing was told"), False, EXIT_NOTHING_DONE)
        return code


def _run(args: argparse.Namespace) -> int:
    try:
        with _sigterm_as_interrupt():
            return importlib.import_module(f"shadowmaskformer.cli.{args.command}").run(args)
    except errors.ConfigError as error:
        return _failed(error, args.debug, EXIT_USAGE)
    except errors.ShadowMaskFormerError as error:
        return _failed(error, args.debug, EXIT_NOTHING_DONE)
    except KeyboardInterrupt:
        print("interrupted", file=sys.stderr)
        return EXIT_INTERRUPTED
    except OSError as error:
        from shadowmaskformer.files import shown

        where = shown(str(error.filename)) if error.filename else "a file"
        lost = errors.OutputError(f"{where}: {error.strerror or error}; mend that and run it again")
        lost.__cause__ = error
        return _failed(lost, args.debug, EXIT_NOTHING_DONE)
    except MemoryError:
        return _failed(
            errors.ImageTooLargeError("out of memory; give it a smaller picture"), args.debug, EXIT_NOTHING_DONE
        )


class _Log:
    """Standard output or error that never ends the work: what nobody reads any more is lost."""

    def __init__(self, stream: TextIO) -> None:
        self._stream, self._why = stream, ""
        if isinstance(stream, io.TextIOWrapper):
            # A terminal that has no `×` shows an escape instead.
            stream.reconfigure(errors="backslashreplace")

    def write(self, text: str) -> int:
        try:
            self._stream.write(text)
        except OSError as error:
            self._lose(error)
        return len(text)

    def flush(self) -> None:
        try:
            self._stream.flush()
        except OSError as error:
            self._lose(error)

    def lost(self) -> str:
        """Why something could not be written, but for a reader that went away, who has what he wanted."""
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
def _lasting_output() -> Generator[None]:
    before: tuple[Any, Any] = sys.stdout, sys.stderr
    # A closed standard error is None, for which `print` takes standard output.
    log = _Log(before[1] or io.StringIO())
    sys.stdout, sys.stderr = (before[0] and _Log(before[0])), log
    try:
        yield
    finally:
        for stream in filter(None, (sys.stdout, sys.stderr)):
            stream.flush()
        sys.stdout, sys.stderr = before


@contextlib.contextmanager
def _sigterm_as_interrupt() -> Generator[None]:
    """As on Ctrl-C: what is under way is tidied up, and no worker process stays behind."""
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    before = signal.signal(signal.SIGTERM, signal.default_int_handler)
    try:
        yield
    finally:
        signal.signal(signal.SIGTERM, before)


def _silence_decoders() -> None:
    """Pillow and tifffile grumble about odd tags on their own; what matters reaches the user as our warnings."""
    import logging
    import warnings

    warnings.filterwarnings("ignore", module="PIL")
    logging.getLogger("tifffile").propagate = False
    logging.getLogger("tifffile").addHandler(logging.NullHandler())
    logging.basicConfig(format="%(message)s", level=logging.WARNING)


def _failed(error: Exception, debug: bool, code: int) -> int:
    if debug:
        raise error
    text = error.said("command") if isinstance(error, errors.ShadowMaskFormerError) else str(error)
    line = "".join(c if c.isprintable() else repr(c)[1:-1] for c in text)
    print(f"shadowmaskformer: {line}", file=sys.stderr)
    return code
