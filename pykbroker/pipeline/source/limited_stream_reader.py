"""Streams with limits for their micro-batches, in versions of Spark that have them (4.2)."""

from __future__ import annotations

import time
from typing import Any

from pyspark.sql.streaming.datasource import (  # type: ignore[import-not-found]
    ReadAllAvailable,
    ReadLimit,
    ReadMaxRows,
    ReadMinRows,
    SupportsTriggerAvailableNow,
)

from pykbroker.pipeline.source.offset_json import OffsetMap, nested_of
from pykbroker.pipeline.source.planning import new_partitions
from pykbroker.pipeline.source.read_limits import limited, offsets_between
from pykbroker.pipeline.source.stream_offsets import StreamPosition, advanced, json_of, position_of
from pykbroker.pipeline.source.stream_reader import TopicStreamReader


class LimitedStreamReader(TopicStreamReader, SupportsTriggerAvailableNow):  # type: ignore[misc]
    """The reader of a stream whose micro-batches may have limits. Spark passes the start of each one."""

    _target: OffsetMap | None = None
    """The ends of the logs when a query with the trigger AvailableNow started, or None for other triggers."""
    _seen: OffsetMap | None = None
    """The ends of the logs at the last look-up."""
    _triggered_at: float | None = None

    def getDefaultReadLimit(self) -> ReadLimit:
        """Return the limit that the options describe."""
        limits = self._options.limits
        if limits.offsets_max is not None:
            return ReadMaxRows(limits.offsets_max)
        return ReadAllAvailable() if limits.offsets_min is None else ReadMinRows(limits.offsets_min)

    def prepareForTriggerAvailableNow(self) -> None:
        """Let the query end where the logs end now."""
        self._target = self._ends({})

    def latestOffset(self, start: dict[str, Any], limit: ReadLimit) -> dict[str, Any]:  # type: ignore[override]
        """Return the position at the end of the next micro-batch."""
        begin = position_of(start)
        ends = self._ends(begin.reached) if self._target is None else self._target
        self._seen = ends
        return json_of(self._next(begin, ends, limit))

    def reportLatestOffset(self) -> dict[str, Any] | None:
        """Return the ends of the logs at the last look-up, for the progress of the query."""
        return None if self._seen is None else nested_of(self._seen)

    def _next(self, begin: StreamPosition, ends: OffsetMap, limit: ReadLimit) -> StreamPosition:
        if isinstance(limit, ReadAllAvailable):
            return advanced(begin, ends)
        if self._waits_for_more(begin.reached, ends):
            return begin
        if isinstance(limit, ReadMaxRows):
            added = new_partitions(begin.reached, ends)
            first = self._first_offsets(added) if added else {}
            ends = limited(limit.max_rows, {**begin.reached, **first}, ends)
        return advanced(begin, ends)

    def _waits_for_more(self, begins: OffsetMap, ends: OffsetMap) -> bool:
        """Whether a micro-batch has to wait, because it would have too few offsets.

        As in Spark's connector, the first one does not wait. With AvailableNow none waits, because the query would end.
        """
        limits, now = self._options.limits, time.monotonic()
        if limits.offsets_min is None or self._target is not None:
            return False
        is_late = self._triggered_at is None or now - self._triggered_at >= limits.delay_s
        if not is_late and offsets_between(begins, ends) < limits.offsets_min:
            return True
        self._triggered_at = now
        return False
