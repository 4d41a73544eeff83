"""Records encoded from columns: the keys and values of a whole run of records become bytes in a few joins.

Only the lengths and the offset delta of a record differ from those of its neighbours, and both have few distinct
encodings. So a run is a join of looked-up prefixes and the callers' own bytes, with no call for each record. A record
with a null value, a null among keys, or headers is encoded by itself.
"""

from collections.abc import Callable, Sequence
from functools import lru_cache
from typing import cast

from wire.declare import Buffer
from wire.records.record import Headers
from wire.records.zigzag import varint
from wire.varint import uvarint

_WIDTHS = ((1 << 6, 1), (1 << 13, 2), (1 << 20, 3), (1 << 27, 4), (1 << 34, 5))
"""The length of an offset delta's varint, behind the first delta that needs a longer one."""
_LOW_DELTAS = 1 << 14
_LENGTHS_MAX = 1 << 14
_NO_ATTRIBUTES = _NO_HEADERS = b"\0"
_NULL = varint(-1)


class _Encodings(dict[int, bytes]):
    """Encodings by length. The encodings of the first `_LENGTHS_MAX` requested lengths are kept."""

    def __init__(self, encode: Callable[[int], bytes]) -> None:
        self._encode = encode

    def __missing__(self, length: int) -> bytes:
        encoded = self._encode(length)
        if len(self) < _LENGTHS_MAX:
            self[length] = encoded
        return encoded


_MARKS = _Encodings(varint)
"""The length before a key or a value."""
_NULL_KEY_MARKS = _Encodings(lambda length: _NULL + varint(length))
"""A null key, and the length before a value."""


def encode_records(
    values: Sequence[Buffer | None],
    keys: Sequence[Buffer | None] | None = None,
    headers: Sequence[Headers] | None = None,
    timestamp_delta: int = 0,
    first: int = 0,
) -> bytes:
    """Return the bytes of records that have one timestamp, and the offset deltas from `first` on.

    `timestamp_delta` is in ms after the batch's base timestamp. Without `keys`, all keys are null.
    """
    if headers is not None or None in values or (keys is not None and None in keys):
        return b"".join(_singly(values, keys, headers, timestamp_delta, first))
    stamp = _NO_ATTRIBUTES + varint(timestamp_delta)
    parts: list[Buffer] = []
    start = 0
    for border, width in _WIDTHS:
        end = min(len(values), border - first)
        if end > start:
            offsets, fixed = _offsets(first + start, first + end), len(stamp) + width + len(_NO_HEADERS)
            run = cast(Sequence[Buffer], values[start:end])
            if keys is None:
                parts += _keyless(run, stamp, offsets, fixed)
            else:
                parts += _keyed(cast(Sequence[Buffer], keys[start:end]), run, stamp, offsets, fixed)
            start = end
    parts.append(_NO_HEADERS)
    return b"".join(parts)[len(_NO_HEADERS) :]


def encode_record(
    key: Buffer | None, value: Buffer | None, headers: Headers, timestamp_delta: int, offset_delta: int
) -> bytes:
    """Return the bytes of one record."""
    body = b"".join(
        (
            _NO_ATTRIBUTES,
            varint(timestamp_delta),
            varint(offset_delta),
            _NULL if key is None else varint(len(key)),
            key or b"",
            _NULL if value is None else varint(len(value)),
            value or b"",
            encode_headers(headers) if headers else _NO_HEADERS,
        )
    )
    return varint(len(body)) + body


def encode_headers(headers: Headers) -> bytes:
    """Return the bytes of a record's headers, with their count."""
    parts = [varint(len(headers))]
    for name, value in headers:
        key = name.encode()
        parts += (varint(len(key)), key, _NULL if value is None else varint(len(value)), value or b"")
    return b"".join(parts)


def _singly(
    values: Sequence[Buffer | None],
    keys: Sequence[Buffer | None] | None,
    headers: Sequence[Headers] | None,
    timestamp_delta: int,
    first: int,
) -> list[bytes]:
    return [
        encode_record(
            None if keys is None else keys[index],
            value,
            () if headers is None else headers[index],
            timestamp_delta,
            first + index,
        )
        for index, value in enumerate(values)
    ]


def _keyless(values: Sequence[Buffer], stamp: bytes, offsets: list[bytes], fixed: int) -> list[Buffer]:
    """Return the parts of records without keys. Each begins with the header count of the record before it."""
    lengths = list(map(len, values))
    starts, marks = _keyless_starts(fixed), _NULL_KEY_MARKS
    parts: list[Buffer] = [b""] * (5 * len(values))
    if lengths.count(lengths[0]) == len(lengths):
        parts[0::5] = [starts[lengths[0]]] * len(lengths)
        parts[3::5] = [marks[lengths[0]]] * len(lengths)
    else:
        parts[0::5] = [starts[length] for length in lengths]
        parts[3::5] = [marks[length] for length in lengths]
    parts[1::5], parts[2::5], parts[4::5] = [stamp] * len(lengths), offsets, values
    return parts


def _keyed(
    keys: Sequence[Buffer], values: Sequence[Buffer], stamp: bytes, offsets: list[bytes], fixed: int
) -> list[Buffer]:
    """Return the parts of records with keys. Each begins with the header count of the record before it."""
    starts, marks = _starts(fixed), _MARKS
    key_lengths, lengths = list(map(len, keys)), list(map(len, values))
    key_marks, value_marks = [marks[length] for length in key_lengths], [marks[length] for length in lengths]
    sizes = map(_sum, map(len, key_marks), key_lengths, map(len, value_marks), lengths)
    parts: list[Buffer] = [b""] * (7 * len(values))
    parts[0::7], parts[1::7], parts[2::7] = [starts[size] for size in sizes], [stamp] * len(lengths), offsets
    parts[3::7], parts[4::7], parts[5::7], parts[6::7] = key_marks, keys, value_marks, values
    return parts


def _sum(key_mark: int, key: int, value_mark: int, value: int) -> int:
    return key_mark + key + value_mark + value


@lru_cache(maxsize=16)
def _starts(fixed: int) -> _Encodings:
    """Return the header count of the record before and the length of a record, by the size of its key and value."""
    return _Encodings(lambda size: _NO_HEADERS + varint(fixed + size))


@lru_cache(maxsize=16)
def _keyless_starts(fixed: int) -> _Encodings:
    """Return the header count of the record before and the length of a record, by the size of its value."""
    return _Encodings(lambda size: _NO_HEADERS + varint(fixed + len(_NULL_KEY_MARKS[size]) + size))


@lru_cache(maxsize=1)
def low_offsets() -> list[bytes]:
    """Return the varints of the offset deltas below `_LOW_DELTAS`.

    They take 0.7 MB, which a broker does not need, and 1 ms once. A call of `varint` for each would take 6 ms.
    """
    low_bytes = [bytes((0x80 | low,)) for low in range(0, 1 << 7, 2)]
    offsets = [varint(delta) for delta in range(1 << 6)]
    offsets += [low + high for high in map(uvarint, range(1, _LOW_DELTAS >> 6)) for low in low_bytes]
    return offsets


def _offsets(first: int, end: int) -> list[bytes]:
    if end <= _LOW_DELTAS:
        return low_offsets()[first:end]
    return [varint(delta) for delta in range(first, end)]
