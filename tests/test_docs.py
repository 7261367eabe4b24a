"""What the guides print works as printed."""

from __future__ import annotations

import re
import shlex
import shutil
import subprocess
import sys
from collections.abc import Generator
from pathlib import Path

import pytest
from PIL import Image

import shadowmaskformer
from shadowmaskformer.cli import build_parser

ROOT = Path(__file__).parents[1]
ASSETS = Path(shadowmaskformer.__file__).parent / "assets"
PAGES = [ROOT / "README.md", *sorted((ROOT / "docs").glob("*.md"))]
GUIDES = [ROOT / "docs" / name for name in ("api.md", "first-photo.md", "masks-and-hints.md")]
PRINTED = "http://localhost:8430"
RUN = ("remove", "mask")
"""Commands that are run as printed; others would not end, or would take hours."""


def blocks(page: Path, language: str) -> list[str]:
    return re.findall(rf"^```{language}\n(.*?)^```$", page.read_text("utf-8"), re.M | re.S)


def commands(page: Path, program: str) -> list[list[str]]:
    lines = [line for block in blocks(page, "") for line in block.splitlines()]
    return [shlex.split(line, comments=True) for line in lines if line.startswith(f"{program} ")]


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder with the photo and the mask that the guides speak of."""
    shutil.copy(ASSETS / "demo-photo.jpg", tmp_path / "beach.jpg")
    shutil.copy(ASSETS / "demo-mask.png", tmp_path / "mask.png")
    monkeypatch.chdir(tmp_path)
    return tmp_path


@pytest.fixture(scope="module")
def address() -> Generator[str]:
    from serve.running import running

    with running(threads=1) as server:
        yield server.url


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_every_command_exists_with_its_options(page: Path):
    for words in commands(page, "shadowmaskformer"):
        build_parser(words[1]).parse_args(words[1:])


@pytest.mark.parametrize("page", GUIDES, ids=lambda page: page.name)
def test_commands_of_the_guides_run(page: Path, folder: Path):
    for words in commands(page, "shadowmaskformer"):
        if words[1] in RUN:
            for old in folder.glob("*-no-shadow*"):
                old.unlink()
            done = subprocess.run([sys.executable, "-m", *words], cwd=folder, check=True, capture_output=True)
            assert done.stdout


@pytest.mark.skipif(shutil.which("curl") is None, reason="no curl on this machine")
def test_curl_in_the_guides_works(folder: Path, address: str):
    readme = re.findall(r"`(curl .*)`", (ROOT / "README.md").read_text("utf-8"))
    printed = [*commands(ROOT / "docs" / "api.md", "curl"), *map(shlex.split, readme)]
    assert len(printed) >= 4
    for words in printed:
        words = [word.replace(PRINTED, address) for word in words]
        subprocess.run([words[0], "--fail", "--silent", *words[1:]], cwd=folder, check=True, capture_output=True)
        for name in ("result.jpg", "result.png"):
            if name in words:
                with Image.open(folder / name) as result:
                    assert result.size == (1024, 768)


def test_python_in_the_guide_works(folder: Path, address: str):
    (code,) = blocks(ROOT / "docs" / "api.md", "python")
    exec(compile(code.replace(PRINTED, address), "api.md", "exec"), {})
    with Image.open(folder / "result.jpg") as result:
        assert result.size == (1024, 768)


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_links_lead_somewhere(page: Path):
    for target in re.findall(r"\]\((?!https?:)([^)#]+)", page.read_text("utf-8")):
        assert (page.parent / target).exists(), target
