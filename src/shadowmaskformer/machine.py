"""This computer: what runs on it, and what a process sets once, at its start, to run PyTorch well on its CPU.

By default, glibc returns every block over 32 MB (at most) to the kernel when it is freed, and faults it in again, page
by page, at the next step. A network frees and allocates the same large blocks all the time. On Linux, `train`,
`reproduce` and `remove` on PyTorch therefore call `tune_allocator()` first. Importing the package never does.
"""

from __future__ import annotations

import ctypes
import os
import platform
from contextlib import suppress
from importlib import metadata
from pathlib import Path

BLAS_THREADS = ("OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS", "VECLIB_MAXIMUM_THREADS")
OPT_OUT = "SHADOWMASKFORMER_SYSTEM_ALLOCATOR"

# From <malloc.h>: parameters of mallopt(3).
_M_TRIM_THRESHOLD, _M_TOP_PAD, _M_MMAP_THRESHOLD = -1, -2, -3
_MEGABYTE = 1 << 20


def versions(*packages: str) -> dict[str, str | None]:
    """Return the installed versions of `packages`; None for those that are not installed.

    >>> versions("no-such-package")
    {'no-such-package': None}
    """
    return {package: _version(package) for package in packages}


def _version(package: str) -> str | None:
    try:
        return metadata.version(package)
    except metadata.PackageNotFoundError:
        return None


def python() -> str:
    """Return the version of the interpreter."""
    return platform.python_version()


def system() -> str:
    """Return the operating system with its version."""
    return platform.platform()


def architecture() -> str:
    """Return the system and the kind of processor, such as `Linux x86_64`."""
    return f"{platform.system()} {platform.machine()}"


def processor() -> str:
    """Return the processor's name."""
    try:
        lines = Path("/proc/cpuinfo").read_text().splitlines()
        return next(line.split(":", 1)[1].strip() for line in lines if line.startswith("model name"))
    except (OSError, StopIteration):
        return platform.processor() or platform.machine()


def cores() -> int:
    """Return the number of processors."""
    return os.cpu_count() or 1


def usable_cores() -> int:
    """Return the number of processors that this process may use."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else cores()


def available_memory() -> int | None:
    """Return how many bytes this process and its children may still take; None where the system does not say."""
    try:
        lines = Path("/proc/meminfo").read_text().splitlines()
        free = 1024 * next(int(line.split()[1]) for line in lines if line.startswith("MemAvailable:"))
    except (OSError, StopIteration):
        return None
    # A container's own limit (cgroup 2), where there is one.
    group = Path("/sys/fs/cgroup")
    with suppress(OSError, ValueError):
        most, taken = (int((group / name).read_text()) for name in ("memory.max", "memory.current"))
        # Files that were read are counted as taken, but make room when it is needed.
        lines = (line.split() for line in (group / "memory.stat").read_text().splitlines())
        files = sum(int(size) for name, size in lines if name == "inactive_file")
        free = min(free, most - taken + files)
    return free


def load_average() -> list[float] | None:
    """Return how many processes wanted to run in the last 1, 5 and 15 minutes; None where the system does not say."""
    return list(os.getloadavg()) if hasattr(os, "getloadavg") else None


def calm_openmp() -> None:
    """Let PyTorch's OpenMP threads sleep while they wait; has an effect only before PyTorch is imported.

    Otherwise they spin after every operator, on the cores that the native engine's threads then compete for: on a
    busy machine that has quadrupled the CPU time of a training step. A policy that the user has set stays.
    """
    os.environ.setdefault("OMP_WAIT_POLICY", "passive")


def calm_blas() -> None:
    """Give NumPy's BLAS one thread; has an effect only before NumPy is imported.

    The metrics multiply many small matrices. Several threads on each of them wait for each other most of the time:
    on a busy machine that has quintupled the CPU time of an evaluation. A number that the user has set stays.
    """
    # Not MKL's variable: NumPy's own packages do not use it, and PyTorch would lose its threads.
    os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")


def tune_allocator() -> bool:
    """Let glibc keep freed memory for the next allocation of this process.

    Returns:
        Whether it was done: False outside Linux with glibc, when the environment variable
        `SHADOWMASKFORMER_SYSTEM_ALLOCATOR` is set, or when another allocator answers to `malloc`.
    """
    if os.environ.get(OPT_OUT) or platform.libc_ver()[0] != "glibc" or "malloc" in os.environ.get("LD_PRELOAD", ""):
        return False
    try:
        mallopt = ctypes.CDLL(None).mallopt
    except (OSError, AttributeError):
        return False
    mallopt.argtypes, mallopt.restype = (ctypes.c_int, ctypes.c_int), ctypes.c_int
    settings = {
        _M_MMAP_THRESHOLD: 1024 * _MEGABYTE,  # blocks up to this size come from the heap, which is reused
        _M_TRIM_THRESHOLD: 2047 * _MEGABYTE,  # free memory at the heap's top that is kept
        _M_TOP_PAD: 64 * _MEGABYTE,  # the heap grows in steps of this size
    }
    return all(mallopt(parameter, value) == 1 for parameter, value in settings.items())
