"""Weights on disk: `model.safetensors` with `config.json` beside it. No PyTorch.

`parameter_shapes` is the one list of the network's parameters; tests compare the PyTorch module with it.
"""

from __future__ import annotations

import json
import logging
import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from shadowmaskformer.arrays import Floats
from shadowmaskformer.errors import ConfigError, MissingExtraError, WeightsError, first_line
from shadowmaskformer.files import make_folder, write_atomically
from shadowmaskformer.network.config import BIAS_HIDDEN, NetworkConfig, UConfig
from shadowmaskformer.network.kinds import config_from_dict, config_to_dict, kind_of
from shadowmaskformer.network.steps import step_shapes

WEIGHTS_FILE, CONFIG_FILE = "model.safetensors", "config.json"
FORMAT_VERSION = 1
PRETRAINED = Path(__file__).parents[1] / "pretrained"
DEFAULT = "default"
HUB = "hf:"
"""What a name starts with if the weights are on the Hugging Face hub."""

Arrays = dict[str, Floats]


def shipped() -> list[str]:
    """Return the names of the weights inside the package."""
    return sorted(path.parent.name for path in PRETRAINED.glob(f"*/{WEIGHTS_FILE}"))


def load(name: str | Path = DEFAULT) -> tuple[NetworkConfig, Arrays]:
    """Read weights as float32 arrays.

    Args:
        name: shipped weights by name, a folder, a `.safetensors` file with `config.json` beside it, or a repository on
            the Hugging Face hub as `hf:owner/name`. Nothing else asks the internet.

    Returns:
        The configuration, and each parameter under its name in the PyTorch module's `state_dict()`.
    """
    path = locate(name)
    config = read_config(path.with_name(CONFIG_FILE))
    return config, check(read_arrays(path), config, path)


def locate(name: str | Path) -> Path:
    """Return the `.safetensors` file that `name` stands for; see `load`."""
    if isinstance(name, str) and name.startswith(HUB):
        return _from_hub(name.removeprefix(HUB))
    path = Path(name)
    folders = [PRETRAINED / path, path] if len(path.parts) == 1 and path.suffix == "" else [path]
    for folder in folders:
        if (folder / WEIGHTS_FILE).is_file():
            return folder / WEIGHTS_FILE
    if path.suffix in (".pth", ".pt", ".ckpt"):
        raise WeightsError(f"{path} is a PyTorch file", f"run `shadowmaskformer convert {path}` and use its folder")
    if path.is_file():
        if path.suffix == ".safetensors":
            return path
        raise WeightsError(f"{path} is not a file of weights", f"give {_EXPECTED}")
    if path.is_dir():
        raise WeightsError(f"the folder {path} holds no {WEIGHTS_FILE}", f"give {_EXPECTED}")
    hub = f"; weights on the Hugging Face hub are called {HUB}{name}" if _is_repository(str(name)) else ""
    known = ", ".join(shipped()) or "none"
    raise WeightsError(
        f"there are no weights {str(name)!r}", f"give {_EXPECTED}; shipped with the package: {known}{hub}"
    )


_FLOATS = "save the weights as float32 or float16"
_EXPECTED = f"a folder with {WEIGHTS_FILE} and {CONFIG_FILE}, or a .safetensors file with {CONFIG_FILE} beside it"


def lasting_name(name: str | Path) -> str | Path:
    """Return a name that means the same weights from another current folder."""
    # Like `locate`, it takes shipped weights before a folder that is called so, such as a data set's.
    return name if str(name) in shipped() or not Path(name).exists() else Path(name).absolute()


def _is_repository(name: str) -> bool:
    return re.fullmatch(r"[\w.-]+/[\w.-]+", name) is not None


def _from_hub(name: str) -> Path:
    if not _is_repository(name):
        raise WeightsError(f"{HUB}{name} is not a repository on the Hugging Face hub", f"write {HUB}owner/name")
    try:
        from huggingface_hub import hf_hub_download
    except ImportError:
        raise MissingExtraError(
            f"reading {HUB}{name} needs the Hugging Face hub", "pip install 'shadowmaskformer[hub]'"
        ) from None
    log = logging.getLogger("huggingface_hub")
    before = log.level
    log.setLevel(logging.ERROR)  # it tells of each try; what counts is the last
    try:
        hf_hub_download(name, CONFIG_FILE)
        return Path(hf_hub_download(name, WEIGHTS_FILE))
    except Exception as error:  # the hub's own errors differ between its versions
        raise WeightsError(
            f"the hub has no weights {HUB}{name} for us ({first_line(error)})", "check the name and the connection"
        ) from error
    finally:
        log.setLevel(before)


def read_config(path: Path) -> NetworkConfig:
    """Read a `config.json`."""
    try:
        values: Any = json.loads(path.read_text("utf-8"))
    except OSError as error:
        raise WeightsError(f"{path}: {error.strerror}", "weights need their configuration beside them") from error
    except ValueError as error:
        raise ConfigError(f"{path}: not valid JSON ({error})", "copy the file again") from error
    if not isinstance(values, dict):
        raise ConfigError(f"{path}: not a model's configuration", "expected a JSON object")
    version: Any = values.pop("format_version", FORMAT_VERSION)
    if not isinstance(version, int):
        raise ConfigError(f"{path}: format_version is {json.dumps(version)}", f"expected {FORMAT_VERSION}")
    if version > FORMAT_VERSION:
        raise WeightsError(f"{path}: format {version} is newer than this package reads", "upgrade shadowmaskformer")
    try:
        return config_from_dict(values)
    except ConfigError as error:
        raise ConfigError(f"{path}: {error.message}", error.remedy) from error


