"""The table of backends: everything that can run a network.

The command line, `info`, the benchmark and exports read `BACKENDS`. To add a runtime, add a file to this folder
and a row here. Nothing heavy is imported here: a row imports its file when it loads something.
"""

from __future__ import annotations

import importlib
import importlib.util
import logging
import operator
from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from shadowmaskformer.errors import ConfigError, MissingExtraError, WeightsError
from shadowmaskformer.runtimes.session import Reloading, Session, Source

if TYPE_CHECKING:
    from shadowmaskformer.arrays import Floats
    from shadowmaskformer.network.base import Network

    Outputs = Callable[[dict[str, Floats]], dict[str, Floats]]
    """Runs an exported file: inputs by name, (B, channels, H, W), to outputs by name."""

log = logging.getLogger(__name__)

MOST_THREADS = 1024


@dataclass(frozen=True)
class ExportFormat:
    """The file that `export` writes for a backend.

    Attributes:
        suffix: what its name ends in.
        needs: packages that writing and checking it import.
        bound: the largest difference from the network that it may show, pictures in [0, 1].
        write: (model, path) writes the file.
        open: (path) loads it, to be compared with the network.
        smallest: (model) to the shortest side of pictures that the file takes.
    """

    suffix: str
    needs: tuple[str, ...]
    bound: float
    write: Callable[[Network, Path], None]
    open: Callable[[Path], Outputs]
    smallest: Callable[[Network], int] = lambda model: 1


@dataclass(frozen=True)
class Backend:
    """One way to run a network.

    Attributes:
        name: what users call it.
        load: (weights, device=…, threads=…) loads a session.
        package: the package that it needs; None if it comes with this one.
        extra: the optional dependencies that bring it, as in `pip install 'shadowmaskformer[extra]'`.
        problem: returns what else keeps it from running here, in one line, or None.
        devices: kinds of device that it runs on.
        export: the file that `export` writes for it; None if there is none.
        runs_exports: whether it runs such files; otherwise it runs weights.
    """

    name: str
    load: Callable[..., Session]
    package: str | None = None
    extra: str | None = None
    problem: Callable[[], str | None] = lambda: None
    devices: tuple[str, ...] = ("cpu",)
    export: ExportFormat | None = None
    runs_exports: bool = False

    def why_not(self) -> str | None:
        """Return why it cannot be used here, in one line; None if it can."""
        if self.package and not importlib.util.find_spec(self.package):
            return f"{self.package} is not installed: pip install 'shadowmaskformer[{self.extra}]'"
        return self.problem()


def _later(module: str, function: str) -> Callable[..., Any]:
    """Return a function of this folder that is imported when it is called."""

    def call(*arguments: Any, **options: Any) -> Any:
        found: Any = importlib.import_module(f"shadowmaskformer.runtimes.{module}")
        return getattr(found, function)(*arguments, **options)

    return call


def _export(module: str, suffix: str, *, needs: tuple[str, ...], bound: float) -> ExportFormat:
    """Return the format that `module` of this folder writes and opens."""
    write, open_file = _later(module, "write"), _later(module, "open_file")
    return ExportFormat(suffix, needs, bound, write, open_file)


def _engine_problem() -> str | None:
    from shadowmaskformer import engine

    return engine.why_unavailable()


def smallest_torch_side(model: Network) -> int:
    """Return the shortest side that PyTorch's exporter can leave free: it sets axes of length one apart."""
    return model.reduction + 1


_ROWS = (
    Backend("native", load=_later("native", "load"), problem=_engine_problem),
    Backend(
        "torch",
        load=_later("torch", "load"),
        package="torch",
        extra="torch",
        devices=("cpu", "cuda", "mps", "xpu"),
        export=replace(_export("torch", ".pt2", needs=("torch",), bound=1e-5), smallest=smallest_torch_side),
    ),
    Backend(
        "onnx",
        load=_later("onnx", "load"),
        package="onnxruntime",
        extra="onnx",
        export=_export("onnx", ".onnx", needs=("torch", "onnx", "onnxruntime"), bound=1e-5),
        runs_exports=True,
    ),
    Backend(
        "openvino",
        load=_later("openvino", "load"),
        package="openvino",
        extra="openvino",
        export=_export("openvino", ".xml", needs=("torch", "onnx", "openvino"), bound=1e-4),
        runs_exports=True,
    ),
)

BACKENDS: dict[str, Backend] = {row.name: row for row in _ROWS}
"""By name, in the order in which they are preferred for weights."""


def backend(name: str) -> Backend:
    """Return the backend called `name`."""
    try:
        return BACKENDS[name]
    except KeyError:
        raise ConfigError(f"there is no runtime {name!r}", f"choose one of {', '.join(BACKENDS)}") from None


