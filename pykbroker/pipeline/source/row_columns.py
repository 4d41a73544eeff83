"""The rows of an Arrow batch as the columns that a producer sends, in groups for each topic and partition."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from itertools import islice
from typing import TYPE_CHECKING, Any, NamedTuple

from pykbroker.client.arrow import bytes_of, pyarrow
from pykbroker.pipeline.source.errors import InvalidColumn
from pykbroker.pipeline.source.write_options import TYPES
from wire.records.record import Headers

if TYPE_CHECKING:
    import pyarrow as pa


ROWS_OF_A_BATCH = 10_000
"""The rows of an Arrow batch that is made of single rows: Spark's default for `maxRecordsPerBatch`."""


class RowGroup(NamedTuple):
    """Rows for one topic and partition. The partition None stands for any, as the producer chooses."""

    topic: str
    partition: int | None
    values: Sequence[bytes | None]
    keys: Sequence[bytes | None] | None
    headers: Sequence[Headers] | None


def row_groups(batch: pa.RecordBatch, topic: str | None) -> Iterator[RowGroup]:
    """Yield the rows of a batch in their order. `topic` takes precedence over the column of this name.

    Raise InvalidColumn for a row without a topic, and for a header without a name.
    """
    pa = pyarrow()
    columns = dict(zip(batch.schema.names, batch.columns, strict=True))
    values = bytes_of(pa, "value", columns["value"])
    keys = _keys(pa, columns.get("key"))
    headers = None if "headers" not in columns else _headers(columns["headers"])
    places = _places(columns, topic, len(batch))
    if isinstance(places, tuple):
        yield RowGroup(*places, values, keys, headers)
        return
    for (name, partition), rows in places.items():
        yield RowGroup(
            name,
            partition,
            [values[row] for row in rows],
            keys and [keys[row] for row in rows],
            headers and [headers[row] for row in rows],
        )


def row_batches(rows: Iterable[Sequence[Any]], columns: Sequence[tuple[str, str]]) -> Iterator[pa.RecordBatch]:
    """Yield single rows as Arrow batches. `columns` are the names and the types of all columns in Spark's DDL.

    Columns that are not written are left out.
    """
    pa = pyarrow()
    header = pa.struct({"key": pa.string(), "value": pa.binary()})
    kinds = {"string": pa.string(), "binary": pa.binary(), "int": pa.int32()}
    kinds |= dict.fromkeys(TYPES["headers"], pa.list_(header))
    written = [(index, name, kinds[kind]) for index, (name, kind) in enumerate(columns) if name in TYPES]
    found = iter(rows)
    while part := list(islice(found, ROWS_OF_A_BATCH)):
        arrays = [pa.array([row[index] for row in part], kind) for index, _, kind in written]
        yield pa.RecordBatch.from_arrays(arrays, [name for _, name, _ in written])


RowPlace = tuple[str, int | None]


def _places(columns: dict[str, Any], topic: str | None, count: int) -> RowPlace | dict[RowPlace, list[int]]:
    """Return the place of all rows, or the rows of each place."""
    topics = None if topic is not None else columns["topic"]
    partitions = columns.get("partition")
    if topics is not None and topics.null_count:
        raise InvalidColumn("null topic present in the data. Use the topic option for setting a topic.")
    if partitions is None or partitions.null_count == count:
        partitions = None
        if topics is None:
            assert topic is not None, "check_columns has found an option or a column"
            return topic, None
    names = [topic] * count if topics is None else topics.to_pylist()
    indexes = [None] * count if partitions is None else partitions.to_pylist()
    found: dict[RowPlace, list[int]] = {}
    for row, place in enumerate(zip(names, indexes, strict=True)):
        found.setdefault(place, []).append(row)
    return next(iter(found)) if len(found) == 1 else found


def _keys(pa: Any, column: Any) -> list[bytes | None] | None:
    """Return a column of keys, or None if all are null."""
    if column is None or column.null_count == len(column):
        return None
    return bytes_of(pa, "key", column)


def _headers(column: Any) -> list[Headers] | None:
    """Return a column of arrays of structs, or None if all are null."""
    if column.null_count == len(column):
        return None
    return [tuple(map(_header, row)) if row else () for row in column.to_pylist()]


def _header(found: dict[str, Any] | None) -> tuple[str, bytes | None]:
    if found is None or found["key"] is None:
        raise InvalidColumn("null header key present in the data: each header needs a key")
    return found["key"], found["value"]
