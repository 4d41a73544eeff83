"""The records of an Arrow batch from Spark as the table that a producer takes."""

from __future__ import annotations

from typing import Any

from pykbroker.client.arrow import compute, pyarrow

WRITTEN_COLUMNS = ("source", "offset", "key", "value", "headers", "timestamp_ms")
"""The columns of records to write. `source` is the index of the source partition among the targets."""


def record_table(batch: Any) -> Any:
    """Return the columns key, value, timestamp and headers of a batch as a table for `send_many`."""
    pa = pyarrow()
    columns = {"value": batch.column("value"), "timestamp": batch.column("timestamp_ms")}
    if batch.column("key").null_count < len(batch):
        columns["key"] = batch.column("key")
    headers = header_map(pa, batch.column("headers"))
    if headers is not None:
        columns["headers"] = headers
    return pa.table(columns)


def header_map(pa: Any, headers: Any) -> Any | None:
    """Return a column of lists of pairs as a column of maps, or None if no record has a header."""
    pairs = headers.flatten()
    if not len(pairs):
        return None
    ends = compute().cumulative_sum(compute().fill_null(compute().list_value_length(headers), 0))
    offsets = pa.concat_arrays([pa.array([0], pa.int32()), ends.cast(pa.int32())])
    names, values = pairs.field(0).cast(pa.string()), pairs.field(1).cast(pa.binary())
    return pa.MapArray.from_arrays(offsets, names, values)
