"""Records in Arrow tables: the columns of a table that is sent, and the table of records that were fetched.

pyarrow is imported at the first call, because only the extra `arrow` installs it.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from importlib import import_module
from itertools import chain
from typing import TYPE_CHECKING, Any, NamedTuple, Protocol, TypeGuard

from wire.records.record import Headers

if TYPE_CHECKING:  # a producer does without the import of the records of a consumer
    from pykbroker.core.consumer.records import FetchedColumns, RecordColumns

SENT_COLUMNS = ("value", "key", "headers", "timestamp")


class SentColumns(NamedTuple):
    """The columns of a table to send. A column that the table lacks is None. Timestamps are in ms since 1970."""

    values: list[bytes | None]
    keys: list[bytes | None] | None
    headers: list[Headers] | None
    timestamps: list[int] | None


def pyarrow() -> Any:
    """Return the module pyarrow. Raise ImportError with the command that installs it."""
    try:
        return import_module("pyarrow")
    except ImportError as error:
        raise ImportError("Arrow tables need the package pyarrow: pip install 'pykbroker[arrow]'") from error


def compute() -> Any:
    """Return the module `pyarrow.compute`."""
    return import_module("pyarrow.compute")


class ArrowTable(Protocol):
    """A table that exports Arrow's C stream: a Table or RecordBatch of pyarrow, or one of polars, pandas or DuckDB."""

    @property
    def columns(self) -> Any:
        """Return the columns or their names."""

    def __arrow_c_stream__(self, requested_schema: Any = None) -> Any: ...


def is_table(candidate: object) -> TypeGuard[ArrowTable]:
    """Whether an object is a table, and not a column."""
    return hasattr(candidate, "__arrow_c_stream__") and hasattr(candidate, "columns")


def columns_of(table: ArrowTable, now_ms: int) -> SentColumns:
    """Return the columns of a table to send. A null timestamp becomes `now_ms`.

    Raise ValueError if the table lacks the column `value` or has other columns than those of a record, and TypeError
    for a column of a wrong type.
    """
    pa = pyarrow()
    found = table if isinstance(table, pa.Table) else pa.table(table)
    # An index of pandas that is not 0, 1, 2, ... is exported as a column of this name.
    found = found.drop_columns([name for name in found.column_names if name.startswith("__index_level_")])
    check_names(found.column_names)
    key, headers, timestamp = (
        found.column(name) if name in found.column_names else None for name in ("key", "headers", "timestamp")
    )
    return SentColumns(
        bytes_of(pa, "value", found.column("value")),
        None if key is None else bytes_of(pa, "key", key),
        None if headers is None else headers_of(pa, headers),
        None if timestamp is None else timestamps_of(pa, timestamp, now_ms),
    )


def check_names(names: Sequence[str]) -> None:
    """Raise ValueError unless the columns are `value` and further parts of a record, each once."""
    for name in names:
        if name not in SENT_COLUMNS:
            raise ValueError(
                f"the table has the column '{name}', which cannot be sent: select only {', '.join(SENT_COLUMNS)}"
            )
        if names.count(name) > 1:
            raise ValueError(f"the table has the column '{name}' {names.count(name)} times")
    if "value" not in names:
        raise ValueError(f"the table has no column 'value': its columns are {list(names)}")


def bytes_of(pa: Any, name: str, column: Any) -> list[bytes | None]:
    """Return a column of bytes or text as bytes. Text is encoded in UTF-8."""
    types = pa.types
    kind = column.type.value_type if types.is_dictionary(column.type) else column.type
    accepted = (
        types.is_binary,
        types.is_large_binary,
        types.is_binary_view,
        types.is_fixed_size_binary,
        types.is_string,
        types.is_large_string,
        types.is_string_view,
        types.is_null,
    )
    if not any(is_kind(kind) for is_kind in accepted):
        raise TypeError(f"the column '{name}' is of type {column.type}: pass binary or string")
    found: list[bytes | None] = column.cast(pa.large_binary()).to_pylist()
    return found


def headers_of(pa: Any, column: Any) -> list[Headers]:
    """Return a column of headers. A null is a record without headers."""
    wanted = pa.map_(pa.string(), pa.binary())
    if column.type != wanted:
        raise TypeError(f"the column 'headers' is of type {column.type}: pass {wanted}")
    return [tuple(row) if row else () for row in column.to_pylist()]


def timestamps_of(pa: Any, column: Any, now_ms: int) -> list[int]:
    """Return a column of timestamps in ms since 1970. Finer units are rounded down."""
    kind = column.type
    if pa.types.is_timestamp(kind):
        column = column.cast(pa.timestamp("ms", kind.tz), safe=False)
    elif kind != pa.int64():
        raise TypeError(f"the column 'timestamp' is of type {kind}: pass timestamp or, for ms since 1970, int64")
    found: list[int] = column.cast(pa.int64()).fill_null(now_ms).to_pylist()
    return found


def arrow_table(columns: Iterable[FetchedColumns]) -> Any:
    """Return fetched records as a pyarrow.Table, in their order.

    Its columns are topic, partition, offset, timestamp (in ms, UTC), key, value and headers. A record without headers
    has an empty map.
    """
    pa = pyarrow()
    fetched = list(columns)
    parts = [each.columns for each in fetched]
    sizes = [len(part) for part in parts]
    schema = fetched_schema(pa)
    kinds = dict(zip(schema.names, schema.types, strict=True))
    topics = repeated(pa, kinds["topic"], [each.partition.topic for each in fetched], sizes)
    partitions = repeated(pa, kinds["partition"], [each.partition.partition for each in fetched], sizes)
    lists: dict[str, list[Sequence[Any]]] = {
        "offset": [part.offsets for part in parts],
        "timestamp": [part.timestamps for part in parts],
        "key": [part.keys for part in parts],
        "value": [part.values for part in parts],
    }
    arrays = [pa.array(list(chain.from_iterable(found)), kinds[name]) for name, found in lists.items()]
    headers = header_column(pa, kinds["headers"], parts)
    return pa.table([topics, partitions, *arrays, headers], schema=schema)


def fetched_schema(pa: Any) -> Any:
    """Return the schema of fetched records."""
    return pa.schema(
        {
            "topic": pa.string(),
            "partition": pa.int32(),
            "offset": pa.int64(),
            "timestamp": pa.timestamp("ms", tz="UTC"),
            "key": pa.binary(),
            "value": pa.binary(),
            "headers": pa.map_(pa.string(), pa.binary()),
        }
    )


def header_column(pa: Any, kind: Any, parts: Sequence[RecordColumns]) -> Any:
    """Return the headers of all records."""
    if all(part.headers is None for part in parts):
        rows = sum(map(len, parts))
        offsets = pa.py_buffer(bytes(4 * (rows + 1)))  # 0 each, which costs less than a Python list of empty rows
        return pa.Array.from_buffers(kind, rows, [None, offsets], children=[pa.array([], kind.field(0).type)])
    return pa.array(list(chain.from_iterable(part.headers or [()] * len(part) for part in parts)), kind)


def repeated(pa: Any, kind: Any, values: Sequence[Any], counts: Sequence[int]) -> Any:
    """Return a column that has each value as many times as its count."""
    runs = [pa.repeat(pa.scalar(value, kind), count) for value, count in zip(values, counts, strict=True)]
    return pa.concat_arrays(runs) if runs else pa.array([], kind)
