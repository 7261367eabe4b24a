from __future__ import annotations

import pickle
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from PIL import Image

from shadowmaskformer.detect.detector import ShadowDetector, follow, snap
from shadowmaskformer.detect.hints import Hint
from shadowmaskformer.detect.refine import refine
from shadowmaskformer.detect.task import view_size
from shadowmaskformer.errors import ConfigError, ImageTooLargeError, WeightsError
from shadowmaskformer.masks import grow, shrink
from shadowmaskformer.network.config import DetectorConfig
from shadowmaskformer.photo import Photo

ASSETS = Path(__file__).parents[2] / "src" / "shadowmaskformer" / "assets"


@pytest.fixture(scope="module")
def detector() -> ShadowDetector:
    return ShadowDetector(threads=1)


@pytest.fixture(scope="module")
def demo() -> np.ndarray:
    with Image.open(ASSETS / "demo-photo.jpg") as image:
        return np.asarray(image.convert("RGB").resize((320, 240), Image.Resampling.BOX))


@pytest.fixture(scope="module")
def demo_mask() -> np.ndarray:
    with Image.open(ASSETS / "demo-mask.png") as image:
        return np.asarray(image.convert("L").resize((320, 240), Image.Resampling.BOX)) > 127


def iou(found: np.ndarray, wanted: np.ndarray) -> float:
    return float((found & wanted).sum() / (found | wanted).sum())


def test_the_shipped_detector_finds_the_shadow_of_the_demo(
    detector: ShadowDetector, demo: np.ndarray, demo_mask: np.ndarray
):
    found = detector.detect(demo)
    assert found.size == (240, 320)
    assert found.mask.shape == (240, 320)
    assert found.mask.dtype == np.float32
    assert iou(found.mask > 0.5, demo_mask) > 0.7


def test_every_kind_of_image_gives_the_same(detector: ShadowDetector, demo: np.ndarray, tmp_path: Path):
    expected = detector.detect(demo).mask
    Image.fromarray(demo).save(tmp_path / "photo.png")
    for image in (tmp_path / "photo.png", (tmp_path / "photo.png").read_bytes(), Image.fromarray(demo), Photo(demo)):
        np.testing.assert_array_equal(detector.detect(image).mask, expected)


def test_a_page_of_several_is_looked_at(detector: ShadowDetector, demo: np.ndarray, tmp_path: Path):
    first = Image.fromarray(np.full_like(demo, 200))
    first.save(tmp_path / "pages.tif", save_all=True, append_images=[Image.fromarray(demo)])
    assert not detector.detect(tmp_path / "pages.tif", frame=0).shadows
    np.testing.assert_array_equal(detector.detect(tmp_path / "pages.tif", frame=1).mask, detector.detect(demo).mask)
    with pytest.raises(ImageTooLargeError):
        detector.detect(tmp_path / "pages.tif", frame=1, max_pixels=100)


def test_it_pickles(detector: ShadowDetector, demo: np.ndarray):
    copy = pickle.loads(pickle.dumps(detector))
    np.testing.assert_array_equal(copy.detect(demo).mask, detector.detect(demo).mask)


def test_a_click_on_light_takes_that_shadow_away_and_no_other(detector: ShadowDetector, demo: np.ndarray):
    before = detector.detect(demo)
    row, column = np.argwhere(before.shadows[0].mask() > 0.9)[0]
    after = detector.detect(demo, hints=[Hint.click(float(column), float(row), shadow=False)])
    assert after.mask[row, column] < 0.5
    others = (before.mask > 0.5) & (before.shadows[0].mask() == 0)
    assert (after.mask[others] > 0.5).all()


def test_a_click_on_shadow_is_believed(detector: ShadowDetector):
    bright = np.full((60, 90, 3), 200, np.uint8)
    assert detector.detect(bright).shadows == ()
    found = detector.detect(bright, hints=[Hint.click(45, 30)])
    assert found.mask[30, 45] > 0.5
    assert len(found.shadows) == 1


def test_a_box_leaves_out_what_is_around_it(detector: ShadowDetector, demo: np.ndarray):
    found = detector.detect(demo, hints=[Hint.box(0, 0, 320, 100)])
    assert not found.mask[140:].any()


def test_a_hint_outside_the_photo_is_refused(detector: ShadowDetector, demo: np.ndarray):
    with pytest.raises(ConfigError, match="the hint at 400,10 lies outside the photo, 320x240"):
        detector.detect(demo, hints=[Hint.click(400, 10)])


@pytest.mark.parametrize("hints", [Hint.click(40, 10), [(40, 10)], [[40, 10]], 3])
def test_other_things_than_a_list_of_hints_are_refused(hints: Any, detector: ShadowDetector, demo: np.ndarray):
    with pytest.raises(ConfigError, match=r"give a list of hints: hints=\[Hint\.click"):
        detector.detect(demo, hints=hints)


def test_weights_of_a_remover_are_refused():
    with pytest.raises(WeightsError, match="finding shadows needs a detector"):
        ShadowDetector("default")


