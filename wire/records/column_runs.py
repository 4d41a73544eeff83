"""Runs of records of equal shape, decoded as columns by slices whose step is the size of a record.

`runs` explains what an equal shape is. Its validator accepts records with headers, while a run of this module has none.
"""

from collections.abc import Sequence
from functools import lru_cache
from itertools import chain
from struct import Struct
from typing import Any, NamedTuple

from wire.records.runs import PERIOD, RUN_RECORDS_MIN, SMALL, is_varint_columns, offset_columns
from wire.records.zigzag import read_varint, read_varlong

_UNPACKED = 64  # this many records are unpacked by one call


class ColumnRun(NamedTuple):
    """The columns of a run of `records` records. `None` as keys or values is a column of nulls.

    `stamps` has the timestamp deltas, or is None if all are equal.
    """

    records: int
    stamps: list[int] | None
    keys: Sequence[bytes] | None
    values: Sequence[bytes] | None


class _Shape(NamedTuple):
    """The positions in a record of its parts. `fixed` has the positions of lengths and of the header count."""

    fixed: list[int]
    stamp: range
    offset: range
    key: range | None
    value: range | None


class _Deltas(dict[tuple[int, ...], int]):
    """Timestamp deltas by the bytes of their varints."""

    def __missing__(self, column: tuple[int, ...]) -> int:
        delta = self[column] = read_varlong(bytes(column), 0)[0]
        return delta


def column_run_at(data: bytes, pos: int, size: int, delta: int, records_max: int) -> ColumnRun | None:
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
    return ColumnRun(records, stamps, *_fields(data, pos, records, size, shape))


def _shape(record: bytes) -> _Shape | None:
    """Return the shape of a valid record, or None if it has headers."""
    start = read_varint(record, 0)[1]
    stamp_end = read_varlong(record, start + 1)[1]
    offset_end = read_varint(record, stamp_end)[1]
    key_size, key_start = read_varint(record, offset_end)
    key_end = key_start + max(key_size, 0)
    value_size, value_start = read_varint(record, key_end)
    value_end = value_start + max(value_size, 0)
    if value_end != len(record) - 1 or record[value_end]:
        return None
    return _Shape(
        [*range(start), *range(offset_end, key_start), *range(key_end, value_start), value_end],
        range(start + 1, stamp_end),
        range(stamp_end, offset_end),
        None if key_size < 0 else range(key_start, key_end),
        None if value_size < 0 else range(value_start, value_end),
    )


def _fields(
    data: bytes, pos: int, records: int, size: int, shape: _Shape
) -> tuple[Sequence[bytes] | None, Sequence[bytes] | None]:
    """Return the keys and the values of a run."""
    parts = [part for part in (shape.key, shape.value) if part is not None]
    places = tuple((part.start, len(part)) for part in parts)
    whole = records - records % _UNPACKED
    end, view = pos + whole * size, memoryview(data)
    flat: list[Any] = list(chain.from_iterable(_unpacker(size, places, _UNPACKED).iter_unpack(view[pos:end])))
    flat += chain.from_iterable(_unpacker(size, places, 1).iter_unpack(view[end : pos + records * size]))
    columns = [flat[index :: len(parts)] for index in range(len(parts))]
    keys = columns.pop(0) if shape.key is not None else None
    return keys, columns.pop() if columns else None


@lru_cache(maxsize=256)
def _unpacker(size: int, places: tuple[tuple[int, int], ...], records: int) -> Struct:
    """Return the layout of so many records of `size` bytes, in which only the bytes of fields are unpacked."""
    layout, pos = "", 0
    for start, length in places:
        layout += f"{start - pos}x{length}s"
        pos = start + length
    return Struct((layout + f"{size - pos}x") * records)
