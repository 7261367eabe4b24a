"""What the workers do, asked without a server."""

from __future__ import annotations

import io
from importlib import resources

import numpy as np
import pytest
from PIL import Image, ImageFilter
from PIL.PngImagePlugin import PngInfo

from pictures import encoded
from shadowmaskformer.light.fullsize import Restoration
from shadowmaskformer.removal.remover import ShadowRemover
from shadowmaskformer.serve import tasks


def test_a_correction_is_found_and_not_applied(photo: np.ndarray, mask: np.ndarray, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(Restoration, "apply", None)
    remover = ShadowRemover(method="relight", threads=1)
    for raw in (False, True):
        answer = tasks.correction(remover, encoded(photo), encoded(mask), (), {"raw": raw})
        planes = np.frombuffer(answer.data, "<f2").reshape(32, 48, 8)
        assert planes[16, 24, :3].min() > 1.2  # in the midst of the shadow
        assert planes[0, 0, 7] == raw


def test_the_share_of_a_correction_is_at_least_the_mask():
    assets = resources.files("shadowmaskformer") / "assets"
    with Image.open(io.BytesIO((assets / "demo-mask.png").read_bytes())) as mask:
        wide = np.asarray(mask.filter(ImageFilter.MaxFilter(41)))
    photo = (assets / "demo-photo.jpg").read_bytes()
    answer = tasks.correction(
        ShadowRemover(method="relight", threads=1), photo, encoded(wide), (), {"exact_mask": True}
    )
    planes = np.frombuffer(answer.data, "<f2").reshape(answer.facts["height"], answer.facts["width"], 8)
    assert (planes[..., 7] >= planes[..., 3]).all()


def test_metadata_that_would_be_refused_does_not_matter(photo: np.ndarray):
    text = PngInfo()
    text.add_text("Comment", "x" * 2_000_000)
    file = io.BytesIO()
    Image.fromarray(photo).save(file, "PNG", pnginfo=text)
    answer = tasks.preview(ShadowRemover(method="relight", threads=1), file.getvalue(), None, (), {})
    assert (answer.facts["width"], answer.facts["height"]) == (48, 32)


def test_an_exact_mask_stays_as_it_is(photo: np.ndarray, mask: np.ndarray):
    remover = ShadowRemover(method="relight", threads=1)
    small = mask.copy()
    small[:, :24] = 0
    answer = tasks.find_mask(remover, encoded(photo), encoded(small), (), {"exact_mask": True})
    assert np.array_equal(np.asarray(Image.open(io.BytesIO(answer.data))), small)
