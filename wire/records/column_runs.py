"""Runs of records of equal shape, decoded as columns by slices whose step is the size of a record.

`runs` explains what an equal shape is. The records of a run have the same header keys, with values of equal sizes.
"""

from collections.abc import Sequence
from functools import lru_cache
from itertools import chain, repeat
from struct import Struct
from typing import Any, NamedTuple

from wire.records.record import Headers, read_headers
from wire.records.runs import PERIOD, RUN_RECORDS_MIN, SMALL, is_varint_columns, offset_columns
from wire.records.zigzag import read_varint, read_varlong

_UNPACKED = 64  # this many records are unpacked by one call
_HEADERS_MAX, _HEADER_BYTES_MAX = 8, 256
"""The headers of a record, and their bytes apart from those of the values, up to which a run is attempted."""


class ColumnRun(NamedTuple):
    """The columns of a run of `records` records. `None` as keys or values is a column of nulls.

    `stamps` has the timestamp deltas, or is None if all are equal. `headers` is None if no record has headers.
    """

    records: int
    stamps: list[int] | None
    keys: Sequence[bytes] | None
    values: Sequence[bytes] | None
    headers: Sequence[Headers] | None


class _Shape(NamedTuple):
    """The positions in a record of its parts.

    `fixed` has the positions of lengths, of the header count and of header keys.
    """

    fixed: list[int]
    stamp: range
    offset: range
    key: range | None
    value: range | None
    headers: list[tuple[str, range | None]]


class EqualRun(NamedTuple):
    """The places of the fields of a run of `records` records of `size` bytes. The run begins at `pos` in `data`.

    `stamps` is as in `ColumnRun`. `key`, `value` and the values of `headers` are positions in each record. None is a
    null.
    """

    data: bytes
    pos: int
    size: int
    records: int
    stamps: list[int] | None
    key: range | None
    value: range | None
    headers: list[tuple[str, range | None]]

    def columns(self) -> ColumnRun:
        """Return the fields, each cut out."""
        places = [self.key, self.value, *(value for _, value in self.headers)]
        keys, values, *header_values = _cut_out(self.data, self.pos, self.records, self.size, places)
        headers = _headers([key for key, _ in self.headers], header_values, self.records)
        return ColumnRun(self.records, self.stamps, keys, values, headers)


class _Deltas(dict[tuple[int, ...], int]):
    """Timestamp deltas by the bytes of their varints."""

    def __missing__(self, column: tuple[int, ...]) -> int:
        delta = self[column] = read_varlong(bytes(column), 0)[0]
        return delta


def equal_run_at(data: bytes, pos: int, size: int, delta: int, records_max: int) -> EqualRun | None:
    """Return the run that begins with the valid record at `pos`, or None if there is none.

    The record has `size` bytes and offset delta `delta`. The offset deltas of a run are consecutive.
    """
    border = SMALL if delta < SMALL else (delta | PERIOD - 1) + 1
    records = min(records_max, border - delta, (len(data) - pos) // size)
    if records < RUN_RECORDS_MIN:
        return None
    shape = _shape(data[pos : pos + size])
    if shape is None:
        return None
    for place in shape.fixed:
        column = data[pos + place : pos + records * size : size]
        first = column[:1]
        if column != first * records:
            records -= len(column.lstrip(first))
            if records < RUN_RECORDS_MIN:
                return None
    end = pos + records * size
    if [data[pos + place : end : size] for place in shape.offset] != offset_columns(delta, records):
        return None
    columns = [data[pos + place : end : size] for place in shape.stamp]
    if all(column == column[:1] * records for column in columns):
        stamps = None
    elif is_varint_columns(columns):
        stamps = list(map(_Deltas().__getitem__, zip(*columns, strict=True)))
    else:
        return None
    return EqualRun(data, pos, size, records, stamps, shape.key, shape.value, shape.headers)


def _shape(record: bytes) -> _Shape | None:
    """Return the shape of a valid record, or None if it has too many headers."""
    start = read_varint(record, 0)[1]
    stamp_end = read_varlong(record, start + 1)[1]
    offset_end = read_varint(record, stamp_end)[1]
    key_size, key_start = read_varint(record, offset_end)
    key_end = key_start + max(key_size, 0)
    value_size, value_start = read_varint(record, key_end)
    value_end = value_start + max(value_size, 0)
    headers = _header_places(record, value_end)
    if headers is None:
        return None
    header_bytes = set(range(value_end, len(record))).difference(*(place for _, place in headers if place is not None))
    if len(header_bytes) > _HEADER_BYTES_MAX:
        return None
    return _Shape(
        [*range(start), *range(offset_end, key_start), *range(key_end, value_start), *sorted(header_bytes)],
        range(start + 1, stamp_end),
        range(stamp_end, offset_end),
        None if key_size < 0 else range(key_start, key_end),
        None if value_size < 0 else range(value_start, value_end),
        headers,
    )


def _header_places(record: bytes, pos: int) -> list[tuple[str, range | None]] | None:
    """Return the keys of the headers at `pos`, each with the positions of its value, or None if there are too many."""
    if record[pos] > 2 * _HEADERS_MAX:
        return None
    found: list[tuple[str, range | None]] = []
    headers, _ = read_headers(record, pos)
    pos += 1
    for key, value in headers:
        key_size, key_start = read_varint(record, pos)
        value_size, value_start = read_varint(record, key_start + key_size)
        pos = value_start + max(value_size, 0)
        found.append((key, None if value is None else range(value_start, pos)))
    return found


def _headers(keys: Sequence[str], columns: Sequence[Sequence[bytes] | None], records: int) -> list[Headers] | None:
    """Return the headers of each record of a run, from a column of values for each header."""
    if not keys:
        return None
    pairs = [
        zip(repeat(key, records), repeat(None, records) if column is None else column, strict=True)
        for key, column in zip(keys, columns, strict=True)
    ]
    return list(zip(*pairs, strict=True))


def _cut_out(
    data: bytes, pos: int, records: int, size: int, places: Sequence[range | None]
) -> list[Sequence[bytes] | None]:
    """Return a column for each place of a run, and None for a place that is None."""
    parts = [part for part in places if part is not None]
    layout = tuple((part.start, len(part)) for part in parts)
    whole = records - records % _UNPACKED
    end, view = pos + whole * size, memoryview(data)
    flat: list[Any] = list(chain.from_iterable(_unpacker(size, layout, _UNPACKED).iter_unpack(view[pos:end])))
    flat += chain.from_iterable(_unpacker(size, layout, 1).iter_unpack(view[end : pos + records * size]))
    columns = iter([flat[index :: len(parts)] for index in range(len(parts))])
    return [None if part is None else next(columns) for part in places]


@lru_cache(maxsize=256)
def _unpacker(size: int, places: tuple[tuple[int, int], ...], records: int) -> Struct:
    """Return the layout of so many records of `size` bytes, in which only the bytes of fields are unpacked."""
    layout, pos = "", 0
    for start, length in places:
        layout += f"{start - pos}x{length}s"
        pos = start + length
    return Struct((layout + f"{size - pos}x") * records)
