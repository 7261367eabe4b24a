"""`ShadowRemover` takes a photo, perhaps with a mask or hints, and returns it without the shadow.

Every removal goes through here, including those of the command and of evaluation.
"""

# pyright: reportTypedDictNotRequiredAccess=false
# `complete` fills in every option.
from __future__ import annotations

import functools
import logging
import os
from collections.abc import Callable, Sequence
from numbers import Real
from pathlib import Path
from typing import Any, BinaryIO, Literal, TypeVar, Unpack, overload

import numpy as np
from PIL import Image

from shadowmaskformer import masks
from shadowmaskformer.arrays import Floats, average_down, check_levels, fit_pixels
from shadowmaskformer.detect.detection import Detection
from shadowmaskformer.detect.detector import ShadowDetector
from shadowmaskformer.detect.hints import Hint
from shadowmaskformer.errors import ArrayError, ConfigError, MaskError, NoShadowError, Notice
from shadowmaskformer.files import check_output, write_atomically
from shadowmaskformer.light.correction import Correction
from shadowmaskformer.light.fullsize import Restoration
from shadowmaskformer.light.relight import measure
from shadowmaskformer.machine import usable_cores
from shadowmaskformer.network.weights import DEFAULT
from shadowmaskformer.photo import ImageSource, Photo, load_file, name_of, path_of, read_photo
from shadowmaskformer.photo.accept import is_file, is_tensor
from shadowmaskformer.removal import adapters, task
from shadowmaskformer.removal.job import Finding, Removal, RemovedFile, output_path, remove_file
from shadowmaskformer.removal.options import Options, complete
from shadowmaskformer.runtimes import BACKENDS, Session, backend, check_device, check_threads, load_session

log = logging.getLogger(__name__)

Method = Literal["network", "relight"]
METHODS: tuple[Method, ...] = ("network", "relight")
WORKING_PIXELS = 640 * 480
"""Larger photos are corrected on a copy reduced to about this size."""
RELIT_PIXELS = 1024 * 1024
"""The same for the floor, and for networks that look at a smaller copy anyway, so that their cost does not grow."""

ImageT = TypeVar("ImageT")
Reduce = Callable[[int, int], Floats]

_READ, _FOUND, _RESTORED = 0.1, 0.35, 0.9  # share of the work that is done when the photo has been read, and so on


def check_arguments(
    weights: str | Path | Session | None,
    *,
    method: Method,
    runtime: str | None,
    device: str | None,
    threads: int | None,
) -> None:
    """Raise ConfigError for arguments of `ShadowRemover` that no computer could work with; nothing is loaded."""
    if method not in METHODS:
        raise ConfigError(f"there is no method {method!r}", f"choose one of {', '.join(METHODS)}")
    if method == "relight" and weights is not None:
        raise ConfigError(f"method 'relight' uses no weights, got {str(weights)!r}", "leave one of them out")
    if runtime is not None:
        backend(runtime)
    check_device(device)
    check_threads(threads)


