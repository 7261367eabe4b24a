"""Write the network as one file for another runtime, and prove that it computes the same.

The file takes photos of any height, width and batch, and carries the network's configuration. Before it is left
where you asked for it, it is compared with the network on pieces of a photograph; if any differs by more than
1e-5 (openvino: 1e-4) there is no file. The torch file wants at least 5 pixels a side and is for your own programs;
`remove` runs the other two. OpenVINO writes its weights beside the .xml, ending in .bin: keep both together.

examples:
  shadowmaskformer export --to onnx -o model.onnx
  shadowmaskformer remove photo.jpg --mask mask.png --runtime onnx --weights model.onnx
  shadowmaskformer export --to openvino --weights my-weights -o model.xml
"""

from __future__ import annotations

import argparse
from pathlib import Path

from shadowmaskformer.runtimes.backends import export_formats

HELP = "write the network for ONNX Runtime, OpenVINO or torch.export"


def configure(parser: argparse.ArgumentParser) -> None:
    formats = export_formats()
    endings = ", ".join(f"{form.suffix} ({name})" for name, form in formats.items())
    parser.add_argument("--to", required=True, choices=tuple(formats), help="the file's format")
    parser.add_argument("--weights", default="default", help="shipped name, folder, .safetensors file or hf:owner/name")
    parser.add_argument("-o", "--output", required=True, type=Path, metavar="FILE", help=f"ends in {endings}")
    parser.add_argument("--overwrite", action="store_true", help="replace the file if it is there")


def run(args: argparse.Namespace) -> int:
    from shadowmaskformer.files import check_output, shown
    from shadowmaskformer.runtimes.export import export

    check_output(args.output, overwrite=args.overwrite)
    made = export(args.weights, args.to, args.output)
    for (batch, height, width), difference in made.differences.items():
        print(f"  {batch} x {height}x{width}: differs by {difference:.1e} (at most {made.bound:.0e})")
    print(f"{shown(made.path)}  ({made.path.stat().st_size / 1e6:.1f} MB)")
    return 0
