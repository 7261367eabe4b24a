"""The rules by which published numbers were made, each under a name of its own.

A protocol says at which size a network runs, how the pictures and the mask come to the size of scoring,
which Lab, which error, which SSIM, and how pictures combine into one number. The rules agree on little: the
untouched input of ISTD test scores S 32.1 under one and 33.6 under another. Every printed number therefore
carries its protocol's name.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Literal

import numpy as np
from numpy.typing import NDArray

from shadowmaskformer import metrics
from shadowmaskformer.errors import ConfigError, EvaluationError
from shadowmaskformer.metrics import Regions

FloatArray = NDArray[np.float64]


@dataclass(frozen=True, kw_only=True)
class Protocol:
    """One way of scoring.

    Attributes:
        name: what tables print.
        summary: the rule in a sentence.
        used_by: whose numbers follow it.
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

    @property
    def error_name(self) -> str:
        """The error's honest name."""
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
    )
}

STANDARD = {"istd": ("istd-256", "istd-full"), "srd": ("srd-256",)}
"""The protocols that each family of data sets is published under."""

_LABS: dict[str, Callable[[NDArray], FloatArray]] = {
    "d50": metrics.lab_d50,
    "opencv": metrics.lab_opencv,
    "d65": metrics.lab_d65,
}


def protocols(name: str, family: str) -> list[Protocol]:
    """The protocols that `--protocol name` means for a data set of `family` (`istd` or `srd`).

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
        return standard + [protocol for protocol in PROTOCOLS.values() if protocol.name not in every]
    if name not in PROTOCOLS:
        raise ConfigError(f"no protocol {name!r}; choose one of standard, all, {', '.join(PROTOCOLS)}")
    return [PROTOCOLS[name]]


@dataclass(frozen=True)
class Measurement:
    """One picture under one protocol.

    `error` is NaN over an empty region and `psnr` inf where result and truth agree; neither enters a mean.
    `weights` are the pixels (or the soft mask's sum) of each region, for pooling.
    """

    error: Regions
    psnr: Regions
    ssim: Regions
    weights: Regions


@dataclass(frozen=True)
class Reference:
    """Truth and regions of one picture, brought to a protocol's size once and shared by all methods."""

    protocol: Protocol
    truth: FloatArray
    truth_lab: FloatArray
    shadow: NDArray

    @classmethod
    def prepare(cls, protocol: Protocol, truth: NDArray, mask: NDArray[np.uint8]) -> Reference:
        """Bring truth and mask to the protocol's size.

        Args:
            protocol: the rule.
            truth: RGB, (H, W, 3), uint8, uint16 or float in [0, 1].
            mask: (H, W), uint8, 255 = shadow.
        """
        if mask.shape != truth.shape[:2]:
            raise EvaluationError(
                f"mask is {mask.shape[0]}x{mask.shape[1]}, truth is {truth.shape[0]}x{truth.shape[1]}; "
                "give a mask of the truth's size"
            )
        picture = _resized(protocol, truth, truth.shape)
        return cls(protocol, picture, _LABS[protocol.lab](picture), _region(protocol, mask))

    def measure(self, result: NDArray) -> Measurement:
        """Score one result, (h, w, 3), uint8, uint16 or float in [0, 1], of a size that the protocol takes."""
        protocol = self.protocol
        picture = _resized(protocol, result, self.truth.shape)
        if picture.shape != self.truth.shape:
            raise EvaluationError(
                f"result is {picture.shape[0]}x{picture.shape[1]}, truth is "
                f"{self.truth.shape[0]}x{self.truth.shape[1]} and protocol {protocol.name} does not resize; "
                "give results of the truth's size"
            )
        shadow = self.shadow
        lit = ~shadow if shadow.dtype == np.bool_ else 1 - shadow
        lab = _LABS[protocol.lab](picture)
        if protocol.error == "mae":
            error = metrics.absolute_error(lab, self.truth_lab)
        else:
            error = metrics.squared_error(lab, self.truth_lab) / 3
        errors = [metrics.region_mean(error, region) for region in (shadow, lit, None)]
        if protocol.error == "rmse":
            errors = [float(np.sqrt(value)) for value in errors]
        return Measurement(
            error=Regions(*errors),
            psnr=Regions(*(metrics.psnr(picture, self.truth, region) for region in (shadow, lit, None))),
            ssim=self._ssim(picture, shadow, lit),
            weights=Regions(float(shadow.sum()), float(lit.sum()), float(shadow.size)),
        )

    def _ssim(self, picture: FloatArray, shadow: NDArray, lit: NDArray) -> Regions:
        protocol, truth = self.protocol, self.truth
        if protocol.ssim == "volume" and shadow.dtype == np.bool_:
            return metrics.ssim_volume_regions(picture, truth, shadow)
        if protocol.ssim == "gray":
            picture, truth = metrics.gray(picture)[..., None], metrics.gray(truth)[..., None]
        regions = (shadow[..., None], lit[..., None], 1.0)
        return Regions(*(metrics.ssim_uniform(picture * r, truth * r, peak=protocol.ssim_peak) for r in regions))


def as_float(picture: NDArray) -> FloatArray:
    """A picture by its own depth as float64 in [0, 1]: uint8 / 255, uint16 / 65535, floats as they are.

    >>> as_float(np.array([51], np.uint8)).item(), as_float(np.array([13107], np.uint16)).item()
    (0.2, 0.2)
    """
    if np.issubdtype(picture.dtype, np.integer):
        return picture / np.float64(np.iinfo(picture.dtype).max)
    return picture.astype(np.float64)


def as_uint8(picture: NDArray) -> NDArray[np.uint8]:
    """A picture rounded to 8 bits, as a saved result is.

    >>> as_uint8(np.array([0.5, 1.2])).tolist()
    [128, 255]
    """
    if picture.dtype == np.uint8:
        return picture
    return np.floor(np.clip(as_float(picture), 0, 1) * 255 + 0.5).astype(np.uint8)


def _resized(protocol: Protocol, picture: NDArray, truth_shape: tuple[int, ...]) -> FloatArray:
    """A picture at the size of scoring, float64."""
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


def _region(protocol: Protocol, mask: NDArray[np.uint8]) -> NDArray:
    """The shadow region at the size of scoring: bool, or a weight in [0, 1] for a protocol that is soft."""
    sized: NDArray = mask
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
