from __future__ import annotations

import pickle

import pytest

from shadowmaskformer import errors
from shadowmaskformer.errors import ImageReadError, Notice, OutputError, RequestError, said, spell


def test_one_error_speaks_every_callers_language():
    error = OutputError("a.png: already exists", "replace it with {overwrite=True} or choose another {output}")
    assert str(error) == "a.png: already exists; replace it with overwrite=True or choose another output"
    assert error.said("command") == "a.png: already exists; replace it with --overwrite or choose another -o"
    assert error.said("http") == "a.png: already exists; replace it with overwrite=true or choose another output"


def test_braces_in_a_file_name_are_left_alone():
    assert str(ImageReadError("{frame}.png: no such file")) == "{frame}.png: no such file"


def test_quotes_belong_to_python_alone():
    text = 'try {device="cpu"}'
    assert [spell(text, c) for c in ("python", "command", "http")] == [
        'try device="cpu"', "try --device cpu", "try device=cpu"
    ]  # fmt: skip


@pytest.mark.parametrize("line", [ImageReadError("x", "{frame=1}"), Notice("x", "{frame=1}")])
def test_errors_and_notices_survive_pickling(line: ImageReadError | Notice):
    again = pickle.loads(pickle.dumps(line))
    assert (str(again), again.said("command")) == (str(line), "x; --frame 1")


def test_a_refused_request_survives_pickling():
    again = pickle.loads(pickle.dumps(RequestError("full", "try again", status=503, retry_after=2)))
    assert (str(again), again.http_status, again.retry_after) == ("full; try again", 503, 2)


def test_plain_lines_are_said_as_they_are():
    assert said("plain", "command") == "plain"


def test_every_class_knows_its_exit_code_and_status():
    classes = [c for c in vars(errors).values() if isinstance(c, type) and issubclass(c, errors.ShadowMaskFormerError)]
    assert len(classes) >= 13
    assert {c.exit_code for c in classes} == {2, 3, 4}
    assert {c.http_status for c in classes} <= {413, 415, 422, 503}
