"""`ShadowRemover`: photo and mask in, photo without the shadow out.

The one way a shadow leaves a photograph: the command and evaluation come through here too.
"""

from __future__ import annotations

import logging
import os
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal, TypeVar

import numpy as np
from numpy.typing import NDArray
from PIL import Image

from shadowmaskformer import masks
from shadowmaskformer.arrays import average_down, check_levels, fit_pixels, from_float, gray_levels, to_float
from shadowmaskformer.errors import ArrayError, ConfigError, ImageReadError, ImageTooLargeError, MaskError
from shadowmaskformer.files import check_output, shown, write_atomically
from shadowmaskformer.light.correction import Correction
from shadowmaskformer.light.relight import relight
from shadowmaskformer.photo import EXIF_PREFIX, Photo, encode_photo, file_of, local_path, read_photo
from shadowmaskformer.runtimes import Floats, Runtime, load_runtime

log = logging.getLogger(__name__)

Method = Literal["network", "relight"]
METHODS: tuple[Method, ...] = ("network", "relight")
WORKING_PIXELS = 640 * 480
"""Larger photos are corrected at about this size and the correction, which is smooth, is enlarged."""
RELIT_PIXELS = 1024 * 1024
"""The same for networks that look at a reduced copy anyway: only the relit photo, which has the edges, costs more."""

ImageT = TypeVar("ImageT")
_MOST_THREADS = 1024
_COMPARE_HEIGHT, _COMPARE_WIDTH = 720, 20_000  # pixels of one picture of three


@dataclass(frozen=True)
class Removal:
    """A photo without its shadow, and what there is to say about it.

    Attributes:
        before: the photo as read, upright.
        after: the same with new pixels.
        mask: the mask that was used, (H, W), [0, 1].
        warnings: one line each, for the user.
    """

    before: Photo
    after: Photo
    mask: Floats
    warnings: tuple[str, ...] = field(default=())


