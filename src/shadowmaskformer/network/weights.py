"""Weights on disk: `model.safetensors` with `config.json` beside it, and the authors' `.pth` files.

Everything here works without PyTorch, except reading a `.pth`.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from shadowmaskformer.errors import (
    ConfigError,
    MissingExtraError,
    OutputError,
    UnsafeWeightsError,
    WeightsError,
)
from shadowmaskformer.files import write_atomically
from shadowmaskformer.network.config import ModelConfig
from shadowmaskformer.network.embedding import embedding_of

WEIGHTS_FILE, CONFIG_FILE = "model.safetensors", "config.json"
FORMAT_VERSION = 1
PRETRAINED = Path(__file__).parents[1] / "pretrained"
DEFAULT = "default"

Arrays = dict[str, NDArray[np.float32]]


def shipped() -> list[str]:
    """Names of the weights inside the package."""
    return sorted(path.parent.name for path in PRETRAINED.glob(f"*/{WEIGHTS_FILE}"))


def load(name: str | Path = DEFAULT) -> tuple[ModelConfig, Arrays]:
    """Read weights as float32 arrays.

    Args:
        name: shipped weights by name, a folder, a `.safetensors` file with `config.json` beside it, or a Hugging
            Face hub repository such as `someone/their-weights`. Only the last may reach for the network, and only
            when nothing local is called that.

    Returns:
        The configuration, and each parameter under its name in `ShadowMaskFormer.state_dict()`.
    """
    path = locate(name)
    config = read_config(path.with_name(CONFIG_FILE))
    return config, check(read_arrays(path), config, path)


def locate(name: str | Path) -> Path:
    """The `.safetensors` file that `name` stands for."""
    path = Path(name)
    folders = [PRETRAINED / path, path] if len(path.parts) == 1 and path.suffix == "" else [path]
    for folder in folders:
        if (folder / WEIGHTS_FILE).is_file():
            return folder / WEIGHTS_FILE
    if path.suffix in (".pth", ".pt", ".ckpt"):
        raise WeightsError(f"{path} is a PyTorch file; run `shadowmaskformer convert {path}` once and use its folder")
    if path.is_file():
        return path
    if isinstance(name, str) and re.fullmatch(r"[\w.-]+/[\w.-]+", name) and not path.exists():
        return _from_hub(name)
    searched = ", ".join(str(folder) for folder in folders)
    known = ", ".join(shipped()) or "none"
    raise WeightsError(f"no weights {str(name)!r}: searched {searched}; shipped with the package: {known}")


def _from_hub(name: str) -> Path:
    try:
        from huggingface_hub import hf_hub_download
    except ImportError:
        raise MissingExtraError(
            f"no local weights {name!r}; to fetch them from the hub: pip install 'shadowmaskformer[hub]'"
        ) from None
    try:
        hf_hub_download(name, CONFIG_FILE)
        return Path(hf_hub_download(name, WEIGHTS_FILE))
    except Exception as error:  # the hub's own errors differ between its versions
        reason = str(error).strip().splitlines()[0] if str(error).strip() else type(error).__name__
        raise WeightsError(f"no local weights {name!r} and the hub gave none: {reason}") from error


def read_config(path: Path) -> ModelConfig:
    """Read a `config.json`."""
    try:
        values: Any = json.loads(path.read_text("utf-8"))
    except OSError as error:
        raise WeightsError(f"{path}: {error.strerror}; weights need their configuration beside them") from error
    except ValueError as error:
        raise ConfigError(f"{path}: not valid JSON ({error}); copy the file again") from error
    if not isinstance(values, dict):
        raise ConfigError(f"{path}: expected a JSON object with the model's configuration")
    version: Any = values.pop("format_version", FORMAT_VERSION)
    if version > FORMAT_VERSION:
        raise WeightsError(f"{path}: format {version} is newer than this package reads; upgrade shadowmaskformer")
    try:
        return ModelConfig.from_dict(values)
    except ConfigError as error:
        raise ConfigError(f"{path}: {error}") from error


def read_arrays(path: Path) -> Arrays:
    """Read a safetensors file as float32 arrays."""
    from safetensors import SafetensorError
    from safetensors.numpy import load_file

    try:
        return {key: array.astype(np.float32) for key, array in load_file(path).items()}
    except (SafetensorError, OSError, ValueError, KeyError) as error:
        raise WeightsError(f"{path}: not readable as safetensors ({error}); copy or download it again") from error


def check(arrays: Arrays, config: ModelConfig, source: object) -> Arrays:
    """Refuse arrays that are not exactly the parameters of `config`, or not finite."""
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
        raise WeightsError(f"{source}: weights do not fit their configuration: {'; '.join(wrong[:3])}{more}")
    for key, array in arrays.items():
        if not np.isfinite(array).all():
            raise WeightsError(f"{source}: {key} holds NaN or infinity; these weights are broken, use an earlier save")
    return arrays


def save(folder: str | Path, config: ModelConfig, arrays: Mapping[str, NDArray[Any]], *, half: bool = False) -> Path:
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
    text = json.dumps({"format_version": FORMAT_VERSION, **config.to_dict()}, indent=2) + "\n"
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise OutputError(f"{folder}: cannot be made ({error.strerror}); choose another folder") from error
    write_atomically(folder / CONFIG_FILE, text.encode(), overwrite=True)
    write_atomically(folder / WEIGHTS_FILE, data, overwrite=True)
    return folder / WEIGHTS_FILE


def parameter_shapes(config: ModelConfig) -> dict[str, tuple[int, ...]]:
    """Name and shape of every parameter, without building the network.

    >>> from shadowmaskformer.network.config import VARIANTS
    >>> sum(int(np.prod(s)) for s in parameter_shapes(VARIANTS["middle"]).values())
    2283936
    """
    shapes: dict[str, tuple[int, ...]] = {}

    def layer(name: str, *weight: int, bias: bool = True) -> None:
        shapes[f"{name}.weight"] = weight
        if bias:
            shapes[f"{name}.bias"] = weight[:1]

    widths = config.widths
    layer("embed", widths[0], embedding_of(config).channels, 3, 3)
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
                layer(f"{block}.position.mlp.0", 256, 2)
                layer(f"{block}.position.mlp.2", config.heads[stage], 256)
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
    layer("head", 4, widths[4], 3, 3)
    return shapes


# --- the authors' release ---------------------------------------------------------------------------------------------

_RELEASE_NAMES: list[tuple[str, str | Callable[[re.Match[str]], str]]] = [
    (r"^proj\.proj\.", "embed."),
    (r"^layer(\d)\.blocks\.", lambda match: f"stages.{int(match[1]) - 1}."),
    (r"\.norm1\.", ".norm."),
    (r"\.attn\.attn\.meta\.", ".position.mlp."),
    (r"\.attn\.V\.", ".v."),
    (r"\.attn\.QK\.", ".qk."),
    (r"\.attn\.(proj|conv)\.", r".\1."),
    (r"\.mlp\.mlp\.", ".mlp."),
    (r"^patch_merge(\d)\.proj\.", lambda match: f"down.{int(match[1]) - 1}."),
    (r"^patch_split(\d)\.proj\.0\.", lambda match: f"up.{int(match[1]) - 1}."),
    (r"^skip(\d)\.", lambda match: f"skip.{2 - int(match[1])}."),
    (r"^fusion(\d)\.", lambda match: f"fuse.{int(match[1]) - 1}."),
    (r"^patch_unembed\.proj\.0\.", "head."),
]


def read_release(path: str | Path) -> tuple[ModelConfig, Arrays]:
    """Read a checkpoint trained with the authors' code, its network's size read off the tensors.

    That code computes the attention blocks' convolution branch and drops it, so those weights are left out here
    and `attention_conv` is off; so is its `patch_embed`, which it never calls.
    """
    state = _load_pth(Path(path))
    arrays: Arrays = {}
    for released, array in state.items():
        key = released.removeprefix("module.")
        if key.startswith("patch_embed.") or key.endswith("relative_positions"):
            continue
        for pattern, replacement in _RELEASE_NAMES:
            key = re.sub(pattern, replacement, key)
        arrays[key] = array
    for key in [key for key in arrays if ".qk." in key]:
        arrays[key.replace(".qk.", ".qkv.")] = np.concatenate((arrays.pop(key), arrays.pop(key.replace(".qk.", ".v."))))
    for key in [key for key in arrays if ".conv." in key]:
        if re.sub(r"\.conv\.\w+$", ".qkv.weight", key) in arrays:
            del arrays[key]
    config = ModelConfig(depths=_release_depths(arrays, path), attention_conv=False)
    shapes = parameter_shapes(config)
    for key, array in arrays.items():
        # 1×1 convolutions became linear layers.
        if key in shapes and array.ndim == 4 and array.shape[2:] == (1, 1) and len(shapes[key]) == 2:
            arrays[key] = array[:, :, 0, 0]
        elif key in shapes and array.size == int(np.prod(shapes[key])) and array.ndim != len(shapes[key]):
            arrays[key] = array.reshape(shapes[key])
    return config, check(arrays, config, path)


def _release_depths(arrays: Arrays, path: str | Path) -> tuple[int, ...]:
    depths = [0] * 5
    for key in arrays:
        if match := re.match(r"stages\.([0-4])\.(\d+)\.", key):
            stage = int(match[1])
            depths[stage] = max(depths[stage], int(match[2]) + 1)
    if not all(depths):
        raise WeightsError(
            f"{path}: not a ShadowMaskFormer checkpoint; expected keys such as layer1.blocks.0.attn.V.weight"
        )
    return tuple(depths)


def _load_pth(path: Path) -> Arrays:
    if path.suffix == ".pt2":
        raise UnsafeWeightsError(f"{path}: a .pt2 archive may hold code; convert the checkpoint it was made from")
    if not path.is_file():
        raise WeightsError(f"{path}: no such file; give the .pth that the training wrote")
    try:
        import torch
    except ImportError:
        raise MissingExtraError(f"reading {path} needs PyTorch once: pip install 'shadowmaskformer[torch]'") from None
    import pickle

    try:
        content: Any = torch.load(path, map_location="cpu", weights_only=True)
    except pickle.UnpicklingError as error:
        raise UnsafeWeightsError(
            f"{path}: holds more than tensors and was not run; save its state_dict alone"
        ) from error
    except Exception as error:  # torch raises RuntimeError, EOFError, ValueError, … for damaged files
        raise WeightsError(f"{path}: not a readable PyTorch file; copy it again") from error
    state: Any = content.get("state_dict", content) if isinstance(content, dict) else None
    if not isinstance(state, dict) or not all(isinstance(value, torch.Tensor) for value in state.values()):
        raise WeightsError(f"{path}: expected {{'state_dict': …}} or a dictionary of tensors")
    return {str(key): value.float().numpy() for key, value in state.items()}
