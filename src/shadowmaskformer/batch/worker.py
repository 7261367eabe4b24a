"""A remover in a process of its own: it may crash or run out of memory without taking its caller along.

The caller holds a `Worker` and asks it to run functions of this package, `function(remover, …)`. It is a plain child
process, not one of `multiprocessing`, which would run the caller's script again. It inherits no file but standard
error, belongs to a group of its own, so that Ctrl-C reaches the caller alone, and ends when the caller ends.
"""

from __future__ import annotations

import logging
import os
import pickle
import queue
import signal
import subprocess
import sys
import threading
import warnings
from collections.abc import Callable
from contextlib import suppress
from typing import TYPE_CHECKING, Any, BinaryIO, Concatenate, ParamSpec, TypeVar

from shadowmaskformer.errors import WorkerDiedError
from shadowmaskformer.files import remove_temporaries
from shadowmaskformer.machine import BLAS_THREADS

if TYPE_CHECKING:
    from shadowmaskformer.removal.remover import ShadowRemover

P = ParamSpec("P")
T = TypeVar("T")

_PATIENCE_S = 10.0


class Worker:
    """One process with one remover, which does one thing at a time.

    The process is started when it is first needed, and again after it has died. All methods may be called from any
    thread: `kill` ends a `call` that another thread waits for.

    Args:
        niceness: by how much the process gives way to others; see nice(2).
        **arguments: of the `ShadowRemover`; `threads` is 1 unless given.
    """

    def __init__(self, *, niceness: int = 0, **arguments: Any) -> None:
        self._arguments, self._niceness = {"threads": 1, **arguments}, niceness
        self._process: subprocess.Popen[bytes] | None = None
        self._closed = False
        self._busy, self._changing = threading.Lock(), threading.Lock()

    @property
    def pid(self) -> int | None:
        """Of the process; None while there is none."""
        process = self._process
        return process.pid if process else None

    def call(
        self, function: Callable[Concatenate[ShadowRemover, P], T], /, *arguments: P.args, **options: P.kwargs
    ) -> T:
        """Run `function(remover, …)` in the process and return what it returns.

        Args:
            function: one that can be imported by name; arguments and result are pickled.
            *arguments: of the function.
            **options: of the function.

        Raises:
            WorkerDiedError: the process ended meanwhile; the next call starts another.
            Exception: what the function raised, or the making of the remover.
        """
        return self.watch(lambda _: None, function, *arguments, **options)

    def watch(
        self,
        heard: Callable[[float], None],
        function: Callable[Concatenate[ShadowRemover, P], T],
        /,
        *arguments: P.args,
        **options: P.kwargs,
    ) -> T:
        """Do as `call`, and pass to `heard` what the function says to `report` meanwhile."""
        with self._busy:
            return self._ask(self._started(), (function, arguments, options), heard)

    def kill(self) -> None:
        """End the process at once, whatever it does; the next call starts another."""
        with self._changing:
            if self._process:
                self._process.kill()

    def close(self) -> None:
        """Tell the process to tidy up and end; return at once. There will be no other."""
        with self._changing:
            self._closed = True
            if self._process:
                self._process.terminate()

    def join(self) -> None:
        """Wait until the process has ended, after `close`."""
        with self._busy:
            self._reap()

    def __enter__(self) -> Worker:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()
        self.join()

    def _started(self) -> subprocess.Popen[bytes]:
        with self._changing:
            if self._closed:
                raise WorkerDiedError("the worker is closed")
            if self._process:
                return self._process
            threads = str(self._arguments["threads"] or "")
            self._process = subprocess.Popen(
                # -P: a module that lies among the photos is not to be imported.
                [
                    sys.executable,
                    "-P",
                    "-c",
                    "from shadowmaskformer.batch.worker import main; main()",
                    str(self._niceness),
                ],
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                env={**dict.fromkeys(BLAS_THREADS, threads), **os.environ} if threads else None,
                process_group=0,
            )
            process = self._process
        try:
            self._ask(process, self._arguments)
        except BaseException:
            self.kill()
            self._reap()
            raise
        return process

    def _ask(
        self, process: subprocess.Popen[bytes], question: object, heard: Callable[[float], None] = lambda _: None
    ) -> Any:
        assert process.stdin is not None
        assert process.stdout is not None
        try:
            pickle.dump(question, process.stdin)
            process.stdin.flush()
            good, answer = pickle.load(process.stdout)
            while good is None:
                heard(answer)
                good, answer = pickle.load(process.stdout)
        except (EOFError, OSError, pickle.UnpicklingError) as error:
            raise self._death() from error
        except BaseException:
            # Interrupted or not to be pickled: the conversation cannot be continued.
            self.kill()
            self._reap()
            raise
        if not good:
            raise answer
        return answer

    def _death(self) -> WorkerDiedError:
        code = self._reap()
        why = f"signal {-code}" if code < 0 else f"exit code {code}"
        return WorkerDiedError(f"the process that worked on it ended ({why})", "it may need more memory than there is")

    def _reap(self) -> int:
        process = self._process
        if process is None:
            return 0
        try:
            code = process.wait(_PATIENCE_S)
        except subprocess.TimeoutExpired:
            process.kill()
            code = process.wait()
        with self._changing:
            self._process = None
            for pipe in (process.stdin, process.stdout):
                with suppress(OSError):
                    assert pipe is not None
                    pipe.close()
        return code


