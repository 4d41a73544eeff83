"""A record as its sender gives it, and how keys, values and headers become bytes."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from operator import index
from typing import Any, NamedTuple

from wire.records.record import Headers

TIMESTAMP_MAX = (1 << 63) - 1


class ProducerRecord(NamedTuple):
    """A record before it is serialized, as interceptors see it. `timestamp` is in ms since 1970, or None for now."""

    topic: str
    value: Any = None
    key: Any = None
    partition: int | None = None
    headers: Iterable[tuple[str, bytes | None]] = ()
    timestamp: int | None = None


def serialized(part: str, content: Any, serializer: Callable[[Any], Any]) -> bytes | None:
    """Return a key or a value that its serializer has turned into bytes. Raise TypeError if it returned no bytes."""
    found = serializer(content)
    if found is None or isinstance(found, bytes | bytearray | memoryview):
        return to_bytes(part, found)
    raise TypeError(f"{part}_serializer returned {type(found).__name__}: it must return bytes or None")


def to_bytes(part: str, content: Any) -> bytes | None:
    """Return a key or a value as bytes that their owner cannot change any more. Raise TypeError for no bytes."""
    if content is None or type(content) is bytes:
        return content
    if isinstance(content, bytes | bytearray | memoryview):
        return bytes(content)
    raise TypeError(f"the {part} is of type {type(content).__name__}: pass bytes, or set {part}_serializer")


def timestamp_of(timestamp: Any) -> int:
    """Return a timestamp in ms since 1970. Raise TypeError for no integer, and ValueError for one out of range."""
    if type(timestamp) is int and 0 <= timestamp <= TIMESTAMP_MAX:
        return timestamp
    try:
        found = index(timestamp)
    except TypeError:
        raise TypeError(f"the timestamp {timestamp!r} is no integer: pass ms since 1970") from None
    if not 0 <= found <= TIMESTAMP_MAX:
        raise ValueError(f"the timestamp {found} is not between 0 and {TIMESTAMP_MAX}: pass ms since 1970")
    return found


def timestamps_of(timestamps: Sequence[Any]) -> list[int]:
    """Return a column of timestamps. The errors are those of `timestamp_of`."""
    try:
        found = list(map(index, timestamps))
    except TypeError:
        found = list(map(timestamp_of, timestamps))  # this raises the error of the first bad row
    if found:
        timestamp_of(min(found))
        timestamp_of(max(found))
    return found


def headers_of(headers: Iterable[Any]) -> Headers:
    """Return headers as pairs of text and bytes. Raise TypeError for any other header."""
    found = []
    for header in headers:
        if not (isinstance(header, tuple | list) and len(header) == 2 and isinstance(header[0], str)):
            raise TypeError(f"the header {header!r} is no pair of a name and bytes")
        name, value = header
        if value is not None and not isinstance(value, bytes | bytearray | memoryview):
            raise TypeError(f"the header '{name}' has a value of type {type(value).__name__}: pass bytes or None")
        found.append((name, None if value is None else bytes(value)))
    return tuple(found)
