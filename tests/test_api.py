import os
import subprocess
import sys
from pathlib import Path

import shadowmaskformer

NAMES = [
    "ArrayError",
    "ConfigError",
    "Correction",
    "DatasetError",
    "Detection",
    "DiskFullError",
    "EvaluationError",
    "Hint",
    "ImageReadError",
    "ImageTooLargeError",
    "MaskError",
    "MissingExtraError",
    "ModelConfig",
    "NoShadowError",
    "NotAnImageError",
    "Options",
    "Outcome",
    "OutputError",
    "Removal",
    "RemovedFile",
    "Shadow",
    "ShadowDetector",
    "ShadowMaskFormer",
    "ShadowMaskFormerError",
    "ShadowRemover",
    "TrainingError",
    "UnsafeWeightsError",
    "VARIANTS",
    "WeightsError",
    "WorkerDiedError",
    "__version__",
    "remove_many",
    "remove_shadow",
]


def test_public_names_are_pinned():
    assert sorted(shadowmaskformer.__all__) == sorted(NAMES)
    assert all(hasattr(shadowmaskformer, name) for name in NAMES)


def test_the_core_install_can_be_looked_around_in(tmp_path: Path):
    (tmp_path / "torch.py").write_text("raise ImportError('torch is not here')\n")
    code = """
import sys, importlib.util, inspect, pydoc
find = importlib.util.find_spec
importlib.util.find_spec = lambda name, *rest: None if name == "torch" else find(name, *rest)
import shadowmaskformer
from shadowmaskformer import *
inspect.getmembers(shadowmaskformer)
assert "remove_shadow" in pydoc.render_doc(shadowmaskformer)
try: shadowmaskformer.ShadowMaskFormer
except ImportError as error: print(error)
"""
    done = subprocess.run(
        [sys.executable, "-c", code], env={**os.environ, "PYTHONPATH": str(tmp_path)}, capture_output=True, text=True
    )
    assert done.stderr == ""
    assert "shadowmaskformer[torch]" in done.stdout


def test_a_script_that_keeps_its_remover_ends_without_a_word():
    code = """
import numpy as np, shadowmaskformer
photo = np.full((32, 48, 3), 200, np.uint8)
mask = np.zeros((32, 48), np.uint8)
photo[8:20, 10:30], mask[8:20, 10:30] = 80, 255
def kept(remover=shadowmaskformer.ShadowRemover()): return remover
shadowmaskformer.remove_shadow(photo, mask)
"""
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
    assert (done.returncode, done.stdout, done.stderr) == (0, "", "")


def test_import_brings_nothing_heavy():
    code = (
        "import sys, shadowmaskformer as s; s.ShadowRemover; "
        "print(*sorted({'torch', 'matplotlib', 'tifffile'} & set(sys.modules)))"
    )
    printed = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout
    assert printed.strip() == ""


def test_help_of_every_command_imports_nothing_heavy():
    from shadowmaskformer.cli import COMMANDS

    code = (
        "import sys\nfrom shadowmaskformer.cli import main\n"
        "try: main(sys.argv[1:])\nexcept SystemExit: pass\n"
        "print('HEAVY', *sorted({'torch','numpy','PIL','matplotlib'} & set(sys.modules)))"
    )
    for arguments in (["--help"], *([command, "--help"] for command in COMMANDS)):
        done = subprocess.run([sys.executable, "-c", code, *arguments], capture_output=True, text=True, check=True)
        assert done.stdout.splitlines()[-1].strip() == "HEAVY", arguments
