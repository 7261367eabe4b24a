"""The rules behind published numbers, each under its own name, and one for the pictures that users get.

A protocol defines the size at which a network runs, how pictures and mask are resized for scoring, which Lab, error
and SSIM are used, and how pictures are combined into one number. The rules agree on little: the untouched input of
ISTD test scores S 32.1 under one and 33.6 under another. Every printed number therefore comes with its protocol's name.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Hashable
from dataclasses import dataclass
from functools import cached_property
from typing import Any, Literal, NamedTuple, TypeVar

import numpy as np
from numpy.typing import NDArray

from shadowmaskformer import metrics
from shadowmaskformer.arrays import Doubles, Levels
from shadowmaskformer.data.adjust import adjust_clean
from shadowmaskformer.errors import ConfigError, EvaluationError
from shadowmaskformer.evaluate.as_used import UsedRegions, used_scores
from shadowmaskformer.metrics import Regions

Made = TypeVar("Made")


class ResultKind(NamedTuple):
    """Which result of a method a protocol scores.

    Attributes:
        side: networks run at side x side; None runs them at the photo's own size.
        as_used: the picture that a user gets, in place of the raw answer.
    """

    side: int | None
    as_used: bool = False


@dataclass(frozen=True, kw_only=True)
class Protocol:
    """One way of scoring.

    Attributes:
        name: what tables print.
        summary: the rule in a sentence.
        used_by: which published numbers follow it.
        side: pictures are scored at side x side; None scores them at the truth's own size.
        network_side: the size that weights run at; None runs them at the photo's own size.
        resize: `matlab` on doubles, `matlab-uint8` rounds first, `area` is OpenCV's INTER_AREA,
            `linear-uint8` its INTER_LINEAR.
        mask_resize: `matlab-uint8`, `nearest` or `area`.
        mask_above: a mask value (0 to 255) above this is shadow; None keeps the mask soft, as a weight.
        lab: which Lab.
        error: `mae` sums |ΔL| + |Δa| + |Δb|; `rmse` is the true root mean square.
        ssim: `volume` (MATLAB's 3-D), `gray` or `channels` (scikit-image's 7x7 box).
        ssim_peak: range that SSIM's constants are scaled to.
        pooled: whether the error pools the pixels of the whole set instead of averaging per image.
        all_only: whether S and NS are left out.
        as_used: whether the picture that a user gets is scored, against the truth in the photo's own light
            (`evaluate.as_used`); what is said above about sizes, SSIM and pooling then does not apply.
    """

    name: str
    summary: str
    used_by: str
    side: int | None = 256
    network_side: int | None = 256
    resize: Literal["matlab", "matlab-uint8", "area", "linear-uint8"] = "matlab"
    mask_resize: Literal["matlab-uint8", "nearest", "area"] = "matlab-uint8"
    mask_above: float | None = 0
    lab: Literal["d50", "opencv", "d65"] = "d50"
    error: Literal["mae", "rmse"] = "mae"
    ssim: Literal["volume", "gray", "channels"] = "volume"
    ssim_peak: float = 1.0
    pooled: bool = False
    all_only: bool = False
    as_used: bool = False

    @property
    def result_kind(self) -> ResultKind:
        """Which result of a method is scored."""
        return ResultKind(self.network_side, self.as_used)

    @property
    def resizes(self) -> bool:
        """Whether results of another size than the truth's can be scored."""
        return self.side is not None or self.resize == "linear-uint8"

    @property
    def error_name(self) -> str:
        """What the error really is: papers print the MAE as "RMSE"."""
        return self.error.upper()


_REFERENCE = "MATLAB bicubic to 256×256 on doubles, mask > 0, D50 Lab, error averaged per image, volume SSIM"
_FULL = "no resizing, mask > 0, D50 Lab, error pooled over the set's pixels, volume SSIM"

