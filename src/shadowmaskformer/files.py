"""Write results to disk whole or not at all, and never over a source; show names in messages."""

from __future__ import annotations

import errno
import os
import secrets
import stat
import time
from collections.abc import Iterable
from contextlib import suppress
from pathlib import Path

from shadowmaskformer.errors import DiskFullError, OutputError

_TEMP_PREFIX, _TEMP_SUFFIX = ".shadowmaskformer-", ".part"

# Writing one picture takes seconds: a temporary untouched for this long was left by a killed process.
_STALE_AFTER_S = 600.0


_temporaries: set[Path] = set()


def remove_temporaries() -> None:
    """Remove the temporary files of this process, which has been interrupted and is about to end."""
    for temporary in list(_temporaries):
        with suppress(OSError):
            _remove(temporary)


def shown(path: str | os.PathLike[str]) -> str:
    """The path as messages print it: control characters and undecodable bytes escaped.

    >>> shown("a\\nb.png")
    'a\\\\nb.png'
    """
    text = os.fspath(path)
    return "".join(c if c.isprintable() else c.encode("unicode_escape").decode("ascii") for c in text)


def first_ten(names: Iterable[str]) -> str:
    """Return the first ten of `names`, and how many more there are.

    >>> first_ten(["a", "b"]), first_ten("abcdefghijkl")
    ('a, b', 'a, b, c, d, e, f, g, h, i, j and 2 more')
    """
    listed = list(names)
    more = f" and {len(listed) - 10} more" if len(listed) > 10 else ""
    return ", ".join(listed[:10]) + more


def inside(output: str | os.PathLike[str], name: str) -> Path:
    """Return the file that `output` means: `name` in it if it is a folder, or is written as one, else itself.

    >>> inside("results/", "a.png").as_posix(), inside("result.png", "a.png").as_posix()
    ('results/a.png', 'result.png')
    """
    folder = Path(output).is_dir() or os.fspath(output).endswith(("/", "\\"))
    return Path(output) / name if folder else Path(output)


def make_folder(path: Path) -> None:
    """Make a folder for results, and those above it."""
    try:
        path.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise OutputError(f"{shown(path)}: cannot be made ({error.strerror})", "choose another {output}") from error


def check_output(
    path: str | os.PathLike[str], inputs: Iterable[str | os.PathLike[str]] = (), overwrite: bool = False
) -> None:
    """Find out before any work is done that a result could not be written.

    Args:
        path: where the result shall go.
        inputs: files that must not be overwritten, under whatever name or link.
        overwrite: an existing file may be replaced.

    Raises:
        OutputError: the output is an input, exists, or its folder is missing or not writable.
    """
    name = shown(path)
    for source in inputs:
        if _same_file(path, source):
            raise OutputError(f"{name}: the output is the input {shown(source)}", "choose another {output}")
    try:
        _check_free(path, name, overwrite)
        folder = os.path.dirname(os.path.realpath(path))  # noqa: PTH120 (bytes-safe, no cwd surprises)
        if not Path(folder).is_dir():
            raise OutputError(f"{name}: there is no folder {shown(folder)}", "create it first")
        # Trying beats asking: access rights say nothing about quotas, sandboxes or read-only mounts.
        descriptor, probe = _new_temporary(folder)
        os.close(descriptor)
        _remove(probe)
    except OSError as error:
        raise as_output_error(error, name) from error


