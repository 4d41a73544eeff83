"""The reading of one range of offsets, in a task of Spark."""

from __future__ import annotations

import contextlib
import math
import time
from bisect import bisect_left
from collections.abc import Iterator
from typing import TYPE_CHECKING

from pykbroker.consumer.hosted import HostedConsumer
from pykbroker.consumer.settings import consumer_settings
from pykbroker.core.consumer.errors import ConsumerTimeout, OffsetsOutOfRange
from pykbroker.pipeline.source import deletions
from pykbroker.pipeline.source.deletions import AbsenceCount, of_existing
from pykbroker.pipeline.source.errors import ReadStalled, report_losses
from pykbroker.pipeline.source.offset_ranges import TaskRange
from pykbroker.pipeline.source.portions import portions
from pykbroker.pipeline.source.read_options import ReadOptions
from pykbroker.pipeline.source.record_batches import RecordBatches
from wire.records.segments import read_segments

if TYPE_CHECKING:
    import pyarrow as pa

    from pykbroker.core.consumer.records import FetchedColumns
    from pykbroker.world.background import Future

ROWS_ENOUGH = 1 << 16
"""The rows after which an Arrow batch takes no further batch of the log. The records of one Fetch are mostly fewer."""

LOG_S_MAX = 5.0
"""The seconds in which the brokers have to say where the log of a stalled range begins, and where it ends."""


def read_range(found: TaskRange, options: ReadOptions) -> Iterator[pa.RecordBatch]:
    """Yield the records of a range. Raise DataLoss, ReadStalled, or the errors of a consumer."""
    if found.size <= 0:
        return
    batches = RecordBatches(has_headers=options.has_headers, has_time_ms=options.has_time_ms)
    with contextlib.closing(RangeReader(found, options)) as reader:
        for parts in reader.parts():
            yield batches.batch(parts)


class RangeReader:
    """A consumer of one range. It polls ahead while the records of the last poll are used."""

    def __init__(self, found: TaskRange, options: ReadOptions) -> None:
        self._range, self._options = found, options
        self._hosted = HostedConsumer(consumer_settings(options.consumer), reads=read_segments)
        self._poll: Future[None] | None = None
        self._poll_s = min(deletions.LOOK_S, options.poll_timeout_s)

    def close(self) -> None:
        """Stop the consumer."""
        self._hosted.stop()

    def parts(self) -> Iterator[list[FetchedColumns]]:
        """Yield the records of the range, in the order of their offsets."""
        found, hosted = self._range, self._hosted
        hosted.ask(hosted.consumer.assign, [found.partition])
        hosted.ask(hosted.consumer.seek, found.partition, found.start)
        position = found.start
        while position < found.end:
            position = self._next_position(position)
            polled, hosted.unread.parts = hosted.unread.take(ROWS_ENOUGH, cuts_batch=False)
            if position < found.end:
                self._begin_poll()
            yield from portions([part for each in polled if (part := _until(each.columns, found.end))])

    def _begin_poll(self) -> None:
        hosted = self._hosted
        self._poll = hosted.submit(hosted.poll, self._poll_s, ROWS_ENOUGH, False)

    def _next_position(self, position: int) -> int:
        """Poll until records have arrived, and return the position after them. Skip lost records."""
        absences, deadline = AbsenceCount(self._hosted.shell), time.monotonic() + self._options.poll_timeout_s
        while True:
            try:
                after = self._polled()
            except OffsetsOutOfRange:
                return self._after_loss(position, self._offsets_of_log())
            if after != position:
                return after
            left_s = deadline - time.monotonic()
            if left_s <= 0:
                return self._without_progress(position)
            if self._hosted.ask(absences.deleted, [self._range.partition], min(deletions.LOOK_S, left_s)):
                return self._after_deletion(position)

    def _polled(self) -> int:
        """Return the position after the next poll. Raise OffsetsOutOfRange if the log lacks the one before it."""
        if self._poll is None:
            self._begin_poll()
        poll, self._poll = self._poll, None
        assert poll is not None, "a poll has begun"
        poll.result()
        after = self._hosted.shell.subscription[self._range.partition].position
        assert after is not None, "the position was set by a seek"
        return after.offset

    def _after_deletion(self, position: int) -> int:
        """Return the end of the range, whose partition is deleted. Raise DataLoss unless `failOnDataLoss` is false."""
        partition, end = self._range.partition, self._range.end
        reason = f"Could not read records in offset [{position}, {end}) for topic partition {partition}."
        report_losses([f"{reason} The partition was deleted."], fails=self._options.fails_on_loss)
        return end

    def _without_progress(self, position: int) -> int:
        """Return where to go on after a poll that has timed out. Raise ReadStalled if the log has the position."""
        try:
            log = self._offsets_of_log(LOG_S_MAX)
        except ConsumerTimeout:
            what = "No broker says which offsets the log has."
        else:
            if log is None or not log[0] <= position < log[1]:
                return self._after_loss(position, log)
            what = f"The log has the offsets [{log[0]}, {log[1]})."
        raise ReadStalled(
            f"{self._range.partition}: Cannot fetch record for offset {position} in "
            f"{int(self._options.poll_timeout_s * 1000)} milliseconds. {what} Check the broker, or raise the option "
            "kafkaConsumer.pollTimeoutMs."
        )

    def _after_loss(self, position: int, log: tuple[int, int] | None) -> int:
        """Return the next offset of the range that the log has, or its end if it has none, and seek to it.

        Raise DataLoss unless `failOnDataLoss` is false, or the range starts at the start of the log.
        """
        if log is None:
            return self._after_deletion(position)
        first, last = log
        partition, end, hosted = self._range.partition, self._range.end, self._hosted
        if not (self._range.is_earliest and position == self._range.start < first):
            reason = f"Could not read records in offset [{position}, {end}) for topic partition {partition}."
            report_losses([f"{reason} The log has the offsets [{first}, {last})."], fails=self._options.fails_on_loss)
        if position >= last or first >= end:
            return end
        found = max(position, first)
        hosted.ask(hosted.consumer.seek, partition, found)
        return found

    def _offsets_of_log(self, timeout_s: float = math.inf) -> tuple[int, int] | None:
        """Return the first offset of the log, and its end, or None if it is deleted. Raise ConsumerTimeout."""
        partition, hosted = self._range.partition, self._hosted

        async def ends() -> tuple[int, int] | None:
            first, _ = await of_existing(hosted.shell, hosted.consumer.beginning_offsets, [partition])
            last, _ = await of_existing(hosted.shell, hosted.consumer.end_offsets, list(first))
            return (first[partition], last[partition]) if last else None

        found: tuple[int, int] | None = hosted.ask(ends, timeout_s=timeout_s)
        return found


def _until(part: FetchedColumns, end: int) -> FetchedColumns | None:
    """Return the records of a part below the offset `end`, or None if there are none."""
    offsets = part.offsets
    if offsets[-1] < end:
        return part
    if offsets[0] >= end:
        return None
    return part.slice(0, bisect_left(offsets, end))