def export_formats() -> dict[str, ExportFormat]:
    """Return the formats that `export` writes, by the name of their backend."""
    return {row.name: row.export for row in BACKENDS.values() if row.export}


def check_threads(threads: int | None) -> None:
    """Raise ConfigError unless `threads` is None or a sensible whole number."""
    if threads is None:
        return
    try:
        fits = 1 <= operator.index(threads) <= MOST_THREADS
    except TypeError:
        fits = False
    if not fits:
        raise ConfigError(f"threads is {threads!r}", f"give {{threads}} as a whole number, 1 to {MOST_THREADS}")


def check_device(device: str | None) -> None:
    """Raise ConfigError unless some backend knows devices of this kind; whether there is one shows later."""
    known = list(dict.fromkeys(kind for row in BACKENDS.values() for kind in row.devices))
    if device is not None and _kind(device) not in known:
        raise ConfigError(
            f"there is no device {device!r}", f'choose one of {", ".join(known)}, such as {{device="cpu"}}'
        )


def choose(device: str | None = None) -> Backend:
    """Return the backend to use for weights when the user names none: the first available one for the device.

    Args:
        device: `cpu`, `cuda`, `mps`, …; with None the engine on the CPU comes first, because importing PyTorch takes
            longer than a photo. Without the engine, PyTorch takes the best device that it finds.
    """
    rows = [row for row in BACKENDS.values() if not row.runs_exports and _kind(device) in row.devices]
    reasons = {row.name: row.why_not() for row in rows}
    chosen = next((row for row in rows if reasons[row.name] is None), None)
    if chosen is None:
        text = "; ".join(f"{name}: {reason}" for name, reason in reasons.items())
        raise MissingExtraError(f"nothing here runs the network on {device or 'the CPU'} ({text})")
    if chosen is not rows[0]:
        log.warning("the runtime %s is not available (%s); using %s", rows[0].name, reasons[rows[0].name], chosen.name)
    return chosen


def load_session(
    name: str | None = None,
    weights: str | Path = "default",
    *,
    device: str | None = None,
    threads: int | None = None,
) -> Session:
    """Load a network.

    Args:
        name: one of `BACKENDS`; None chooses.
        weights: what `weights.load` takes, or an exported file for a backend that runs those.
        device: `cpu`, `cuda`, `cuda:1`, `mps`, …; None chooses.
        threads: CPU threads; None uses all.

    Returns:
        A session. It can be pickled: another process then loads the same weights again.
    """
    check_threads(threads)
    check_device(device)
    if not isinstance(weights, str | Path):  # pyright: ignore[reportUnnecessaryIsInstance]
        raise ConfigError(f"weights is a {type(weights).__name__}", 'give {weights} as a path or a name: "default"')
    exported = exported_for(weights)
    row = backend(name) if name else exported if exported and exported.runs_exports else choose(device)
    if reason := row.why_not():
        raise MissingExtraError(f"the runtime {row.name!r} is not available ({reason})")
    if device is not None and _kind(device) not in row.devices:
        able = next(other.name for other in BACKENDS.values() if _kind(device) in other.devices)
        raise ConfigError(
            f"the runtime {row.name!r} runs on {', '.join(row.devices)}, not on {device!r}",
            f'use {{runtime="{able}"}} or leave {{device}} out',
        )
    if row.runs_exports:
        _check_export(row, weights)
    elif exported:
        other = f'use {{runtime="{exported.name}"}} or ' if exported.runs_exports else ""
        raise WeightsError(
            f"{weights} is an exported file, which the runtime {row.name!r} does not run",
            f"{other}give the weights that it was exported from",
        )
    session = row.load(weights, device=device, threads=threads)
    if isinstance(session, Reloading):
        from shadowmaskformer.network.weights import lasting_name

        session.source = Source(row.name, lasting_name(weights), device, threads)
    return session


def exported_for(weights: str | Path) -> Backend | None:
    """Return the backend for which a file of this name was exported; None for weights.

    >>> exported_for("net.onnx").name, exported_for("default")
    ('onnx', None)
    """
    ending = Path(weights).suffix
    return next((row for row in BACKENDS.values() if ending and _suffix(row) == ending), None)


def _kind(device: str | None) -> str:
    """Return the kind of a device: `cuda` for `cuda:1`."""
    return (device or "cpu").partition(":")[0]


def _suffix(row: Backend) -> str | None:
    return row.export.suffix if row.export else None


def _check_export(row: Backend, weights: str | Path) -> None:
    """Raise WeightsError unless `weights` is a file that this backend runs."""
    suffix = _suffix(row) or ""
    if Path(weights).suffix != suffix:
        raise WeightsError(
            f"the runtime {row.name!r} runs {suffix} files, got {str(weights)!r}",
            f"export {weights} to {row.name} first",
        )
    if not Path(weights).is_file():
        raise WeightsError(f"there is no file {weights}", f"export the weights to {row.name} first")
