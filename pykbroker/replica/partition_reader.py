"""The reads of one partition, limited to the offsets that consumers may see."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, TypeVar

from pykbroker.core.errors import ApiError
from pykbroker.core.replication.following import Following
from pykbroker.core.replication.role import require_epoch
from pykbroker.storage.files.errors import patiently
from pykbroker.world.disk import Buffer, FileSlice, NotCached

if TYPE_CHECKING:
    from pykbroker.replica.partition import Partition
    from pykbroker.storage.log.log import Log

T = TypeVar("T")


class PartitionReader:
    """A reader of a partition's log, which converts OSErrors into ApiErrors."""

    __slots__ = ("_partition",)

    def __init__(self, partition: Partition) -> None:
        self._partition = partition

    def require_replica(self, leader_epoch: int) -> Log:
        """Return the log of a followed partition for a consumer, which may read up to the high watermark (KIP-392).

        Raise ApiError if the log is offline, if the consumer's leader epoch is fenced or unknown, if no broker leads,
        or if the partition was deleted.
        """
        log = self.require_log(leader_epoch)
        role = self._partition.role
        if isinstance(role, Following) and not role.has_leader:
            raise ApiError(role.absence)
        return log

    def require_log(self, leader_epoch: int) -> Log:
        """Return the log of a partition, whether this broker leads it or not.

        Raise ApiError if the log is offline, or if the client's leader epoch is fenced or unknown.
        """
        partition = self._partition
        log = partition.log
        if log is None or not partition.is_online:
            raise partition.guard.offline()
        require_epoch(partition.role, leader_epoch)
        return log

    def upper_offset(self, *, committed_only: bool) -> int:
        """Return the first offset that consumers may not read.

        It is the last stable offset if `committed_only` (read_committed) is true, and the high watermark otherwise.
        """
        log, high_watermark = self._partition.log, self._partition.high_watermark
        return log.reader.last_stable_offset(high_watermark) if committed_only and log is not None else high_watermark

    def read(self, offset: int, bytes_max: int, upper_offset: int, *, at_least_one: bool) -> Buffer | FileSlice:
        """Return whole batches below `upper_offset`, starting with the batch that holds `offset`.

        Raise NotCached if the batches are not in the page cache. The caller then awaits `wait_cached` and repeats the
        call.
        """
        log = self._partition.log
        assert log is not None
        try:
            return log.reader.read(offset, bytes_max, upper_offset, at_least_one=at_least_one)
        except OSError as error:
            raise self._partition.guard.refused(error) from error

    async def wait_cached(self, missing: NotCached) -> None:
        """Wait for the bytes that `read` needs."""
        with self._partition.guard.errors():
            await missing.fetch()

    def look_up(self, log: Log, timestamp: int, upper_offset: int) -> tuple[int, int, int] | None:
        """Return (timestamp, offset, leader epoch) of the first record with this timestamp or a later one.

        Raise NotCached if the search needs the disk. `patiently` repeats the search.
        """
        with self._partition.guard.errors():
            return log.offset_for_timestamp(timestamp, upper_offset)

    def max_timestamp(self, log: Log) -> tuple[int, int, int] | None:
        """Return (timestamp, offset, leader epoch) of the record with the largest timestamp.

        Raise NotCached if the search needs the disk. `patiently` repeats the search.
        """
        with self._partition.guard.errors():
            return log.max_timestamp()

    async def patiently(self, call: Callable[[], T]) -> T:
        """Return the result of a call that reads this partition.

        The call is repeated after each wait for bytes that it needs.
        """
        with self._partition.guard.errors():
            return await patiently(call)
