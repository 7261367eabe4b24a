"""The options of one removal, defined once: Python, the command and everything else read them here."""

from __future__ import annotations

import math
from numbers import Real
from typing import Any, TypedDict

import numpy as np

from shadowmaskformer.errors import ConfigError
from shadowmaskformer.masks.shape import check_distance
from shadowmaskformer.photo import MAX_PIXELS


class Options(TypedDict, total=False):
    """What a user may say about one photo, its mask and the result.

    Attributes:
        grow_px: pixels to grow the mask by; negative shrinks it.
        feather_px: width in which the result fades into the photo around the mask; None ends where the shadow does.
        strength: how much of the shadow goes, 0 to 1.
        invert_mask: take black as shadow.
        exact_mask: take the mask as it is; otherwise it is widened to the shadow's edge where that is near.
        raw: the method's answer for the whole picture instead of one pasted into the photo.
        max_pixels: refuse larger files of photos and masks.
        frame: which picture of an animated or multi-page file, 0 = first; None refuses such files.
        drop_metadata: leave out EXIF, texts and resolution; colours stay.
        format: of the result's file, such as "jpeg"; None takes the output's ending, else the photo's format.
        quality: 1 to 100, lossy formats only; None is visually lossless.
    """

    grow_px: int
    feather_px: float | None
    strength: float
    invert_mask: bool
    exact_mask: bool
    raw: bool
    max_pixels: int
    frame: int | None
    drop_metadata: bool
    format: str | None
    quality: int | None


DEFAULTS: Options = {
    "grow_px": 0,
    "feather_px": None,
    "strength": 1.0,
    "invert_mask": False,
    "exact_mask": False,
    "raw": False,
    "max_pixels": MAX_PIXELS,
    "frame": None,
    "drop_metadata": False,
    "format": None,
    "quality": None,
}

_RANGES: dict[str, tuple[float, float, str]] = {
    "max_pixels": (1, math.inf, "pixels"),
    "frame": (0, math.inf, "a whole number"),
    "quality": (1, 100, "a whole number"),
}


def complete(options: Options) -> Options:
    """Return the options with their defaults filled in.

    Raises:
        ConfigError: an unknown option or a value out of its range.
    """
    for name, value in options.items():
        if name not in DEFAULTS:
            raise ConfigError(f"there is no option {name!r}", f"choose from {', '.join(DEFAULTS)}")
        if name in ("grow_px", "feather_px") and value is not None:
            check_distance(value, name, shrinks=name == "grow_px")
        elif name == "strength":
            if not isinstance(value, Real) or not 0 <= float(value) <= 1:
                raise ConfigError(f"strength is {value!r}", "give {strength} as a number, 0 to 1")
        elif isinstance(DEFAULTS[name], bool) and not isinstance(value, bool | np.bool_):
            raise ConfigError(f"{name} is {value!r}", f"give {{{name}}} as True or False")
        elif name == "format" and not isinstance(value, str | None):
            raise ConfigError(f"format is {value!r}", 'give {format} as a name, such as "jpeg"')
        elif name in _RANGES and not (value is None and DEFAULTS[name] is None):
            _check(name, value)
    return {**DEFAULTS, **options}


def _check(name: str, value: Any) -> None:
    low, high, unit = _RANGES[name]
    if type(value) is not int or not low <= value <= high:
        upto = f"at least {low:g}" if high == math.inf else f"{low:g} to {high:g}"
        raise ConfigError(f"{name} is {value!r}", f"give {{{name}}} as {unit}, {upto}")
