"""Batches of records as typed columns, with the reason why a record is bad."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import Any

from pykbroker.client.arrow import compute, pyarrow
from pykbroker.pipeline.decoding.bad_record import BadRecord, reason
from pykbroker.pipeline.decoding.plan import DecodePlan, Decoding, decoding
from pykbroker.pipeline.source.worker_reuse import prepare_next_task

KEPT = ("key", "value", "topic", "partition", "offset", "timestamp", "timestampType", "headers", "timestamp_ms", "date")
"""The columns of records that a decoding keeps. `value` is only kept of bad records."""
FIELDS, ERROR = "fields", "error"
"""The columns of the decoded fields, and of the reason for which a record is bad."""


def decode_batches(plan: DecodePlan, batches: Iterable[Any]) -> Iterator[Any]:
    """Yield batches with the columns of KEPT, `fields` and `error`, a row for each row that comes in."""
    prepare_next_task()
    found = decoding(plan)
    for batch in batches:
        yield decoded_batch(found, batch)


def decoded_batch(found: Decoding, batch: Any) -> Any:
    """Return a batch with the fields of its values."""
    pa = pyarrow()
    fields, errors = decoded_fields(found, batch.column("value").to_pylist())
    are_bad = pa.array([error is not None for error in errors], pa.bool_())
    columns = {name: batch.column(name) for name in KEPT}
    columns["value"] = compute().if_else(are_bad, columns["value"], pa.scalar(None, pa.binary()))
    return pa.RecordBatch.from_pydict({**columns, FIELDS: fields, ERROR: pa.array(errors, pa.string())})


def decoded_fields(found: Decoding, values: Sequence[bytes | None]) -> tuple[Any, list[str | None]]:
    """Return the decoded values as an Arrow array, and the reason for each that is bad.

    A value that is null, as that of a tombstone, is null and not bad.
    """
    rows: list[dict[str, Any] | None] = []
    errors: list[str | None] = []
    convert = found.type.convert
    for value in values:
        row, error = None, None
        if value is not None:
            try:
                row = found.decoder.decode(value)
                row = row if convert is None else convert(row)
            except (BadRecord, ValueError, OverflowError, ArithmeticError) as bad:
                row, error = None, reason(bad)
        rows.append(row)
        errors.append(error)
    return _array(found.type.arrow, rows, errors)


def _array(arrow: Any, rows: list[dict[str, Any] | None], errors: list[str | None]) -> tuple[Any, list[str | None]]:
    """Return rows as an array. Values that Arrow refuses, such as a decimal with too many digits, are bad."""
    pa = pyarrow()
    refusals = (pa.ArrowInvalid, pa.ArrowTypeError, OverflowError, ValueError)
    try:
        return pa.array(rows, arrow), errors
    except refusals:
        for index, row in enumerate(rows):
            try:
                pa.array([row], arrow)
            except refusals as error:
                rows[index], errors[index] = None, reason(error)
        return pa.array(rows, arrow), errors
