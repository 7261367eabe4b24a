import json

import pytest

from shadowmaskformer.cli import main
from shadowmaskformer.runtimes import BACKENDS


def test_info_names_every_runtime_and_why(capsys: pytest.CaptureFixture[str]):
    assert main(["info", "--json"]) == 0
    facts = json.loads(capsys.readouterr().out)
    assert list(facts["runtimes"]) == list(BACKENDS)
    assert facts["runtimes"]["native"] == "ready"
    assert main(["info"]) == 0
    assert "runtime   native" in capsys.readouterr().out
