from __future__ import annotations

import errno
import os
import stat
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import pytest

from shadowmaskformer import files as output
from shadowmaskformer.errors import OutputError
from shadowmaskformer.files import check_output, make_folder, shown, write_atomically

root_only = pytest.mark.skipif(not hasattr(os, "geteuid") or os.geteuid() == 0, reason="root may write everywhere")


def leftovers(folder: Path) -> list[str]:
    return sorted(path.name for path in folder.iterdir() if path.name.endswith(".part"))


def fail_with(code: int) -> Any:
    def fail(*_: Any, **__: Any) -> None:
        raise OSError(code, os.strerror(code))

    return fail


def test_bytes_are_written_and_no_temporary_stays(tmp_path: Path) -> None:
    write_atomically(tmp_path / "out.png", b"whole")
    assert (tmp_path / "out.png").read_bytes() == b"whole"
    assert [path.name for path in tmp_path.iterdir()] == ["out.png"]


@pytest.mark.skipif(os.name != "posix", reason="file modes")
def test_a_new_file_has_the_users_usual_mode_and_an_old_one_keeps_its_own(tmp_path: Path) -> None:
    path, usual = tmp_path / "out.png", tmp_path / "usual"
    usual.touch()
    write_atomically(path, b"new")
    assert path.stat().st_mode == usual.stat().st_mode
    path.chmod(0o640)
    write_atomically(path, b"newer", overwrite=True)
    assert stat.S_IMODE(path.stat().st_mode) == 0o640


def test_an_existing_file_is_kept_without_overwrite(tmp_path: Path) -> None:
    path = tmp_path / "out.png"
    path.write_bytes(b"old")
    for call in (lambda: write_atomically(path, b"new"), lambda: check_output(path)):
        with pytest.raises(OutputError, match="overwrite=True"):
            call()
    assert path.read_bytes() == b"old"
    check_output(path, overwrite=True)
    write_atomically(path, b"new", overwrite=True)
    assert path.read_bytes() == b"new"


