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
from shadowmaskformer.cli import build_parser, main
from shadowmaskformer.network import embedding

ROOT = Path(__file__).parents[1]
ASSETS = Path(shadowmaskformer.__file__).parent / "assets"
PAGES = [ROOT / "README.md", *sorted((ROOT / "docs").glob("*.md"))]
GUIDES = [ROOT / "docs" / name for name in ("api.md", "first-photo.md", "masks-and-hints.md")]
PRINTED = "http://localhost:8430"
SHELL = ("", "sh", "bash", "shell", "console")
"""What blocks of commands may be tagged with."""
COMMANDS = {
    "README.md": 8,
    "embedding.md": 3,
    "first-photo.md": 2,
    "many-photos.md": 3,
    "masks-and-hints.md": 5,
    "training.md": 5,
}
"""How many commands each page has at least: a test that finds none would pass."""
RUN = ("remove", "mask")
"""Commands that are run as printed; others would not end, or would take hours."""


def blocks(page: Path, *languages: str) -> list[str]:
    found = re.findall(r"^```(\w*)[^\n]*\n(.*?)^```$", page.read_text("utf-8"), re.M | re.S)
    return [block for kind, block in found if kind in languages]


def commands(page: Path, program: str) -> list[list[str]]:
    lines = [line for block in blocks(page, *SHELL) for line in block.replace("\\\n", " ").splitlines()]
    lines = [line.removeprefix("$ ") for line in lines]
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


@pytest.mark.parametrize("tag", ["", "sh", 'bash title="Terminal"', "console"])
def test_commands_are_found_in_blocks_of_any_tag(tmp_path: Path, tag: str):
    page = tmp_path / "page.md"
    prompt = "$ " * (tag == "console")
    page.write_text(f"```{tag}\n{prompt}shadowmaskformer remove \\\n  beach.jpg  # note\nwrote it\n```\n")
    assert commands(page, "shadowmaskformer") == [["shadowmaskformer", "remove", "beach.jpg"]]


def test_pages_with_commands_are_there():
    assert set(COMMANDS) <= {page.name for page in PAGES}


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_every_command_exists_with_its_options(page: Path):
    printed = commands(page, "shadowmaskformer")
    assert len(printed) >= COMMANDS.get(page.name, 0)
    for words in printed:
        build_parser(words[1]).parse_args(words[1:])


@pytest.mark.parametrize("page", GUIDES, ids=lambda page: page.name)
def test_commands_of_the_guides_run(page: Path, folder: Path):
    for words in commands(page, "shadowmaskformer"):
        if words[1] in RUN:
            for old in folder.glob("*-no-shadow*"):
                old.unlink()
            done = subprocess.run([sys.executable, "-m", *words], cwd=folder, check=True, capture_output=True)
            assert done.stdout


def with_pairs(folder: Path) -> None:
    """Add the data set that the guides call `mine`, without masks, and a folder of photos."""
    from train.pairs import write_pairs

    mine = write_pairs(folder / "mine", count=10)
    shutil.rmtree(mine / "train" / "mask")
    (mine / "train" / "cond").rename(mine / "train" / "shadow")
    for role in ("shadow", "gt"):
        (mine / "test" / role).mkdir(parents=True)
        for name in ("008.png", "009.png"):
            (mine / "train" / role / name).rename(mine / "test" / role / name)
    (folder / "photos").mkdir()
    shutil.copy(mine / "train" / "gt" / "000.png", folder / "photos")


SECONDS = {"--hours": "0.0004", "--per-photo": "1"}
"""The guides train for longer; everything else runs as printed."""


@pytest.mark.parametrize("name", ["training.md", "embedding.md"])
def test_commands_of_the_training_guides_run(name: str, folder: Path):
    pytest.importorskip("torch")
    with_pairs(folder)
    before = dict(embedding.EMBEDDINGS)
    for code in blocks(ROOT / "docs" / name, "python"):
        exec(compile(code, name, "exec"), vars(embedding) | {"__name__": name})
    ran = set[str]()
    try:
        for words in commands(ROOT / "docs" / name, "shadowmaskformer"):
            if words[1] == "reproduce":  # trains for an hour on a data set that is not here
                continue
            words = [SECONDS.get(option, word) for option, word in zip(["", *words], words, strict=False)]
            quick = ["--quiet", "--set", "validations=1"] if words[1] == "train" else []
            assert main([*words[1:], *quick]) == 0, words
            ran.add(words[1])
    finally:
        for added in set(embedding.EMBEDDINGS) - set(before):
            del embedding.EMBEDDINGS[added]
    assert {"train", "remove"} < ran
    for run in (folder / "runs").iterdir():
        assert (run / "best" / "model.safetensors").is_file()


@pytest.mark.skipif(shutil.which("curl") is None, reason="no curl on this machine")
def test_curl_in_the_guides_works(folder: Path, address: str):
    readme = re.findall(r"`(curl .*)`", (ROOT / "README.md").read_text("utf-8"))
    printed = [*commands(ROOT / "docs" / "api.md", "curl"), *map(shlex.split, readme)]
    assert len(printed) >= 4
    for words in printed:
        words = [word.replace(PRINTED, address) for word in words if word != "--fail-with-body"]
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