class ShadowRemover:
    """Removes shadows. Make it once and use it for many photos, from any thread; it can be pickled."""

    def __init__(
        self,
        weights: str | Path | Session | None = None,
        *,
        method: Method = "network",
        runtime: str | None = None,
        device: str | None = None,
        threads: int | None = None,
        working_pixels: int | None = None,
    ) -> None:
        """Load the weights.

        Args:
            weights: shipped weights by name, a folder, `hf:owner/name`, or an exported file; None is "default". Or a
                network that is loaded already, such as `runtimes.torch.TorchSession(model)`.
            method: `network`, or `relight` for the floor that needs no weights.
            runtime: a name in `runtimes.BACKENDS`, such as `native` or `torch`; None chooses.
            device: `cpu`, `cuda`, `mps`, …; None chooses.
            threads: CPU threads; None uses all.
            working_pixels: photos with more pixels are corrected on a copy of about this size, and the correction is
                enlarged; None chooses by the network.
        """
        check_arguments(weights, method=method, runtime=runtime, device=device, threads=threads)
        if working_pixels is not None and (not isinstance(working_pixels, Real) or working_pixels < 1):
            raise ConfigError(f"working_pixels is {working_pixels!r}", "give at least 1")
        self._arguments: dict[str, Any] = {
            "weights": weights, "method": method, "runtime": runtime, "device": device, "threads": threads,
            "working_pixels": working_pixels,
        }  # fmt: skip
        self.method: Method = method
        self.session: Session | None = None
        if method == "network":
            self.session = (
                weights
                if isinstance(weights, Session)
                else load_session(runtime, DEFAULT if weights is None else weights, device=device, threads=threads)
            )
            task.check_network(self.session.config)
        looks_at_all = self.session is not None and not self.session.config.view_pixels
        self.working_pixels = working_pixels or (WORKING_PIXELS if looks_at_all else RELIT_PIXELS)

    def __repr__(self) -> str:
        given = ", ".join(f"{name}={value!r}" for name, value in self._arguments.items() if value is not None)
        return f"ShadowRemover({given})"

    def find(self, photo: Floats, mask: Floats) -> Restoration:
        """Find how the light must change, on a picture of at most `working_pixels`.

        Args:
            photo: RGB, (H, W, 3), [0, 1].
            mask: 1 = shadow, (H, W), [0, 1].
        """
        if self.session is None:
            return Restoration(mask.shape, light=measure(photo, mask))
        return task.find(self.session, photo, mask)

    def correct(self, photo: Floats, mask: Floats) -> Correction:
        """Return the raw answer of the method over the whole picture: gain and offset per pixel.

        Args:
            photo: RGB, (H, W, 3), [0, 1].
            mask: 1 = shadow, (H, W), [0, 1].

        Returns:
            `correct(photo, mask).apply(photo)` is the restored picture, not clamped and not composited.
        """
        if not all(hasattr(each, "__array_interface__") for each in (photo, mask)):
            raise ArrayError(f"photo is a {type(photo).__name__}, mask a {type(mask).__name__}", "give float arrays")
        if photo.ndim != 3 or photo.shape != (*mask.shape, 3):
            raise ArrayError(f"photo is {photo.shape}, mask is {mask.shape}; give (H, W, 3) and (H, W) of one size")
        for name, values in (("photo", photo), ("mask", mask)):
            if values.dtype.kind != "f" or not values.size:
                raise ArrayError(f"{name} is {values.dtype} of shape {values.shape}", "give floats in 0 to 1")
            check_levels(values, name)
        height, width = mask.shape
        size = fit_pixels(height, width, self.working_pixels)
        small, marked = average_down(photo, *size), average_down(mask, *size)
        return self.find(small, marked).correction(small).resized(height, width)

    @overload
    def remove(
        self,
        image: Image.Image,
        mask: Any = None,
        *,
        hints: Sequence[Hint] = (),
        output: None = None,
        overwrite: bool = False,
        **options: Unpack[Options],
    ) -> Image.Image: ...
    @overload
    def remove(
        self,
        image: BinaryIO | bytearray | memoryview,
        mask: Any = None,
        *,
        hints: Sequence[Hint] = (),
        output: None = None,
        overwrite: bool = False,
        **options: Unpack[Options],
    ) -> bytes: ...
    @overload
    def remove(
        self,
        image: ImageT,
        mask: Any = None,
        *,
        hints: Sequence[Hint] = (),
        output: None = None,
        overwrite: bool = False,
        **options: Unpack[Options],
    ) -> ImageT: ...
    @overload
    def remove(
        self,
        image: Any,
        mask: Any = None,
        *,
        hints: Sequence[Hint] = (),
        output: str | Path,
        overwrite: bool = False,
        **options: Unpack[Options],
    ) -> Path: ...
    def remove(
        self,
        image: Any,
        mask: Any = None,
        *,
        hints: Sequence[Hint] = (),
        output: str | Path | None = None,
        overwrite: bool = False,
        **options: Unpack[Options],
    ) -> Any:
        """Remove the shadow that `mask` marks, or all that are found, and give back the kind of image that came in.

        Args:
            image: a path, bytes or file object of any readable format, a Pillow image, a NumPy array or a PyTorch
                tensor. Colours are RGB: OpenCV's BGR must be reversed first. Arrays are (H, W, 3), (H, W) or
                (H, W, 4), uint8, uint16 or float in [0, 1]; tensors (3, H, W) or a batch (B, 3, H, W).
            mask: the shadow, as any of these kinds; white = shadow, soft masks blend. Where it is too small, it is
                widened to the shadow's edge, unless `exact_mask`. A `Detection` takes the shadows that were found
                before, and None finds them.
            hints: clicks, strokes and boxes that say what is shadow and what is not; see `Hint`.
            output: file or folder for the result; for paths, bytes and file objects.
            overwrite: replace the output if it exists.
            **options: see `Options`.

        Returns:
            The same kind as `image`. A path comes back as the path of a new file beside it, `NAME-no-shadow.EXT`; a
            file object as bytes; with `output`, the path of the file that was written. Pixels outside the mask and
            its border are bit-identical to the input.

        Raises:
            NoShadowError: no mask was given, and no shadow found. In a batch, such a picture stays as it is.
        """
        complete(options)
        if is_file(image):
            return self._remove_from_file(image, mask, hints, output, overwrite, options)
        if output is not None:
            raise ConfigError(
                f"output is for paths, bytes and file objects, the image is a {type(image).__name__}",
                "save the result that is returned",
            )
        if is_tensor(image) and image.ndim == 4:
            results = image.new_empty(image.shape)
            for index, marked in enumerate(adapters.masks_of_batch(mask, len(image))):
                try:
                    results[index] = self.remove(image[index], marked, hints=hints, **options)
                except NoShadowError:
                    results[index] = image[index]
                    log.warning("picture %d of %d: no shadow found, so it is not changed", index + 1, len(image))
            return results
        for option in ("frame", "format", "quality"):
            if options.get(option) is not None:
                raise ConfigError(
                    f"{option} is for paths, bytes and file objects, the image is a {type(image).__name__}",
                    f"leave {{{option}}} out",
                )

        def restore(photo: Photo) -> Photo:
            removal = self.remove_from_photo(photo, mask, hints=hints, **options)
            _log(photo.name, removal.warnings)
            return removal.after

        if is_tensor(image):
            return adapters.restore_tensor(image, restore)
        if isinstance(image, Image.Image):
            chosen = complete(options)
            dropped = chosen["drop_metadata"]
            photo = read_photo(image, max_pixels=chosen["max_pixels"], drop_metadata=dropped)
            return adapters.restore_pillow(image, photo, restore, drop_metadata=dropped)
        if hasattr(image, "__array_interface__"):
            return adapters.restore_array(np.asarray(image), restore)
        raise ArrayError(f"image is a {type(image).__name__}", "give a path, bytes, Pillow image, array or tensor")

    def _remove_from_file(
        self,
        image: Any,
        mask: Any,
        hints: Sequence[Hint],
        output: str | Path | None,
        overwrite: bool,
        options: Options,
    ) -> Any:
        target = None
        if output is not None or isinstance(image, str | os.PathLike):
            path = path_of(image)
            if path is None:
                image, _ = load_file(image, name_of(image))
            target = output_path(image if path is None else path, output, options.get("format"))
            inputs = [each for each in (path, path_of(mask)) if each is not None]
            check_output(target, inputs, overwrite=overwrite)
        result = self.remove_file(image, mask, name=str(target) if target else None, hints=hints, **options)
        _log(name_of(image), result.warnings)
        if target is None:
            return result.data
        write_atomically(target, result.data, overwrite=overwrite)
        return str(target) if isinstance(image, str) and output is None else target

    def remove_file(
        self,
        source: ImageSource,
        mask: Any = None,
        *,
        name: str | None = None,
        hints: Sequence[Hint] = (),
        progress: Callable[[float], None] = lambda share: None,
        **options: Unpack[Options],
    ) -> RemovedFile:
        """Remove the shadow from a picture file and return the result as one, with all there is to say about it.

        Args:
            source: a path, bytes, a file object or a Pillow image.
            mask: as for `remove`.
            name: of the file that the result is for; its ending chooses the format unless an option does.
            hints: as for `remove`.
            progress: told the share of the work that is done, 0 to 1, whenever a part of it is.
            **options: see `Options`.
        """

        def restore(photo: Photo) -> Removal:
            progress(_READ)
            return self.remove_from_photo(photo, mask, hints=hints, progress=progress, **options)

        return remove_file(source, restore, name, options)

    def remove_from_photo(
        self,
        photo: Photo,
        mask: Any = None,
        *,
        hints: Sequence[Hint] = (),
        progress: Callable[[float], None] = lambda share: None,
        **options: Unpack[Options],
    ) -> Removal:
        """Remove the shadow from a photo that was read before, and say what happened."""
        chosen = complete(options)
        found = self.find_in_photo(photo, mask, hints=hints, **options)
        try:
            return self._apply(found, chosen, progress)
        except MemoryError as error:
            raise photo.too_large() from error

    def find_in_photo(
        self, photo: Photo, mask: Any = None, *, hints: Sequence[Hint] = (), **options: Unpack[Options]
    ) -> Finding:
        """Find how the light of a photo that was read before must change, and leave it at that."""
        chosen = complete(options)
        try:
            # The detector and the remover mostly look at one size.
            reduce = functools.cache(functools.partial(average_down, photo.pixels))
            marked, detection, notes = self._mark(photo, mask, hints, chosen, reduce)
            size = fit_pixels(photo.height, photo.width, self.working_pixels)
            small, reduced_mask = reduce(*size), masks.resize_with_photo(marked, *size)
            told = masks.describe(reduced_mask, small, name=photo.name, inverted=chosen["invert_mask"])
            warnings = (*photo.warnings, *notes, *told)
            if not marked.any():
                return Finding(photo, marked, detection, warnings)
            found = self.find(small, reduced_mask)
            if chosen["raw"]:
                weight = None
            elif chosen["feather_px"] == 0:
                weight = marked  # as it was given: reduced and enlarged again, its border would be soft
            else:
                weight = _blend_weight(found, reduced_mask, photo.pixels.shape[:2], chosen["feather_px"])
            return Finding(photo, marked, detection, warnings, weight, found, small)
        except MemoryError as error:
            raise photo.too_large() from error

    def _mark(
        self, photo: Photo, mask: Any, hints: Sequence[Hint], chosen: Options, reduce: Reduce
    ) -> tuple[Floats, Detection | None, list[str]]:
        """Return the mask, what the detector said, and lines for the user.

        A mask that was given has the photo's size. One that was found stays as small as it was found.
        """
        marked, detection = None, None
        notes: list[str] = []
        exact = chosen["exact_mask"]
        if isinstance(mask, Detection):
            detection = _of_photo(mask, photo, hints, invert=chosen["invert_mask"])
            marked = detection.mask
        elif mask is not None:
            marked, notes = masks.prepare(
                mask,
                photo.height,
                photo.width,
                invert_mask=chosen["invert_mask"],
                max_pixels=chosen["max_pixels"],
            )
        elif chosen["invert_mask"]:
            raise ConfigError("there is no mask to invert", "give a mask or leave {invert_mask} out")
        if marked is None or hints or (detection is None and marked.any() and not exact):
            detection = self.detector.detect_in_photo(photo, hints=hints, mask=marked, exact=exact, reduce=reduce)
            if marked is None and not detection.shadows:
                raise NoShadowError(f"{photo.name}: no shadow found", "paint a {mask}, or say where it is with {hints}")
            if marked is not None and exact:
                marked = _hinted(marked, detection.mask)
            elif marked is None or hints or detection.note:
                marked = detection.mask
            if detection.note:
                notes.append(Notice(f"{photo.name}: {detection.note}", "{exact_mask=True} keeps it"))
        if grow_px := chosen["grow_px"]:
            marked = masks.resize_with_photo(marked, photo.height, photo.width)
            marked = masks.grow(marked, grow_px) if grow_px > 0 else masks.shrink(marked, -grow_px)
        return marked, detection, notes

    @functools.cached_property
    def detector(self) -> ShadowDetector:
        """The detector that finds shadows where no mask is given; made when it is first needed."""
        given = self._arguments
        runtime = given["runtime"] if given["runtime"] and not BACKENDS[given["runtime"]].runs_exports else None
        return ShadowDetector(runtime=runtime, device=given["device"], threads=given["threads"])

    def _apply(self, found: Finding, chosen: Options, progress: Callable[[float], None]) -> Removal:
        photo = found.before
        if found.restoration is None:
            return Removal(**vars(found), after=photo)

        def restoring(share: float) -> None:
            progress(_FOUND + (_RESTORED - _FOUND) * share)

        weight, mask, strength = found.weight, None, np.float32(chosen["strength"])
        if weight is not None:
            weight, mask = weight * strength, found.mask if strength == 1 else found.mask * strength
        elif strength < 1:
            weight = np.full((1, 1), strength, np.float32)
        threads = self._arguments["threads"] or usable_cores()
        pixels = found.restoration.apply(photo.pixels, weight, mask, threads=threads, progress=restoring)
        progress(_RESTORED)
        return Removal(**vars(found), after=photo.with_pixels(pixels))


