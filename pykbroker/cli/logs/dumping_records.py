"""The records of `pykbroker dump-log` as lines. Records of internal topics are decoded, and secrets are hidden."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from contextlib import suppress
from functools import partial
from typing import Any

import msgspec

from pykbroker.core.config.entries import broker_row, hidden
from pykbroker.core.config.resource import ConfigResource
from pykbroker.core.ids import id_text
from pykbroker.core.names import (
    CLUSTER_METADATA_TOPIC,
    GROUP_METADATA_TOPIC,
    SHARE_STATE_TOPIC,
    TRANSACTION_STATE_TOPIC,
)
from wire.declare import sensitive_fields
from wire.errors import DecodeError
from wire.records.batch import Batch
from wire.records.control import ControlType, control_records
from wire.records.record import Record, records
from wire.schema import UNKNOWN_TAGS
from wire.stored.framing import Catalogue, UnknownRecordType, decode_key, decode_versioned
from wire.stored.group import GROUP_RECORDS
from wire.stored.metadata import decode_metadata
from wire.stored.metadata_settings import ConfigRecord
from wire.stored.share_state import SHARE_RECORDS
from wire.stored.transaction_log import TRANSACTION_RECORDS

BATCH_BYTES_MAX = 1 << 28
"""The decompressed size of the largest batch that is decoded."""
HIDDEN = "(hidden)"
UUID_BYTES = 16
CATALOGUES: dict[str, Catalogue] = {
    GROUP_METADATA_TOPIC: GROUP_RECORDS,
    TRANSACTION_STATE_TOPIC: TRANSACTION_RECORDS,
    SHARE_STATE_TOPIC: SHARE_RECORDS,
}


def reader(topic: str) -> Callable[[Batch], Iterator[str]]:
    """Return a function that yields a line for each record of a batch of this topic, which is empty if it is unknown.

    DecodeError: the batch is damaged.
    """
    show = {CLUSTER_METADATA_TOPIC: metadata_record, "": any_record}.get(topic, plain_record)
    if topic in CATALOGUES:
        show = partial(coordinator_record, CATALOGUES[topic])

    def read(batch: Batch) -> Iterator[str]:
        if batch.is_control:
            yield from map(control_line, control_records(batch))
            return
        for record in records(batch, BATCH_BYTES_MAX):
            headers = "".join(f" header.{key}={text_of(value)}" for key, value in record.headers)
            yield f"  offset={record.offset} timestamp={record.timestamp} {show(record)}{headers}"

    return read


def control_line(record: Any) -> str:
    """Return the line of a control record."""
    known = {kind.value: kind.name for kind in ControlType}
    value = "" if record.value is None else f" {as_json(record.value)}"
    return f"  offset={record.offset} {known.get(record.type, record.type)}{value}"


def plain_record(record: Record) -> str:
    """Return key and value of a record."""
    return f"key={text_of(record.key)} value={text_of(record.value)}"


def metadata_record(record: Record) -> str:
    """Return the decoded record of the metadata log."""
    try:
        message = decode_metadata(record.value or b"")
    except UnknownRecordType:
        return plain_record(record)
    return f"{type(message).__name__} {as_json(message)}"


def any_record(record: Record) -> str:
    """Return the record of a file outside of a partition's directory, decoded if it may be one of the metadata log.

    A copy of that log has secrets, too.
    """
    if record.key is None and record.value is not None:
        with suppress(DecodeError):
            return metadata_record(record)
    return plain_record(record)


def coordinator_record(catalogue: Catalogue, record: Record) -> str:
    """Return the decoded record of a group or a transaction."""
    try:
        key = decode_key(catalogue, record.key or b"")
    except UnknownRecordType:
        return plain_record(record)
    value_class = catalogue[key.record_type][1]
    value = "null" if record.value is None else as_json(decode_versioned(value_class, record.value))
    return f"{type(key).__name__.removesuffix('Key')} {as_json(key)} {value}"


def text_of(data: bytes | None) -> str:
    """Return UTF-8 text as a JSON string, other bytes as hexadecimal digits."""
    if data is None:
        return "null"
    try:
        return json.dumps(data.decode())
    except UnicodeDecodeError:
        return f"0x{data.hex()}"


def as_json(message: msgspec.Struct) -> str:
    """Return all fields as JSON, with secrets hidden."""
    return json.dumps(plain(message))


def may_show(config: ConfigRecord) -> bool:
    """Whether a config has no password. As in DescribeConfigs, an unknown config of a broker may have one."""
    return config.resource_type != ConfigResource.BROKER or not hidden(broker_row(config.name))


def plain(value: Any) -> Any:
    """Return the value as types that JSON has, with secrets hidden."""
    if isinstance(value, msgspec.Struct):
        fields = {name: plain(getattr(value, name)) for name in value.__struct_fields__}
        if not fields.get(UNKNOWN_TAGS):
            fields.pop(UNKNOWN_TAGS, None)
        if not (isinstance(value, ConfigRecord) and may_show(value)):
            fields.update(dict.fromkeys(sensitive_fields(type(value)), HIDDEN))
        return fields
    if isinstance(value, list):
        return [plain(each) for each in value]
    if isinstance(value, dict):
        return {str(tag): plain(each) for tag, each in value.items()}
    if isinstance(value, bytes | memoryview):
        return id_text(bytes(value)) if len(value) == UUID_BYTES else bytes(value).hex()
    return value
