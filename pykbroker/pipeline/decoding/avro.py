"""Avro: schemas from text, and records by the schema that wrote them and the one that reads them."""

from __future__ import annotations

from collections.abc import Callable
from importlib import import_module
from io import BytesIO
from typing import Any

import msgspec

from pykbroker.pipeline.decoding.avro_items import CheckItems, item_check
from pykbroker.pipeline.decoding.bad_record import BadRecord, reason
from pykbroker.pipeline.decoding.framing import unframed
from pykbroker.pipeline.errors import PipelineError

AvroSchema = Any
"""A schema as fastavro has parsed it."""


def fastavro() -> Any:
    """Return the module fastavro. Raise PipelineError with the command that installs it."""
    try:
        return import_module("fastavro")
    except ImportError:
        raise PipelineError("schemas need the package fastavro: pip install 'pykbroker[spark]'") from None


def parse_schema(text: str, place: str) -> AvroSchema:
    """Return a schema from its JSON text. Raise PipelineError, which names the place, if it is none."""
    try:
        return fastavro().parse_schema(msgspec.json.decode(text))
    except PipelineError:
        raise
    except Exception as error:  # noqa: BLE001 - fastavro raises errors of many kinds for wrong schemas
        raise PipelineError(f"{place} is no Avro schema: {reason(error)}") from None


class AvroDecoder:
    """A decoder of Avro records into the reader schema, by Avro's rules of schema resolution.

    With the framing, `schema_of` returns the schema of an id, or raises BadRecord. Otherwise all records have the
    schema `writer`.
    """

    def __init__(
        self, reader: AvroSchema, writer: AvroSchema | None, schema_of: Callable[[int], AvroSchema] | None
    ) -> None:
        self._reader, self._writer, self._schema_of = reader, writer or reader, schema_of
        self._read = fastavro().schemaless_reader
        self._checks: dict[int | None, CheckItems | None] = {}
        """The check of each writer schema by its id, None for one whose values need none."""

    def decode(self, value: bytes) -> dict[str, Any]:
        """Return the record.

        Raise BadRecord if the bytes are no record of its schema, if the schemas differ, or if arrays have more than
        EMPTY_ITEMS_MAX items without bytes.
        """
        schema_id, writer = None, self._writer
        if self._schema_of is not None:
            schema_id, value = unframed(value)
            writer = self._schema_of(schema_id)
        stream = BytesIO(value)
        try:
            self._check_items(schema_id, writer, value)
            record: dict[str, Any] = self._read(stream, writer, self._reader)
        except BadRecord:
            raise
        except Exception as error:  # noqa: BLE001 - fastavro raises errors of many kinds for wrong bytes
            known = "" if schema_id is None else f" of schema {schema_id}"
            raise BadRecord(
                f"no Avro record{known} for the reader schema: {type(error).__name__}: {reason(error)}"
            ) from None
        if stream.tell() != len(value):
            raise BadRecord(f"{len(value) - stream.tell()} bytes follow the Avro record")
        return record

    def _check_items(self, schema_id: int | None, writer: AvroSchema, value: bytes) -> None:
        if schema_id not in self._checks:
            self._checks[schema_id] = item_check(writer)
        check = self._checks[schema_id]
        if check is not None:
            check(value)
