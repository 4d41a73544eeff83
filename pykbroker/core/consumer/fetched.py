"""The part of a Fetch response for one partition, which is parsed batch by batch while the user takes its records."""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Iterable, Iterator

from pykbroker.core.consumer.errors import UnreadableRecords
from pykbroker.core.consumer.partition_state import AssignedPartition
from pykbroker.core.consumer.records import CREATE_TIME, LOG_APPEND_TIME, FetchedColumns, ReadRecords, RecordColumns
from pykbroker.core.errors import again
from pykbroker.core.topic_partition import TopicPartition
from wire.errors import DecodeError
from wire.messages.fetch import AbortedTransaction, PartitionData
from wire.records.batch import Batch, batches
from wire.records.column_reader import read_columns
from wire.records.control import ControlType, control_records
from wire.sentinels import NO_LEADER_EPOCH, NO_PRODUCER_ID

CONTENT_BYTES_MAX = 1 << 31
"""The maximum decompressed size of a batch, which is the largest that Kafka's Java clients can read."""
BYTES_ENOUGH = 32 << 20
"""The decompressed bytes after which a poll takes no further batch. A Fetch response may have thousands of times more
than its own size."""


class AbortedTransactions:
    """The aborted transactions of a response, as far as its batches have been read (KIP-98)."""

    def __init__(self, transactions: Iterable[AbortedTransaction]) -> None:
        self._next = sorted(((each.first_offset, each.producer_id) for each in transactions), reverse=True)
        self._producers: set[int] = set()

    def hides(self, batch: Batch) -> bool:
        """Whether the next batch is data of an aborted transaction. Markers end transactions."""
        if batch.producer_id == NO_PRODUCER_ID:
            return False
        while self._next and self._next[-1][0] <= batch.last_offset:
            self._producers.add(self._next.pop()[1])
        if batch.is_control:
            if _is_abort_marker(batch):
                self._producers.discard(batch.producer_id)
            return False
        return batch.is_transactional and batch.producer_id in self._producers


class CompletedFetch:
    """The fetched records of one partition.

    `next_offset` is the offset that follows the records that were taken. `last_epoch` is the leader epoch of the last
    batch that was read, or -1. `era` is that of the partition when it was received. `leader_epoch` is that of the
    leader at the time of the request. Aborted transactions are only hidden with `isolation.level=read_committed`.
    """

    def __init__(
        self,
        partition: TopicPartition,
        offset: int,
        data: PartitionData,
        *,
        committed: bool,
        checks_crc: bool,
        era: object = None,
        leader_epoch: int = NO_LEADER_EPOCH,
        reads: ReadRecords = read_columns,
    ) -> None:
        self.era, self._leader_epoch = era, leader_epoch
        self.partition, self.data = partition, data
        self.next_offset, self.last_epoch = offset, NO_LEADER_EPOCH
        self.is_checked = self.is_drained = False
        """Whether the error code was handled, and whether no records are left."""
        self.bytes_read = 0
        self._aborted = AbortedTransactions(data.aborted_transactions or ()) if committed else None
        self._checks_crc, self._reads = checks_crc, reads
        self._batches: Iterator[Batch] = batches(data.records or b"")
        self._batch: Batch | None = None
        self._columns: RecordColumns | None = None
        self._taken, self._has_read = 0, False
        self._failure: UnreadableRecords | None = None

    @property
    def records_bytes(self) -> int:
        """Return the size of the records in the response."""
        return len(self.data.records or b"")

    def fits(self, state: AssignedPartition) -> bool:
        """Whether the records that are next in line are those at the position, and of its era."""
        position = state.position
        return position is not None and position.offset == self.next_offset and self.is_of_era(state)

    def is_of_era(self, state: AssignedPartition) -> bool:
        """Whether the user has not moved the position since the response was received."""
        return self.era is state.era

    def is_of_leader(self, state: AssignedPartition) -> bool:
        """Whether the partition still has the leader that it had at the time of the request."""
        return state.position is not None and state.position.leader.epoch == self._leader_epoch

    def drain(self) -> None:
        """Drop the records that were not taken."""
        self.is_drained, self._columns, self._batch = True, None, None

    def take(
        self, records_max: int, *, cuts_batch: bool = True, bytes_enough: int = BYTES_ENOUGH
    ) -> Iterator[FetchedColumns]:
        """Yield the next records, up to `records_max`, as columns of each batch.

        If `cuts_batch` is false, the last batch is yielded whole, which may be more records. No further batch is
        decompressed once those before it have `bytes_enough` bytes of content.

        Raise UnreadableRecords if the next batch cannot be read. The position then stays where it is, and every further
        call raises the same error.
        """
        if self._failure is not None:
            raise again(self._failure)
        while records_max > 0 and bytes_enough > 0 and not self.is_drained:
            if self._columns is None:
                self._next_batch()
                continue
            found = self._take_columns(records_max if cuts_batch else CONTENT_BYTES_MAX)
            records_max -= len(found)
            bytes_enough -= found.columns.content_bytes
            yield found

    def _take_columns(self, records_max: int) -> FetchedColumns:
        """Return records of the current batch, up to `records_max`, and move behind them."""
        batch, columns, start = self._batch, self._columns, self._taken
        assert batch is not None, "columns belong to a batch"
        assert columns is not None, "the caller has read the batch"
        count = len(columns)
        end = min(start + records_max, count)
        part = columns if end - start == count else columns.slice(start, end)
        # The offset moves first: after an interrupt behind it, the response does not fit the position, and is dropped.
        if end == count:
            self._leave_batch(batch)
        else:
            self.next_offset = columns.offsets[end - 1] + 1
            self._taken = end
        kind = LOG_APPEND_TIME if batch.is_log_append_time else CREATE_TIME
        return FetchedColumns(self.partition, part, kind, batch.leader_epoch)

    def _next_batch(self) -> None:
        """Read the next batch with records for the user, or note that there is none."""
        self.is_drained = True  # if an interrupt ends the loop, which may have a batch in its hands
        try:
            for batch in self._batches:
                self.last_epoch, self._has_read = batch.leader_epoch, True
                if self._checks_crc and not batch.crc_ok():
                    raise DecodeError(f"Record is corrupt (stored crc = {batch.crc})")
                is_hidden = self._aborted is not None and self._aborted.hides(batch)
                if not is_hidden and not batch.is_control:
                    columns = self._reads(batch, CONTENT_BYTES_MAX)
                    start = bisect_left(columns.offsets, self.next_offset)
                    if start < len(columns):
                        self._batch, self._columns, self._taken = batch, columns, start
                        self.is_drained = False
                        return
                self._leave_batch(batch)
            if self.records_bytes and not self._has_read:
                raise DecodeError(f"{self.records_bytes} bytes without a complete batch")
        except DecodeError as error:
            self._failure = UnreadableRecords(self.partition, self.next_offset, str(error))
            raise again(self._failure) from None

    def _leave_batch(self, batch: Batch) -> None:
        """Move behind the last offset of the batch, even if compaction has removed its last record."""
        self.next_offset = max(self.next_offset, batch.last_offset + 1)
        self.bytes_read += batch.size
        self._batch = self._columns = None


def _is_abort_marker(batch: Batch) -> bool:
    return any(record.type == ControlType.ABORT for record in control_records(batch))
