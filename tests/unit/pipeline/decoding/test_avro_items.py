"""The bound on the items of Avro arrays that take no bytes."""

from __future__ import annotations

import json
from io import BytesIO
from typing import Any

import fastavro
import pytest

from pykbroker.pipeline.decoding.avro_items import EMPTY_ITEMS_MAX, item_check
from pykbroker.pipeline.decoding.columns import decoded_fields
from pykbroker.pipeline.decoding.plan import DecodePlan, decoding

READER: dict[str, Any] = {"type": "record", "name": "R", "fields": [{"name": "id", "type": "int", "default": 0}]}
EMPTY_RECORD = {"type": "record", "name": "E", "fields": [{"name": "n", "type": "null"}]}
NULLS = {"type": "array", "items": "null"}
HUGE = 1 << 40


def varint(number: int) -> bytes:
    number, found = (number << 1) ^ (number >> 63), bytearray()
    while number > 0x7F:
        found.append(number & 0x7F | 0x80)
        number >>= 7
    return bytes([*found, number])


def record(kind: Any) -> dict[str, Any]:
    """Return a schema with a field of a type, of which the reader knows nothing, and one that it reads."""
    return {"type": "record", "name": "R", "fields": [{"name": "skipped", "type": kind}, *READER["fields"]]}


def decoded(kind: Any, field: bytes) -> tuple[list[Any], list[str | None]]:
    """Return what becomes of a value with such a field, and the number 7 behind it."""
    plan = DecodePlan("avro", json.dumps(READER), writer=json.dumps(record(kind)))
    rows, errors = decoded_fields(decoding(plan), [field + varint(7)])
    return rows.to_pylist(), errors


@pytest.mark.parametrize(("more", "is_good"), [(-1, True), (0, True), (1, False)])
@pytest.mark.parametrize("items", ["null", EMPTY_RECORD, {"type": "fixed", "name": "F", "size": 0}])
def test_items_without_bytes_are_decoded_up_to_the_bound(items: Any, more: int, is_good: bool) -> None:
    rows, errors = decoded({"type": "array", "items": items}, varint(EMPTY_ITEMS_MAX + more) + varint(0))
    if is_good:
        assert (rows, errors) == ([{"id": 7}], [None])
    else:
        assert rows == [None]
        assert errors[0] is not None
        assert f"{EMPTY_ITEMS_MAX + 1} items without bytes" in errors[0]


@pytest.mark.parametrize(
    ("kind", "field"),
    [
        (NULLS, varint(HUGE) + varint(0)),
        (NULLS, varint(-HUGE) + varint(0) + varint(0)),
        (NULLS, varint(EMPTY_ITEMS_MAX) + varint(1) + varint(0)),
        ({"type": "array", "items": NULLS}, varint(2) + (varint(EMPTY_ITEMS_MAX) + varint(0)) * 2 + varint(0)),
        ({"type": "map", "values": NULLS}, varint(1) + b"\x02k" + varint(HUGE) + varint(0) + varint(0)),
        (["null", NULLS], varint(1) + varint(HUGE) + varint(0)),
        ({"type": "record", "name": "Inner", "fields": [{"name": "a", "type": NULLS}]}, varint(HUGE) + varint(0)),
        (
            {
                "type": "record",
                "name": "Pair",
                "fields": [{"name": "e", "type": EMPTY_RECORD}, {"name": "a", "type": {"type": "array", "items": "E"}}],
            },
            varint(HUGE) + varint(0),
        ),
    ],
    ids=["array", "with its size", "blocks", "nested", "in a map", "in a union", "in a record", "by name"],
)
def test_arrays_of_billions_of_items_are_bad_records(kind: Any, field: bytes) -> None:
    rows, errors = decoded(kind, field)
    assert rows == [None]
    assert errors[0] is not None
    assert "items without bytes in the arrays of an Avro record" in errors[0]


def test_a_field_that_the_reader_reads_is_bounded_as_well() -> None:
    schema = json.dumps({"type": "record", "name": "R", "fields": [{"name": "a", "type": {**NULLS, "default": []}}]})
    assert item_check(fastavro.parse_schema(json.loads(schema))) is not None


ALL_TYPES = {
    "type": "record",
    "name": "All",
    "fields": [
        {"name": "nulls", "type": NULLS},
        {"name": "flags", "type": {"type": "map", "values": ["null", "boolean", "float", "double"]}},
        {"name": "text", "type": {"type": "array", "items": ["string", "bytes", "long"]}},
        {"name": "state", "type": {"type": "enum", "name": "State", "symbols": ["A", "B"]}},
        {"name": "hash", "type": {"type": "fixed", "name": "Hash", "size": 3}},
        {"name": "at", "type": {"type": "long", "logicalType": "timestamp-micros"}},
        {"name": "next", "type": ["null", "All"], "default": None},
    ],
}
VALUE: dict[str, Any] = {
    "nulls": [None] * 3,
    "flags": {"a": None, "b": True, "c": 1.5},
    "text": ["x" * 100, b"raw", -(1 << 62)],
    "state": "B",
    "hash": b"abc",
    "at": 1,
    "next": None,
}


def test_values_of_all_types_are_read_to_their_end_and_no_further() -> None:
    schema = fastavro.parse_schema(ALL_TYPES)
    stream = BytesIO()
    fastavro.schemaless_writer(stream, schema, {**VALUE, "next": VALUE})
    check = item_check(schema)
    assert check is not None
    value = stream.getvalue()
    check(value)
    for cut in range(len(value)):
        with pytest.raises(IndexError):
            check(value[:cut])


@pytest.mark.parametrize(
    "kind",
    ["int", {"type": "array", "items": "int"}, {"type": "map", "values": "null"}, {"type": "array", "items": ["null"]}],
)
def test_schemas_whose_items_have_bytes_need_no_check(kind: Any) -> None:
    assert item_check(fastavro.parse_schema(record(kind))) is None