PROTOCOLS: dict[str, Protocol] = {
    protocol.name: protocol
    for protocol in (
        Protocol(name="istd-256", summary=_REFERENCE, used_by="the field's standard (ShadowFormer's MATLAB)"),
        Protocol(
            name="istd-full",
            summary=_FULL,
            used_by="the 480×640 tables",
            side=None,
            network_side=None,
            pooled=True,
        ),
        Protocol(name="srd-256", summary=_REFERENCE, used_by="the field's standard on SRD"),
        Protocol(
            name="256-pooled",
            summary="as istd-256, but error pooled over the set's pixels",
            used_by="several ISTD+ tables",
            pooled=True,
        ),
        Protocol(
            name="full-per-image",
            summary="as istd-full, but error averaged per image",
            used_by="comparison only",
            side=None,
            network_side=None,
        ),
        Protocol(
            name="256-uint8",
            summary="as istd-256, but pictures are rounded to 8 bits after resizing",
            used_by="LG-ShadowNet, Fu, RDDM/DMTN",
            resize="matlab-uint8",
        ),
        Protocol(
            name="256-uint8-pooled",
            summary="as 256-uint8, but error pooled over the set's pixels",
            used_by="LG-ShadowNet, Fu, RDDM/DMTN (set mean)",
            resize="matlab-uint8",
            pooled=True,
        ),
        Protocol(
            name="256-mask127",
            summary="as istd-256, but shadow is mask > 127",
            used_by="comparison only",
            mask_above=127,
        ),
        Protocol(
            name="256-nearest-pooled",
            summary="8-bit pictures at 256×256, nearest mask, D50 Lab, all regions pooled",
            used_by="DC-ShadowNet, DeS3",
            resize="matlab-uint8",
            mask_resize="nearest",
            pooled=True,
        ),
        Protocol(
            name="shadowformer-python",
            summary="no resizing, OpenCV Lab (D65), per image, 2-D gray SSIM with range 2",
            used_by="ShadowFormer's Python script",
            side=None,
            network_side=None,
            lab="opencv",
            ssim="gray",
            ssim_peak=2.0,
        ),
        Protocol(
            name="homoformer-python",
            summary="INTER_AREA to 256×256, mask ≥ 0.001, OpenCV Lab, per image, 2-D gray SSIM with range 2",
            used_by="HomoFormer's Python script",
            network_side=None,
            resize="area",
            mask_resize="area",
            mask_above=0.001 * 255,
            lab="opencv",
            ssim="gray",
            ssim_peak=2.0,
        ),
        Protocol(
            name="lfg-diffusion",
            summary="256×256, soft mask as weight, OpenCV Lab, error pooled, SSIM averaged over channels",
            used_by="LFG-Diffusion",
            mask_above=None,
            lab="opencv",
            ssim="channels",
            pooled=True,
        ),
        Protocol(
            name="hu-survey-256",
            summary="result at 256×256 enlarged to the truth's size, true RMSE in CIE D65 Lab, All only, "
            "SSIM averaged over channels",
            used_by="Hu et al., Unveiling Deep Shadows",
            side=None,
            resize="linear-uint8",
            lab="d65",
            error="rmse",
            ssim="channels",
            all_only=True,
        ),
        Protocol(
            name="as-used",
            summary="the result blended into the photo, at the photo's size, against the truth in the photo's own "
            "light; PSNR over the pixels of each region, mask > 127, averaged per image",
            used_by="this package",
            side=None,
            network_side=None,
            as_used=True,
        ),
    )
}

STANDARD = {"istd": ("istd-256", "istd-full"), "srd": ("srd-256",)}
"""The protocols that each family of data sets is published under."""

_LABS: dict[str, Callable[[NDArray[Any]], Doubles]] = {
    "d50": metrics.lab_d50,
    "opencv": metrics.lab_opencv,
    "d65": metrics.lab_d65,
}


def protocols(name: str, family: str) -> list[Protocol]:
    """Return the protocols that `name` stands for on a data set of `family` (`istd` or `srd`).

    `standard` and `all` stand for several; `all` leaves out `as-used`, which needs other results.

    >>> [protocol.name for protocol in protocols("istd-full", "istd")]
    ['istd-full']
    >>> len(protocols("all", "istd")), protocols("all", "srd")[0].name
    (12, 'srd-256')
    """
    standard = [PROTOCOLS[key] for key in STANDARD[family]]
    if name == "standard":
        return standard
    if name == "all":
        every = {key for keys in STANDARD.values() for key in keys}
        return standard + [
            protocol for protocol in PROTOCOLS.values() if protocol.name not in every and not protocol.as_used
        ]
    if name not in PROTOCOLS:
        raise ConfigError(f"no protocol {name!r}", f"choose one of standard, all, {', '.join(PROTOCOLS)}")
    return [PROTOCOLS[name]]


@dataclass(frozen=True)
class PictureScores:
    """One picture under one protocol.

    `error` is NaN over an empty region and `psnr` inf where result and truth agree; neither enters a mean.
    `weights` are the pixels (or the soft mask's sum) of each region, for pooling. `edge` and `contrast` belong to
    protocol `as-used` and are NaN elsewhere.
    """

    error: Regions
    psnr: Regions
    ssim: Regions
    weights: Regions
    edge: float = math.nan
    contrast: float = math.nan


class _Memory:
    """Values by key, each computed when it is first asked for."""

    def __init__(self) -> None:
        self._values: dict[Hashable, Any] = {}

    def get(self, key: Hashable, make: Callable[[], Made]) -> Made:
        if key not in self._values:
            self._values[key] = make()
        return self._values[key]


