"""Every error that this package raises on purpose.

Messages are one line: what was found, where, and the remedy. The command line prints them as they are and
turns the class into an exit code.
"""


class ShadowMaskFormerError(Exception):
    """Base class: catch this to catch everything below."""


class ImageReadError(ShadowMaskFormerError):
    """The file is missing, unreadable or damaged."""


class NotAnImageError(ShadowMaskFormerError):
    """The bytes are not a picture of a format we read."""


class ImageTooLargeError(ShadowMaskFormerError):
    """The picture has more pixels than allowed, or than memory holds."""


class MaskError(ShadowMaskFormerError):
    """The mask does not fit the photo or is not a mask."""


class ArrayError(ShadowMaskFormerError):
    """An array has the wrong shape, type or values."""


class OutputError(ShadowMaskFormerError):
    """The result cannot be written where it was asked for."""


class WeightsError(ShadowMaskFormerError):
    """Weights are missing, damaged or do not fit the network."""


class UnsafeWeightsError(WeightsError):
    """The weights file holds code; it was not run."""


class ConfigError(ShadowMaskFormerError):
    """A configuration or recipe has an unknown key or a bad value."""


class DatasetError(ShadowMaskFormerError):
    """A data set is empty, unpaired or not recognised."""


class TrainingError(ShadowMaskFormerError):
    """Training cannot go on."""


class EvaluationError(ShadowMaskFormerError):
    """Results cannot be scored."""


class MissingExtraError(ShadowMaskFormerError):
    """An optional dependency is not installed; the message names the extra."""
