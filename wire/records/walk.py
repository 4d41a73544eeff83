"""The validation of a producer's records one by one. Every length is checked against the bytes that are left.

Each produced record that is not part of a run (`runs`) is validated by this module. Most integers of a record have one
or two bytes. They are decoded without a function call, which would double the time.
"""

import msgspec

from wire.declare import REQUEST_ELEMENTS_MAX
from wire.errors import DecodeError
from wire.records.runs import run_at
from wire.records.zigzag import read_varint, read_varlong

_RUN_FIRST, _RUN_GROWTH, _RUN_PAUSE = 64, 16, 32
_INT64_MIN, _INT64_MAX = -(2**63), 2**63 - 1
_NULL = 1  # the encoding of length -1; encodings of negative lengths are odd


class Walked(msgspec.Struct, gc=False, frozen=True):
    """The result of a validation: the lowest and highest timestamp delta in ms, and how many records lack a key."""

    smallest: int
    largest: int
    keyless: int


class TooLong(DecodeError):
    """An error for records with more headers than the caller allows."""


def walked(data: bytes, count: int, headers_max: int) -> Walked:
    """Validate `count` records, at least one.

    Raise DecodeError if a record is damaged, or if the offset deltas are not 0 to n - 1. Raise TooLong if the records
    have more than `headers_max` headers.
    """
    try:
        return _walked(data, count, headers_max)
    except IndexError:
        raise DecodeError(f"records cut off at {len(data)} bytes") from None


def _walked(data: bytes, count: int, headers_max: int) -> Walked:
    limit, keyless, stamp, smallest, largest = len(data), 0, -1, _INT64_MAX, _INT64_MIN
    index, pos, size, retry, window = 0, 0, 0, 0, _RUN_FIRST
    while index < count:
        start, before = pos, size
        size, second = data[pos], data[pos + 1]
        if size < 128:
            pos += 1
        elif second < 128:
            size, pos = size & 127 | second << 7, pos + 2
        else:
            size, pos = _raw(data, pos)
        end = pos + (size >> 1)
        if size & 1 or end > limit:
            raise DecodeError(f"record {index} has {size >> 1} bytes, {limit - pos} left")
        byte = data[pos + 1]
        if byte == stamp:
            pos += 2
        else:
            stamp = byte if byte < 128 else -1
            delta, pos = (byte >> 1 ^ -(byte & 1), pos + 2) if byte < 128 else read_varlong(data, pos + 1)
            if delta < smallest:
                smallest = delta
            if delta > largest:
                largest = delta
        byte = data[pos]
        if index < 64 and byte == index << 1:
            pos += 1
        elif 64 <= index < 8192 and byte == index << 1 & 127 | 128 and data[pos + 1] == index >> 6:
            pos += 2
        else:
            pos = _offset_end(data, pos, index)
        byte = key = data[pos]
        if byte & 1:
            keyless += 1
            pos = pos + 1 if byte == _NULL else _field_end(data, pos)
        else:
            pos = _field_end(data, pos) if byte > 127 else pos + 1 + (byte >> 1)
        byte, second = data[pos], data[pos + 1]
        if byte & 1 or byte > 127 < second:
            pos = _field_end(data, pos)
        else:
            pos += 1 + (byte >> 1) if byte < 128 else 2 + (byte >> 1 & 63 | second << 6)
        pos, headers_max = _headers_end(data, pos, headers_max) if data[pos] else (pos + 1, headers_max)
        if pos != end:
            raise DecodeError(f"record {index} ends at byte {pos}, not {end}")
        index += 1
        if size == before and index > retry:
            run = run_at(data, start, end - start, index - 1, min(window, count - index + 1))
            if run is None:
                window, retry = _RUN_FIRST, index + _RUN_PAUSE
                continue
            more = run.records - 1
            window = window * _RUN_GROWTH if run.records == window else _RUN_FIRST
            index, pos = index + more, pos + more * (end - start)
            keyless += more if key & 1 else 0
            smallest, largest = min(smallest, run.smallest), max(largest, run.largest)
    if pos != limit:
        raise DecodeError(f"{limit - pos} bytes after {count} records")
    return Walked(smallest, largest, keyless)


def _raw(data: bytes, pos: int) -> tuple[int, int]:
    """Return the zig-zag encoded length at `pos`, which is odd for a negative length, and the position after it."""
    size, pos = read_varint(data, pos)
    return size << 1 ^ size >> 31, pos


def _offset_end(data: bytes, pos: int, index: int) -> int:
    """Return the end of the offset delta at `pos`, which must be `index`."""
    delta, pos = read_varint(data, pos)
    if delta != index:
        raise DecodeError(f"record {index} has offset delta {delta}")
    return pos


def _field_end(data: bytes, pos: int) -> int:
    size, pos = read_varint(data, pos)
    if size < -1:
        raise DecodeError(f"a field of {size} bytes")
    return pos + size if size > 0 else pos


def _headers_end(data: bytes, pos: int, headers_max: int) -> tuple[int, int]:
    """Return the end of the headers at `pos`, and the number of headers that are still allowed.

    Header keys are never null (KIP-82).
    """
    count, pos = read_varint(data, pos)
    if not 0 <= count <= REQUEST_ELEMENTS_MAX:
        raise DecodeError(f"{count} headers")
    if count > headers_max:
        raise TooLong(f"more than {headers_max} headers")
    for _ in range(count):
        if data[pos] & 1:
            raise DecodeError("a header without a key")
        pos = _field_end(data, pos)
        pos = _field_end(data, pos)
    return pos, headers_max - count