def report(share: float) -> None:
    """Say how much of the present work is done, 0 to 1; outside a worker nobody hears it."""
    if _answers is not None:
        _send(pickle.dumps((None, share)))


_answers: BinaryIO | None = None


def _send(message: bytes) -> None:
    """Send the caller a pickled pair: None and a share for a report, True and an answer, False and an error."""
    assert _answers is not None
    _answers.write(message)
    _answers.flush()


def main() -> None:
    """Serve a `Worker` until it closes the pipe or dies."""
    global _answers
    try:
        if hasattr(os, "nice"):
            os.nice(int(sys.argv[1]))
        signal.signal(signal.SIGTERM, _leave)
        # What the caller should know travels with the answers.
        warnings.simplefilter("ignore")
        logging.disable(logging.CRITICAL)
        questions: queue.SimpleQueue[Any] = queue.SimpleQueue()
        _answers = os.fdopen(os.dup(1), "wb")
        # Whatever prints must not get between the answers.
        os.dup2(os.open(os.devnull, os.O_WRONLY), 1)
        threading.Thread(target=_listen, args=(os.fdopen(os.dup(0), "rb"), questions), daemon=True).start()
        _serve(questions)
    except (OSError, SystemExit):
        pass
    finally:
        remove_temporaries()
        # The listening thread waits in a read, which an orderly end of the interpreter would trip over.
        os._exit(0)


def _leave(*_: object) -> None:
    """Leave whatever is being done."""
    # Not SIG_IGN: of a second signal that has arrived already, Python would then print a traceback.
    signal.signal(signal.SIGTERM, lambda *_: None)
    raise SystemExit


def _listen(pipe: BinaryIO, questions: queue.SimpleQueue[Any]) -> None:
    """Hand over what the caller asks. When the pipe closes, the caller is gone: end, even while working."""
    with suppress(Exception):
        while True:
            questions.put(pickle.load(pipe))
    questions.put(None)
    if hasattr(signal, "pthread_kill"):  # Windows has none: there it ends after its work
        main_thread = threading.main_thread().ident
        assert main_thread is not None
        signal.pthread_kill(main_thread, signal.SIGTERM)


def _serve(questions: queue.SimpleQueue[Any]) -> None:
    remover: Any = None
    while (question := questions.get()) is not None:
        try:
            if remover is None:
                from shadowmaskformer.removal.remover import ShadowRemover

                remover, value = ShadowRemover(**question), None
            else:
                function, arguments, options = question
                value = function(remover, *arguments, **options)
            answer = pickle.dumps((True, value))
        except Exception as error:
            answer = pickle.dumps((False, error))
        _send(answer)
