"""The follower's side of a partition: its position, appends of fetched batches, and truncation."""

from __future__ import annotations

from collections.abc import Awaitable, Callable

import trio

from pykbroker.core.errors import ApiError
from pykbroker.core.replication.fetch_plan import Wanted
from pykbroker.core.replication.following import CutLog, Position, Restart, Store, start_offset
from pykbroker.core.topic_partition import TopicIdPartition
from pykbroker.replica.partition.partition import Partition
from pykbroker.storage.log.log import Log
from wire.error_codes import ErrorCode

Truncated = Callable[[Partition], Awaitable[None]]
"""A function that is awaited after the log of a partition was truncated."""


class Followed:
    """A partition that this broker follows in one leader epoch of broker `leader`.

    The object is over once the partition has another leader or leader epoch; `position` is None then. `lag` is the
    number of offsets from the own log end to the leader's high watermark of its last answer. `leader_high_watermark` is
    that high watermark, or None if the leader has not answered since the partition was added to its fetcher.
    """

    __slots__ = (
        "_changing",
        "_started",
        "_truncated",
        "key",
        "lag",
        "leader",
        "leader_epoch",
        "leader_high_watermark",
        "partition",
    )

    def __init__(
        self, partition: Partition, key: TopicIdPartition, leader: int, leader_epoch: int, truncated: Truncated
    ) -> None:
        self.partition, self.key, self.leader, self.leader_epoch = partition, key, leader, leader_epoch
        self._truncated = truncated
        self.leader_high_watermark: int | None = None
        self._changing = trio.Lock()
        self._started = False
        self.lag = 0

    def __str__(self) -> str:
        return str(self.partition.key)

    @property
    def position(self) -> Position | None:
        """Return what to fetch next, or None if the partition is offline or no longer followed here."""
        partition = self.partition
        log = partition.log
        if log is None or not partition.is_online or partition.is_leader or partition.leader_epoch != self.leader_epoch:
            return None
        return Position(self.leader_epoch, log.state.log_end_offset, log.state.epochs.latest)

    @property
    def wanted(self) -> Wanted | None:
        """Return what to fetch next together with the log start offset, or None as `position` does."""
        position, log = self.position, self.partition.log
        return None if position is None or log is None else Wanted(position, log.state.log_start_offset)

    @property
    def is_level(self) -> bool:
        """Whether the log has all records up to the leader's last high watermark."""
        position, high_watermark = self.position, self.leader_high_watermark
        return position is not None and high_watermark is not None and position.offset >= high_watermark

    @property
    def flush_due(self) -> bool:
        """Whether the log must be flushed before the next fetch, which acknowledges its records."""
        return self.partition.flush_due

    # ---- changes of the log

    def store(self, fetched: Store, *, had_room: bool) -> bool:
        """Append fetched batches, and take over the leader's high watermark and log start offset.

        `had_room` says whether the response could have had batches of this partition, if there were any. Return
        whether the position changed. Raise ApiError if a batch is damaged or the write fails.
        """
        partition, log = self.partition, self._log()
        if fetched.records:
            try:
                log.append_stored(fetched.records)
            except OSError as error:
                raise partition.fail(error) from error
        end = log.state.log_end_offset
        # See 4 of `core/replication/unwritable`.
        if partition.unwritable is not None and not fetched.records and had_room and end >= fetched.high_watermark:
            partition.unwritable.is_level = True
        self.leader_high_watermark = fetched.high_watermark
        self.lag = max(0, fetched.high_watermark - end)
        # A response of limited size may end below the leader's high watermark.
        partition.raise_high_watermark(min(fetched.high_watermark, end))
        # The log start never exceeds the high watermark, which may be behind the leader's.
        start = min(fetched.log_start_offset, partition.high_watermark)
        if start > log.state.log_start_offset:
            log.delete_records(start)
            return True
        return bool(fetched.records)

    async def start(self) -> None:
        """Truncate a log without leader epochs to its high watermark, before the first fetch."""
        log = self._log()
        if not self._started:
            offset = start_offset(log.state.epochs, self.partition.high_watermark, log.state.log_end_offset)
            if offset < log.state.log_end_offset:
                await self.cut(CutLog(offset))
            self._started = True

    async def cut(self, change: CutLog | Restart) -> None:
        """Truncate the log, or begin it anew. Raise ApiError if the disk fails.

        A cancellation does not interrupt it. The log of a broker that stops could otherwise not be opened again, since
        its recovery point is lowered first.
        """
        async with self._changing:
            # The leader epoch may have ended while another truncation held the lock.
            if self.position is None:
                return
            with trio.CancelScope(shield=True):
                await self._truncate(change)

    async def _truncate(self, change: CutLog | Restart) -> None:
        partition = self.partition
        committed = partition.high_watermark
        with partition.errors():
            partition.lower_high_watermark(change.offset)  # first, as the next checkpoint must not have the old one
            if isinstance(change, Restart):
                await partition.directory.truncation.truncate_fully(
                    partition.key, change.offset, change.log_start_offset
                )
                partition.high_watermark = change.log_start_offset
                partition.refused.forget()
            else:
                before = self._log().producers
                await partition.directory.truncation.truncate(partition.key, change.offset)
                log = self._log()
                partition.lower_high_watermark(log.state.log_end_offset)
                if log.producers is not before and partition.high_watermark == committed:
                    # What was committed is removed only after an unclean election. Its producers do not repeat it.
                    partition.refused.note_truncated(log, before)
        await self._truncated(partition)

    async def flush(self) -> None:
        """Make all appended records durable. Raise ApiError if the fsync fails."""
        log = self._log()
        with self.partition.errors():
            await log.flush()

    async def wait_idle(self) -> None:
        """Wait until no truncation is running. No other one begins once the leader epoch is over."""
        async with self._changing:
            pass

    def _log(self) -> Log:
        log = self.partition.log
        if log is None:
            raise ApiError(ErrorCode.KAFKA_STORAGE_ERROR, f"the log of {self.partition.key} is offline")
        return log
