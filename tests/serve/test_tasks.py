"""What the workers do, asked without a server."""

from __future__ import annotations

import numpy as np
import pytest

from pictures import encoded
from shadowmaskformer.light.fullsize import Restoration
from shadowmaskformer.removal.remover import ShadowRemover
from shadowmaskformer.serve import tasks


def test_a_correction_is_found_and_not_applied(photo: np.ndarray, mask: np.ndarray, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(Restoration, "apply", None)
    remover = ShadowRemover(method="relight", threads=1)
    for raw in (False, True):
        answer = tasks.correction(remover, encoded(photo), encoded(mask), (), {"raw": raw})
        planes = np.frombuffer(answer.data, "<f2").reshape(32, 48, 8)
        assert planes[16, 24, :3].min() > 1.2  # in the midst of the shadow
        assert planes[0, 0, 7] == raw