def _of_photo(detection: Detection, photo: Photo, hints: Sequence[Hint], *, invert: bool) -> Detection:
    """Return the detection, or raise an error if it cannot be what the photo's shadows are taken from."""
    if detection.size != (photo.height, photo.width):
        there, here = (f"{width}x{height}" for height, width in (detection.size, (photo.height, photo.width)))
        raise MaskError(f"the detection is of a photo of {there}, this one has {here}", "find the shadows of this one")
    if hints or invert:
        raise ConfigError(
            "shadows that were found cannot be changed by {hints} or {invert_mask}", "give {hints} before"
        )
    return detection


def _hinted(mask: Floats, small: Floats) -> Floats:
    """Return the exact `mask`, (H, W), with what hints changed in its copy `small`."""
    changed = masks.resize_with_photo(mask, *small.shape) != small
    # A pixel of the copy also reaches its neighbours when it is enlarged.
    reached = masks.resize_with_photo(masks.grow(changed.astype(np.float32), 1), *mask.shape)
    return np.where(reached > 0, masks.resize_with_photo(small, *mask.shape), mask)


def _blend_weight(found: Restoration, mask: Floats, size: tuple[int, ...], feather_px: float | None) -> Floats:
    """Return how much of the correction each pixel takes, on the reduced copy; `feather_px` counts the photo's."""
    if feather_px is None and found.light:
        return found.light.weight()
    if feather_px is None:
        # The penumbra lies outside a mask drawn along the umbra: this share of the picture is enough for it.
        feather_px = max(4.0, 0.012 * max(size))
    reduced = feather_px * max(mask.shape) / max(size)
    return masks.blend_weight(mask, grow_px=round(reduced / 4), feather_px=reduced / 2)


