import numpy as np
import pytest

from shadowmaskformer.errors import ArrayError
from shadowmaskformer.light.correction import Correction


def random_correction(rng: np.random.Generator, height: int = 6, width: int = 9) -> Correction:
    gain = rng.uniform(0.5, 3.0, (height, width, 3)).astype(np.float32)
    offset = rng.uniform(-0.2, 0.2, (height, width, 3)).astype(np.float32)
    return Correction(gain, offset)


def test_apply_is_gain_times_photo_plus_offset_without_clamping():
    correction = Correction(np.full((2, 3, 3), 3.0, np.float32), np.full((2, 3, 3), -0.5, np.float32))
    photo = np.full((2, 3, 3), 0.75, np.float32)
    np.testing.assert_array_equal(correction.apply(photo), np.float32(1.75))


def test_identity_keeps_every_bit():
    photo = np.random.default_rng(0).random((5, 8, 3), dtype=np.float32)
    np.testing.assert_array_equal(Correction.identity(5, 8).apply(photo), photo)


def test_then_equals_one_after_the_other():
    rng = np.random.default_rng(1)
    first, second = random_correction(rng), random_correction(rng)
    photo = rng.random((6, 9, 3), dtype=np.float32)
    np.testing.assert_allclose(first.then(second).apply(photo), second.apply(first.apply(photo)), atol=1e-6)


def test_resized_keeps_a_constant_correction():
    constant = Correction(np.full((4, 7, 3), 2.5, np.float32), np.full((4, 7, 3), 0.125, np.float32))
    for height, width in ((11, 13), (2, 3), (1, 1)):
        resized = constant.resized(height, width)
        assert (resized.height, resized.width) == (height, width)
        np.testing.assert_allclose(resized.gain, 2.5, rtol=1e-6)
        np.testing.assert_allclose(resized.offset, 0.125, rtol=1e-6)


def test_resized_keeps_channels_apart_and_follows_a_ramp():
    ramp = np.linspace(1, 2, 32, dtype=np.float32)[None, :, None] * np.float32([1, 2, 3])
    gain = np.ascontiguousarray(np.broadcast_to(ramp, (4, 32, 3)))
    larger = Correction(gain, np.zeros_like(gain)).resized(8, 64).gain
    assert np.all(np.diff(larger, axis=1) >= 0)
    np.testing.assert_allclose(larger[:, :, 2], 3 * larger[:, :, 0], rtol=1e-5)


@pytest.mark.parametrize(
    ("gain", "offset"),
    [
        (np.ones((2, 3), np.float32), np.zeros((2, 3), np.float32)),
        (np.ones((2, 3, 3)), np.zeros((2, 3, 3))),
        (np.ones((2, 3, 3), np.float32), np.zeros((2, 4, 3), np.float32)),
    ],
    ids=["no channels", "float64", "two sizes"],
)
def test_wrong_planes_are_refused(gain, offset):
    with pytest.raises(ArrayError):
        Correction(gain, offset)


def test_photo_of_another_size_is_refused_with_the_remedy():
    with pytest.raises(ArrayError, match="resized"):
        Correction.identity(2, 3).apply(np.zeros((3, 2, 3), np.float32))