def test_a_file_made_meanwhile_is_kept(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "out.png"
    monkeypatch.setattr(os, "fsync", lambda _: path.write_bytes(b"theirs"))
    with pytest.raises(OutputError, match="already exists"):
        write_atomically(path, b"ours")
    assert path.read_bytes() == b"theirs"
    assert leftovers(tmp_path) == []


def test_folders_without_hard_links_work(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(os, "link", fail_with(errno.EPERM))
    write_atomically(tmp_path / "out.png", b"whole")
    assert (tmp_path / "out.png").read_bytes() == b"whole"
    path = tmp_path / "late.png"
    monkeypatch.setattr(os, "fsync", lambda _: path.write_bytes(b"theirs"))
    with pytest.raises(OutputError, match="already exists"):
        write_atomically(path, b"ours")
    assert path.read_bytes() == b"theirs"


def test_through_a_link_its_file_is_replaced_and_the_link_stays(tmp_path: Path) -> None:
    (tmp_path / "real.png").write_bytes(b"old")
    (tmp_path / "link.png").symlink_to("real.png")
    write_atomically(tmp_path / "link.png", b"new", overwrite=True)
    assert (tmp_path / "link.png").is_symlink()
    assert (tmp_path / "real.png").read_bytes() == b"new"


@pytest.mark.parametrize("way", ["same name", "other spelling", "symbolic link", "hard link"])
def test_an_output_that_is_an_input_is_refused_under_any_name(way: str, tmp_path: Path) -> None:
    photo = tmp_path / "photo.jpg"
    photo.write_bytes(b"the only copy")
    target = tmp_path / "out.jpg"
    if way == "same name":
        target = photo
    elif way == "other spelling":
        target = tmp_path / "sub" / ".." / "photo.jpg"
        (tmp_path / "sub").mkdir()
    elif way == "symbolic link":
        target.symlink_to(photo)
    else:
        os.link(photo, target)
    with pytest.raises(OutputError, match="is the input"):
        check_output(target, [tmp_path / "other.png", photo], overwrite=True)


def test_a_missing_folder_is_named(tmp_path: Path) -> None:
    for call in (lambda path: check_output(path), lambda path: write_atomically(path, b"")):
        with pytest.raises(OutputError, match=r"folder.*create it first"):
            call(tmp_path / "gone" / "out.png")


def test_a_folder_as_output_is_refused(tmp_path: Path) -> None:
    with pytest.raises(OutputError, match="is a folder"):
        check_output(tmp_path, overwrite=True)


@pytest.mark.skipif(not Path("/dev/null").exists(), reason="no device files on this system")
def test_a_device_as_output_is_refused() -> None:
    with pytest.raises(OutputError, match="not a regular file"):
        check_output("/dev/null", overwrite=True)


def test_a_name_too_long_is_refused_before_work(tmp_path: Path) -> None:
    with pytest.raises(OutputError):
        check_output(tmp_path / ("x" * 300 + ".png"))


def test_the_longest_possible_name_works(tmp_path: Path) -> None:
    path = tmp_path / ("x" * 251 + ".png")
    check_output(path)
    write_atomically(path, b"whole")
    assert path.read_bytes() == b"whole"


@root_only
def test_a_read_only_folder_is_refused_before_work(tmp_path: Path) -> None:
    tmp_path.chmod(0o555)
    try:
        with pytest.raises(OutputError, match="cannot be written to"):
            check_output(tmp_path / "out.png")
    finally:
        tmp_path.chmod(0o755)


@pytest.mark.parametrize("code", [errno.EACCES, errno.EROFS])
def test_a_refusing_folder_is_reported_with_the_remedy(
    code: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(output, "_new_temporary", fail_with(code))
    for call in (lambda path: check_output(path), lambda path: write_atomically(path, b"")):
        with pytest.raises(OutputError, match="cannot be written to; choose another"):
            call(tmp_path / "out.png")


@pytest.mark.parametrize("code", [errno.ENOSPC, errno.EDQUOT])
def test_a_full_disk_leaves_nothing_behind(code: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(os, "fsync", fail_with(code))
    with pytest.raises(OutputError, match="full"):
        write_atomically(tmp_path / "out.png", b"whole")
    assert list(tmp_path.iterdir()) == []


def test_an_interrupt_leaves_the_old_file_and_no_temporary(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def interrupt(_: int) -> None:
        raise KeyboardInterrupt

    path = tmp_path / "out.png"
    path.write_bytes(b"old")
    monkeypatch.setattr(os, "fsync", interrupt)
    with pytest.raises(KeyboardInterrupt):
        write_atomically(path, b"new", overwrite=True)
    assert path.read_bytes() == b"old"
    assert leftovers(tmp_path) == []


KILLED = """
import os, signal, sys
from shadowmaskformer.files import write_atomically
os.fsync = lambda _: os.kill(os.getpid(), signal.SIGKILL)
write_atomically(sys.argv[1], b"new", overwrite=True)
"""


@pytest.mark.skipif(os.name != "posix", reason="signals")
def test_an_interrupt_at_the_worst_moment_leaves_what_can_be_removed_at_the_end(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "theirs.part").touch()
    close = os.close

    def interrupt(descriptor: int) -> None:
        close(descriptor)
        raise KeyboardInterrupt

    monkeypatch.setattr(os, "close", interrupt)
    with pytest.raises(KeyboardInterrupt):
        check_output(tmp_path / "out.png")
    monkeypatch.undo()
    assert len(leftovers(tmp_path)) == 2
    output.remove_temporaries()
    assert leftovers(tmp_path) == ["theirs.part"]
    assert not output._temporaries


def test_after_a_kill_the_old_file_is_whole_and_the_temporary_is_swept_later(tmp_path: Path) -> None:
    path = tmp_path / "out.png"
    path.write_bytes(b"old")
    subprocess.run([sys.executable, "-c", KILLED, str(path)], check=False)
    assert path.read_bytes() == b"old"
    (stump,) = leftovers(tmp_path)
    write_atomically(path, b"newer", overwrite=True)
    # Fresh: it may belong to a process at work.
    assert leftovers(tmp_path) == [stump]
    long_ago = time.time() - 3600
    os.utime(tmp_path / stump, (long_ago, long_ago))
    write_atomically(path, b"newest", overwrite=True)
    assert leftovers(tmp_path) == []


@pytest.mark.parametrize("name", ["with space.png", "ünï.png", "new\nline.png", "-dash.png", "'quote\".png"])
def test_any_name_can_be_written(name: str, tmp_path: Path) -> None:
    check_output(tmp_path / name)
    write_atomically(tmp_path / name, b"whole")
    assert (tmp_path / name).read_bytes() == b"whole"


def test_messages_escape_what_would_break_a_terminal() -> None:
    assert shown("a\nb\x1b[31m\udcff ü.png") == "a\\nb\\x1b[31m\\udcff ü.png"


def test_a_folder_that_cannot_be_made_names_itself_and_the_remedy(tmp_path: Path):
    make_folder(tmp_path / "a" / "b")
    make_folder(tmp_path / "a" / "b")
    (tmp_path / "file").touch()
    with pytest.raises(OutputError, match=r"file/b: cannot be made .*choose another output"):
        make_folder(tmp_path / "file" / "b")