class ShadowRemover:
    """Removes shadows; made once, used for many photos, from any thread."""

    def __init__(
        self,
        weights: str | Path = "default",
        *,
        method: Method = "network",
        runtime: str | None = None,
        device: str | None = None,
        threads: int | None = None,
        working_pixels: int | None = None,
    ) -> None:
        """Load the weights.

        Args:
            weights: shipped weights by name, a folder, a hub repository, or an exported file.
            method: `network`, or `relight` for the floor that needs no weights.
            runtime: `native`, `torch`, `onnx` or `openvino`; None chooses.
            device: `cpu`, `cuda`, `mps`, …; None chooses.
            threads: CPU threads; None uses all.
            working_pixels: size at which larger photos are relit and corrected; the correction is enlarged. None
                chooses it by the network.
        """
        if method not in METHODS:
            raise ConfigError(f"no method {method!r}; choose one of {', '.join(METHODS)}")
        if working_pixels is not None and working_pixels < 1:
            raise ConfigError(f"working_pixels is {working_pixels}; give at least 1")
        if threads is not None and not 1 <= threads <= _MOST_THREADS:
            raise ConfigError(f"threads is {threads}; give 1 to {_MOST_THREADS}")
        self.method: Method = method
        self.runtime: Runtime | None = None
        if method == "network":
            self.runtime = load_runtime(runtime, weights, device=device, threads=threads)
        views = self.runtime is not None and self.runtime.config.view_pixels > 0
        self.working_pixels = working_pixels or (RELIT_PIXELS if views else WORKING_PIXELS)

    def correct(self, photo: Floats, mask: Floats) -> Correction:
        """Find how the light must change: the raw answer of the method, over the whole picture.

        Args:
            photo: RGB, (H, W, 3), [0, 1].
            mask: 1 = shadow, (H, W), [0, 1].

        Returns:
            `correct(photo, mask).apply(photo)` is the restored picture, not clamped and not composited.
        """
        if photo.ndim != 3 or photo.shape != (*mask.shape, 3):
            raise ArrayError(f"photo is {photo.shape}, mask is {mask.shape}; give (H, W, 3) and (H, W) of one size")
        if self.runtime is None:
            return relight(photo, mask)
        height, width = mask.shape
        small = fit_pixels(height, width, self.working_pixels)
        found = self.runtime.correct(average_down(photo, *small), average_down(mask[..., None], *small)[..., 0])
        return found.resized(height, width)

    def remove(
        self,
        image: ImageT,
        mask: Any,
        *,
        grow_px: int = 0,
        feather_px: float | None = None,
        invert_mask: bool = False,
        raw: bool = False,
    ) -> ImageT:
        """Remove the shadow that `mask` marks and give back the kind of image that came in.

        Args:
            image: a path, bytes or file object (any readable format), a Pillow image, a NumPy array or a PyTorch
                tensor. Arrays are (H, W, 3), (H, W) or (H, W, 4), uint8, uint16 or float in [0, 1]; tensors
                (3, H, W).
            mask: the shadow, as any of these kinds; white = shadow, soft masks blend.
            grow_px: pixels to grow the mask by; negative shrinks it.
            feather_px: width in which the result fades into the photo around the mask; None fits the photo's size.
            invert_mask: take 0 as shadow.
            raw: return the method's answer for the whole picture instead of pasting it into the original.

        Returns:
            The same kind as `image`. A path comes back as the path of a new file beside it, `NAME-no-shadow.EXT`;
            a file object as bytes. Pixels outside the mask and its border are bit-identical to the input.
        """

        def restored(photo: Photo) -> Photo:
            removal = self.remove_from_photo(
                photo, mask, grow_px=grow_px, feather_px=feather_px, invert_mask=invert_mask, raw=raw
            )
            for line in removal.warnings:
                log.warning(line)
            return removal.after

        if isinstance(image, np.ndarray):
            return _array_like(image, restored(_photo_from_array(image)))
        if _is_tensor(image):
            tensor: Any = image
            array = _tensor_array(tensor)
            array = np.moveaxis(array, 0, -1) if tensor.ndim == 3 else array
            result = _array_like(array, restored(_photo_from_array(array)))
            moved = np.ascontiguousarray(np.moveaxis(result, -1, 0) if tensor.ndim == 3 else result)
            return tensor.new_tensor(moved)
        if isinstance(image, Image.Image):
            return _pillow_like(image, restored(read_photo(image)))  # pyright: ignore[reportReturnType]
        if isinstance(image, str | os.PathLike):
            source = Path(local_path(image))
            target = default_output(source)
            check_output(target, [source], overwrite=False)
            data = file_of(restored(read_photo(source)))
            write_atomically(target, data)
            return str(target) if isinstance(image, str) else target  # pyright: ignore[reportReturnType]
        if isinstance(image, bytes | bytearray | memoryview) or hasattr(image, "read"):
            file: Any = image
            return file_of(restored(read_photo(file)))  # pyright: ignore[reportReturnType]
        raise ArrayError(f"image is a {type(image).__name__}; give a path, bytes, Pillow image, array or tensor")

    def remove_from_photo(
        self,
        photo: Photo,
        mask: Any,
        *,
        grow_px: int = 0,
        feather_px: float | None = None,
        invert_mask: bool = False,
        raw: bool = False,
    ) -> Removal:
        """Like `remove`, for a photo that was read before; says more about what happened."""
        levels, warnings = read_any_mask(mask)
        if invert_mask:
            levels = masks.invert(levels)
        levels, faint = masks.strengthen(masks.snap(levels))
        levels, resized = masks.fit(levels, photo.height, photo.width)
        if grow_px:
            levels = masks.grow(levels, grow_px) if grow_px > 0 else masks.shrink(levels, -grow_px)
        pixels = photo.as_float()
        about = [line for line in (faint, resized) if line]
        notes = [*photo.warnings, *warnings, *about, *masks.describe(levels, pixels)]
        if not levels.any():
            return Removal(photo, photo, levels, tuple(notes))
        try:
            found = self.correct(pixels, levels)
            after = photo.with_pixels(
                found.apply(pixels) if raw else _composite(photo, found, _blend_weight(levels, feather_px))
            )
        except MemoryError as error:
            size = f"{photo.width}x{photo.height}"
            raise ImageTooLargeError(f"{size} pixels do not fit in memory; scale the photo down first") from error
        return Removal(photo, after, levels, tuple(notes))