def write_atomically(path: str | os.PathLike[str], data: bytes, *, overwrite: bool = False) -> None:
    """Write `data` to `path` so that the file is there whole or not at all, even if the machine stops.

    Temporaries that a killed run left in the folder are removed on the way.

    Raises:
        OutputError: the file exists and `overwrite` is False, or the folder or disk refuses it.
    """
    name = shown(path)
    # Through links: the file that a link names is replaced, the link stays.
    target = Path(os.path.realpath(path))
    try:
        _check_free(path, name, overwrite)
        _sweep(target.parent)
        descriptor, temporary = _new_temporary(target.parent)
        try:
            with os.fdopen(descriptor, "wb") as file:
                if target.exists():
                    temporary.chmod(stat.S_IMODE(target.stat().st_mode))
                file.write(data)
                file.flush()
                os.fsync(file.fileno())
            _move(temporary, target, overwrite)
        finally:
            _remove(temporary)
        _sync_folder(target.parent)
    except FileExistsError as error:
        raise _exists(name) from error
    except OSError as error:
        raise as_output_error(error, name) from error


def _same_file(path: str | os.PathLike[str], source: str | os.PathLike[str]) -> bool:
    try:
        return Path(path).samefile(source)
    except OSError:
        # At least one of them does not exist; then only the names can collide.
        return os.path.realpath(path) == os.path.realpath(source)


def _check_free(path: str | os.PathLike[str], name: str, overwrite: bool) -> None:
    try:
        kind = os.stat(path).st_mode  # noqa: PTH116 (accepts any path-like)
    except FileNotFoundError:
        return
    if stat.S_ISDIR(kind):
        raise OutputError(f"{name}: is a folder", "give the name of a file")
    if not stat.S_ISREG(kind):
        raise OutputError(f"{name}: is not a regular file; choose another name")
    if not overwrite:
        raise _exists(name)


def _exists(name: str) -> OutputError:
    return OutputError(f"{name}: already exists", "replace it with {overwrite=True} or choose another {output}")


def _new_temporary(folder: str | Path) -> tuple[int, Path]:
    # Named by chance, not after the target: a target of the longest allowed name must still fit.
    temporary = Path(folder) / f"{_TEMP_PREFIX}{secrets.token_hex(8)}{_TEMP_SUFFIX}"
    _temporaries.add(temporary)
    flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | getattr(os, "O_BINARY", 0)
    # 0o666 less the user's umask, as any program's output; mkstemp would make it private.
    try:
        return os.open(temporary, flags, 0o666), temporary
    except OSError:
        _temporaries.discard(temporary)
        raise


def _remove(temporary: Path) -> None:
    temporary.unlink(missing_ok=True)
    _temporaries.discard(temporary)


def _move(temporary: Path, target: Path, overwrite: bool) -> None:
    if not overwrite:
        try:
            # A link, unlike a rename, fails when somebody made the file meanwhile.
            os.link(temporary, target)
            return
        except FileExistsError:
            raise
        except OSError:
            # No hard links here (FAT, some network folders): a check is the best that is left.
            if target.exists():
                raise FileExistsError(errno.EEXIST, "exists") from None
    temporary.replace(target)


def _sweep(folder: Path) -> None:
    for leftover in folder.glob(f"{_TEMP_PREFIX}*{_TEMP_SUFFIX}"):
        with suppress(OSError):
            if time.time() - leftover.stat().st_mtime > _STALE_AFTER_S:
                leftover.unlink()


def _sync_folder(folder: Path) -> None:
    # The rename itself must survive a power cut; not every system lets a folder be opened.
    with suppress(OSError):
        descriptor = os.open(folder, os.O_RDONLY)
        try:
            os.fsync(descriptor)
        finally:
            os.close(descriptor)


def as_output_error(error: OSError, name: str) -> OutputError:
    """Return what the system says about writing the file `name` as an error of ours."""
    if error.errno in (errno.ENOSPC, errno.EDQUOT):
        return DiskFullError(f"{name}: the disk or quota is full", "free some space and try again")
    if error.errno in (errno.EACCES, errno.EPERM, errno.EROFS):
        return OutputError(f"{name}: its folder cannot be written to", "choose another {output}")
    if error.errno in (errno.ENOENT, errno.ENOTDIR):
        return OutputError(f"{name}: its folder does not exist", "create it first")
    return OutputError(f"{name}: cannot be written ({error.strerror or error})", "choose another {output}")
