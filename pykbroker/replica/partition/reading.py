"""Reads of several partitions with a limit on their total bytes (KIP-74), and the wait for `min_bytes`.

The first batch found may exceed every limit, so that the consumer always makes progress.
"""

from __future__ import annotations

from collections.abc import Callable, Coroutine, Generator
from typing import Any, Protocol

import trio

from pykbroker.core.errors import ApiError, again
from pykbroker.core.fetch.session import FetchedPartition, SessionPartition
from pykbroker.core.replication.divergence import divergence
from pykbroker.replica.partition.partition import Partition
from pykbroker.replica.partition.watch import Watch
from pykbroker.storage.files.errors import patiently
from pykbroker.storage.log.log import Log
from pykbroker.world.disk import NotCached
from wire.error_codes import ErrorCode
from wire.messages.fetch import AbortedTransaction, EpochEndOffset, FetchPartition, PartitionData

AT_ONCE_MAX = 16
"""The number of partitions that are read before other tasks may run."""

Located = list[tuple[SessionPartition, Partition]]
Prefer = Callable[[Partition, int], int]
"""A function that returns the broker from which the client should fetch an offset of a partition, or -1."""
FetchWait = tuple[Callable[[], None], Coroutine[Any, Any, list[FetchedPartition]]]
"""A function that makes a waiting read return what there is, and the wait itself."""


