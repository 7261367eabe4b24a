"""Turn a checkpoint trained with the authors' released code into weights for this package.

Reads the .pth without running code from it, reads the network's size off its tensors, and writes a folder with
model.safetensors and config.json. The release computes a convolution branch in its attention blocks and drops it,
so that branch is switched off in the result: it computes exactly what the release computes.

example:
  shadowmaskformer convert checkpoint.pth -o my-weights
  shadowmaskformer remove photo.jpg --mask mask.png --weights my-weights
"""

from __future__ import annotations

import argparse
from pathlib import Path

HELP = "turn the authors' .pth checkpoint into safetensors"


def configure(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("checkpoint", type=Path, help="the .pth file")
    parser.add_argument("-o", "--output", type=Path, help="folder to write (default: the checkpoint's name)")
    parser.add_argument("--half", action="store_true", help="store float16: half the size, same use")
    parser.add_argument("--overwrite", action="store_true", help="replace weights that are there")


def run(args: argparse.Namespace) -> int:
    import numpy as np

    from shadowmaskformer.errors import OutputError
    from shadowmaskformer.network import weights
    from shadowmaskformer.network.config import VARIANTS
    from shadowmaskformer.network.release import read_release

    folder: Path = args.output or args.checkpoint.with_suffix("")
    if (folder / weights.WEIGHTS_FILE).exists() and not args.overwrite:
        raise OutputError(
            f"{folder / weights.WEIGHTS_FILE} exists", "replace it with {overwrite=True} or choose another {output}"
        )
    config, arrays = read_release(args.checkpoint)
    path = weights.save(folder, config, arrays, half=args.half)
    size = next((name for name, known in VARIANTS.items() if known.depths == config.depths), f"depths {config.depths}")
    count = sum(int(np.prod(array.shape)) for array in arrays.values())
    print(f"{path}  ({size}, {count:,} parameters, convolution branch of attention blocks off)")
    return 0
