from __future__ import annotations

import os
import signal
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

import deeds
from shadowmaskformer.batch import Worker
from shadowmaskformer.errors import ConfigError, MaskError, WorkerDiedError

TESTS = str(Path(__file__).parents[1])


@pytest.fixture(autouse=True)
def importable_deeds(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PYTHONPATH", TESTS)


@pytest.fixture
def worker() -> Iterator[Worker]:
    with Worker(method="relight") as worker:
        yield worker


def wait_for(condition: Callable[[], object], seconds: float = 20) -> None:
    end = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < end, "waited in vain"
        time.sleep(0.02)


def is_running(pid: int) -> bool:
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except OSError:
        return False


def test_functions_run_in_another_process_and_keep_it(worker: Worker):
    assert worker.pid is None
    assert worker.call(deeds.name, "a", times=3) == ("relight", "aaa")
    pid = worker.pid
    assert pid not in (None, os.getpid())
    assert worker.call(deeds.name, "b") == ("relight", "b")
    assert worker.pid == pid


def test_errors_come_back_as_they_were_raised(worker: Worker):
    with pytest.raises(MaskError, match="does not fit") as caught:
        worker.call(deeds.raise_one_of_ours)
    assert caught.value.said("command").endswith("--grow 5")
    with pytest.raises(Exception, match="pickle"):
        worker.call(deeds.answer_what_cannot_be_pickled)
    assert worker.call(deeds.name, "still there")[1] == "still there"


def test_reports_arrive_before_the_answer_and_the_process_gives_way():
    with Worker(method="relight", niceness=3) as worker:
        heard: list[float] = []
        assert worker.watch(heard.append, deeds.count, 4) == os.nice(0) + 3
        assert heard == [0, 0.25, 0.5, 0.75]
        assert worker.call(deeds.count, 2) == os.nice(0) + 3  # nobody listens


def test_a_remover_that_cannot_be_made_says_so():
    with Worker(method="relight", weights="some") as worker:
        for _ in range(2):
            with pytest.raises(ConfigError, match="uses no weights"):
                worker.call(deeds.name, "a")


def test_death_is_an_error_and_the_next_call_starts_another(worker: Worker):
    with pytest.raises(WorkerDiedError, match="signal 9"):
        worker.call(deeds.die)
    assert worker.pid is None
    assert worker.call(deeds.name, "again")[1] == "again"


def asking(worker: Worker, folder: Path) -> tuple[threading.Thread, list[Exception]]:
    """A thread that waits for long work, which has begun, and the error that it gets."""
    errors: list[Exception] = []

    def ask() -> None:
        try:
            worker.call(deeds.work_long, str(folder / "begun"), str(folder / "tidied"))
        except WorkerDiedError as error:
            errors.append(error)

    thread = threading.Thread(target=ask)
    thread.start()
    wait_for((folder / "begun").exists)
    return thread, errors


def test_kill_ends_the_call_of_another_thread(worker: Worker, tmp_path: Path):
    thread, errors = asking(worker, tmp_path)
    worker.kill()
    thread.join(20)
    assert len(errors) == 1
    assert not (tmp_path / "tidied").exists()
    assert worker.call(deeds.name, "next")[1] == "next"


def test_close_lets_the_process_tidy_up_and_no_other_follows(tmp_path: Path):
    worker = Worker(method="relight")
    thread, errors = asking(worker, tmp_path)
    worker.close()
    thread.join(20)
    worker.join()
    assert (tmp_path / "tidied").exists()
    assert len(errors) == 1
    with pytest.raises(WorkerDiedError, match="closed"):
        worker.call(deeds.name, "a")


@pytest.mark.skipif(not Path("/proc/self/fd").exists(), reason="no list of open files on this system")
def test_it_inherits_no_files_of_its_parent(worker: Worker, tmp_path: Path):
    with socket.socket() as listening, (tmp_path / "open.txt").open("w") as file:
        listening.bind(("127.0.0.1", 0))
        for each in (listening.fileno(), file.fileno()):
            os.set_inheritable(each, True)
        names = worker.call(deeds.open_files)
    assert not [name for name in names if name.startswith("socket:") or name.endswith("open.txt")]


@pytest.mark.skipif(not Path("/proc/self/stat").exists(), reason="no list of processes on this system")
def test_it_tidies_up_and_ends_when_its_parent_is_killed(tmp_path: Path):
    begun, tidied = tmp_path / "begun", tmp_path / "tidied"
    code = (
        "import deeds\nfrom shadowmaskformer.batch import Worker\n"
        f"Worker(method='relight').call(deeds.work_long, {str(begun)!r}, {str(tidied)!r})"
    )
    parent = subprocess.Popen([sys.executable, "-c", code])
    wait_for(lambda: begun.exists() and begun.read_text())
    parent.kill()
    parent.wait()
    wait_for(lambda: not is_running(int(begun.read_text())))
    assert tidied.exists()


def test_ctrl_c_does_not_reach_it(worker: Worker):
    before = signal.getsignal(signal.SIGINT)
    worker.call(deeds.name, "a")
    assert worker.pid is not None
    assert os.getpgid(worker.pid) != os.getpgrp()
    assert signal.getsignal(signal.SIGINT) is before
