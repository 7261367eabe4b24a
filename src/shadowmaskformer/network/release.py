"""Checkpoints of the authors' released code: `.pth` files turned into weights of this package.

Reading one needs PyTorch; no code from the file is run.
"""

from __future__ import annotations

import pickle
import re
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

from shadowmaskformer.errors import MissingExtraError, UnsafeWeightsError, WeightsError
from shadowmaskformer.network.config import ModelConfig
from shadowmaskformer.network.weights import Arrays, check, parameter_shapes

_EXPECTED = "give the .pth file that the authors' training code wrote"
_STARTS = (b"PK", b"\x80")
"""The first bytes of what `torch.save` writes: a zip archive, or a pickle in older versions."""

_NAMES: list[tuple[str, str | Callable[[re.Match[str]], str]]] = [
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
    state = _read_checkpoint(Path(path))
    arrays: Arrays = {}
    for released, array in state.items():
        key = released.removeprefix("module.")
        if key.startswith("patch_embed.") or key.endswith("relative_positions"):
            continue
        for pattern, replacement in _NAMES:
            key = re.sub(pattern, replacement, key)
        arrays[key] = array
    for key in [key for key in arrays if ".qk." in key]:
        arrays[key.replace(".qk.", ".qkv.")] = np.concatenate((arrays.pop(key), arrays.pop(key.replace(".qk.", ".v."))))
    for key in [key for key in arrays if ".conv." in key]:
        if re.sub(r"\.conv\.\w+$", ".qkv.weight", key) in arrays:
            del arrays[key]
    config = ModelConfig(depths=_depths(arrays, path), attention_conv=False)
    shapes = parameter_shapes(config)
    for key, array in arrays.items():
        # 1×1 convolutions became linear layers.
        if key in shapes and array.ndim == 4 and array.shape[2:] == (1, 1) and len(shapes[key]) == 2:
            arrays[key] = array[:, :, 0, 0]
        elif key in shapes and array.size == int(np.prod(shapes[key])) and array.ndim != len(shapes[key]):
            arrays[key] = array.reshape(shapes[key])
    return config, check(arrays, config, path)


def _depths(arrays: Arrays, path: str | Path) -> tuple[int, ...]:
    depths = [0] * 5
    for key in arrays:
        if match := re.match(r"stages\.([0-4])\.(\d+)\.", key):
            stage = int(match[1])
            depths[stage] = max(depths[stage], int(match[2]) + 1)
    if not all(depths):
        raise WeightsError(
            f"{path}: not a ShadowMaskFormer checkpoint", "expected keys such as layer1.blocks.0.attn.V.weight"
        )
    return tuple(depths)


def _read_checkpoint(path: Path) -> Arrays:
    if path.suffix == ".pt2":
        raise UnsafeWeightsError(f"{path}: a .pt2 archive may hold code", "convert the checkpoint it was made from")
    try:
        with path.open("rb") as file:
            start = file.read(4)
    except OSError as error:
        raise WeightsError(f"{path}: {error.strerror}", _EXPECTED) from error
    if not start.startswith(_STARTS):
        raise WeightsError(f"{path}: not a PyTorch checkpoint", _EXPECTED)
    try:
        import torch
    except ImportError:
        raise MissingExtraError(f"reading {path} needs PyTorch", "pip install 'shadowmaskformer[torch]'") from None
    try:
        with warnings.catch_warnings(action="ignore"):  # whether it can read the file shows by itself
            content: Any = torch.load(path, map_location="cpu", weights_only=True)
    except pickle.UnpicklingError as error:
        raise UnsafeWeightsError(
            f"{path}: holds more than tensors and was not run", "save its state_dict alone"
        ) from error
    except Exception as error:  # torch raises RuntimeError, EOFError, ValueError, … for damaged files
        raise WeightsError(f"{path}: a damaged PyTorch file", "copy it again") from error
    state: Any = content.get("state_dict", content) if isinstance(content, dict) else None
    if not isinstance(state, dict) or not all(isinstance(value, torch.Tensor) for value in state.values()):
        raise WeightsError(f"{path}: holds no state_dict", "give {'state_dict': …} or a dictionary of tensors")
    return {str(key): value.float().numpy() for key, value in state.items()}
