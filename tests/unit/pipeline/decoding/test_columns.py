"""The decoding of JSON and Avro into typed columns, and the reasons of bad records."""

from __future__ import annotations

import json
from datetime import UTC, date, datetime, time
from decimal import Decimal
from io import BytesIO
from typing import Any
from uuid import UUID

import fastavro
import pytest

from pykbroker.pipeline.decoding.columns import decoded_fields
from pykbroker.pipeline.decoding.plan import DecodePlan, decoding
from pykbroker.pipeline.errors import PipelineError

INSTANT = datetime(2026, 11, 24, 8, 0, 0, 125_000, UTC)


def logical(kind: str, name: str, **more: Any) -> dict[str, Any]:
    return {"type": kind, "logicalType": name, **more}


FIELDS: list[dict[str, Any]] = [
    {"name": "id", "type": "long"},
    {"name": "small", "type": ["null", "int"]},
    {"name": "ratio", "type": ["double", "null"], "default": 0.5},
    {"name": "paid", "type": "boolean", "default": False},
    {"name": "raw", "type": ["null", "bytes"], "default": None},
    {"name": "state", "type": {"type": "enum", "name": "State", "symbols": ["NEW", "SENT"]}, "default": "NEW"},
    {"name": "tags", "type": {"type": "array", "items": "string"}, "default": []},
    {"name": "counts", "type": {"type": "map", "values": "int"}, "default": {}},
    {"name": "amount", "type": ["null", logical("bytes", "decimal", precision=9, scale=2)], "default": None},
    {"name": "day", "type": ["null", logical("int", "date")], "default": None},
    {"name": "at", "type": ["null", logical("long", "timestamp-millis")], "default": None},
    {"name": "local", "type": ["null", logical("long", "local-timestamp-micros")], "default": None},
    {"name": "clock", "type": ["null", logical("int", "time-millis")], "default": None},
    {"name": "uuid", "type": ["null", logical("string", "uuid")], "default": None},
    {"name": "hash", "type": ["null", {"type": "fixed", "name": "Hash", "size": 2}], "default": None},
    {
        "name": "lines",
        "type": {
            "type": "array",
            "items": {
                "type": "record",
                "name": "Line",
                "fields": [
                    {"name": "sku", "type": "string"},
                    {"name": "state", "type": "State", "default": "SENT"},
                    {"name": "at", "type": ["null", logical("long", "timestamp-micros")], "default": None},
                ],
            },
        },
        "default": [],
    },
]
ORDER = {"type": "record", "name": "Order", "namespace": "shop", "fields": FIELDS}
FULL: dict[str, Any] = {
    "id": 7,
    "small": -1,
    "ratio": 1.25,
    "paid": True,
    "raw": b"\x00\xff",
    "state": "SENT",
    "tags": ["a", "b"],
    "counts": {"x": 1},
    "amount": Decimal("12.50"),
    "day": date(2026, 11, 24),
    "at": INSTANT,
    "local": INSTANT.replace(tzinfo=None),
    "clock": time(1, 2, 3, 4000),
    "uuid": UUID(int=5),
    "hash": b"ab",
    "lines": [{"sku": "s", "state": "NEW", "at": INSTANT}],
}
COLUMNS = {**FULL, "counts": [("x", 1)], "clock": 3_723_004, "uuid": str(UUID(int=5))}
DEFAULTS = dict.fromkeys(COLUMNS) | {"id": 8, "ratio": 0.5, "paid": False, "state": "NEW", "tags": [], "counts": []}
DEFAULTS |= {"lines": [{"sku": "s", "state": "SENT", "at": None}]}


def plan(format_: Any, schema: Any = ORDER, **more: Any) -> DecodePlan:
    return DecodePlan(format_, json.dumps(schema), **more)


def encoded(schema: Any, record: Any) -> bytes:
    stream = BytesIO()
    fastavro.schemaless_writer(stream, fastavro.parse_schema(schema), record)
    return stream.getvalue()


def decoded(plan: DecodePlan, *values: bytes | None) -> tuple[list[Any], list[str | None]]:
    fields, errors = decoded_fields(decoding(plan), values)
    return fields.to_pylist(), errors


def record(*fields: tuple[str, Any]) -> dict[str, Any]:
    return {"type": "record", "name": "R", "fields": [{"name": name, "type": kind} for name, kind in fields]}


# ---- good records


def test_avro_has_all_types() -> None:
    empty = {"id": 8, "small": None, "lines": [{"sku": "s"}]}
    rows, errors = decoded(plan("avro"), encoded(ORDER, FULL), None, encoded(ORDER, empty))
    assert errors == [None, None, None]
    assert rows == [COLUMNS, None, DEFAULTS]


def test_json_has_all_types() -> None:
    """Bytes are base64. Times are text, or numbers in the unit of their type. Other fields are ignored."""
    numbers = {"day": 20781, "at": 1795507200125, "local": 1795507200125000, "clock": 3723004, "amount": 12.5}
    texts = {"day": "2026-11-24", "at": "2026-11-24T08:00:00.125Z", "local": "2026-11-24T08:00:00.125"}
    full: dict[str, Any] = {
        **FULL,
        **numbers,
        **texts,
        "raw": "AP8=",
        "hash": "YWI=",
        "uuid": str(UUID(int=5)),
        "amount": "12.50",
    }
    full |= {"uuid": str(UUID(int=5)), "amount": "12.50"}
    full |= {"lines": [{"sku": "s", "state": "NEW", "at": 1795507200125000, "other": [1, {"x": None}]}]}
    rows, errors = decoded(plan("json"), *(json.dumps(each).encode() for each in (full, full | {"at": numbers["at"]})))
    assert (rows, errors) == ([COLUMNS, COLUMNS], [None, None])
    rows, errors = decoded(plan("json"), b'{"id": 8, "lines": [{"sku": "s"}]}', b'{"id": 8, "at": null, "x": 1}')
    assert (rows, errors) == ([DEFAULTS, DEFAULTS | {"lines": []}], [None, None])


