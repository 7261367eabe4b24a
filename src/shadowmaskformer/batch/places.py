"""Where photos, masks and results are: on this computer's disk, or at a URL that fsspec understands."""

from __future__ import annotations

import io
import os
import secrets
import stat
from collections.abc import Iterator
from pathlib import Path, PurePosixPath
from typing import Any, Protocol

from shadowmaskformer.errors import ImageReadError, MissingExtraError, OutputError, first_line
from shadowmaskformer.files import check_output, make_folder, shown, write_atomically
from shadowmaskformer.photo import ImageSource

State = tuple[int, str]
"""Size of a file, and when it was changed last."""


class Place(Protocol):
    """Files and folders; paths are strings throughout, because they may be URLs."""

    def is_folder(self, path: str) -> bool:
        """Return whether there is a folder at `path`."""
        ...

    def files(self, folder: str, *, recursive: bool = False) -> Iterator[str]:
        """Yield the visible files in a folder, relative to it and in order; each real folder once."""
        ...

    def state(self, path: str) -> State | None:
        """Return the state of the file at `path`; None if there is none."""
        ...

    def real(self, path: str) -> str:
        """Return the one name of a file or folder that several paths may lead to."""
        ...

    def source(self, path: str) -> ImageSource:
        """Return the file as `read_photo` takes it."""
        ...

    def prepare(self, path: str, inputs: list[str], *, overwrite: bool) -> None:
        """Make the folder for a result; find out before any work that it could not be written."""
        ...

    def write(self, path: str, data: bytes, *, overwrite: bool) -> None:
        """Write a file whole or not at all."""
        ...


def is_url(path: str) -> bool:
    """Return whether `path` is a URL, such as `s3://bucket/photos`."""
    return "://" in path[:12]


def place_of(path: str) -> Place:
    """Return the place that `path` is in."""
    return Remote(path) if is_url(path) else Disk()


def join(folder: str, name: str) -> str:
    """Return the path of `name` in `folder`; `.` is the folder itself.

    >>> join("photos/", "a/b.jpg"), join(".", "b.jpg"), join("s3://bucket/photos/", "b.jpg")
    ('photos/a/b.jpg', 'b.jpg', 's3://bucket/photos/b.jpg')
    """
    if name == ".":
        return folder
    return f"{folder.rstrip('/')}/{name}" if is_url(folder) else str(Path(folder, name))


def split(path: str) -> tuple[str, str]:
    """Return folder and name.

    >>> split("s3://bucket/a/b.jpg"), split("b.jpg")
    (('s3://bucket/a', 'b.jpg'), ('.', 'b.jpg'))
    """
    if is_url(path):
        folder, _, name = path.rpartition("/")
        return folder, name
    return str(Path(path).parent), Path(path).name


def absolute(path: str) -> str:
    """Return a path that means the same from every working directory."""
    return path if is_url(path) else os.path.abspath(path)  # noqa: PTH100 (`Path.absolute` keeps `..`)


class Disk:
    """This computer's files."""

    def is_folder(self, path: str) -> bool:
        return Path(path).is_dir()

    def files(self, folder: str, *, recursive: bool = False) -> Iterator[str]:
        seen: set[str] = set()
        for here, folders, names in os.walk(folder, followlinks=True, onerror=_unreadable):
            real = os.path.realpath(here)
            folders[:] = sorted(name for name in folders if recursive and real not in seen and _visible(name))
            if real not in seen:
                seen.add(real)
                yield from (os.path.relpath(Path(here, name), folder) for name in sorted(filter(_visible, names)))

    def state(self, path: str) -> State | None:
        try:
            found = Path(path).stat()
        except (OSError, ValueError):
            return None
        return (found.st_size, str(found.st_mtime_ns)) if stat.S_ISREG(found.st_mode) else None

    def real(self, path: str) -> str:
        return os.path.realpath(path)

    def source(self, path: str) -> ImageSource:
        return path

    def prepare(self, path: str, inputs: list[str], *, overwrite: bool) -> None:
        make_folder(Path(path).parent)
        check_output(path, [each for each in inputs if not is_url(each)], overwrite=overwrite)

    def write(self, path: str, data: bytes, *, overwrite: bool) -> None:
        write_atomically(path, data, overwrite=overwrite)


class Remote:
    """Files behind a URL."""

    def __init__(self, url: str) -> None:
        try:
            from fsspec.core import url_to_fs
        except ImportError:
            raise MissingExtraError(f"{shown(url)}: URLs need fsspec", "pip install 'shadowmaskformer[ray]'") from None
        try:
            self._system: Any = url_to_fs(url)[0]
        except (ImportError, ValueError) as error:
            raise ImageReadError(f"{shown(url)}: not a URL that fsspec opens here ({first_line(error)})") from error

    def is_folder(self, path: str) -> bool:
        return self._system.isdir(path)

    def files(self, folder: str, *, recursive: bool = False) -> Iterator[str]:
        root = self._system._strip_protocol(folder).rstrip("/")
        try:
            found = sorted(self._system.find(folder, maxdepth=None if recursive else 1))
        except Exception as error:  # every file system has its own
            raise ImageReadError(f"{shown(folder)}: cannot be listed ({first_line(error)})") from error
        names = (path.removeprefix(root).lstrip("/") for path in found)
        yield from (name for name in names if all(map(_visible, PurePosixPath(name).parts)))

    def state(self, path: str) -> State | None:
        try:
            found = self._system.info(path)
        except Exception:  # as above; whoever opens the file will say why it cannot be had
            return None
        changed = next(
            (found[key] for key in ("mtime", "LastModified", "updated", "ETag", "created") if key in found), ""
        )
        return (int(found.get("size") or 0), str(changed)) if found.get("type") == "file" else None

    def real(self, path: str) -> str:
        return path

    def source(self, path: str) -> ImageSource:
        try:
            return _Named(path, self._system.cat_file(path))
        except FileNotFoundError as error:
            raise ImageReadError(f"{shown(path)}: no such file", "check its name and folder") from error
        except Exception as error:  # as above
            raise ImageReadError(f"{shown(path)}: cannot be read ({first_line(error)})") from error

    def prepare(self, path: str, inputs: list[str], *, overwrite: bool) -> None:
        if path in inputs:
            raise OutputError(f"{shown(path)}: the output is an input", "choose another {output}")
        if not overwrite and self._system.exists(path):
            raise OutputError(f"{shown(path)}: already exists", "replace it with {overwrite=True}")

    def write(self, path: str, data: bytes, *, overwrite: bool) -> None:
        folder, _ = split(path)
        temporary = join(folder, f".shadowmaskformer-{secrets.token_hex(8)}.part")
        try:
            self._system.makedirs(folder, exist_ok=True)
            self.prepare(path, [], overwrite=overwrite)
            try:
                self._system.pipe_file(temporary, data)
                self._system.mv(temporary, path)
            finally:
                if self._system.exists(temporary):
                    self._system.rm_file(temporary)
        except OutputError:
            raise
        except Exception as error:  # as above
            raise OutputError(f"{shown(path)}: cannot be written ({first_line(error)})") from error


class _Named(io.BytesIO):
    """A file in memory whose name messages show."""

    def __init__(self, name: str, data: bytes) -> None:
        super().__init__(data)
        self.name = name


def _visible(name: str) -> bool:
    return not name.startswith(".")


def _unreadable(error: OSError) -> None:
    raise ImageReadError(f"{shown(str(error.filename))}: this folder cannot be read ({error.strerror})") from error
