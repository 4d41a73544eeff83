"""The opener of the logs of this broker's partitions, which retries logs that could not be opened.

At start, a partition that this broker had before may have no directory. The partition is lost if the metadata assigns
it to a log directory that is missing. It is also lost if the metadata assigns it to no log directory while any log
directory is missing, or if a checkpoint says that it may have had records. A lost partition stays offline and keeps its
checkpoint entries, unless other replicas exist: it is then fetched anew, like a damaged one (`replica/care/repairs`).
Any other partition without a directory was empty and is created again.

A partition of several replicas is therefore listed in a checkpoint, durably, before this broker leads or follows it.
An only replica is not: it is also created again if the broker was killed within
`replica.high.watermark.checkpoint.interval.ms` after its first record, since no checkpoint has that record. A power
failure right after the creation of its topic leaves the same state.
"""

from __future__ import annotations

import logging

from pykbroker.core.descriptors import Descriptors
from pykbroker.core.errors import ApiError
from pykbroker.core.metadata.image import MetadataImage
from pykbroker.core.replication.repair import Repair, RepairPhase
from pykbroker.core.topic_partition import TopicPartition
from pykbroker.replica.partition.own_broker import OwnBroker
from pykbroker.replica.partition.partition import Partition
from pykbroker.replica.placing.places import Places
from pykbroker.storage.directory.log_directory import LogDirectory
from pykbroker.storage.files.errors import CorruptLog
from pykbroker.storage.files.refusals import is_of_the_disk
from pykbroker.storage.segments.config import LogConfig
from wire.error_codes import ErrorCode

logger = logging.getLogger(__name__)