def _composite(photo: Photo, found: Correction, weight: Floats) -> NDArray[Any]:
    """The photo's pixels, corrected to the share of `weight`; its own levels, to the bit, where that is 0."""
    result = photo.pixels.copy()
    # In strips: on a large photo, moving whole intermediate arrays would cost more than the arithmetic.
    for first in range(0, photo.height, 64):
        rows = slice(first, first + 64)
        share = weight[rows, :, None]
        if share.any():
            pixels = to_float(photo.pixels[rows])
            restored = np.clip(found.gain[rows] * pixels + found.offset[rows], 0, 1)
            blended = from_float(pixels + share * (restored - pixels), result.dtype)
            np.copyto(result[rows], blended, where=share > 0)
    return result


def _blend_weight(mask: Floats, feather_px: float | None) -> Floats:
    """How much of the correction each pixel takes."""
    if feather_px is None:
        # The penumbra lies outside a mask drawn along the umbra: this share of the picture is enough for it.
        feather_px = max(4.0, 0.012 * max(mask.shape))
    return masks.blend_weight(mask, grow_px=round(feather_px / 4), feather_px=feather_px / 2)


def remove_shadow(
    image: ImageT,
    mask: Any,
    *,
    grow_px: int = 0,
    feather_px: float | None = None,
    invert_mask: bool = False,
    raw: bool = False,
) -> ImageT:
    """Remove the shadow that `mask` marks from one image; see `ShadowRemover.remove`.

    The remover is made at the first call and kept.
    """
    global _shared
    if _shared is None:
        _shared = ShadowRemover()
    return _shared.remove(image, mask, grow_px=grow_px, feather_px=feather_px, invert_mask=invert_mask, raw=raw)


_shared: ShadowRemover | None = None


def default_output(source: Path) -> Path:
    """Where the result for `source` goes when nobody says: beside it.

    >>> default_output(Path("holiday/beach.jpg")).name
    'beach-no-shadow.jpg'
    """
    if not source.name:
        raise ImageReadError(f"{shown(source)}: a folder; give the path of a picture")
    # A GIF's 256 colours would spoil the result.
    ending = ".png" if source.suffix.lower() == ".gif" else source.suffix
    return source.with_name(f"{source.stem}-no-shadow{ending}")


def read_any_mask(mask: Any) -> tuple[Floats, tuple[str, ...]]:
    """A mask of any kind as float32 (H, W) in [0, 1], and warnings."""
    if mask is None:
        raise MaskError("no mask; mark the shadow in a picture of the photo's size, white on black, and pass it")
    if isinstance(mask, np.ndarray):
        levels, warnings = masks.interpret(mask)
        return levels, tuple(warnings)
    if _is_tensor(mask):
        array = _tensor_array(mask)
        return masks.as_mask(array[0] if array.ndim == 3 else array), ()
    if not (
        isinstance(mask, str | os.PathLike | bytes | bytearray | memoryview | Image.Image) or hasattr(mask, "read")
    ):
        raise ArrayError(f"mask is a {type(mask).__name__}; give a path, bytes, Pillow image, array or tensor")
    levels, warnings = masks.read_mask(mask)
    return levels, tuple(warnings)


def _is_tensor(value: object) -> bool:
    return type(value).__module__.split(".")[0] == "torch"


