"""Every error that this package raises on purpose.

A message is one line: what was found and where, then the remedy. A remedy writes an option as `{name}` or
`{name=value}`, and each caller spells it in its own way: `overwrite=True` in Python, `--overwrite` on the command
line, `overwrite=true` over HTTP. Each class has an exit code and an HTTP status.
"""

from __future__ import annotations

import re
from functools import partial
from typing import ClassVar, Literal

Caller = Literal["python", "command", "http"]

_OPTION = re.compile(r"\{(\w+)(?:=([^{}]*))?\}")
_FLAGS = {
    "output": "-o",
    "grow_px": "--grow",
    "feather_px": "--feather",
    "hints": "--hint",
}  # the rest is spelled by rule


def first_line(error: Exception) -> str:
    """Return the first line that an error of another library says, or its kind where it says nothing.

    >>> first_line(ValueError("no such file\\nat 0x7f")), first_line(KeyError())
    ('no such file', 'KeyError')
    """
    return (str(error).strip().splitlines() or [type(error).__name__])[0]


def spell(text: str, caller: Caller) -> str:
    """Spell the options in `text` as `caller` writes them.

    >>> [spell("use {frame=2} or {overwrite=True}", caller) for caller in ("python", "command", "http")]
    ['use frame=2 or overwrite=True', 'use --frame 2 or --overwrite', 'use frame=2 or overwrite=true']
    """

    def option(match: re.Match[str]) -> str:
        name, value = match[1], match[2]
        bare = (value or "").strip("\"'")
        if caller == "command":
            flag = _FLAGS.get(name, "--" + name.replace("_", "-"))
            return flag if value in (None, "True") else f"{flag} {bare}"
        if caller == "http" and value is not None:
            value = bare.replace("True", "true")
        return name if value is None else f"{name}={value}"

    return _OPTION.sub(option, text)


def _line(message: str, remedy: str, caller: Caller) -> str:
    return f"{message}; {spell(remedy, caller)}" if remedy else message


class ShadowMaskFormerError(Exception):
    """Base class: catch this to catch everything below.

    Args:
        message: what was found, and where; printed as it is.
        remedy: what to do about it; options as `{name=value}`.
    """

    exit_code: ClassVar[int] = 3
    http_status: int = 422

    def __init__(self, message: str, remedy: str = "") -> None:
        super().__init__(message, remedy)
        self.message, self.remedy = message, remedy

    def said(self, caller: Caller) -> str:
        """Return the line as `caller` would write it."""
        return _line(self.message, self.remedy, caller)

    def __str__(self) -> str:
        return self.said("python")


class ImageReadError(ShadowMaskFormerError):
    """The file is missing, unreadable or damaged."""


class NotAnImageError(ShadowMaskFormerError):
    """The bytes are not a picture of a format we read."""

    http_status = 415


class ImageTooLargeError(ShadowMaskFormerError):
    """The picture has more pixels than allowed, or than memory holds."""

    http_status = 413

    @classmethod
    def for_memory(cls, name: str, size: str = "it") -> ImageTooLargeError:
        """Return the error for a picture that there is not enough memory for; a server may have more later."""
        error = cls(f"{name}: there is not enough memory for {size}", "close other programs or scale the picture down")
        error.http_status = 503
        return error


class MaskError(ShadowMaskFormerError):
    """The mask does not fit the photo or is not a mask."""


class NoShadowError(ShadowMaskFormerError):
    """There is no shadow in the photo, as far as the detector can see."""

    exit_code = 4


class ArrayError(ShadowMaskFormerError, ValueError):
    """An array has the wrong shape, type or values."""


class OutputError(ShadowMaskFormerError):
    """The result cannot be written where it was asked for."""

    http_status = 503


class DiskFullError(OutputError):
    """The disk or the quota is full."""


class WorkerDiedError(ShadowMaskFormerError):
    """The process that did the work ended in the middle of it."""

    http_status = 503


class WeightsError(ShadowMaskFormerError):
    """Weights are missing, damaged or do not fit the network."""


class UnsafeWeightsError(WeightsError):
    """The weights file holds code; it was not run."""


class ConfigError(ShadowMaskFormerError, ValueError):
    """An option, a configuration or a recipe has an unknown key or a bad value."""

    exit_code = 2


class DatasetError(ShadowMaskFormerError):
    """A data set is empty, unpaired or not recognised."""


class TrainingError(ShadowMaskFormerError):
    """Training cannot go on."""


class EvaluationError(ShadowMaskFormerError):
    """Results cannot be scored."""


class MissingExtraError(ShadowMaskFormerError, ImportError):
    """An optional dependency is not installed; the message names the extra."""

    http_status = 503


class RequestError(ShadowMaskFormerError):
    """A server refuses a request before it does any work.

    Args:
        message: as for `ShadowMaskFormerError`.
        remedy: as for `ShadowMaskFormerError`.
        status: the HTTP status of the answer.
        retry_after: seconds after which the same request may succeed.
    """

    def __init__(self, message: str, remedy: str = "", *, status: int, retry_after: int | None = None) -> None:
        super().__init__(message, remedy)
        self.http_status, self.retry_after = status, retry_after

    def __reduce__(self) -> tuple[partial[RequestError], tuple[str, str]]:
        make = partial(RequestError, status=self.http_status, retry_after=self.retry_after)
        return make, (self.message, self.remedy)


class Notice(str):
    """A line worth telling, such as a warning; as a string it speaks Python, `said` spells it for other callers."""

    message: str
    remedy: str

    def __new__(cls, message: str, remedy: str = "") -> Notice:
        """Make the line; arguments as for `ShadowMaskFormerError`."""
        self = super().__new__(cls, _line(message, remedy, "python"))
        self.message, self.remedy = message, remedy
        return self

    def __reduce__(self) -> tuple[type[Notice], tuple[str, str]]:
        return Notice, (self.message, self.remedy)

    def said(self, caller: Caller) -> str:
        """Return the line as `caller` would write it."""
        return _line(self.message, self.remedy, caller)


def said(line: str, caller: Caller) -> str:
    """Return a line, plain or a `Notice`, as `caller` would write it."""
    return line.said(caller) if isinstance(line, Notice) else line
