import json

import pytest

from shadowmaskformer.cli import main


def test_info_names_every_runtime_and_why(capsys: pytest.CaptureFixture[str]):
    assert main(["info", "--json"]) == 0
    facts = json.loads(capsys.readouterr().out)
    assert set(facts["runtimes"]) == {"native", "torch", "onnx", "openvino"}
    assert all(facts["runtimes"].values())
    assert main(["info"]) == 0
    assert "runtime   native" in capsys.readouterr().out
