"""The read of a consumer's Fetch: up to the high watermark or the last stable offset, with a wait for `min_bytes`."""

from __future__ import annotations

from collections.abc import Callable

from pykbroker.core.errors import ApiError
from pykbroker.core.fetch.session import FetchedPartition, SessionPartition
from pykbroker.core.replication.leading import Leading
from pykbroker.replica.partition.partition import Partition
from pykbroker.replica.partition.reading import Located, Reading
from pykbroker.replica.partition.watch import Watch
from pykbroker.storage.log.log import Log
from wire.error_codes import ErrorCode
from wire.messages.fetch import AbortedTransaction, FetchPartition, PartitionData

Prefer = Callable[[Partition, int], int]
"""A function that returns the broker from which the client should fetch an offset of a partition, or -1."""


class ConsumerReading(Reading):
    """The read of all requested partitions that this broker has.

    A partition that has not changed since the last response of the session is left out.
    """

    __slots__ = ("_absent", "_committed_only", "_from_followers", "_prefer", "_watching")

    def __init__(
        self,
        located: Located,
        bytes_min: int,
        bytes_max: int,
        *,
        committed_only: bool,
        from_followers: bool = False,
        prefer: Prefer | None = None,
        absent: list[FetchedPartition] | None = None,
        completes: bool = False,
    ) -> None:
        """Read from partitions that this broker leads, and with `from_followers` from those that it follows
        (KIP-392).

        `absent` has the errors of the other requested partitions. With `completes`, one of them is reported at once.
        """
        Reading.__init__(self, located, bytes_min, bytes_max)  # `super` takes measurably longer
        self._committed_only, self._from_followers, self._prefer = committed_only, from_followers, prefer
        self._absent = absent
        if completes:
            self._completes = True

    def results(self) -> list[FetchedPartition]:
        found = list(self._found.values())
        return found + self._absent if self._absent else found

    def _log(self, partition: Partition, wanted: SessionPartition) -> Log | None:
        asked = wanted.asked
        if self._from_followers and not isinstance(partition.role, Leading):
            log = partition.require_replica(asked.current_leader_epoch)
        else:
            log = partition.require_leader(asked.current_leader_epoch)
        if (
            partition.high_watermark == asked.fetch_offset == wanted.high_watermark
            and log.state.log_start_offset == wanted.log_start_offset
            # A client that names the epoch of its last record also asks whether its log diverges.
            and asked.last_fetched_epoch < 0
        ):
            return None
        return log

    def _read_records(
        self, data: PartitionData, partition: Partition, asked: FetchPartition, log: Log, bytes_max: int
    ) -> None:
        """Read the records, or name the replica from which the consumer should read them."""
        offset = asked.fetch_offset
        if self._prefer is not None and partition.is_leader and (preferred := self._prefer(partition, offset)) >= 0:
            data.preferred_read_replica = preferred
            self._completes = True
            return
        upper = data.last_stable_offset if self._committed_only else data.high_watermark
        data.records = records = partition.read(offset, bytes_max, upper, at_least_one=not self._size)
        if self._committed_only:
            aborted = log.reader.aborted_transactions(offset, records) if records else []
            data.aborted_transactions = [AbortedTransaction(one.producer_id, one.first_offset) for one in aborted]
        partition.traffic.bytes_out += len(records)

    def _error_code(self, partition: Partition, wanted: SessionPartition, error: ApiError) -> ErrorCode:
        """Return the error code, and count the failure."""
        try:
            # If the leadership ended while the read waited for a disk that failed, the consumer learns the former.
            self._log(partition, wanted)
        except ApiError as first:
            error = first
        partition.traffic.refuse_fetch(error.code)
        return error.code

    # ---- the wait

    def _watch(self) -> Callable[[], None]:
        self._watching = Watch(partition.watches for partition, _ in self._located)
        if self._in_steps:
            self._watching.wake()  # records may have been appended since a partition was read in an earlier step
        return self._watching.hurry

    async def _wait_for_more(self) -> None:
        watch = self._watching
        try:
            while not watch.hurried:
                await watch.wait()
                if self._has_enough():
                    break
        finally:
            watch.close()

    def _has_enough(self) -> bool:
        """Whether `read` would find `bytes_min` bytes, or an error. No bytes are read."""
        size = 0
        for partition, wanted in self._located:
            try:
                log = self._log(partition, wanted)
            except ApiError:
                return True
            if log is not None:
                asked = wanted.asked
                upper, most = partition.upper_offset(committed_only=self._committed_only), asked.partition_max_bytes
                size += min(log.reader.bytes_between(asked.fetch_offset, upper, most), most)
        return size >= self._bytes_min

    def _take_back(self) -> None:
        """Remove everything, and subtract its bytes from the topics' counters: all partitions are read again."""
        for partition, (_, data) in self._found.items():
            partition.traffic.bytes_out -= len(data.records)
        self._found.clear()
