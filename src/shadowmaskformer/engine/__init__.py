"""The native engine: the network's forward pass, and training's fused blocks, in C++ without PyTorch."""

from __future__ import annotations

from typing import Any

try:
    from shadowmaskformer.engine import _native  # pyright: ignore[reportAttributeAccessIssue]
except ImportError as error:
    _native: Any = None
    _why_not = str(error)
else:
    _why_not = ""


def available() -> bool:
    """Whether the extension was built for this Python."""
    return _native is not None
