"""The plan of a decoding, which tasks get, and the decoder that follows from it."""

from __future__ import annotations

from functools import lru_cache
from typing import Any, Literal, NamedTuple, Protocol

import msgspec

from pykbroker.pipeline.decoding.avro import AvroDecoder, parse_schema
from pykbroker.pipeline.decoding.column_types import ColumnType, column_type
from pykbroker.pipeline.decoding.json import JsonDecoder
from pykbroker.pipeline.decoding.registry import SchemaRegistry
from pykbroker.pipeline.errors import PipelineError


class DecodePlan(msgspec.Struct, frozen=True):
    """The plan of a decoding.

    `reader` is the text of the reader schema, and `writer` that of all records if they have no framing and it differs.
    `registry` is the URL from which Avro records with a framing get their schemas.
    """

    format: Literal["json", "avro"]
    reader: str
    framing: bool = False
    writer: str = ""
    registry: str = ""


class RecordDecoder(Protocol):
    """A decoder of the values of records."""

    def decode(self, value: bytes) -> dict[str, Any]:
        """Return the fields of a record. Raise BadRecord."""


class Decoding(NamedTuple):
    """A decoder, and the type of what it returns."""

    decoder: RecordDecoder
    type: ColumnType


@lru_cache(maxsize=8)
def decoding(plan: DecodePlan) -> Decoding:
    """Return the decoder of a plan. Raise PipelineError for a schema that columns cannot have.

    The decoder of a process is kept, with the schemas that it has fetched.
    """
    reader = parse_schema(plan.reader, "the reader schema")
    kind = column_type(reader)
    _check_fields(reader)
    if plan.format == "json":
        return Decoding(JsonDecoder(kind.json, framing=plan.framing), kind)
    writer = parse_schema(plan.writer, "the writer schema") if plan.writer else None
    schema_of = None
    if plan.framing:
        if not plan.registry:
            raise PipelineError("Avro records with a framing need a registry, which has their schemas")
        schema_of = SchemaRegistry(plan.registry).schema
    return Decoding(AvroDecoder(reader, writer, schema_of), kind)


def _check_fields(reader: Any) -> None:
    """Raise PipelineError unless a schema is that of a record whose fields can be columns."""
    if not isinstance(reader, dict) or reader["type"] != "record":
        raise PipelineError("the reader schema is no record: its fields become the columns")
    names = [field["name"] for field in reader["fields"]]
    if len({name.lower() for name in names}) < len(names):
        raise PipelineError("fields of the reader schema differ only in case, which columns cannot")
