import subprocess
import sys

import shadowmaskformer


def test_public_names_are_pinned():
    assert shadowmaskformer.__all__ == [
        "VARIANTS",
        "ModelConfig",
        "ShadowMaskFormer",
        "ShadowMaskFormerError",
        "ShadowRemover",
        "remove_shadow",
    ]
    assert all(hasattr(shadowmaskformer, name) for name in shadowmaskformer.__all__)


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
