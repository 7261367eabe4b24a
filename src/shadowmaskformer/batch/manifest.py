"""What became of each photo, and the file that remembers it: by the manifest a batch that was stopped goes on."""

from __future__ import annotations

import errno
import json
import os
from collections.abc import Iterable
from contextlib import suppress
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, Literal

from shadowmaskformer.batch.places import absolute
from shadowmaskformer.errors import Caller, NoShadowError, OutputError, ShadowMaskFormerError, said
from shadowmaskformer.files import as_output_error, make_folder, shown

MANIFEST = "shadowmaskformer-manifest.jsonl"

Status = Literal["done", "skipped", "failed", "left"]


@dataclass(frozen=True)
class Outcome:
    """What became of one photo of a batch.

    Attributes:
        photo: its path or URL.
        output: of its result.
        status: `done`; `skipped`, because an earlier run has done it; `failed`; or `left`, because the batch had to
            stop.
        mask: the mask that was used; None if there was none.
        error: why it failed; or that an earlier run found no shadow, if it was skipped for that.
        warnings: one line each, for the user.
        facts: what was done, as plain JSON types: width, height, share of shadow, bytes of the result.
        seconds: how long it took.
        fingerprint: of the photo, its mask and the settings, by which a change is noticed.
        comparison: the picture of before, mask and after that was written too; None if there was none.
    """

    photo: str
    output: str
    status: Status
    mask: str | None = None
    error: ShadowMaskFormerError | None = None
    warnings: tuple[str, ...] = ()
    facts: dict[str, Any] = field(default_factory=dict[str, Any])
    seconds: float = 0.0
    fingerprint: str = ""
    comparison: str | None = None

    def line(self, caller: Caller = "python") -> str:
        """Return the outcome as a line of JSON, in which errors and warnings speak to `caller`."""
        error = self.error
        return json.dumps({
            "input": self.photo, "mask": self.mask, "output": self.output, "compare": self.comparison,
            "status": self.status, **self.facts,
            "seconds": round(self.seconds, 3), "warnings": [said(line, caller) for line in self.warnings],
            "error": error and {"type": type(error).__name__, "message": error.said(caller)},
            "fingerprint": self.fingerprint,
        })  # fmt: skip


@dataclass(frozen=True)
class Earlier:
    """What the manifest knows of a photo that an earlier run has finished.

    Attributes:
        bytes: of the result that was written last; None if none ever was.
        fingerprint: of what the run was done with.
        bare: no shadow was found.
        compared: before, mask and after were written too.
    """

    bytes: int | None
    fingerprint: str
    bare: bool = False
    compared: bool = False


class Manifest:
    """A file of JSON lines, one for each photo that was done, failed or found done.

    Each line is written at once and in one piece. If the machine stops in the middle of one, it is passed over.
    """

    def __init__(self, path: Path) -> None:
        """Open the manifest, or make it.

        Raises:
            OutputError: it cannot be written, or is a file of another kind.
        """
        self._path, self._name = path, shown(path)
        self._made_folder = not path.parent.exists()
        make_folder(path.parent)
        try:
            text = path.read_bytes() if path.exists() else b""
            self._known, self._earlier = _parsed(text.split(b"\n"))
            # One line alone may have been torn when the machine stopped; more of them would not all be.
            torn = text.startswith(b"{") and b"\n" not in text
            if text and not self._known and not torn:
                raise OutputError(f"{self._name}: is not a manifest", "choose another {manifest}")
            self._file = os.open(path, os.O_RDWR | os.O_CREAT | os.O_APPEND, 0o666)
            if not text.endswith(b"\n") and text:
                self._write(b"\n")
        except OSError as error:
            raise as_output_error(error, self._name) from error

    def earlier(self, output: str) -> Earlier | None:
        """Return what is known of the photo with this result; None if no run was done with it."""
        return self._earlier.get(absolute(output))

    def record(self, outcome: Outcome) -> None:
        """Add a line; a photo that is skipped again and one that is left get none.

        Raises:
            OutputError: the line cannot be written.
        """
        paths = {name: vars(outcome)[name] for name in ("photo", "output", "mask", "comparison")}
        full = replace(outcome, **{name: path and absolute(path) for name, path in paths.items()})
        if full.status == "left" or (full.status == "skipped" and full.output in self._known):
            return
        try:
            self._write(full.line().encode() + b"\n")
        except OSError as error:
            raise as_output_error(error, self._name) from error

    def close(self) -> None:
        """Close the file; one without any line is taken away again."""
        empty = not os.fstat(self._file).st_size
        os.close(self._file)
        if empty:
            with suppress(OSError):
                self._path.unlink()
                if self._made_folder:
                    self._path.parent.rmdir()  # unless results are in it

    def _write(self, line: bytes) -> None:
        if os.write(self._file, line) < len(line):
            raise OSError(errno.ENOSPC, "the line was cut short")


def _parsed(lines: Iterable[bytes]) -> tuple[set[str], dict[str, Earlier]]:
    """Return the outputs that the lines name, and what is known of those whose photos were done with."""
    known: set[str] = set()
    earlier: dict[str, Earlier] = {}
    for line in lines:
        with suppress(ValueError, KeyError, TypeError):
            values = json.loads(line)
            known.add(values["output"])
            if values["status"] == "done":
                compared = values.get("compare") is not None
                earlier[values["output"]] = Earlier(values["bytes"], values["fingerprint"], compared=compared)
            elif (values["error"] or {}).get("type") == NoShadowError.__name__:
                written = earlier.get(values["output"])
                earlier[values["output"]] = Earlier(written and written.bytes, values["fingerprint"], bare=True)
    return known, earlier
