"""The read of one Fetch request: several partitions with a limit on their total bytes (KIP-74), and the wait for more.

The first batch found may exceed every limit, so that the client always makes progress.
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Callable, Coroutine
from functools import partial
from typing import Any

import trio

from pykbroker.core.errors import ApiError
from pykbroker.core.fetch.session import FetchedPartition, SessionPartition
from pykbroker.core.replication.divergence import divergence
from pykbroker.core.steps import Steps
from pykbroker.replica.partition.partition import Partition
from pykbroker.storage.files.errors import patiently
from pykbroker.storage.log.log import Log
from pykbroker.world import portions
from pykbroker.world.disk import NotCached
from wire.error_codes import ErrorCode
from wire.messages.fetch import EpochEndOffset, FetchPartition, PartitionData
from wire.sentinels import NO_OFFSET

AT_ONCE_MAX = 16
"""The number of partitions that are read before other tasks may run."""

Located = list[tuple[Partition, SessionPartition]]
FetchWait = tuple[Callable[[], None], Coroutine[Any, Any, None]]
"""A function that makes a waiting read return what there is, and the wait itself."""


class Reading:
    """The read of one Fetch request: `read` or `read_in_steps`, a wait if that does not find enough, the `results`.

    A subclass says for a consumer or for a follower which partitions are read, up to which offset, what the fetch
    acknowledges, and how it waits.
    """

    __slots__ = ("_at", "_bytes_max", "_bytes_min", "_completes", "_found", "_in_steps", "_located", "_size")

    def __init__(self, located: Located, bytes_min: int, bytes_max: int) -> None:
        self._located, self._bytes_max, self._bytes_min = located, bytes_max, min(bytes_min, bytes_max)
        self._found: dict[Partition, FetchedPartition] = {}
        self._at = self._size = 0
        self._in_steps = False
        self._completes = not located
        """Whether the client must learn something at once, such as an error."""

    @property
    def is_enough(self) -> bool:
        """Whether the read found `bytes_min` bytes, or something that the client must learn at once."""
        return self._completes or self._size >= self._bytes_min

    def read(self) -> None:
        """Read the partitions.

        Raise NotCached if a partition needs the disk. The next call resumes at this partition. If it began again at the
        first partition, it might never end, since the number of open segments is limited.
        """
        if not self._at:
            self._begin()
        self._read_up_to(len(self._located))
        self._at = 0

    def read_in_steps(self) -> Steps[None]:
        """Read as `read` does, and yield after every `AT_ONCE_MAX` partitions so that other tasks can run."""
        self._in_steps = True
        self._begin()
        count = len(self._located)
        for end in range(AT_ONCE_MAX, count + AT_ONCE_MAX, AT_ONCE_MAX):
            self._read_up_to(min(end, count))
            yield
        self._at = 0

    async def read_patiently(self) -> None:
        """Read as `read` does, and wait for the disk where needed.

        Other tasks run between portions of many partitions.
        """
        if not self._at:
            self._begin()
        count = len(self._located)
        for end in range(self._at + portions.AT_ONCE_MAX, count, portions.AT_ONCE_MAX):
            await patiently(partial(self._read_up_to, end))
            await trio.lowlevel.checkpoint()
        await patiently(partial(self._read_up_to, count))
        self._at = 0

    def begin_wait(self, wait_ms_max: int) -> FetchWait:
        """Begin the wait for more. No append from now on is missed.

        The wait ends when there is enough, when `wait_ms_max` has passed, or when the returned function is called. It
        then reads what there is.
        """
        return self._watch(), self._wait(wait_ms_max)

    @abstractmethod
    def results(self) -> list[FetchedPartition]:
        """Return the results of all partitions that have something to say, with the errors of those not read."""

    def answered(self) -> None:
        """Take note that the response is known. For a consumer, nothing follows from that."""

    async def wait_cached(self, missing: NotCached) -> None:
        """Wait for the bytes that the next partition needs.

        If the disk read fails, the response has an error for the partition, which is not read again: a log whose reads
        always fail would be read again and again.
        """
        partition, wanted = self._located[self._at]
        try:
            with partition.errors():
                await missing.fetch()
        except ApiError as error:
            self._fail(partition, wanted, error)
            self._at += 1

    # ---- one read

    async def _wait(self, wait_ms_max: int) -> None:
        self._take_back()
        with trio.move_on_after(wait_ms_max / 1000):
            await self._wait_for_more()
        await self.read_patiently()

    def _read_up_to(self, end: int) -> None:
        """Read the partitions from index `_at` to below `end`."""
        for at in range(self._at, end):
            partition, wanted = self._located[at]
            asked = wanted.asked
            try:
                log = self._log(partition, wanted)
                if log is None:
                    continue
                diverging = None if asked.last_fetched_epoch < 0 else diverges(log, asked)
                if diverging is None:
                    self._acknowledge(partition, asked, log)  # it may raise the high watermark
                high_watermark = partition.high_watermark
                data = PartitionData(
                    asked.partition,
                    0,
                    high_watermark,
                    log.reader.last_stable_offset(high_watermark),
                    log.state.log_start_offset,
                    aborted_transactions=None,
                    records=b"",
                )
                if diverging is None:
                    size = min(asked.partition_max_bytes, self._bytes_max - self._size)
                    self._read_records(data, partition, asked, log, size)
                    self._size += len(data.records)  # only now: a read that raises NotCached is repeated
                else:
                    data.diverging_epoch = diverging
                    self._completes = True
                self._found[partition] = wanted, data
            except NotCached as missing:
                self._at = at
                raise Missing(self, missing) from None
            except ApiError as error:
                self._fail(partition, wanted, error)
        self._at = end

    def _fail(self, partition: Partition, wanted: SessionPartition, error: ApiError) -> None:
        self._completes = True
        self._found[partition] = wanted, failed(wanted.asked, self._error_code(partition, wanted, error))

    # ---- what a consumer and a follower do differently

    def _begin(self) -> None:
        """Begin a read at the first partition."""
        self._size = 0

    @abstractmethod
    def _log(self, partition: Partition, wanted: SessionPartition) -> Log | None:
        """Return the log that the client may read, or None if it has nothing new. Raise ApiError if it may not."""

    def _acknowledge(self, partition: Partition, asked: FetchPartition, log: Log) -> None:
        """Record the fetch of a client whose log does not diverge. A consumer's fetch acknowledges nothing."""

    @abstractmethod
    def _read_records(
        self, data: PartitionData, partition: Partition, asked: FetchPartition, log: Log, bytes_max: int
    ) -> None:
        """Read the records up to the client's upper offset into `data`.

        Raise NotCached if they need the disk, and ApiError if the disk fails.
        """

    def _error_code(self, partition: Partition, wanted: SessionPartition, error: ApiError) -> ErrorCode:
        """Return the error code for a partition that cannot be read."""
        return error.code

    @abstractmethod
    def _take_back(self) -> None:
        """Remove from `_found` what is read again after the wait, with the effects of its first read."""

    @abstractmethod
    def _watch(self) -> Callable[[], None]:
        """Begin to watch the partitions, and return the function that ends the wait."""

    @abstractmethod
    async def _wait_for_more(self) -> None:
        """Wait until there is enough to read, without reading it."""


class Missing(NotCached):
    """The bytes that the next partition of a read needs from the disk."""

    def __init__(self, reading: Reading, missing: NotCached) -> None:
        Exception.__init__(self, *missing.args)
        self._reading, self._missing = reading, missing
        self.key, self.waits_max = missing.key, missing.waits_max

    async def fetch(self) -> None:
        await self._reading.wait_cached(self._missing)


def diverges(log: Log, asked: FetchPartition) -> EpochEndOffset | None:
    """Return the place below the client's fetch offset at which its log diverges from this log, or None."""
    state = log.state
    return divergence(
        state.epochs, state.log_start_offset, state.log_end_offset, asked.last_fetched_epoch, asked.fetch_offset
    )


def failed(asked: FetchPartition, code: ErrorCode) -> PartitionData:
    """Return the response for a partition that failed, with all offsets -1."""
    return PartitionData(asked.partition, code, NO_OFFSET, aborted_transactions=None, records=b"")