def read_arrays(path: Path) -> Arrays:
    """Read a safetensors file as float32 arrays."""
    from safetensors import SafetensorError
    from safetensors.numpy import load_file

    try:
        arrays = load_file(path)
    except (SafetensorError, OSError, ValueError, KeyError) as error:
        raise WeightsError(f"{path}: not readable as safetensors ({error})", "copy or download it again") from error
    except TypeError as error:  # NumPy has no bfloat16 and no float8
        raise WeightsError(f"{path}: holds numbers of another kind ({error})", _FLOATS) from error
    for key, array in arrays.items():
        if array.dtype.kind != "f":
            raise WeightsError(f"{path}: {key} holds {array.dtype}", _FLOATS)
    return {key: array.astype(np.float32) for key, array in arrays.items()}


def check(arrays: Arrays, config: NetworkConfig, source: object) -> Arrays:
    """Return `arrays`; raise WeightsError unless they are the parameters of `config` and finite."""
    expected = parameter_shapes(config)
    wrong = [f"{key} missing" for key in expected if key not in arrays]
    wrong += [f"{key} unknown" for key in arrays if key not in expected]
    wrong += [
        f"{key} is {arrays[key].shape}, expected {shape}"
        for key, shape in expected.items()
        if key in arrays and arrays[key].shape != shape
    ]
    if wrong:
        more = f" and {len(wrong) - 3} more" if len(wrong) > 3 else ""
        raise WeightsError(
            f"{source}: weights do not fit their configuration: {'; '.join(wrong[:3])}{more}",
            f"take both files, {WEIGHTS_FILE} and {CONFIG_FILE}, from one place",
        )
    for key, array in arrays.items():
        if not np.isfinite(array).all():
            raise WeightsError(
                f"{source}: {key} holds NaN or infinity", "these weights are broken, use an earlier save"
            )
    return arrays


def save(folder: str | Path, config: NetworkConfig, arrays: Mapping[str, NDArray[Any]], *, half: bool = False) -> Path:
    """Write weights and configuration into `folder`, each file whole or not at all.

    Args:
        folder: created if absent.
        config: the network's configuration.
        arrays: its parameters by name.
        half: store as float16, half the size; they are read back as float32.

    Returns:
        The weights file.
    """
    from safetensors.numpy import save as serialise

    folder = Path(folder)
    dtype = np.float16 if half else np.float32
    data = serialise({key: np.ascontiguousarray(array, dtype) for key, array in arrays.items()})
    text = json.dumps({"format_version": FORMAT_VERSION, **config_to_dict(config)}, indent=2) + "\n"
    make_folder(folder)
    write_atomically(folder / CONFIG_FILE, text.encode(), overwrite=True)
    write_atomically(folder / WEIGHTS_FILE, data, overwrite=True)
    return folder / WEIGHTS_FILE


def parameter_shapes(config: NetworkConfig) -> dict[str, tuple[int, ...]]:
    """Return name and shape of every parameter, without building the network.

    >>> from shadowmaskformer.network.config import VARIANTS
    >>> sum(int(np.prod(s)) for s in parameter_shapes(VARIANTS["middle"]).values())
    2283936
    """
    kind = kind_of(config)
    if kind.steps is not None:
        return step_shapes(kind.steps(config), kind.channels(config))
    assert isinstance(config, UConfig)
    shapes: dict[str, tuple[int, ...]] = {}

    def layer(name: str, *weight: int, bias: bool = True) -> None:
        shapes[f"{name}.weight"] = weight
        if bias:
            shapes[f"{name}.bias"] = weight[:1]

    widths = config.widths
    layer("embed", widths[0], kind.channels(config), 3, 3)
    for stage, depth in enumerate(config.depths):
        c, hidden = widths[stage], widths[stage] * config.mlp_ratios[stage]
        for index in range(depth):
            block = f"stages.{stage}.{index}"
            attends = config.uses_attention(stage, index)
            if attends:
                shapes[f"{block}.norm.weight"] = shapes[f"{block}.norm.bias"] = (c,)
                layer(f"{block}.norm.meta1", c, 1)
                layer(f"{block}.norm.meta2", c, 1)
                layer(f"{block}.qkv", 3 * c, c)
                layer(f"{block}.position.mlp.0", BIAS_HIDDEN, 2)
                layer(f"{block}.position.mlp.2", config.heads[stage], BIAS_HIDDEN)
            else:
                layer(f"{block}.v", c, c)
            if not attends or config.attention_conv:
                layer(f"{block}.conv", c, 1, 5, 5)
            layer(f"{block}.proj", c, c)
            layer(f"{block}.mlp.0", hidden, c)
            layer(f"{block}.mlp.2", c, hidden)
    for i in (0, 1):
        layer(f"down.{i}", widths[i + 1], widths[i], 2, 2)
        layer(f"up.{i}", 4 * widths[i + 3], widths[i + 2])
        layer(f"skip.{i}", widths[i + 3], widths[i + 3])
        hidden = max(widths[i + 3] // 8, 4)
        layer(f"fuse.{i}.mlp.0", hidden, widths[i + 3], bias=False)
        layer(f"fuse.{i}.mlp.2", 2 * widths[i + 3], hidden, bias=False)
    layer("head", kind.head_channels, widths[4], 3, 3)
    return shapes
