"""Records as lines of JSON, which `pykbroker produce --json` reads again (`record_lines`).

The fields are `topic`, `partition`, `offset`, `timestamp` (ms since 1970), `key`, `value`, and `headers` as pairs of a
name and a value. Contents that are not UTF-8 are in `key_base64`, `value_base64` or `headers_base64` instead.
"""

from __future__ import annotations

from base64 import b64encode
from collections.abc import Iterable, Sequence
from itertools import repeat

import msgspec
from msgspec import UNSET, UnsetType

from pykbroker.core.consumer.records import FetchedColumns
from wire.records.record import Headers
from wire.sentinels import NO_TIMESTAMP

HeaderPairs = list[tuple[str, str | None]]


class JsonRecord(msgspec.Struct, gc=False):
    """A record to print. An UNSET field is left out."""

    topic: str
    partition: int
    offset: int
    timestamp: int | None
    key: str | UnsetType | None
    key_base64: str | UnsetType
    value: str | UnsetType | None
    value_base64: str | UnsetType
    headers: HeaderPairs | UnsetType
    headers_base64: HeaderPairs | UnsetType


ENCODER = msgspec.json.Encoder()


def json_lines(fetched: FetchedColumns) -> bytes:
    """Return a line of JSON for each record. A record without a timestamp has null."""
    columns, (topic, index) = fetched.columns, fetched.partition
    records = map(
        JsonRecord,
        repeat(topic),
        repeat(index),
        columns.offsets,
        [None if timestamp == NO_TIMESTAMP else timestamp for timestamp in columns.timestamps],
        *contents(columns.keys),
        *contents(columns.values),
        *headers(columns.headers),
    )
    return ENCODER.encode_lines(records)


def contents(column: Sequence[bytes | None]) -> tuple[Iterable[str | UnsetType | None], Iterable[str | UnsetType]]:
    """Return a column of keys or values as texts, and in base64. Each row has one of them."""
    try:
        return [None if content is None else content.decode() for content in column], repeat(UNSET)
    except UnicodeDecodeError:
        pairs = list(map(text_or_base64, column))
        return [text for text, _ in pairs], [encoded for _, encoded in pairs]


def text_or_base64(content: bytes | None) -> tuple[str | UnsetType | None, str | UnsetType]:
    """Return a content as text, or in base64 if it is not UTF-8."""
    if content is None:
        return None, UNSET
    try:
        return content.decode(), UNSET
    except UnicodeDecodeError:
        return UNSET, b64encode(content).decode()


def headers(
    column: Sequence[Headers] | None,
) -> tuple[Iterable[HeaderPairs | UnsetType], Iterable[HeaderPairs | UnsetType]]:
    """Return a column of headers as pairs with texts, and as pairs with base64. Each row has one of them."""
    if column is None:
        return repeat([]), repeat(UNSET)
    try:
        texts = [[(name, None if value is None else value.decode()) for name, value in row] for row in column]
    except UnicodeDecodeError:
        pairs = list(map(header_pairs, column))
        return [row for row, _ in pairs], [row for _, row in pairs]
    return texts, repeat(UNSET)


def header_pairs(row: Headers) -> tuple[HeaderPairs | UnsetType, HeaderPairs | UnsetType]:
    """Return the headers of a record with texts, or all of them with base64 if one is not UTF-8."""
    try:
        return [(name, None if value is None else value.decode()) for name, value in row], UNSET
    except UnicodeDecodeError:
        return UNSET, [(name, None if value is None else b64encode(value).decode()) for name, value in row]