class _Forms:
    """One picture in the sizes and colour spaces that protocols ask for, each computed once."""

    def __init__(self, picture: NDArray[Any], truth_shape: tuple[int, ...]) -> None:
        self._picture, self._truth_shape = picture, truth_shape
        self._memory = _Memory()

    def sized(self, protocol: Protocol) -> Doubles:
        """Return the picture at the size of scoring."""
        return self._memory.get(size_key(protocol), lambda: _resized(protocol, self._picture, self._truth_shape))

    def lab(self, protocol: Protocol) -> Doubles:
        """Return the same in the protocol's Lab."""
        key = (protocol.lab, size_key(protocol))
        return self._memory.get(key, lambda: _LABS[protocol.lab](self.sized(protocol)))


def size_key(protocol: Protocol) -> Hashable:
    """Return what the picture at the size of scoring depends on: protocols with one key share it."""
    if protocol.side is None and protocol.resize in ("matlab", "area"):
        return "own size"
    return protocol.resize, protocol.side


def region_key(protocol: Protocol) -> Hashable:
    """Return what the shadow region depends on."""
    return protocol.mask_resize, protocol.mask_above, protocol.side


class Reference:
    """Truth and mask of one picture, to compare results with.

    Sizes, Lab and regions are computed once for all methods and all protocols that agree on them.

    Args:
        truth: RGB, (H, W, 3), uint8, uint16 or float in [0, 1].
        mask: the shadow, (H, W), 255 = shadow.
        photo: RGB with the shadow, as `truth`; only protocol `as-used` needs it.
    """

    def __init__(self, truth: NDArray[Any], mask: Levels, photo: NDArray[Any] | None = None) -> None:
        if mask.shape != truth.shape[:2]:
            raise EvaluationError(
                f"mask is {mask.shape[0]}x{mask.shape[1]}, truth is {truth.shape[0]}x{truth.shape[1]}",
                "give a mask of the truth's size",
            )
        self.shape = truth.shape
        self.forms = _Forms(truth, truth.shape)
        self._truth, self._mask, self._photo = truth, mask, photo
        self._memory = _Memory()

    def compare(self, result: NDArray[Any]) -> Comparison:
        """Return a comparison with one result, (h, w, 3), uint8, uint16 or float in [0, 1]."""
        return Comparison(self, result)

    def shadow(self, protocol: Protocol) -> NDArray[Any]:
        """Return the shadow at the size of scoring: bool, or a weight in [0, 1] for a protocol that is soft."""
        return self._memory.get(region_key(protocol), lambda: _region(protocol, self._mask))

    @cached_property
    def own_light(self) -> Doubles:
        """The truth in the light of the photo, (H, W, 3), [0, 1]."""
        if self._photo is None:
            raise ValueError("protocol as-used needs the photo")
        photo, truth, mask = (as_float(p).astype(np.float32) for p in (self._photo, self._truth, self._mask))
        return adjust_clean(photo, truth, mask).astype(np.float64)

    @cached_property
    def used_regions(self) -> UsedRegions:
        """Where protocol `as-used` scores."""
        return UsedRegions.of(self._mask)


class Comparison:
    """One result against its reference, under any number of protocols."""

    def __init__(self, reference: Reference, result: NDArray[Any]) -> None:
        self._reference, self._result = reference, result
        self._forms = _Forms(result, reference.shape)
        self._memory = _Memory()

    def scores(self, protocol: Protocol) -> PictureScores:
        """Return the scores under `protocol`."""
        if protocol.as_used:
            return self._as_used(protocol)
        picture, truth = self._forms.sized(protocol), self._reference.forms.sized(protocol)
        _check_size(picture, truth, protocol)
        shadow = self._reference.shadow(protocol)
        lit = ~shadow if shadow.dtype == np.bool_ else 1 - shadow
        where = (size_key(protocol), region_key(protocol))
        psnr = self._memory.get(
            ("psnr", *where), lambda: Regions(*(metrics.psnr(picture, truth, r) for r in (shadow, lit, None)))
        )
        ssim = self._memory.get(
            ("ssim", protocol.ssim, protocol.ssim_peak, protocol.all_only, *where),
            lambda: _ssim(protocol, picture, truth, shadow, lit),
        )
        errors = self._memory.get(
            ("error", protocol.lab, protocol.error, *where), lambda: self._errors(protocol, shadow, lit)
        )
        weights = Regions(float(shadow.sum()), float(lit.sum()), float(shadow.size))
        return PictureScores(errors, psnr, ssim, weights)

    def _errors(self, protocol: Protocol, shadow: NDArray[Any], lit: NDArray[Any]) -> Regions:
        lab, truth_lab = self._forms.lab(protocol), self._reference.forms.lab(protocol)
        if protocol.error == "mae":
            error = self._memory.get(
                ("mae map", protocol.lab, size_key(protocol)), lambda: metrics.absolute_error(lab, truth_lab)
            )
            return Regions(*(metrics.region_mean(error, region) for region in (shadow, lit, None)))
        return Regions(*(metrics.lab_rmse(lab, truth_lab, region) for region in (shadow, lit, None)))

    def _as_used(self, protocol: Protocol) -> PictureScores:
        picture, truth = as_float(self._result), self._reference.own_light
        _check_size(picture, truth, protocol)
        regions = self._reference.used_regions
        found = used_scores(picture, truth, regions)
        error = metrics.absolute_error(metrics.lab_d50(picture), metrics.lab_d50(truth))
        shadow = regions.shadow
        return PictureScores(
            error=Regions(*(metrics.region_mean(error, region) for region in (shadow, ~shadow, None))),
            psnr=Regions(found.shadow, found.lit, found.all),
            ssim=Regions(math.nan, math.nan, math.nan),
            weights=Regions(float(shadow.sum()), float((~shadow).sum()), float(shadow.size)),
            edge=found.edge,
            contrast=found.contrast,
        )