class Reading:
    """The read of one Fetch request.

    `read` sets `is_enough` if it found `bytes_min` bytes, or an error that is reported at once.
    """

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
        self._from_followers, self._prefer = from_followers, prefer
        self.located, self._bytes_max, self._bytes_min = located, bytes_max, min(bytes_min, bytes_max)
        self._committed_only = committed_only
        self._absent, self._completes = absent or [], completes
        self._size, self._in_steps = 0, False
        self._found: list[FetchedPartition] = []
        self._at = 0
        self._refused: dict[Partition, ApiError] = {}
        self.is_enough = False

    def read(self) -> list[FetchedPartition]:
        """Return the data of the partitions that have new data.

        Raise NotCached if a partition needs the disk. The next call resumes at this partition. If it began again at the
        first partition, it might never end, since the number of open segments is limited.
        """
        if not self._at:
            self._begin()
        self._read_up_to(len(self.located))
        self._at = 0
        return self._found

    def read_in_steps(self) -> Generator[None, None, list[FetchedPartition]]:
        """Read as `read` does, and yield after every `AT_ONCE_MAX` partitions so that other tasks can run."""
        self._in_steps = True
        self._begin()
        for end in range(AT_ONCE_MAX, len(self.located) + AT_ONCE_MAX, AT_ONCE_MAX):
            self._read_up_to(min(end, len(self.located)))
            yield
        self._at = 0
        return self._found

    def _begin(self) -> None:
        self._size, self.is_enough, self._found = 0, self._completes or not self.located, []

    def _read_up_to(self, end: int) -> None:
        """Read the partitions from index `_at` to below `end`."""
        found = self._found
        for at in range(self._at, end):
            self._at = at
            wanted, partition = self.located[at]
            asked = wanted.asked
            try:
                log = self._log(partition, asked.current_leader_epoch)
                if partition in self._refused:
                    raise again(self._refused[partition])
                if (
                    partition.high_watermark == asked.fetch_offset == wanted.high_watermark
                    and log.state.log_start_offset == wanted.log_start_offset
                    and asked.last_fetched_epoch < 0
                ):
                    continue
                found.append((wanted, self._data(asked, partition, log)))
            except NotCached as missing:
                raise Missing(self, partition, missing) from None
            except ApiError as error:
                self.is_enough = True
                partition.traffic.refuse_fetch(error.code)
                found.append((wanted, failed(asked, error.code)))
        self._at = end
        self.is_enough |= self._size >= self._bytes_min

    async def wait_cached(self, partition: Partition, missing: NotCached) -> None:
        """Wait for the bytes that a partition needs.

        If the disk read fails, the response has an error for the partition.
        """
        try:
            with partition.errors():
                await missing.fetch()
        except ApiError as error:
            self._refused[partition] = error

    def begin_wait(self, wait_ms_max: int) -> FetchWait:
        """Begin the wait for enough bytes. No append from now on is missed."""
        watch = Watch(partition.watches for _, partition in self.located)
        return watch.hurry, self.wait(watch, wait_ms_max)

    async def wait(self, watch: Watch, wait_ms_max: int) -> list[FetchedPartition]:
        """Wait until enough bytes are found, `wait_ms_max` has passed, or `watch.hurry` is called.

        Return the data found by then.
        """
        if self._size:
            self._discard()
        if self._in_steps:
            watch.wake()  # records may have been appended since a partition was read in an earlier step
        try:
            with trio.move_on_after(wait_ms_max / 1000):
                while not watch.hurried:
                    await watch.wait()
                    if self._has_enough():
                        break
        finally:
            watch.close()
        return await self.read_patiently()

    async def read_patiently(self) -> list[FetchedPartition]:
        """Read as `read` does, and wait for the disk where needed."""
        return await patiently(self.read)

    def absent(self) -> list[FetchedPartition]:
        """Return the errors of the requested partitions that are not read."""
        return self._absent

    def answered(self) -> None:
        """Do nothing: the response to a consumer acknowledges nothing."""

    def _discard(self) -> None:
        """Subtract the bytes that were read and will be read again from the topics' counters."""
        sizes = {id(wanted): len(data.records) for wanted, data in self._found if data.records}
        for wanted, partition in self.located:
            partition.traffic.bytes_out -= sizes.get(id(wanted), 0)

    def _has_enough(self) -> bool:
        """Whether `read` would find `bytes_min` bytes. No bytes are read."""
        size = 0
        for wanted, partition in self.located:
            asked = wanted.asked
            try:
                log = self._log(partition, asked.current_leader_epoch)
            except ApiError:
                return True
            upper, most = partition.upper_offset(committed_only=self._committed_only), asked.partition_max_bytes
            size += min(log.reader.bytes_between(asked.fetch_offset, upper, most), most)
        return size >= self._bytes_min

    def _log(self, partition: Partition, leader_epoch: int) -> Log:
        if self._from_followers and not partition.is_leader:
            return partition.require_replica(leader_epoch)
        return partition.require_leader(leader_epoch)

    def _data(self, asked: FetchPartition, partition: Partition, log: Log) -> PartitionData:
        """Return the response for one partition. Raise OFFSET_OUT_OF_RANGE, or another ApiError if the disk fails."""
        offset, high_watermark = asked.fetch_offset, partition.high_watermark
        stable = log.reader.last_stable_offset(high_watermark)
        data = PartitionData(
            asked.partition,
            0,
            high_watermark,
            stable,
            log.state.log_start_offset,
            aborted_transactions=None,
            records=b"",
        )
        if asked.last_fetched_epoch >= 0 and (diverging := diverges(log, asked)) is not None:
            data.diverging_epoch = diverging
            self.is_enough = True
            return data
        if self._prefer is not None and partition.is_leader and (preferred := self._prefer(partition, offset)) >= 0:
            data.preferred_read_replica = preferred
            self.is_enough = True
            return data
        upper = stable if self._committed_only else high_watermark
        size = min(asked.partition_max_bytes, self._bytes_max - self._size)
        data.records = records = partition.read(offset, size, upper, at_least_one=not self._size)
        if self._committed_only:
            aborted = log.reader.aborted_transactions(offset, records) if records else []
            data.aborted_transactions = [AbortedTransaction(one.producer_id, one.first_offset) for one in aborted]
        read = len(records)
        self._size += read
        partition.traffic.bytes_out += read
        return data


class Waiting(Protocol):
    """A read that can wait for the bytes of one partition."""

    async def wait_cached(self, partition: Partition, missing: NotCached, /) -> None:
        """Wait for the bytes that a partition needs."""


class Missing(NotCached):
    """The bytes that a partition of a read needs from the disk."""

    def __init__(self, reading: Waiting, partition: Partition, missing: NotCached) -> None:
        Exception.__init__(self, *missing.args)
        self._reading, self._partition, self._missing = reading, partition, missing
        self.key, self.waits_max = missing.key, missing.waits_max

    async def fetch(self) -> None:
        await self._reading.wait_cached(self._partition, self._missing)


def diverges(log: Log, asked: FetchPartition) -> EpochEndOffset | None:
    """Return the place below the client's fetch offset at which its log diverges from this log, or None."""
    state = log.state
    return divergence(
        state.epochs, state.log_start_offset, state.log_end_offset, asked.last_fetched_epoch, asked.fetch_offset
    )


def failed(asked: FetchPartition, code: ErrorCode) -> PartitionData:
    """Return the response for a partition that failed, with all offsets -1."""
    return PartitionData(asked.partition, code, -1, aborted_transactions=None, records=b"")
