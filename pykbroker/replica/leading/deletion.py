"""The deletion of the oldest records of a partition, complete once all live replicas have applied it (KIP-107)."""

from __future__ import annotations

from pykbroker.core.errors import ApiError
from pykbroker.core.replication.role import require_led_in
from pykbroker.replica.partition.partition import Partition
from pykbroker.replica.partition.watch import Watch
from pykbroker.storage.log.log import Log
from wire.error_codes import ErrorCode
from wire.sentinels import HIGH_WATERMARK


class Deletion:
    """The deletion of all records of one partition below `offset`, as its leader carries it out."""

    def __init__(self, partition: Partition, offset: int) -> None:
        """Raise the log start offset. Raise OFFSET_OUT_OF_RANGE for an offset above the high watermark."""
        log, high_watermark = partition.require_leader(), partition.high_watermark
        if offset == HIGH_WATERMARK:
            offset = high_watermark
        if not 0 <= offset <= high_watermark:
            raise ApiError(ErrorCode.OFFSET_OUT_OF_RANGE)
        self.partition, self.offset, self._epoch = partition, offset, partition.leader_epoch
        log.delete_records(offset)
        for follower in partition.followers:
            follower.note_append(partition)

    @property
    def low_watermark(self) -> int:
        """Return the lowest log start offset of the live replicas. Raise ApiError if the leadership has ended."""
        partition = self.partition
        log: Log = partition.require_leader()
        followers, active = require_led_in(partition.role, self._epoch).followers, partition.broker.active
        starts = [state.log_start_offset for broker_id, state in followers.items() if broker_id in active]
        return min(log.log_start_offset, *starts) if starts else log.log_start_offset

    async def wait(self) -> int:
        """Wait until the low watermark has reached the offset, and return it."""
        watch = Watch([self.partition.watches])
        try:
            while (low_watermark := self.low_watermark) < self.offset:
                await watch.wait()
        finally:
            watch.close()
        return low_watermark
