"""Schemas from a registry over a socket, and what its failures mean for records and for the job."""

from __future__ import annotations

import json
from collections.abc import Iterator

import pytest

from pykbroker.pipeline.decoding import registry as module
from pykbroker.pipeline.decoding.bad_record import BadRecord
from pykbroker.pipeline.decoding.columns import decoded_fields
from pykbroker.pipeline.decoding.framing import framed
from pykbroker.pipeline.decoding.plan import DecodePlan, decoding
from pykbroker.pipeline.decoding.registry import SchemaRegistry
from pykbroker.pipeline.errors import PipelineError
from tests.unit.pipeline.decoding.fake_registry import FakeRegistry, fake_registry
from tests.unit.pipeline.decoding.test_columns import encoded, record

FIRST, SECOND = record(("id", "int")), record(("id", "int"), ("name", "string"))
READER = record(("id", "long"), ("name", ["null", "string"]))
READER["fields"][1]["default"] = None


@pytest.fixture
def registry(monkeypatch: pytest.MonkeyPatch) -> Iterator[FakeRegistry]:
    monkeypatch.setattr(module, "RETRY_S", 0.001)
    with fake_registry() as found:
        found.add(1, FIRST)
        found.add(2, SECOND)
        yield found


def test_records_of_several_schemas_have_the_columns_of_the_reader_schema(registry: FakeRegistry) -> None:
    plan = DecodePlan("avro", json.dumps(READER), framing=True, registry=registry.url)
    values = [framed(1, encoded(FIRST, {"id": 5})), framed(2, encoded(SECOND, {"id": 6, "name": "n"}))] * 3
    fields, errors = decoded_fields(decoding(plan), [*values, framed(9, b""), framed(9, b""), b"\x01plain"])
    assert fields.to_pylist() == [{"id": 5, "name": None}, {"id": 6, "name": "n"}] * 3 + [None] * 3
    assert errors[6:] == [
        "the registry has no schema 9",
        "the registry has no schema 9",
        "the value begins with the byte 1, not with the magic byte 0",
    ]
    assert [path for path, _ in registry.requests] == ["/schemas/ids/1", "/schemas/ids/2", "/schemas/ids/9"]


def test_a_registry_that_fails_for_a_while_is_asked_again(registry: FakeRegistry) -> None:
    registry.failures += [500, 503, 429]
    assert SchemaRegistry(registry.url).schema(1)["name"] == "R"
    assert len(registry.requests) == 4


@pytest.mark.parametrize(("code", "attempts"), [(500, 4), (404, 1), (401, 1)])
def test_a_registry_that_does_not_answer_stops_the_job_and_rejects_no_record(
    registry: FakeRegistry, code: int, attempts: int
) -> None:
    """An answer 404 that is not the registry's own means that its URL is wrong."""
    registry.failures += [code] * 10
    with pytest.raises(
        PipelineError, match=rf"the schema registry does not answer {registry.url}/schemas/ids/1: HTTP {code}"
    ):
        SchemaRegistry(registry.url).schema(1)
    assert len(registry.requests) == attempts


def test_a_registry_that_is_down_stops_the_job(registry: FakeRegistry) -> None:
    registry.close()
    with pytest.raises(PipelineError, match="the schema registry does not answer .*: .*refused"):
        SchemaRegistry(registry.url).schema(1)


def test_user_and_password_of_the_url_are_sent_and_not_shown(registry: FakeRegistry) -> None:
    url = f"http://me:p%40ss@{registry.address}/"
    SchemaRegistry(url).schema(1)
    assert registry.requests[-1] == ("/schemas/ids/1", "Basic bWU6cEBzcw==")
    registry.failures += [403]
    with pytest.raises(PipelineError) as caught:
        SchemaRegistry(url).schema(1)
    assert "p%40ss" not in str(caught.value)


def test_schemas_of_another_type_are_bad_and_references_are_refused(registry: FakeRegistry) -> None:
    registry.add(3, {"type": "object"}, schemaType="JSON")
    registry.add(4, FIRST, references=[{"name": "x", "subject": "y", "version": 1}])
    found = SchemaRegistry(registry.url)
    with pytest.raises(BadRecord, match="schema 3 is of type JSON, not AVRO"):
        found.schema(3)
    with pytest.raises(PipelineError, match="schema 4 refers to other schemas"):
        found.schema(4)


@pytest.mark.parametrize("body", [b"<html>", b"{}"])
def test_another_server_is_no_registry(registry: FakeRegistry, body: bytes) -> None:
    registry.body = body
    with pytest.raises(PipelineError, match="is no schema registry: its answer for schema 1 is "):
        SchemaRegistry(registry.url).schema(1)


@pytest.mark.parametrize("url", ["registry:8081", "ftp://registry", "http://", "/schemas"])
def test_another_url_is_refused(url: str) -> None:
    with pytest.raises(PipelineError, match="the registry must be a URL such as http://registry:8081"):
        SchemaRegistry(url)