@pytest.mark.parametrize("shape", [(1, 1), (1, 60), (60, 1), (3, 500), (33, 47)])
def test_extreme_shapes_are_looked_at(detector: ShadowDetector, shape: tuple[int, int], rng: np.random.Generator):
    photo = rng.integers(0, 256, (*shape, 3), np.uint8)
    found = detector.detect(photo)
    assert found.mask.shape == shape
    assert np.isfinite(found.mask).all()


def test_a_large_photo_is_found_on_a_reduced_copy(detector: ShadowDetector, demo: np.ndarray):
    large = np.kron(demo, np.ones((6, 6, 1), np.uint8))
    found = detector.detect(large)
    assert found.size == large.shape[:2]
    assert found.mask.size <= 1.02 * 1024 * 1024
    small = detector.detect(demo)
    assert found.share == pytest.approx(small.share, abs=0.02)


def test_views_are_squares_of_the_trained_size():
    config = DetectorConfig(view_pixels=256 * 256)
    assert view_size(config, 3000, 4000) == (256, 256)
    assert view_size(config, 32, 48) == (32, 32)
    rows, columns = view_size(config, 500, 4000)
    assert columns == 4 * rows


def test_an_exported_detector_finds_the_same(detector: ShadowDetector, demo: np.ndarray, tmp_path: Path):
    for module in ("torch", "onnx", "onnxruntime"):
        pytest.importorskip(module)
    from shadowmaskformer.runtimes.export import export

    made = export("detector", "onnx", tmp_path / "detector.onnx")
    exported = ShadowDetector(made.path, threads=1)
    assert exported.session.name == "onnx"
    np.testing.assert_allclose(exported.detect(demo).mask, detector.detect(demo).mask, atol=1e-3)


# --- edges ------------------------------------------------------------------------------------------------------------


def shaded(wanted: np.ndarray, rng: np.random.Generator) -> np.ndarray:
    ground = 0.6 + 0.1 * rng.random((*wanted.shape, 1)).astype(np.float32)
    return (ground * np.where(wanted[..., None], (0.4, 0.45, 0.5), 1)).astype(np.float32)


def test_refining_brings_a_coarse_edge_to_the_photo(rng: np.random.Generator):
    wanted = np.zeros((240, 320), bool)
    wanted[60:173, 81:230] = True
    coarse = np.asarray(Image.fromarray(wanted.astype(np.float32)).resize((40, 30), Image.Resampling.BOX))
    enlarged = np.asarray(Image.fromarray(coarse).resize((320, 240), Image.Resampling.BILINEAR)) > 0.5
    refined = refine(shaded(wanted, rng), coarse) > 0.5
    assert iou(refined, wanted) > 0.99 > iou(enlarged, wanted) - 0.005
    assert (refined != wanted).sum() < 0.5 * (enlarged != wanted).sum()


def test_refining_leaves_a_flat_depth_alone(rng: np.random.Generator):
    photo = rng.random((48, 64, 3)).astype(np.float32)
    np.testing.assert_allclose(refine(photo, np.full((12, 16), 0.25, np.float32)), 0.25, atol=1e-3)


@pytest.fixture
def found() -> np.ndarray:
    depth = np.zeros((200, 300), np.float32)
    depth[50:150, 60:220] = 1
    return depth


def test_a_mask_that_is_much_too_small_is_widened(found: np.ndarray):
    found[80:150] = 0
    snapped, note = snap(shrink(found, 5), found)
    assert iou(snapped > 0.5, found > 0.5) > 0.995
    assert note.startswith("the mask was widened to the shadow's edge")


@pytest.mark.parametrize(
    "change", [lambda m: grow(m, 5), lambda m: m * np.float32(0.8), lambda m: m, lambda m: shrink(m, 4)]
)
def test_a_mask_that_covers_nearly_all_of_the_shadow_is_left_as_it_is(found: np.ndarray, change: object):
    mask = change(found)  # type: ignore[operator]
    snapped, note = snap(mask, found)
    assert snapped is mask
    assert note == ""


def test_a_mask_does_not_reach_for_other_shadows(found: np.ndarray):
    mask = found.copy()
    mask[:, :150] = 0
    snapped, _ = snap(mask, found)
    assert not snapped[:, :130].any()


def test_where_the_network_is_unsure_the_mask_stays(found: np.ndarray):
    mask = shrink(found, 5)
    snapped, note = snap(mask, np.where(mask > 0, np.float32(1), np.float32(0.6)))
    assert snapped is mask
    assert note == ""


def test_a_hint_changes_the_region_that_it_lies_in(found: np.ndarray):
    hinted = np.zeros_like(found)
    hinted[20:60, 240:290] = 1
    hinted[160:190, 10:50] = 1
    result = follow(found, hinted, [Hint.click(260, 40)])
    assert result[30:50, 250:280].min() == 1
    assert not result[160:190].any()
    np.testing.assert_array_equal(result[60:150, 60:220], found[60:150, 60:220])
