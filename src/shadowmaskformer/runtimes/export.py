"""Write the network as a file that runs elsewhere, and prove that it computes the same.

Height, width and batch stay free in all formats. The file is made in a temporary folder, compared there with the
network on pieces of a photograph, and only moved to its place when every piece agrees. The backends
(`backends.BACKENDS`) know how to write and to open their files.
"""

from __future__ import annotations

import importlib.util
import os
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING

import numpy as np
from PIL import Image

from shadowmaskformer.arrays import Floats, to_float
from shadowmaskformer.errors import ConfigError, MissingExtraError, OutputError, WeightsError, first_line
from shadowmaskformer.network.config import NetworkConfig
from shadowmaskformer.network.kinds import input_channels
from shadowmaskformer.runtimes.backends import export_formats

if TYPE_CHECKING:
    from shadowmaskformer.network.base import Network
    from shadowmaskformer.runtimes.backends import Outputs

SHAPES = ((1, 48, 64), (1, 1, 90), (2, 37, 128), (1, 53, 70), (3, 9, 11), (1, 131, 100))
"""Batch, height and width of the pieces compared: whole windows, none, less than one, more than one picture."""

ASSETS = Path(__file__).parents[1] / "assets"


@dataclass(frozen=True)
class Export:
    """An exported file that was proven.

    Attributes:
        path: the file; OpenVINO's has its weights beside it, ending in `.bin`.
        differences: (batch, height, width) to the largest difference from the network there.
        bound: what each of these had to stay below.
    """

    path: Path
    differences: dict[tuple[int, int, int], float]
    bound: float


def export(weights: str | Path, to: str, path: Path) -> Export:
    """Export weights and prove the file.

    Args:
        weights: what `weights.load` takes.
        to: the name of a backend that has a format, see `export_formats`.
        path: where the file goes, with the format's ending; replaced if it is there.

    Raises:
        WeightsError: the file would differ from the network by more than the format's bound; nothing is left behind.
    """
    formats = export_formats()
    if to not in formats:
        raise ConfigError(f"there is no export to {to!r}", f"choose one of {', '.join(formats)}")
    form = formats[to]
    if path.suffix != form.suffix:
        raise ConfigError(f"{path} does not end in {form.suffix}, as {to} files do", "choose another {output}")
    if missing := [module for module in form.needs if not importlib.util.find_spec(module)]:
        raise MissingExtraError(f"the export needs {missing[0]}", "pip install 'shadowmaskformer[export]'")
    from shadowmaskformer.network.base import Network

    model = Network.from_pretrained(weights)
    try:
        with TemporaryDirectory(dir=path.parent, prefix=".shadowmaskformer-") as folder:
            made = Path(folder) / path.name
            form.write(model, made)
            run = form.open(made)
            shapes = [shape for shape in SHAPES if min(shape[1:]) >= form.smallest(model)]
            differences = {shape: _difference(model, to, run, shape, form.bound) for shape in shapes}
            # The `.xml` last: it is what users name, and must not point to weights that are not there.
            for file in sorted(Path(folder).iterdir(), key=lambda file: file.name == path.name):
                os.replace(file, path.with_name(file.name))  # noqa: PTH105 - says what it does
    except OSError as error:
        raise OutputError(f"cannot write {path}: {error.strerror}", "choose another {output}") from error
    return Export(path, differences, form.bound)


def _difference(model: Network, to: str, run: Outputs, shape: tuple[int, int, int], bound: float) -> float:
    """Return the largest difference between the exported file and the network; raise if it is above `bound`."""
    import torch

    arrays, size = inputs(model.config, *shape), f"{shape[1]}x{shape[2]}"
    with torch.no_grad():
        outputs = model.outputs({name: torch.from_numpy(array) for name, array in arrays.items()})
    try:
        answers = run(arrays)
    except Exception as error:  # three libraries, no common base
        raise WeightsError(
            f"the {to} file does not run at {size} ({first_line(error)[:200]}) and was not kept", "try other versions"
        ) from error
    largest = 0.0
    for name, tensor in outputs.items():
        expected, found = tensor.numpy(), answers[name]
        if found.shape != expected.shape:
            raise WeightsError(f"{name} of the {to} file is {found.shape}, expected {expected.shape}; it was not kept")
        # Untrained networks leave [0, 1] far behind; there the bound is relative.
        difference = float(np.abs(found - expected).max()) / max(1.0, float(np.abs(expected).max()))
        if not difference <= bound:  # also when it is not a number
            raise WeightsError(
                f"{name} of the {to} file differs from the network by {difference:.1e} at {size}, more than "
                f"{bound:.0e}; it was not kept",
                f"try other versions of torch and {to}",
            )
        largest = max(largest, difference)
    return largest


def inputs(config: NetworkConfig, batch: int, height: int, width: int) -> dict[str, Floats]:
    """Return inputs of that shape for the network: pieces of the demo photograph, and of its mask.

    Three channels are a piece of the photograph, one is a piece of the mask, across the shadow's edge. Each input
    takes other pieces, each picture of the batch too. The comparison needs no more meaning than that.
    """
    found: dict[str, Floats] = {}
    for number, (name, channels) in enumerate(input_channels(config).items()):
        with Image.open(ASSETS / ("demo-photo.jpg" if channels == 3 else "demo-mask.png")) as file:
            picture = to_float(np.asarray(file.convert("RGB")))[..., :channels]
        top, left = (picture.shape[0] - height) // 2 + 5 * number, (picture.shape[1] - width) // 2
        pieces = [picture[top + 7 * i : top + 7 * i + height, left : left + width] for i in range(batch)]
        found[name] = np.ascontiguousarray(np.stack(pieces).transpose(0, 3, 1, 2))
    return found
