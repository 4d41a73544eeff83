"""Columns as their sender gives them, and the checks by which keys, values and headers become bytes."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from operator import index
from typing import Any, NamedTuple, TypeVar

from pykbroker.core.producer.batch import TIMESTAMP_MAX, TIMESTAMP_MIN
from wire.records.record import Headers

T = TypeVar("T")


class ProducerColumns(NamedTuple):
    """Columns of records before they are checked, as interceptors see them. A column that is None was not given."""

    topic: str
    values: Sequence[bytes | None]
    keys: Sequence[bytes | None] | None = None
    headers: Sequence[Any] | None = None
    timestamps: Sequence[int] | None = None
    partition: int | None = None


def serialized(part: str, content: Any, serializer: Callable[[Any], Any]) -> bytes | None:
    """Return a key or a value that its serializer has turned into bytes. Raise TypeError if it returned no bytes."""
    try:
        found = serializer(content)
    except Exception as error:
        error.add_note(f"{part}_serializer raised this for {content!r:.80}")
        raise
    if found is None or isinstance(found, bytes | bytearray | memoryview):
        return to_bytes(part, found)
    raise TypeError(f"{part}_serializer returned {type(found).__name__}: it must return bytes or None")


def to_bytes(part: str, content: Any) -> bytes | None:
    """Return a key or a value as bytes that their owner cannot change any more. Raise TypeError for another type."""
    if content is None or type(content) is bytes:
        return content
    if isinstance(content, bytes | bytearray | memoryview):
        return bytes(content)
    raise TypeError(f"the {part} is of type {type(content).__name__}: pass bytes, or set {part}_serializer")


def timestamp_of(timestamp: Any) -> int:
    """Return a timestamp in ms since 1970. Raise TypeError for another type, and ValueError if it is out of range.

    Kafka's producer refuses a time before 1970, which a broker stores like any other. Copies of records need it.
    """
    if type(timestamp) is int and TIMESTAMP_MIN <= timestamp <= TIMESTAMP_MAX:
        return timestamp
    try:
        found = index(timestamp)
    except TypeError:
        raise TypeError(f"the timestamp {timestamp!r} is no integer: pass ms since 1970") from None
    if not TIMESTAMP_MIN <= found <= TIMESTAMP_MAX:
        raise ValueError(f"the timestamp {found} has more than 64 bits: pass ms since 1970")
    return found


def partition_of(partition: Any) -> int | None:
    """Return a partition, or None for any. Raise TypeError for another type."""
    if partition is None or type(partition) is int:
        return partition
    try:
        return index(partition)
    except TypeError:
        raise TypeError(f"the partition {partition!r} is no integer: pass the index of a partition") from None


def timestamps_of(timestamps: Sequence[Any]) -> list[int]:
    """Return a column of timestamps. The errors are those of `timestamp_of`, and name the row."""
    try:
        found = list(map(index, timestamps))
    except TypeError:
        return by_row(timestamp_of, timestamps)
    fits = not found or TIMESTAMP_MIN <= min(found) <= max(found) <= TIMESTAMP_MAX
    return found if fits else by_row(timestamp_of, found)


def by_row(convert: Callable[[Any], T], column: Iterable[Any]) -> list[T]:
    """Return the converted rows of a column. A TypeError or ValueError names its row."""
    found = []
    for row, content in enumerate(column):
        try:
            found.append(convert(content))
        except (TypeError, ValueError) as error:
            raise type(error)(f"row {row}: {error}") from error
    return found


def check_text(name: str) -> None:
    """Raise ValueError for the name of a header that UTF-8 cannot express."""
    try:
        name.encode()
    except UnicodeEncodeError:
        raise ValueError(f"the header {name!r} has half a surrogate pair, which UTF-8 does not have") from None


def headers_of(headers: Iterable[Any]) -> Headers:
    """Return headers as pairs of text and bytes. Raise TypeError for any other header."""
    found = []
    for header in headers:
        if not (isinstance(header, tuple | list) and len(header) == 2 and isinstance(header[0], str)):
            raise TypeError(f"the header {header!r} is no pair of a name and bytes")
        name, value = header
        if not name.isascii():
            check_text(name)
        if value is not None and not isinstance(value, bytes | bytearray | memoryview):
            raise TypeError(f"the header '{name}' has a value of type {type(value).__name__}: pass bytes or None")
        found.append((name, None if value is None else bytes(value)))
    return tuple(found)
