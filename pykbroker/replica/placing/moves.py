"""All moves of partitions between the log directories of this broker (KIP-113)."""

from __future__ import annotations

import logging
from collections.abc import Awaitable, Callable, Iterator, Mapping

import trio

from pykbroker.core.errors import ApiError
from pykbroker.core.replication.quota import ReplicationQuota
from pykbroker.core.topic_partition import TopicIdPartition, TopicPartition
from pykbroker.replica.partition.partition import Partition
from pykbroker.replica.placing.move import HAND_OVER_BYTES_MAX, Move
from pykbroker.replica.placing.places import Places
from pykbroker.storage.directory.log_directory import LogDirectory
from pykbroker.storage.files.errors import CorruptLog
from pykbroker.storage.files.partition_directory import may_be_copied
from wire.error_codes import ErrorCode

logger = logging.getLogger(__name__)

Assign = Callable[[Mapping[TopicIdPartition, bytes]], Awaitable[None]]
"""A function that reports to the controller the log directory id of each of these partitions."""


class Moves:
    """The running moves.

    The lock `changing` is held while partitions are added, removed or moved. `check_room` raises ApiError when no file
    descriptor is free for a copy. `quota` limits the bytes that all moves together copy
    (`replica.alter.log.dirs.io.max.bytes.per.second`).
    """

    def __init__(
        self,
        places: Places,
        changing: trio.Lock,
        check_room: Callable[[Partition], None],
        quota: ReplicationQuota | None = None,
    ) -> None:
        self._places, self._changing, self._check_room = places, changing, check_room
        self._quota = quota or ReplicationQuota()
        self._under_way: dict[Partition, Move] = {}
        self._begun = trio.Event()

    def into(self, directory: LogDirectory) -> Iterator[Move]:
        return (move for move in self._under_way.values() if move.directory is directory)

    async def begin(self, partition: Partition, topic_id: bytes, path: str) -> None:
        """Begin to move the partition to this directory. A running move of the partition ends.

        Raise ApiError if the partition cannot move there.
        """
        directory = self.destination(partition.key, path)
        if not partition.is_online or partition.log is None:
            raise ApiError(ErrorCode.KAFKA_STORAGE_ERROR)
        move = self._under_way.get(partition)
        if move is not None and move.directory is not directory:
            self.forget(partition)
        if partition.directory is directory or partition in self._under_way:
            return
        # Kafka begins no copy either while one of the log directories is offline (`LogManager.getOrCreateLog`).
        if any(one.failed is not None for one in self._places.directories):
            raise ApiError(ErrorCode.KAFKA_STORAGE_ERROR)
        self._check_room(partition)
        try:
            await self._begin(partition, topic_id, directory)
        except OSError as refusal:
            directory.fail(refusal)
            raise ApiError(ErrorCode.KAFKA_STORAGE_ERROR) from refusal

    async def _begin(self, partition: Partition, topic_id: bytes, directory: LogDirectory) -> None:
        log = partition.log
        assert log is not None, "a partition that is offline does not move"
        # The log of a follower may have just begun inside a batch that is appended next.
        start = min(log.log_start_offset, log.log_end_offset)
        copy = await directory.create_copy(partition.key, topic_id, log.config, start)
        self._go(Move(partition, topic_id, directory, copy, self._quota))

    def destination(self, key: TopicPartition, path: str) -> LogDirectory:
        """Return the log directory of this path. Raise ApiError if the partition cannot move there."""
        if not may_be_copied(key):
            raise ApiError(ErrorCode.INVALID_TOPIC_EXCEPTION)
        directory = next((one for one in self._places.directories if one.path == path), None)
        if directory is None:
            raise ApiError(ErrorCode.LOG_DIR_NOT_FOUND)
        if directory.failed is not None:
            raise ApiError(ErrorCode.KAFKA_STORAGE_ERROR)
        if self._places.is_cordoned(directory):
            raise ApiError(ErrorCode.INVALID_REPLICA_ASSIGNMENT)
        return directory

    async def resume(self, partition: Partition, topic_id: bytes) -> None:
        """Resume the move that the last stop of the broker interrupted.

        If the copy is longer than its log, it had already replaced the log. Then only the directories are renamed.
        """
        directory, log = self._places.coming.pop(partition.key, None), partition.log
        if directory is None or log is None:
            return
        try:
            copy = await directory.futures.open(partition.key, topic_id, log.config)
            if copy.log_start_offset > log.log_start_offset:
                raise CorruptLog(f"the copy begins at offset {copy.log_start_offset} instead of {log.log_start_offset}")
            move = Move(partition, topic_id, directory, copy, self._quota)
            # Only a copy that has replaced its log gets records that the log lacks: the stop came between the two
            # renames.
            if copy.log_end_offset > log.log_end_offset:
                await self._complete(move)
            else:
                self._go(move)
        except (CorruptLog, OSError) as damage:
            await self._anew(partition, topic_id, directory, damage)

    async def _complete(self, move: Move) -> None:
        """Replace the log by a copy that is longer than the log.

        If the log's directory cannot be renamed, the partition goes offline. Otherwise the log would lack records of
        the copy, and the copy would lack the records that are appended to the log.
        """
        try:
            await self._take_over(move)
        except ApiError as refusal:
            logger.error(
                "%s: going offline: the copy in %s is longer than the log and cannot replace it: %s; restart"
                " the broker once the disk allows the rename",
                move.key,
                move.directory.path,
                refusal,
            )
            # Appends would go on in the shorter log, and assign offsets anew that the copy has acknowledged.
            move.partition.directory.set_offline(move.key)
            move.partition.log = None
            move.directory.futures.logs.pop(move.key).abandon()

    async def _anew(self, partition: Partition, topic_id: bytes, directory: LogDirectory, damage: Exception) -> None:
        """Replace a damaged copy by an empty one."""
        logger.warning("%s: copying to %s again, as the copy is unusable: %s", partition.key, directory.path, damage)
        try:
            directory.futures.drop(partition.key)
            await self._begin(partition, topic_id, directory)
        except OSError as refusal:
            directory.fail(refusal)

    def forget(self, partition: Partition) -> None:
        """End the move of a partition, if there is one, and delete its copy."""
        move = self._under_way.pop(partition, None)
        if move is not None:
            move.end()
            self._put_away(move.directory, partition)

    async def restart(self, partition: Partition) -> None:
        """Begin the copy of a partition anew, if there is one, after the partition's log was truncated.

        The copy may hold records that the log has no more.
        """
        move = self._under_way.pop(partition, None)
        if move is not None:
            move.end()
            damage = CorruptLog("the log was truncated meanwhile")
            await self._anew(partition, move.topic_id, move.directory, damage)

    def configure(self, partition: Partition) -> None:
        """Give the copy the configs of its log, which have changed."""
        move = self._under_way.get(partition)
        if move is not None and partition.log is not None:
            move.log.configure(partition.log.config)

    async def run(self, assign: Assign) -> None:
        """Run all moves until cancelled. Each log directory receives one partition at a time."""
        async with trio.open_nursery() as nursery:
            for directory in self._places.directories:
                nursery.start_soon(self._run_into, directory, assign)

    async def _run_into(self, directory: LogDirectory, assign: Assign) -> None:
        while True:
            move = next(self.into(directory), None)
            if move is None:
                await self._begun.wait()
            else:
                await trio.lowlevel.checkpoint()
                await self._go_on(move, assign)

    def _go(self, move: Move) -> None:
        logger.info("%s: moving from %s to %s", move.key, move.partition.directory.path, move.directory.path)
        self._under_way[move.partition] = move
        self._begun.set()
        self._begun = trio.Event()

    async def _go_on(self, move: Move, assign: Assign) -> None:
        """Run a move until the copy has replaced the log, the move fails, or the move is ended by `forget`."""
        try:
            await self._approach(move)
            async with self._changing:
                if self._is_under_way(move):
                    await self._finish(move, assign)
        except (ApiError, CorruptLog, OSError) as error:
            if self._is_under_way(move):
                logger.error("%s: the move to %s failed: %s", move.key, move.directory.path, error)
                if isinstance(error, OSError):
                    move.directory.fail(error)
                self._give_up(move)
        finally:
            move.end_throttle()

    def _is_under_way(self, move: Move) -> bool:
        return self._under_way.get(move.partition) is move

    async def _approach(self, move: Move) -> None:
        """Copy until a round copies at most HAND_OVER_BYTES_MAX.

        Throttle producers that append faster than the log is copied, unless the quota of copies is the reason.
        """
        before: int | None = None
        while self._is_under_way(move):
            copied = await move.catch_up()
            if copied <= HAND_OVER_BYTES_MAX:
                return
            if move.was_limited:
                move.end_throttle()
            # Each round copies what was appended during the last one. If that does not halve, it never ends by itself.
            elif before is not None and copied > before // 2:
                move.throttle()
            before = copied

    async def _finish(self, move: Move, assign: Assign) -> None:
        # From here on producers may have to wait, so the quota of copies no longer counts.
        move.is_urgent = True
        # A crash during the replacement may leave the log only in the directory that the metadata names: see 2 of
        # `move`.
        await assign({(move.topic_id, move.partition.index): self._places.id_of(move.directory)})
        await self._approach(move)
        move.pause()
        while self._is_under_way(move):  # a truncation of the log begins another copy, as another move
            if move.is_level():
                await self._take_over(move)
                return
            await trio.lowlevel.checkpoint()
            await move.catch_up()

    async def _take_over(self, move: Move) -> None:
        before = move.take_over()
        self._under_way.pop(move.partition, None)
        move.end_throttle()
        self._places.moved(move.key, move.directory)
        with trio.CancelScope(shield=True):
            await before.forget_released(move.key)
            await move.directory.settle(move.key)
        logger.info("%s: moved to %s", move.key, move.directory.path)

    def _give_up(self, move: Move) -> None:
        """End a move that failed. The copy of an offline log is kept, since it may be the only readable replica."""
        if move.partition.is_online:
            self.forget(move.partition)
        else:
            del self._under_way[move.partition]
            move.directory.futures.logs.pop(move.key).abandon()

    def _put_away(self, directory: LogDirectory, partition: Partition) -> None:
        try:
            directory.futures.drop(partition.key)
        except OSError as refusal:
            directory.fail(refusal)
