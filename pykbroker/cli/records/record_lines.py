"""Lines of text as records: a value on each line, a key and a value, or an object in JSON."""

from __future__ import annotations

import json
from base64 import b64decode
from collections.abc import Mapping
from typing import Any, NamedTuple

from wire.records.record import Headers

FIELDS = ("key", "value", "key_base64", "value_base64", "headers", "headers_base64", "partition", "timestamp")
"""The fields of a record in JSON. `headers` is an object or a list of pairs; `timestamp` is in ms since 1970."""
IGNORED = ("topic", "offset")
"""The fields of a consumed record (`record_json`) that a record to send cannot have."""


class InvalidLine(ValueError):
    """The error of a line that is no record."""


class ParsedRecord(NamedTuple):
    """A record before it is sent. Without a timestamp, it gets the time at which it is sent."""

    value: bytes | None
    key: bytes | None = None
    headers: Headers = ()
    partition: int | None = None
    timestamp: int | None = None


def keyed_columns(lines: list[bytes], delimiter: bytes) -> tuple[list[bytes | None], list[bytes | None]]:
    """Return the keys and the values of lines. A line without the delimiter has no key."""
    parts = [line.partition(delimiter) for line in lines]
    return [key if found else None for key, found, _ in parts], [rest if found else key for key, found, rest in parts]


def json_record(line: bytes) -> ParsedRecord:
    """Return the record of a JSON object. Raise InvalidLine with what is wrong.

    A string becomes UTF-8, null stays null, and any other value becomes compact JSON.
    """
    try:
        found = json.loads(line)
    except ValueError as error:
        raise InvalidLine(f"no JSON: {error}") from None
    if not isinstance(found, dict):
        raise InvalidLine('no JSON object, such as {"key": "a", "value": "b"}')
    if unknown := found.keys() - {*FIELDS, *IGNORED}:
        raise InvalidLine(f"unknown field '{min(unknown)}': the fields are {', '.join(FIELDS)}")
    return ParsedRecord(
        content(found, "value"),
        content(found, "key"),
        headers(found.get("headers") or ()) + headers_of_base64(found.get("headers_base64") or ()),
        integer(found, "partition"),
        integer(found, "timestamp"),
    )


def content(record: Mapping[str, Any], name: str) -> bytes | None:
    """Return a key or a value as bytes."""
    encoded = record.get(f"{name}_base64")
    if encoded is not None:
        try:
            return b64decode(encoded, validate=True)
        except (TypeError, ValueError) as error:
            raise InvalidLine(f"{name}_base64 is no base64: {error}") from None
    return text(record.get(name))


def text(value: Any) -> bytes | None:
    """Return a value of JSON as bytes."""
    if value is None:
        return None
    return (value if isinstance(value, str) else json.dumps(value, separators=(",", ":"), ensure_ascii=False)).encode()


def headers(found: Any) -> Headers:
    """Return the headers of an object or a list of pairs."""
    pairs = found.items() if isinstance(found, dict) else found
    try:
        return tuple((name, text(value)) for name, value in pairs if isinstance(name, str) or fail(name))
    except (TypeError, ValueError):
        raise InvalidLine("headers must be an object, or a list of pairs of a name and a value") from None


def headers_of_base64(found: Any) -> Headers:
    """Return the headers of an object or a list of pairs, whose values are in base64."""
    try:
        return tuple(
            (name, None if value is None else b64decode(value, validate=True)) for name, value in headers(found)
        )
    except ValueError as error:
        raise InvalidLine(f"headers_base64 has a value that is no base64: {error}") from None


def fail(_name: object) -> bool:
    """Raise ValueError for the name of a header that is no text."""
    raise ValueError


def integer(record: Mapping[str, Any], name: str) -> int | None:
    """Return an integer field, or None without it."""
    value = record.get(name)
    if value is not None and (isinstance(value, bool) or not isinstance(value, int)):
        raise InvalidLine(f"{name} is {json.dumps(value)}, but must be an integer")
    return value