def _tensor_array(tensor: Any) -> NDArray[Any]:
    """The tensor's numbers; half precision, of which NumPy knows only one kind, as float32."""
    tensor = tensor.detach().cpu()
    return (tensor.float() if tensor.is_floating_point() and tensor.element_size() == 2 else tensor).numpy()


def _photo_from_array(array: NDArray[Any]) -> Photo:
    """An array of any accepted shape and type as a photo; the array stays as it is."""
    if array.ndim not in (2, 3) or 0 in array.shape or (array.ndim == 3 and array.shape[2] not in (1, 3, 4)):
        turned = array.ndim == 3 and array.shape[0] in (1, 3, 4)
        fix = "; channels come last: np.moveaxis(array, 0, -1)" if turned else ""
        raise ArrayError(f"array is {array.shape}; expected (height, width, 3){fix}")
    if array.dtype.kind == "f":
        check_levels(array, "array")
        values = array.astype(np.float32)
    elif array.dtype.kind == "u" and array.dtype.itemsize in (1, 2):
        values = array.astype(array.dtype.newbyteorder("="))
    else:
        raise ArrayError(f"array is {array.dtype}; expected uint8, uint16 or float in [0, 1]: convert it first")
    if values.ndim == 2:
        values = values[..., None]
    gray = values.shape[2] == 1
    alpha = values[..., 3] if values.shape[2] == 4 else None
    pixels = np.repeat(values, 3, axis=2) if gray else values[..., :3]
    return Photo(np.ascontiguousarray(pixels), alpha=alpha, gray=gray)


def _array_like(array: NDArray[Any], photo: Photo) -> Any:
    pixels = photo.pixels
    if photo.gray:
        pixels = gray_levels(photo.pixels)
        pixels = pixels if array.ndim == 2 else pixels[..., None]
    elif photo.alpha is not None:
        pixels = np.dstack((pixels, photo.alpha))
    if array.dtype.kind == "f":
        # Doubles keep the digits that the photo's single precision has not, where nothing was blended.
        return np.where(pixels == array.astype(np.float32), array, pixels.astype(array.dtype))
    return pixels.astype(array.dtype)


def _pillow_like(image: Image.Image, photo: Photo) -> Image.Image:
    """The photo as a Pillow image with the metadata of `image`."""
    if photo.pixels.dtype != np.uint8:
        levels = gray_levels(photo.pixels) if photo.gray else from_float(photo.as_float())
        result = Image.fromarray(levels)
    else:
        colour = gray_levels(photo.pixels) if photo.gray else photo.pixels
        result = Image.fromarray(colour)
        if photo.alpha is not None:
            result.putalpha(Image.fromarray(photo.alpha))
    result.info.update(image.info)
    about = photo.metadata
    exif = EXIF_PREFIX + about.exif if about.exif else None
    for key, block in (("exif", exif), ("icc_profile", about.icc), ("xmp", about.xmp)):
        result.info.pop(key, None)
        if block:
            result.info[key] = block
    return result


def compare(removal: Removal) -> bytes:
    """Before, mask and after side by side, as a JPEG."""
    mask = np.repeat(removal.mask[..., None], 3, axis=2)
    panels = [Image.fromarray(from_float(each)) for each in (removal.before.as_float(), mask, removal.after.as_float())]
    scale = min(1.0, _COMPARE_HEIGHT / removal.before.height, _COMPARE_WIDTH / removal.before.width)
    width, height = (max(1, round(side * scale)) for side in panels[0].size)
    gap = max(2, width // 80)
    strip = Image.new("RGB", (3 * width + 2 * gap, height), "white")
    for index, panel in enumerate(panels):
        strip.paste(panel.resize((width, height), Image.Resampling.LANCZOS), (index * (width + gap), 0))
    return encode_photo(Photo(np.asarray(strip)), format="JPEG", quality=92)
