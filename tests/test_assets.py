from pathlib import Path

import numpy as np
from PIL import Image

import shadowmaskformer

ASSETS = Path(shadowmaskformer.__file__).parent / "assets"


def test_demo_photo_and_mask_fit_each_other():
    with Image.open(ASSETS / "demo-photo.jpg") as photo, Image.open(ASSETS / "demo-mask.png") as mask:
        assert photo.size == mask.size == (1024, 768)
        assert photo.mode == "RGB"
        values = np.unique(np.asarray(mask))
        np.testing.assert_array_equal(values, [0, 255])
        assert photo.getexif()[0x8298] == "CC0 1.0"


def test_demo_shadow_is_darker_than_its_surroundings():
    photo = np.asarray(Image.open(ASSETS / "demo-photo.jpg"), np.float32)
    shadow = np.asarray(Image.open(ASSETS / "demo-mask.png")) > 127
    assert photo[shadow].mean() < 0.7 * photo[~shadow].mean()


def test_demo_licence_is_recorded_beside_it():
    assert "CC0 1.0" in (ASSETS / "README.md").read_text(encoding="utf-8")