def test_avro_of_another_version_is_resolved_to_the_reader_schema() -> None:
    """A new field has its default, an old one disappears, an int is promoted, and a name may change by an alias."""
    writer = record(("old", "string"), ("number", "int"), ("label", "string"))
    reader = record(("number", "long"), ("name", "string"), ("added", "string"))
    fields: Any = reader["fields"]
    fields[1]["aliases"], fields[2]["default"] = ["label"], "none"
    value = encoded(writer, {"old": "x", "number": 5, "label": "l"})
    found = decoded(plan("avro", reader, writer=json.dumps(writer)), value)
    assert found == ([{"number": 5, "name": "l", "added": "none"}], [None])


# ---- bad records

AMOUNT = record(("amount", logical("bytes", "decimal", precision=4, scale=2)))


@pytest.mark.parametrize(
    ("value", "message"),
    [
        (b"", "Input data was truncated"),
        (b"{", "Input data was truncated"),
        (b"\xff\xfe", "JSON is malformed: invalid character (byte 0)"),
        (b"[]", "Expected `object`, got `array`"),
        (b'{"small": 1}', "Object missing required field `id`"),
        (b'{"id": "7"}', "Expected `int`, got `str` - at `$.id`"),
        (b'{"id": 1.5}', "Expected `int`, got `float` - at `$.id`"),
        (b'{"id": 9223372036854775808}', "Expected `int` <= 9223372036854775807 - at `$.id`"),
        (b'{"id": 7, "small": 2147483648}', "Expected `int` <= 2147483647 - at `$.small`"),
        (b'{"id": 7, "state": "LOST"}', "Invalid enum value 'LOST' - at `$.state`"),
        (b'{"id": 7, "lines": [{"sku": 1}]}', "Expected `str`, got `int` - at `$.lines[0].sku`"),
        (b'{"id": 7, "hash": "YQ=="}', "Expected `bytes` of length >= 2 - at `$.hash`"),
        (b'{"id": 7, "at": "yesterday"}', "Invalid RFC3339 encoded datetime - at `$.at`"),
    ],
)
def test_json_that_does_not_fit_is_bad(value: bytes, message: str) -> None:
    rows, (first, error, last) = decoded(plan("json"), b'{"id": 1}', value, b'{"id": 2}')
    assert (rows[1], error) == (None, message)
    assert (rows[0]["id"], first, rows[2]["id"], last) == (1, None, 2, None)


def test_values_that_no_column_holds_are_bad() -> None:
    rows, errors = decoded(plan("json", AMOUNT), b'{"amount": "1.50"}', b'{"amount": "123.45"}', b'{"amount": "1.005"}')
    assert rows == [{"amount": Decimal("1.50")}, None, None]
    assert errors[0] is None
    assert "precision 5" in str(errors[1])
    assert "Rescaling Decimal value would cause data loss" in str(errors[2])
    far = f'{{"id": 1, "at": {2**62}}}'.encode()
    assert decoded(plan("json"), far)[1] != [None]


def test_bytes_that_are_no_record_are_bad() -> None:
    good = encoded(ORDER, FULL)
    rows, errors = decoded(plan("avro"), good[:-3], good + b"x", b"", b"\xff" * 40)
    assert rows == [None] * 4
    assert errors[1] == "1 bytes follow the Avro record"
    assert all(str(error).startswith("no Avro record for the reader schema: ") for error in (errors[0], *errors[2:]))


def test_a_writer_schema_that_does_not_resolve_is_named() -> None:
    writer = record(("id", "string"))
    value = encoded(writer, {"id": "x"})
    (_, [error]) = decoded(plan("avro", record(("id", "long")), writer=json.dumps(writer)), value)
    assert str(error).startswith("no Avro record for the reader schema: SchemaResolutionError: ")
    assert len(str(error)) < 1200


# ---- schemas that columns cannot have


@pytest.mark.parametrize(
    ("schema", "message"),
    [
        ({"type": "array", "items": "int"}, "the reader schema is no record: its fields become the columns"),
        ({"type": "recrd"}, "the reader schema is no Avro schema: "),
        (record(("id", ["int", "string"])), "the record.id of the schema is a union of 2 types besides null"),
        (record(("id", "null")), "the record.id of the schema is null"),
        (record(("next", ["null", "R"])), "the record.next of the schema contains itself"),
        (record(("id", "int"), ("ID", "int")), "fields of the reader schema differ only in case"),
        (
            record(("x", {"type": "array", "items": logical("bytes", "decimal", precision=50)})),
            r"the record.x\[\] of the schema has 50 digits, and a column at most 38",
        ),
    ],
    ids=str,
)
def test_a_schema_that_columns_cannot_have_is_refused(schema: Any, message: str) -> None:
    with pytest.raises(PipelineError, match=message):
        decoding(plan("json", schema))


def test_framed_avro_needs_a_registry() -> None:
    with pytest.raises(PipelineError, match="Avro records with a framing need a registry"):
        decoding(plan("avro", framing=True))
