"""The bounds of a job that takes a part of its records: an offset, a time, or an offset for each partition."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Annotated

import msgspec

from pykbroker.pipeline.errors import PipelineError

if TYPE_CHECKING:
    from pyspark.sql import DataFrame


TopicName = Annotated[str, msgspec.Meta(pattern=r"^[a-zA-Z0-9._-]+$")]
NotNegative = Annotated[int, msgspec.Meta(ge=0)]
EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
OffsetsByTopic = dict[TopicName, dict[NotNegative, NotNegative]]


class RecordBound(msgspec.Struct, frozen=True):
    """One bound. `offsets` maps topics to offsets by partition. A bound without any value bounds nothing."""

    offset: int | None = None
    time_ms: int | None = None
    offsets: OffsetsByTopic = {}


def parse_bound(text: str) -> RecordBound:
    """Parse a bound: a number is an offset, an object of JSON has offsets, and anything else is a time in ISO 8601.

    A time without a zone is in UTC. Raise PipelineError for other texts.
    """
    if not text:
        return RecordBound()
    if text.isdecimal():
        return RecordBound(offset=int(text))
    try:
        if text.startswith("{"):
            return RecordBound(offsets=msgspec.json.decode(text, type=OffsetsByTopic))
        time = datetime.fromisoformat(text)
    except (msgspec.MsgspecError, ValueError):
        raise PipelineError(
            f"{text!r} is no bound: pass an offset such as 1000, a time such as 2026-11-24T08:00:00Z, or offsets such "
            'as {"orders":{"0":1000,"1":2000}}'
        ) from None
    zoned = time if time.tzinfo else time.replace(tzinfo=UTC)
    return RecordBound(time_ms=(zoned - EPOCH) // timedelta(milliseconds=1))


def condition(bound: RecordBound, *, is_end: bool) -> str:
    """Return the SQL condition of the records on the inner side of a bound. An end does not include itself."""
    sign = "<" if is_end else ">="
    if bound.offset is not None:
        return f"offset {sign} {bound.offset}"
    if bound.time_ms is not None:
        return f"timestamp_ms {sign} {bound.time_ms}"
    parts = [
        f"(topic != '{topic}' or partition != {partition} or offset {sign} {offset})"
        for topic, offsets in bound.offsets.items()
        for partition, offset in offsets.items()
    ]
    return " and ".join(parts) or "true"


def between(records: DataFrame, start: RecordBound, end: RecordBound) -> DataFrame:
    """Return the records between two bounds."""
    return records.where(condition(start, is_end=False)).where(condition(end, is_end=True))
