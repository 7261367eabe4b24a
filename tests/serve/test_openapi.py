"""The OpenAPI document: it describes what the server does, and nothing it allows breaks the server."""

from __future__ import annotations

from collections.abc import Generator

import hypothesis
import pytest
import requests
import schemathesis
from schemathesis.checks import not_a_server_error
from schemathesis.specs.openapi.checks import (
    content_type_conformance,
    response_schema_conformance,
    status_code_conformance,
)

from serve.running import running
from shadowmaskformer.serve.server import Server


@pytest.fixture(scope="module")
def server() -> Generator[Server]:
    with running(threads=1) as server:
        yield server


def test_no_request_breaks_the_server(server: Server):
    schema = schemathesis.openapi.from_url(f"{server.url}/openapi.json")
    checks = [not_a_server_error, status_code_conformance, content_type_conformance, response_schema_conformance]
    tried = 0
    for found in schema.get_all_operations():
        operation = found.ok()

        @hypothesis.settings(max_examples=12, deadline=None, suppress_health_check=list(hypothesis.HealthCheck))
        @hypothesis.given(case=operation.as_strategy())
        def probe(case: schemathesis.Case) -> None:
            nonlocal tried
            tried += 1
            case.call_and_validate(checks=checks, timeout=30)

        probe()
    assert tried > 50


def test_the_document_has_examples_and_every_option(server: Server):
    document = requests.get(f"{server.url}/openapi.json").json()
    form = document["paths"]["/v1/remove"]["post"]["requestBody"]["content"]["multipart/form-data"]
    options = requests.get(f"{server.url}/v1/info").json()["options"]
    assert set(options) < set(form["schema"]["properties"])
    assert form["examples"]
    assert {"/v1/remove", "/v1/mask", "/v1/correction", "/v1/jobs", "/v1/info"} < set(document["paths"])


def test_the_document_is_whole_and_describes_the_options(server: Server):
    document = requests.get(f"{server.url}/openapi.json").json()
    assert "$defs" not in str(document)

    def fields(path: str) -> dict[str, dict[str, str]]:
        body = document["paths"][path]["post"]["requestBody"]
        return body["content"]["multipart/form-data"]["schema"]["properties"]

    assert "0 to 1" in fields("/v1/remove")["strength"]["description"]
    assert sorted(fields("/v1/mask")) == ["exact_mask", "frame", "hints", "invert_mask", "mask", "photo"]
    assert sorted(fields("/v1/preview")) == ["frame", "photo"]


def test_the_document_says_where_the_token_is_asked_for():
    with running(token="secret", threads=1) as server:
        document = requests.get(f"{server.url}/openapi.json").json()
        assert document["components"]["securitySchemes"]["token"]["scheme"] == "bearer"
        for path, operations in document["paths"].items():
            asks = requests.get(f"{server.url}{path}").status_code == 401
            assert all(("security" in operation) == asks for operation in operations.values())
