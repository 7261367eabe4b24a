"""The command `shadowmaskformer`: parses, calls, prints.

Each module of this folder is one command: `HELP` (one line), `configure(parser)` and `run(args) -> exit code`.
Heavy rooms are imported inside `run`, so that `--help` answers at once.
"""

from __future__ import annotations

import argparse
import importlib
import importlib.metadata
import sys
from typing import Any, NoReturn

from shadowmaskformer import errors
from shadowmaskformer.cli import console
from shadowmaskformer.cli.console import EXIT_INTERRUPTED, EXIT_OK, EXIT_SOME_FAILED

__all__ = ["EXIT_INTERRUPTED", "EXIT_OK", "EXIT_SOME_FAILED", "build_parser", "main"]

COMMANDS = (
    "remove", "mask", "serve", "info", "convert", "export", "benchmark", "data", "train", "evaluate", "reproduce",
)  # fmt: skip


class _Parser(argparse.ArgumentParser):
    """Takes photos before, between and after the options."""

    _mixing = False

    def parse_known_args(self, args: Any = None, namespace: Any = None) -> Any:  # pyright: ignore[reportIncompatibleMethodOverride]
        # The standard library offers this for a whole command line, but not for one with commands; and it would take
        # what follows `--` for options.
        if self._mixing or self._subparsers is not None or "--" in (args or ()):
            return super().parse_known_args(args, namespace)
        self._mixing = True
        try:
            return self.parse_known_intermixed_args(args, namespace)
        finally:
            self._mixing = False


class _RaisingParser(_Parser):
    """Raises what is wrong with the arguments, instead of printing it and ending the process."""

    def error(self, message: str) -> NoReturn:
        raise errors.ConfigError(message, f"`{self.prog} --help` explains the arguments")


def build_parser(only: str | None = None, kind: type[argparse.ArgumentParser] = _Parser) -> argparse.ArgumentParser:
    """The parser, of a `kind`, with all commands; arguments are filled in for `only` (all if None)."""
    parser = kind(
        prog="shadowmaskformer",
        description="Remove cast shadows from photographs.",
        epilog="Start with: shadowmaskformer remove photo.jpg\n"
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
    """Run one command; exit code 0 done, 1 some failed, 2 usage, 3 nothing done, 4 no shadow, 130 interrupted."""
    argv = sys.argv[1:] if argv is None else argv
    only = next((word for word in argv if not word.startswith("-")), None)
    with console.lasting_output():
        try:
            kind = _RaisingParser if "--json" in argv else _Parser
            args = build_parser(only, kind).parse_args(argv)
        except errors.ConfigError as error:
            return console.failed(error, debug=False, as_json=True)
        _silence_decoders()
        code = _run(args)
        # Other commands write files, and what they print about these may be lost.
        product = args.command in ("info", "data", "evaluate") or any(vars(args).get(name) for name in ("json", "list"))
        if code == EXIT_OK and product and isinstance(sys.stdout, console.Log) and (why := sys.stdout.lost()):
            return console.failed(errors.OutputError(f"standard output: {why}", "the report was lost"), debug=False)
        return code


def _run(args: argparse.Namespace) -> int:
    try:
        with console.interruptible():
            return importlib.import_module(f"shadowmaskformer.cli.{args.command}").run(args)
    except errors.ShadowMaskFormerError as error:
        failure = error
    except KeyboardInterrupt:
        print("interrupted", file=sys.stderr)
        return EXIT_INTERRUPTED
    except OSError as error:
        from shadowmaskformer.files import shown

        where = shown(str(error.filename)) if error.filename else "a file"
        failure = errors.OutputError(f"{where}: {error.strerror or error}", "fix this and try again")
        failure.__cause__ = error
    except MemoryError:
        failure = errors.ImageTooLargeError(
            "there is not enough memory", "close other programs or use a smaller picture"
        )
    return console.failed(failure, debug=args.debug, as_json=getattr(args, "json", False))


def _silence_decoders() -> None:
    """Pillow and tifffile complain about odd tags by themselves; what matters reaches the user as our warnings."""
    import logging
    import warnings

    warnings.filterwarnings("ignore", module="PIL")
    logging.getLogger("tifffile").propagate = False
    logging.getLogger("tifffile").addHandler(logging.NullHandler())
    logging.basicConfig(format="%(message)s", level=logging.WARNING)