class PartitionOpener:
    """An opener of partitions' logs, which also creates the logs of new partitions."""

    def __init__(self, broker: OwnBroker, places: Places, descriptors: Descriptors) -> None:
        self._broker, self._places, self._descriptors = broker, places, descriptors
        self._lost: dict[TopicPartition, tuple[LogDirectory, str]] = {}
        self._unopened: dict[TopicPartition, bytes] = {}
        self._without_descriptor: list[TopicPartition] = []
        self._created: dict[Partition, None] = {}

    def find_lost(self, metadata: MetadataImage) -> None:
        """Find, at start, the partitions whose logs are lost and must not be created again."""
        node_id = self._broker.node_id
        last = metadata.cluster.brokers.get(node_id)
        lost = last is not None and self._places.lost(last.directories)
        for topic in metadata.topics.by_name.values():
            for index, placed in topic.partitions.items():
                if node_id in placed.replicas:
                    key = TopicPartition(topic.name, index)
                    is_only = len(placed.replicas) == 1
                    missing = self._places.missing(key, placed.directory(node_id), lost=lost, is_only=is_only)
                    if missing is not None:
                        self._lost[key] = missing
                        missing[0].lost.add(key)

    def is_lost(self, key: TopicPartition) -> bool:
        """Whether the log of this partition was lost before this start."""
        return key in self._lost

    @property
    def unopened(self) -> list[tuple[bytes, TopicPartition]]:
        """Return the topic ids and keys of the partitions whose opening is retried, in order."""
        return sorted((topic_id, key) for key, topic_id in self._unopened.items())

    @property
    def is_full(self) -> bool:
        """Whether one more log would take a file descriptor that is reserved for clients."""
        return self._places.open_logs >= self._descriptors.partitions_max

    async def open(
        self, key: TopicPartition, topic_id: bytes, assigned: bytes, config: LogConfig, *, is_only: bool = False
    ) -> Partition:
        """Return the partition with its opened or newly created log.

        If the log cannot be opened or created, the partition is offline and the reason is logged. `assigned` is the id
        of the log directory that the metadata names. `is_only` is true for the only replica of a partition.
        """
        if key in self._lost:
            directory, why = self._lost[key]
            logger.error("%s: staying offline in %s: %s", key, directory.path, why)
            return self._damaged(key, directory)
        directory, is_new = self._places.find(key, assigned)
        if self.is_full:
            return self._leave_closed(key, topic_id, directory, is_new)
        try:
            log = await (directory.create_log if is_new else directory.open_log)(key, topic_id, config)
            # With this config only durable records are committed, and recovery may have found others.
            if config.flush_before_ack:
                await log.flush()
        except (CorruptLog, OSError) as error:
            if key not in self._unopened:
                logger.error("%s: staying offline in %s: %s", key, directory.path, error)
            if is_new:
                # The next attempt may choose another directory.
                self._places.forget(key)
                self._unopened[key] = topic_id
            elif isinstance(error, CorruptLog) or is_of_the_disk(error):
                return self._damaged(key, directory)
            return Partition(key, None, directory, self._broker)
        self._unopened.pop(key, None)
        partition = Partition(key, log, directory, self._broker)
        partition.configure(config)
        # Recovery may have truncated the log below its checkpointed high watermark.
        checkpointed = 0 if is_new else min(directory.high_watermark(key), log.log_end_offset)
        partition.high_watermark = max(checkpointed, log.log_start_offset)
        if is_new and not is_only:
            self._created[partition] = None
        if directory.damaged.is_anew(key):
            partition.repair = Repair(RepairPhase.BEGUN)
            self._broker.damage.set()
        return partition

    def is_created(self, partition: Partition) -> bool:
        """Whether the log of a partition, one of several replicas, was created, and is not listed yet."""
        return partition in self._created

    async def list_created(self) -> list[Partition]:
        """List the partitions of several replicas whose logs were created since the last call, and return them.

        If the disk refuses, a start takes a partition without a directory for an empty one until the next checkpoint.
        """
        created, self._created = list(self._created), {}
        for directory in self._places.directories:
            keys = [partition.key for partition in created if partition.directory is directory]
            try:
                if keys:
                    await directory.root_checkpoints.list_created(keys)
            except OSError as refusal:
                logger.warning("%s: %d new partitions cannot be listed: %s", directory.path, len(keys), refusal)
                directory.fail(refusal)
        return created

    def _damaged(self, key: TopicPartition, directory: LogDirectory) -> Partition:
        partition = Partition(key, None, directory, self._broker)
        partition.repair = Repair()
        self._broker.damage.set()
        return partition

    async def begin_anew(self, partition: Partition, config: LogConfig, *, is_last: bool) -> bool:
        """Set the log of a damaged partition aside, and begin an empty one. Return whether that succeeded.

        The new log is in another directory if the old one has failed or does not have the partition. `is_last` is true
        if other replicas may lack records of the old log.
        """
        key, before = partition.key, partition.directory
        target = self._places.emptiest() if before.failed is not None or key in self._lost else before
        if target.failed is not None or self.is_full:
            return False
        # `set_aside` closes the files of the log, and other tasks run until it returns.
        partition.log = None
        try:
            if before.failed is None:
                high_watermark = max(partition.high_watermark, before.high_watermark(key))
                await before.damaged.set_aside(key, high_watermark, is_last=is_last)
            else:
                # A failed disk takes no rename. After its repair, a start finds this log as a twin
                # (`Places.sort_twins`).
                before.damaged.let_go(key)
        except OSError as refusal:
            before.fail(refusal)
            return False
        try:
            log = await target.create_log(key, partition.topic_id, config, is_anew=True)
            await target.root_checkpoints.list_created([key])
        except OSError as refusal:
            logger.error("%s: cannot be fetched anew into %s: %s; retrying", key, target.path, refusal)
            target.fail(refusal)
            return False
        logger.info("%s: fetching anew from its leader into %s", key, target.path)
        self._found(key)
        self._places.moved(key, target)
        partition.log, partition.directory = log, target
        partition.high_watermark = log.log_start_offset
        partition.refused.forget()
        partition.configure(config)
        partition.repair = Repair(RepairPhase.BEGUN)
        return True

    def _leave_closed(self, key: TopicPartition, topic_id: bytes, directory: LogDirectory, is_new: bool) -> Partition:
        """Return an offline partition, which goes online once a file descriptor is free.

        If the log needs recovery, it is recovered at that time.
        """
        self._without_descriptor.append(key)
        self._unopened[key] = topic_id
        if is_new:
            self._places.forget(key)
        elif not directory.clean:
            directory.set_offline(key)
        return Partition(key, None, directory, self._broker)

    def forget(self, key: TopicPartition) -> None:
        """Remove a partition whose topic was deleted from the partitions to retry."""
        self._places.forget(key)
        self._found(key)
        self._unopened.pop(key, None)

    def _found(self, key: TopicPartition) -> None:
        """Note that a partition is lost no more: it has a new log, or is deleted."""
        if key in self._lost:
            directory, _ = self._lost.pop(key)
            directory.lost.discard(key)

    def log_without_descriptor(self) -> None:
        """Log how many partitions have failed to open since the last call for lack of a file descriptor, if any."""
        if self._without_descriptor:
            logger.error(
                "%d partitions, of which %s is the first, stay offline: %s; %d partitions fit."
                " Raise the limit of open files (ulimit -n) and restart, or delete topics.",
                len(self._without_descriptor),
                self._without_descriptor[0],
                self._descriptors.limit_text(),
                self._descriptors.partitions_max,
            )
            self._without_descriptor.clear()

    def check_room_for_copy(self, partition: Partition) -> None:
        """Raise KAFKA_STORAGE_ERROR unless a file descriptor is free for the copy of a log."""
        if self.is_full:
            logger.warning(
                "%s: not moving to another log directory, as no file descriptor is free for the copy: %s",
                partition.key,
                self._descriptors.limit_text(),
            )
            raise ApiError(ErrorCode.KAFKA_STORAGE_ERROR)
