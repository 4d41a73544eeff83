"""The read of one follower's Fetch: the partitions of its session that are due, up to the log end offset (KIP-227)."""

from __future__ import annotations

from collections.abc import Generator
from functools import partial

import trio

from pykbroker.core.errors import ApiError, again
from pykbroker.core.fetch.session import FetchedPartition, SessionPartition
from pykbroker.replica.leading.follower_session import FollowerSession
from pykbroker.replica.leading.isr_keeper import IsrKeeper
from pykbroker.replica.partition.partition import Partition
from pykbroker.replica.partition.reading import AT_ONCE_MAX, FetchWait, Missing, diverges, failed
from pykbroker.storage.files.errors import patiently
from pykbroker.storage.log.log import Log
from pykbroker.world import portions
from pykbroker.world.disk import NotCached
from wire.error_codes import ErrorCode
from wire.messages.fetch import PartitionData


class FollowerReading:
    """The read of one Fetch request of a follower.

    The first read of a partition records the fetch, which acknowledges all records below its offset. `is_enough` is
    true if `bytes_min` bytes were found, or something that the follower must learn at once.
    """

    def __init__(self, session: FollowerSession, keeper: IsrKeeper, bytes_min: int, bytes_max: int) -> None:
        self.session, self._keeper = session, keeper
        self._bytes_min, self._bytes_max = min(bytes_min, bytes_max), bytes_max
        self._found: dict[Partition, FetchedPartition] = {}
        self._due: list[tuple[Partition, SessionPartition]] = []
        self._at = self._size = 0
        self._noting = True
        self._refused: dict[Partition, ApiError] = {}
        self.is_enough = False

    def read(self) -> list[FetchedPartition]:
        """Return what the due partitions have to say.

        Raise NotCached if a partition needs the disk. The next call resumes at this partition.
        """
        if not self._at:
            self._begin()
        self._read_up_to(len(self._due))
        return self._result()

    def read_in_steps(self) -> Generator[None, None, list[FetchedPartition]]:
        """Read as `read` does, and yield after every `AT_ONCE_MAX` partitions so that other tasks can run."""
        self._begin()
        for end in range(AT_ONCE_MAX, len(self._due) + AT_ONCE_MAX, AT_ONCE_MAX):
            self._read_up_to(min(end, len(self._due)))
            yield
        return self._result()

    async def read_patiently(self) -> list[FetchedPartition]:
        """Read as `read` does, and wait for the disk where needed.

        Other tasks run between portions of many partitions.
        """
        if not self._at:
            self._begin()
        count = len(self._due)
        for end in range(self._at + portions.AT_ONCE_MAX, count, portions.AT_ONCE_MAX):
            await patiently(partial(self._read_up_to, end))
            await trio.lowlevel.checkpoint()
        await patiently(partial(self._read_up_to, count))
        return self._result()

    def begin_wait(self, wait_ms_max: int) -> FetchWait:
        """Begin the wait for new records. The session misses none since the read."""
        return self.session.hurry, self.wait(wait_ms_max)

    async def wait(self, wait_ms_max: int) -> list[FetchedPartition]:
        """Wait until a partition has new records, `wait_ms_max` has passed, or the request is hurried, then read."""
        session = self.session
        for partition, (wanted, data) in list(self._found.items()):
            if data.records and partition in session:
                del self._found[partition]
                session.due[partition] = wanted
        with trio.move_on_after(wait_ms_max / 1000):
            await session.wait()
        return await self.read_patiently()

    def record_throttled(self) -> None:
        """Count the records of the response that the leader's quota measures."""
        for partition, (_, data) in self._found.items():
            if data.records:
                self.session.record_throttled(partition, len(data.records))

    def _begin(self) -> None:
        self.session.calm()
        self._due, self._size = list(self.session.due.items()), 0
        if self._noting:
            self.session.fetched_ms = self._keeper.broker.now_ms

    def _result(self) -> list[FetchedPartition]:
        self._at, self._noting = 0, False
        unlocated = self.session.unlocated
        self.is_enough |= self._size >= self._bytes_min or bool(unlocated)
        found = list(self._found.values())
        return [one for one in found if one[0].key not in unlocated] if unlocated else found

    def _read_up_to(self, end: int) -> None:
        for at in range(self._at, end):
            self._at = at
            partition, wanted = self._due[at]
            try:
                if partition in self._refused:
                    raise again(self._refused[partition])
                self._found[partition] = wanted, self._data(partition, wanted)
            except NotCached as missing:
                raise Missing(self, partition, missing) from None
            except ApiError as error:
                self.is_enough = True
                self._found[partition] = wanted, failed(wanted.asked, error.code)
        self._at = end

    def _data(self, partition: Partition, wanted: SessionPartition) -> PartitionData:
        """Return the response for one partition. Raise ApiError if the follower may not fetch it, or not there."""
        asked, session = wanted.asked, self.session
        log = partition.require_leader(asked.current_leader_epoch)
        state = self._keeper.follower(partition, session.broker_id, session.broker_epoch, asked.current_leader_epoch)
        diverging = diverges(log, asked) if asked.last_fetched_epoch >= 0 else None
        if diverging is not None:
            self.is_enough = True
            data = self._without_records(partition, log, wanted)
            data.diverging_epoch = diverging
            return data
        offset, end = asked.fetch_offset, log.state.log_end_offset
        if not log.state.log_start_offset <= offset <= end:
            raise ApiError(ErrorCode.OFFSET_OUT_OF_RANGE)
        if self._noting:
            self._keeper.note_fetch(partition, session.broker_id, session.broker_epoch, offset, asked.log_start_offset)
        data = self._without_records(partition, log, wanted)
        size = min(asked.partition_max_bytes, self._bytes_max - self._size)
        if offset < end and size > 0 and not session.is_throttled(partition):
            data.records = partition.read(offset, size, end, at_least_one=not self._size)
            self._size += len(data.records)
        if data.records or (state.log_end_offset >= end and self._is_in_sync(partition)):
            session.due.pop(partition, None)
        return data

    def _is_in_sync(self, partition: Partition) -> bool:
        leading = partition.leading
        return leading is not None and self.session.broker_id in leading.isr

    def _without_records(self, partition: Partition, log: Log, wanted: SessionPartition) -> PartitionData:
        high_watermark = partition.high_watermark
        return PartitionData(
            wanted.asked.partition,
            0,
            high_watermark,
            log.reader.last_stable_offset(high_watermark),
            log.state.log_start_offset,
            aborted_transactions=None,
            records=b"",
        )

    async def wait_cached(self, partition: Partition, missing: NotCached) -> None:
        """Wait for the bytes that a partition needs. If the disk read fails, the response has an error for it."""
        try:
            with partition.errors():
                await missing.fetch()
        except ApiError as error:
            self._refused[partition] = error
