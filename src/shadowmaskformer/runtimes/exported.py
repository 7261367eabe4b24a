"""What all exported files agree on: names of inputs and outputs, and the configuration they carry. No PyTorch.

An exported network takes `photo` (B, 3, H, W) and `mask` (B, 1, H, W), both in [0, 1], and, where its embedding
starts from the relit photo, that as `start` (B, 3, H, W); ONNX and OpenVINO files leave out inputs that the
embedding does not look at. It gives `restored` (B, 3, H, W), not clamped, and
`head` (B, 4, H, W): K and B of the soft reconstruction, from which a `Correction` is made. It looks at what it is
given: where its configuration has `view_pixels`, reduce larger pictures first and enlarge `head`, as `feed` does.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np

from shadowmaskformer.errors import WeightsError
from shadowmaskformer.light.correction import Correction
from shadowmaskformer.network.config import ModelConfig
from shadowmaskformer.network.embedding import embedding_of
from shadowmaskformer.runtimes import Floats, NetworkInput, network_input, to_correction

OUTPUTS = ("restored", "head")
CONFIG_KEY = "shadowmaskformer.network.config"
SUFFIXES = {"onnx": ".onnx", "openvino": ".xml", "torch": ".pt2"}


def input_names(config: ModelConfig) -> tuple[str, ...]:
    """The inputs of a network exported with `config`, in order."""
    return ("photo", "mask", "start") if embedding_of(config).starts_relit else ("photo", "mask")


def feed(config: ModelConfig, photo: Floats, mask: Floats) -> tuple[dict[str, Floats], NetworkInput]:
    """Lay a photo, (H, W, 3), and its mask, (H, W), out as the exported inputs; also what they were made from."""
    given = network_input(config, photo, mask)
    pictures = {"photo": given.photo, "mask": given.mask, "start": given.start}
    return {name: _channels_first(pictures[name]) for name in input_names(config)}, given


def correction_of(head: Any, given: NetworkInput) -> Correction:
    """Turn the output `head`, (1, 4, h, w), into a correction of the photo."""
    return to_correction(np.ascontiguousarray(np.asarray(head)[0].transpose(1, 2, 0)), given)


def exported_file(weights: str | Path, runtime: str) -> Path:
    """The exported file called `weights`."""
    path = Path(weights)
    if path.suffix != SUFFIXES[runtime]:
        raise WeightsError(
            f"runtime {runtime!r} runs a {SUFFIXES[runtime]} file, got {str(weights)!r}; "
            f"make one with: shadowmaskformer export --to {runtime} --weights {weights} -o model{SUFFIXES[runtime]}"
        )
    if not path.is_file():
        raise WeightsError(f"there is no file {path}; make it with: shadowmaskformer export --to {runtime} -o {path}")
    return path


def config_to_text(config: ModelConfig) -> str:
    """The configuration as the text that exported files carry."""
    return json.dumps(config.to_dict())


def config_from_text(text: str | None, path: Path) -> ModelConfig:
    """Inverse of `config_to_text`."""
    if not text:
        raise WeightsError(
            f"{path} carries no network configuration; only files of `shadowmaskformer export` can be run"
        )
    try:
        return ModelConfig.from_dict(json.loads(text))
    except json.JSONDecodeError as error:
        raise WeightsError(f"the configuration inside {path} is damaged ({error}); export it again") from error


def _channels_first(picture: Floats) -> Floats:
    return np.ascontiguousarray(picture.transpose(2, 0, 1)[None], np.float32)
