"""Tests that the declarations and tables of `wire` equal Kafka's schemas, and that any difference is detected."""

import json
from typing import Any

import pytest

from tools import compare_schemas
from tools.compare_schemas import PROTOCOL, compare, declarations, differences
from wire.api import ApiKey
from wire.apis import APIS, request_header_version, response_header_version
from wire.error_codes import ErrorCode

SCHEMAS = {schema["name"]: schema for schema in compare_schemas.schemas()}


def table(name: str) -> Any:
    return json.loads((PROTOCOL / name).read_text())


def test_all_declarations_equal_their_schemas() -> None:
    assert len(SCHEMAS) == 270
    assert list(differences()) == []


@pytest.mark.parametrize(
    ("message", "path", "fact", "value"),
    [
        ("ProduceRequest", "TimeoutMs", "versions", "1+"),
        ("ProduceRequest", "TimeoutMs", "type", "int64"),
        ("ProduceRequest", "TransactionalId", "nullableVersions", "4+"),
        ("ProduceRequest", "TransactionalId", "default", ""),
        ("ProduceRequest", "Acks", "nullableVersions", "0+"),
        ("ProduceRequest", "Acks", "name", "Ack"),
        ("ProduceRequest", "TopicData.Name", "ignorable", False),
        ("ProduceRequest", "TopicData.PartitionData", "type", "PartitionProduceData"),
        ("FetchRequest", "ClusterId", "tag", 5),
        ("FetchRequest", "MaxBytes", "default", "0x7ffffffe"),
        ("PartitionChangeRecord", "Leader", "default", "-1"),
        ("TransactionLogValue", "NextProducerEpoch", "tag", 2),
    ],
)
def test_a_changed_property_of_a_field_is_detected(message: str, path: str, fact: str, value: object) -> None:
    schema = json.loads(json.dumps(SCHEMAS[message]))
    fields = schema["fields"]
    for name in path.split("."):
        field = next(field for field in fields if field["name"] == name)
        fields = field.get("fields", [])
    assert field.get(fact) != value
    field[fact] = value
    assert len(list(compare(schema, declarations()[message]))) == 1


@pytest.mark.parametrize(("fact", "value"), [("validVersions", "3-14"), ("flexibleVersions", "10+"), ("apiKey", 1)])
def test_a_changed_property_of_a_message_is_detected(fact: str, value: object) -> None:
    assert len(list(compare(SCHEMAS["ProduceRequest"] | {fact: value}, declarations()["ProduceRequest"]))) == 1


def test_missing_and_extra_fields_and_messages_are_detected(monkeypatch: pytest.MonkeyPatch) -> None:
    produce = SCHEMAS["ProduceRequest"]
    declared = declarations()
    assert list(compare(produce | {"fields": produce["fields"][:-1]}, declared["ProduceRequest"]))
    assert list(compare(produce | {"fields": [*produce["fields"], produce["fields"][0]]}, declared["ProduceRequest"]))
    del declared["FetchRequest"]
    monkeypatch.setattr(compare_schemas, "declarations", lambda: declared)
    assert list(differences()) == ["FetchRequest is not declared"]


def test_accepted_versions_are_the_stable_versions() -> None:
    for row in table("api_keys.json"):
        assert ApiKey(row["key"]).name.replace("_", "") == row["name"].upper()
        if row["max"] < row["min"]:
            assert row["key"] not in APIS
            continue
        api = APIS[row["key"]]
        assert api.name == row["name"]
        assert api.accepted == (row["min"], row["max"])
        assert (api.request.key, api.response.key) == (row["key"], row["key"])
        for version, headers in row["headers"].items():
            own = [request_header_version(api.key, int(version)), response_header_version(api.key, int(version))]
            assert own == headers


def test_advertised_versions_are_those_that_kafka_advertises() -> None:
    kafkas = {row["key"]: (row["min"], row["max"]) for row in table("api_versions.json")["apis"]}
    assert {key: api.advertised for key, api in APIS.items() if api.advertised} == kafkas


def test_error_codes_are_those_of_kafka() -> None:
    kafkas = {
        row["code"]: (row["name"], row["message"], row["retriable"], row.get("invalidMetadata", False))
        for row in table("errors.json")
    }
    assert {int(one): (one.name, one.message, one.retriable, one.invalid_metadata) for one in ErrorCode} == kafkas
