"""Arrow columns that are built from rows of equal size and from lists, without an object for each row.

numpy copies the fields of equal rows by slices with a step, and computes offsets and null bitmaps.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import chain
from typing import TYPE_CHECKING, Any, TypeAlias

import numpy as np

from pykbroker.client.arrow import pyarrow

if TYPE_CHECKING:
    import pyarrow as pa

Rows: TypeAlias = "np.ndarray[tuple[int, int], np.dtype[np.uint8]]"
"""Bytes in rows of equal size."""
COLUMN_BYTES_MAX = 2**31 - 1
"""The bytes that a column with offsets of 32 bits can have."""
_NULL = -1


class BinaryColumn:
    """A column of binaries or texts that grows at its end."""

    def __init__(self) -> None:
        self._content: list[Any] = []
        self._lengths: list[Any] = []
        self._is_null = True

    def add_values(self, values: Sequence[bytes | None]) -> None:
        """Append values, None for nulls."""
        self._lengths.append(np.array([_NULL if each is None else len(each) for each in values], np.int32))
        self._content.append([each for each in values if each])
        self._is_null = self._is_null and not any(each is not None for each in values)

    def add_rows(self, rows: Rows, lengths: Sequence[int]) -> None:
        """Append the values of equal rows: each row has values of these `lengths`, one after the other."""
        self._content.append(rows)
        self._lengths.append(np.tile(np.array(lengths, np.int32), len(rows)))
        self._is_null = False

    def add_nulls(self, count: int) -> None:
        self._lengths.append(np.full(count, _NULL, np.int32))

    def array(self, kind: Any) -> pa.Array:
        """Return the values as an array of a binary or string type with offsets of 32 bits."""
        pa, lengths = pyarrow(), np.concatenate([np.zeros(0, np.int32), *self._lengths])
        if self._is_null:
            return pa.nulls(len(lengths), kind)
        is_null = lengths < 0
        bitmap = null_bitmap(is_null)
        if bitmap is not None:
            lengths[is_null] = 0
        buffers = [bitmap, pa.py_buffer(offsets_of(lengths)), pa.py_buffer(_joined(self._content))]
        return pa.Array.from_buffers(kind, len(lengths), buffers)


class LongColumn:
    """A column of 64-bit integers that grows at its end."""

    def __init__(self) -> None:
        self._parts: list[Any] = []

    def add(self, values: Sequence[int] | int, count: int) -> None:
        """Append a range, a list, or `count` times the same value."""
        match values:
            case int():
                self._parts.append(np.full(count, values, np.int64))
            case range():
                self._parts.append(np.arange(values.start, values.stop, dtype=np.int64))
            case _:
                self._parts.append(np.array(values, np.int64))

    def array(self, kind: Any) -> pa.Array:
        """Return the values as an array of a type with 64 bits."""
        pa, values = pyarrow(), np.concatenate(self._parts)
        return pa.Array.from_buffers(kind, len(values), [None, pa.py_buffer(values)])


def _joined(parts: Sequence[Rows | list[bytes]]) -> Any:
    """Return the bytes of parts, of which each is rows or a list of values, as an object with a buffer.

    Content is copied once: values that stand among rows are joined one part at a time.
    """
    lists = [part for part in parts if isinstance(part, list)]
    if len(lists) == len(parts):
        return b"".join(chain.from_iterable(lists))
    found = np.empty(sum(sum(map(len, part)) if isinstance(part, list) else part.size for part in parts), np.uint8)
    start = 0
    for part in parts:
        rows = np.frombuffer(b"".join(part), np.uint8) if isinstance(part, list) else part
        found[start : start + rows.size].reshape(rows.shape)[...] = rows
        start += rows.size
    return found


def offsets_of(lengths: Any) -> Any:
    """Return the offsets of parts of these lengths, and their end, as 32-bit integers.

    Raise OverflowError if the parts have more than COLUMN_BYTES_MAX bytes: numpy would wrap in silence.
    """
    total = int(lengths.sum(dtype=np.int64))
    if total > COLUMN_BYTES_MAX:
        raise OverflowError(f"a column of {total} bytes: offsets of 32 bits end at {COLUMN_BYTES_MAX}")
    offsets = np.zeros(len(lengths) + 1, np.int32)
    np.cumsum(lengths, out=offsets[1:])
    return offsets


def null_bitmap(is_null: Any) -> Any:
    """Return Arrow's bitmap of the values that are there, or None if all are."""
    if not is_null.any():
        return None
    return pyarrow().py_buffer(np.packbits(~is_null, bitorder="little"))
