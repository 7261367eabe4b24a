"""The progress bar of every command: library functions call `progress(done, total)`, this draws it."""

from __future__ import annotations

import sys
from types import TracebackType
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from tqdm import tqdm


class ProgressBar:
    """A bar on standard error, drawn only on a terminal; gone when the work is done.

    It can be called again after that, for the next piece of work.

    Args:
        what: a word on what is being done.
        unit: what is counted, in the singular.
    """

    def __init__(self, what: str, unit: str = "picture") -> None:
        self._what, self._unit = what, unit
        self._bar: tqdm[Any] | None = None

    def __call__(self, done: int, total: int) -> None:
        """Show that `done` of `total` are finished."""
        if not sys.stderr.isatty():
            return
        if self._bar is None:
            from tqdm import tqdm

            self._bar = tqdm(desc=self._what, unit=self._unit, total=total, file=sys.stderr, leave=False)
        self._bar.total = total
        self._bar.update(done - self._bar.n)
        if done >= total:
            self.close()

    def say(self, line: str) -> None:
        """Print a line on standard error, above the bar if there is one."""
        if self._bar is None:
            print(line, file=sys.stderr)
        else:
            self._bar.write(line, file=sys.stderr)

    def close(self) -> None:
        """Take the bar away."""
        if self._bar is not None:
            self._bar.close()
            self._bar = None

    def __enter__(self) -> ProgressBar:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()