def _check_size(picture: Doubles, truth: Doubles, protocol: Protocol) -> None:
    if picture.shape != truth.shape:
        raise EvaluationError(
            f"result is {picture.shape[0]}x{picture.shape[1]}, truth is {truth.shape[0]}x{truth.shape[1]} and "
            f"protocol {protocol.name} does not resize",
            "give results of the truth's size",
        )


def _ssim(protocol: Protocol, picture: Doubles, truth: Doubles, shadow: NDArray[Any], lit: NDArray[Any]) -> Regions:
    if protocol.ssim == "volume" and shadow.dtype == np.bool_:
        return metrics.ssim_volume_regions(picture, truth, shadow)
    if protocol.ssim == "gray":
        picture, truth = metrics.gray(picture)[..., None], metrics.gray(truth)[..., None]
    whole = metrics.ssim_uniform(picture, truth, peak=protocol.ssim_peak)
    if protocol.all_only:
        return Regions(math.nan, math.nan, whole)
    parts = ((picture * region[..., None], truth * region[..., None]) for region in (shadow, lit))
    inside, outside = (metrics.ssim_uniform(*part, peak=protocol.ssim_peak) for part in parts)
    return Regions(inside, outside, whole)


def as_float(picture: NDArray[Any]) -> Doubles:
    """Return a picture by its own depth as float64 in [0, 1]: uint8 / 255, uint16 / 65535, floats as they are.

    >>> as_float(np.array([51], np.uint8)).item(), as_float(np.array([13107], np.uint16)).item()
    (0.2, 0.2)
    """
    if np.issubdtype(picture.dtype, np.integer):
        return picture / np.float64(np.iinfo(picture.dtype).max)
    return picture.astype(np.float64)


def as_uint8(picture: NDArray[Any]) -> Levels:
    """Return a picture rounded to 8 bits, as a saved result is.

    >>> as_uint8(np.array([0.5, 1.2])).tolist()
    [128, 255]
    """
    if picture.dtype == np.uint8:
        return picture
    return np.floor(np.clip(as_float(picture), 0, 1) * 255 + 0.5).astype(np.uint8)


def _resized(protocol: Protocol, picture: NDArray[Any], truth_shape: tuple[int, ...]) -> Doubles:
    """Return a picture at the size of scoring."""
    side = protocol.side
    if protocol.resize == "linear-uint8":
        # Enlarging with area weights is OpenCV's and scikit-image's linear interpolation.
        return as_float(as_uint8(metrics.resize_area(as_float(picture), *truth_shape[:2])))
    if side is None or picture.shape[:2] == (side, side):
        return as_float(as_uint8(picture)) if protocol.resize == "matlab-uint8" else as_float(picture)
    if protocol.resize == "matlab":
        return metrics.imresize(as_float(picture), side, side)
    if protocol.resize == "matlab-uint8":
        return as_float(metrics.imresize(as_uint8(picture), side, side))
    return np.clip(metrics.resize_area(as_float(picture), side, side), 0, 1)


def _region(protocol: Protocol, mask: Levels) -> NDArray[Any]:
    """Return the shadow region at the size of scoring: bool, or a weight in [0, 1] for a protocol that is soft."""
    sized: NDArray[Any] = mask
    if protocol.side is not None and mask.shape != (protocol.side, protocol.side):
        if protocol.mask_resize == "nearest":
            sized = metrics.resize_nearest(mask, protocol.side, protocol.side)
        elif protocol.mask_resize == "area":
            # The script binarises before it averages, so that any touch of shadow counts.
            sized = metrics.resize_area((mask > 0) * 255.0, protocol.side, protocol.side)
        else:
            sized = metrics.imresize(mask, protocol.side, protocol.side)
    if protocol.mask_above is None:
        return as_float(sized.astype(np.uint8))
    return sized >= protocol.mask_above if protocol.mask_resize == "area" else sized > protocol.mask_above
