"""The validation of runs: consecutive records of equal shape, which are validated together instead of one by one.

Records have an equal shape if all lengths inside them are equal. A slice whose step is the record size then has the
same byte of every record. Timestamp deltas, offset deltas and the content of keys and values may differ. A record that
cannot be validated in this way is not part of a run, and is validated on its own.
"""

from typing import NamedTuple

from wire.records.zigzag import read_varint, read_varlong, varint

RUN_RECORDS_MIN = 12
"""The minimum number of records in a run. Fewer records are validated faster one by one."""
PLACES_MAX = 64
"""The maximum number of length bytes in a record of a run.

A record with many headers has more. Such records are validated as fast one by one.
"""
PERIOD = 1 << 13
"""The number of consecutive offset deltas that differ only in the two lowest bytes of their varints."""
SMALL = 1 << 6
"""The first offset delta whose varint has two bytes."""
_EVEN, _MORE = bytes(range(0, 256, 2)), bytes(range(128, 256))
_ONLY = bytes(range(0, 128, 2))
_LOW = bytes(range(128, 256, 2)) * (PERIOD // SMALL)
_HIGH = b"".join(bytes([value]) * SMALL for value in range(128))
_MIDDLE = b"".join(bytes([value]) * SMALL for value in range(128, 256))


class Run(NamedTuple):
    """A run of `records` records with one shape, and their smallest and largest timestamp delta."""

    records: int
    smallest: int
    largest: int


def run_at(data: bytes, pos: int, size: int, index: int, records_max: int) -> Run | None:
    """Return the run that begins with the valid record at `pos`, or None if there is none.

    The record has `size` bytes and offset delta `index`.
    """
    border = SMALL if index < SMALL else (index | PERIOD - 1) + 1
    records = min(records_max, border - index, (len(data) - pos) // size)
    if records < RUN_RECORDS_MIN:
        return None
    fixed, stamps, offsets = _places(data[pos : pos + size])
    if len(fixed) > PLACES_MAX:
        return None
    for place in fixed:
        column = data[pos + place : pos + records * size : size]
        first = column[:1]
        if column != first * records:
            records -= len(column.lstrip(first))
            if records < RUN_RECORDS_MIN:
                return None
    end = pos + records * size
    if [data[pos + place : end : size] for place in offsets] != offset_columns(index, records):
        return None
    columns = [data[pos + place : end : size] for place in stamps]
    if all(column == column[:1] * records for column in columns):
        delta = read_varlong(data, pos + stamps.start)[0]
        return Run(records, delta, delta)
    deltas = _deltas(columns)
    return Run(records, min(deltas), max(deltas)) if deltas else None


def _places(record: bytes) -> tuple[list[int], range, range]:
    """Return the positions in a record of the bytes of lengths and counts, timestamp delta, and offset delta."""
    start = read_varint(record, 0)[1]
    stamp_end = read_varlong(record, start + 1)[1]
    pos = offset_end = read_varint(record, stamp_end)[1]
    fixed, fields = list(range(start)), 2
    while fields:
        for _ in range(min(fields, PLACES_MAX)):
            size, after = read_varint(record, pos)
            fixed += range(pos, after)
            pos = after + max(size, 0)
        if pos == len(record) or len(fixed) > PLACES_MAX:
            break
        count, after = read_varint(record, pos)
        fixed += range(pos, after)
        pos, fields = after, 2 * count
    return fixed, range(start + 1, stamp_end), range(stamp_end, offset_end)


def is_varint_columns(columns: list[bytes]) -> bool:
    """Whether the columns have whole varints: all bytes but the last of each have their top bit set."""
    *others, last = columns
    return last.isascii() and not any(column.translate(None, _MORE) for column in others)


def offset_columns(index: int, records: int) -> list[bytes]:
    """Return the varints of the offset deltas from `index` on as columns.

    The first column has the first byte of each varint, the second column the second bytes, etc.
    """
    at = slice(index % PERIOD, index % PERIOD + records)
    if index < SMALL:
        return [_ONLY[at]]
    if index < PERIOD:
        return [_LOW[at], _HIGH[at]]
    return [_LOW[at], _MIDDLE[at], *(bytes([byte]) * records for byte in varint(index)[2:])]


def _deltas(columns: list[bytes]) -> list[int]:
    """Return the smallest and the largest of the zig-zag varints in these columns.

    Return an empty list if the lengths of the varints differ.
    """
    if not is_varint_columns(columns):
        return []
    if columns[0].translate(None, _EVEN):
        extremes = list(set(zip(*columns, strict=True)))
    else:  # all values are positive: the largest value has the largest high byte
        ordered = list(zip(*reversed(columns), strict=True))
        extremes = [min(ordered)[::-1], max(ordered)[::-1]]
    return [read_varlong(bytes(each), 0)[0] for each in extremes]
