"""The column `headers` of records: lists of keys and values, and null for a record without headers, as in Spark."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from pykbroker.client.arrow import pyarrow
from pykbroker.pipeline.source.column_buffers import BinaryColumn, Rows, null_bitmap, offsets_of
from wire.records.record import Headers

if TYPE_CHECKING:
    import pyarrow as pa


class HeaderColumn:
    """A column of headers that grows at its end."""

    def __init__(self) -> None:
        self._keys, self._values = BinaryColumn(), BinaryColumn()
        self._counts: list[Any] = []
        """The headers of each record."""

    def add_records(self, records: Sequence[Headers]) -> None:
        self._counts.append(np.array([len(each) for each in records], np.int32))
        self._keys.add_values([key.encode() for record in records for key, _ in record])
        self._values.add_values([value for record in records for _, value in record])

    def add_run(self, rows: Rows, headers: Sequence[tuple[str, range | None]]) -> None:
        """Append the headers of equal records: their keys, and where the values are in each row."""
        count = len(rows)
        self._counts.append(np.full(count, len(headers), np.int32))
        if not headers:
            return
        keys = [key.encode() for key, _ in headers]
        joined = np.frombuffer(b"".join(keys), np.uint8)
        self._keys.add_rows(np.broadcast_to(joined, (count, len(joined))), [len(key) for key in keys])
        places = [place for _, place in headers if place is not None]
        if len(places) < len(headers):
            self._values.add_values(_interleaved(rows, headers))
            return
        parts = [rows[:, place.start : place.stop] for place in places]
        self._values.add_rows(np.concatenate(parts, axis=1), [len(place) for place in places])

    def array(self, kind: Any) -> pa.Array:
        """Return the headers as an array of a list type."""
        pa, counts = pyarrow(), np.concatenate(self._counts)
        if not counts.any():
            return pa.nulls(len(counts), kind)
        struct = kind.value_type
        fields = [self._keys.array(struct.field(0).type), self._values.array(struct.field(1).type)]
        items = pa.StructArray.from_arrays(fields, fields=list(struct))
        buffers = [null_bitmap(counts == 0), pa.py_buffer(offsets_of(counts))]
        return pa.Array.from_buffers(kind, len(counts), buffers, children=[items])


def _interleaved(rows: Rows, headers: Sequence[tuple[str, range | None]]) -> list[bytes | None]:
    """Return the values of all rows, among which are nulls."""
    places = [place for _, place in headers]
    return [None if place is None else row[place.start : place.stop].tobytes() for row in rows for place in places]