def _log(name: str, warnings: tuple[str, ...]) -> None:
    for line in warnings:
        log.warning("%s", line if line.startswith(name) else f"{name}: {line}")


@overload
def remove_shadow(
    image: Image.Image,
    mask: Any = None,
    *,
    hints: Sequence[Hint] = (),
    output: None = None,
    overwrite: bool = False,
    **options: Unpack[Options],
) -> Image.Image: ...
@overload
def remove_shadow(
    image: BinaryIO | bytearray | memoryview,
    mask: Any = None,
    *,
    hints: Sequence[Hint] = (),
    output: None = None,
    overwrite: bool = False,
    **options: Unpack[Options],
) -> bytes: ...
@overload
def remove_shadow(
    image: ImageT,
    mask: Any = None,
    *,
    hints: Sequence[Hint] = (),
    output: None = None,
    overwrite: bool = False,
    **options: Unpack[Options],
) -> ImageT: ...
@overload
def remove_shadow(
    image: Any,
    mask: Any = None,
    *,
    hints: Sequence[Hint] = (),
    output: str | Path,
    overwrite: bool = False,
    **options: Unpack[Options],
) -> Path: ...
def remove_shadow(image: Any, mask: Any = None, **options: Any) -> Any:
    """Remove the shadow that `mask` marks, or all that are found, from one image; see `ShadowRemover.remove`.

    The remover is made at the first call and kept.
    """
    return _shared().remove(image, mask, **options)


@functools.cache
def _shared() -> ShadowRemover:
    return ShadowRemover()
