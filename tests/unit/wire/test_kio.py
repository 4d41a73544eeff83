"""Tests against kio, an independent codec generated from the same schemas: the same bytes and the same values.

kio's types are narrower than Kafka's; for example, an error code must be known. Values are adjusted to fit.
"""

import dataclasses
import io
import re
import uuid
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from typing import Any

import msgspec
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from kio.index import load_entity_schema
from kio.schema.errors import ErrorCode
from kio.schema.index import schema_name_map
from kio.serial import entity_reader, entity_writer
from kio.static.constants import EntityType

from tests.unit.wire.drawing import messages
from tools.compare_schemas import declarations
from wire.compile import decoder, encoder
from wire.declare import NIL, Message, Request, Response
from wire.schema import Type, fields_of
from wire.versions import parse_versions

CODES = sorted(code.value for code in ErrorCode)
EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
DATE_MS_MAX = 250_000_000_000_000
HEADERS = {"request_header", "response_header"}
KIO_NAMES = {name.replace("_", ""): name for name in schema_name_map if name not in HEADERS}
DECLARED = declarations()
SHARED = sorted(name for name in DECLARED if re.sub("(Request|Response)$", "", name).lower() in KIO_NAMES)


def fit(value: Any, of: Type, kind: str | None, version: int) -> Any:
    """Return the value, or another one if kio cannot represent it."""
    if value is None:
        return None
    if of.item:
        return [fit(item, of.item, kind, version) for item in value]
    if of.struct:
        return value
    if kind == "error_code":
        return CODES[value % len(CODES)]
    if kind == "timedelta_i64":
        return value % DATE_MS_MAX
    if kind == "datetime_i64":
        return value % DATE_MS_MAX // 1000 * 1000
    return value


def kios(value: Any, of: Type, kind: str | None, entity: Any, version: int) -> Any:
    """Return the value in kio's type."""
    if value is None:
        return None
    if of.item:
        return tuple(kios(item, of.item, kind, entity, version) for item in value)
    if of.struct:
        return to_kio(value, entity, version)
    if kind == "uuid":
        return None if value == NIL else uuid.UUID(bytes=value)
    if kind == "error_code":
        return ErrorCode(value)
    if kind in ("timedelta_i32", "timedelta_i64"):
        return timedelta(milliseconds=value)
    if kind == "datetime_i64":
        return EPOCH + timedelta(milliseconds=value)
    return value


def entity_in(annotation: Any) -> Any:
    """Return the entity class inside `tuple[Entity, ...] | None` and similar types."""
    if dataclasses.is_dataclass(annotation):
        return annotation
    return next((found for found in map(entity_in, getattr(annotation, "__args__", ())) if found), None)


def to_kio(message: msgspec.Struct, entity: Any, version: int) -> Any:
    """Return kio's equivalent of a message; replace values in the message that kio cannot represent."""
    ours = [field for field in fields_of(type(message)) if version in field.versions]
    theirs = dataclasses.fields(entity)
    values = {}
    for field, twin in zip(ours, theirs, strict=True):
        kind = twin.metadata.get("kafka_type")
        value = getattr(message, field.name)
        fitting = fit(value, field.type, kind, version)
        if fitting != value:
            setattr(message, field.name, fitting)
        values[twin.name] = kios(fitting, field.type, kind, entity_in(twin.type), version)
    return entity(**values)


def agree(cls: type[Message], entity: Any, version: int, message: Message) -> None:
    twin = to_kio(message, entity, version)
    with io.BytesIO() as buffer:
        entity_writer(entity)(buffer, twin)
        theirs = buffer.getvalue()
    out: list[Any] = []
    encoder(cls, version)(message, out)
    assert b"".join(out) == theirs
    assert decoder(cls, version)(theirs, 0, len(theirs)) == message
    read, size = entity_reader(entity)(theirs, 0)
    assert (read, size) == (twin, len(theirs))


def entities(cls: type[Message]) -> Iterator[tuple[int, Any]]:
    """Yield kio's class for each version."""
    name = re.sub("(Request|Response)$", "", cls.__name__)
    kind: Any = EntityType.data
    if issubclass(cls, Request | Response):
        kind = EntityType.request if issubclass(cls, Request) else EntityType.response
    first, last = parse_versions(cls.versions)
    for version in range(first, last + 1):
        yield version, load_entity_schema(KIO_NAMES[name.lower()], version, kind)


@pytest.mark.parametrize("name", SHARED)
@settings(max_examples=25, database=None, deadline=None, suppress_health_check=list(HealthCheck))
@given(data=st.data())
def test_kio_encodes_and_decodes_the_same_bytes(name: str, data: st.DataObject) -> None:
    cls = DECLARED[name]
    for version, entity in entities(cls):
        agree(cls, entity, version, data.draw(messages(cls, version), label=f"v{version}"))


def test_every_message_that_kio_has_is_compared() -> None:
    kinds = {kind for versions in schema_name_map.values() for by_kind in versions.values() for kind in by_kind}
    assert kinds == {EntityType.request, EntityType.response, EntityType.data, EntityType.header}
    count = sum(
        len(by_kind)
        for name, versions in schema_name_map.items()
        if name not in HEADERS
        for by_kind in versions.values()
    )
    assert sum(1 for name in SHARED for _ in entities(DECLARED[name])) == count > 500
