"""The repairs of this broker's replicas that are damaged, missing, or in a log directory that failed.

`core/replication/repair` decides about each step. A repair ends with the new replica in the ISR. None begins before
metadata.version 3.7-IV2, in which the controller learns of a replica that cannot be served.
"""

from __future__ import annotations

import logging

import trio

from pykbroker.core.errors import ApiError
from pykbroker.core.ids import LOST
from pykbroker.core.metadata.image import PartitionImage
from pykbroker.core.replication.repair import Repair, RepairPhase, RepairStep, ReplicaStanding
from pykbroker.core.topic_partition import TopicIdPartition
from pykbroker.replica.care.reporting import NoteDirectories, can_report, placed_here
from pykbroker.replica.partition.partition import Partition
from pykbroker.replica.replicas import Replicas
from pykbroker.storage.directory.log_directory import LogDirectory
from pykbroker.world.portions import portions

logger = logging.getLogger(__name__)

ROUND_S, GAP_S = 0.5, 0.02
"""The longest and the shortest time between two looks at the repairs that make progress."""
SWEEP_S = 5.0
"""The time between two looks at all partitions, for a log whose flush has failed."""


class Repairs:
    """The repairs of a broker's replicas."""

    def __init__(self, replicas: Replicas) -> None:
        self._replicas, self._directories = replicas, replicas.places.directories
        self._node_id = replicas.broker.node_id
        self._unreportable: set[Partition] = set()
        """The damaged replicas that the last round could not report."""

    async def run(self, report: NoteDirectories) -> None:
        """Repair until cancelled."""
        async with trio.open_nursery() as nursery:
            for directory in self._directories:
                nursery.start_soon(self._note_failure, directory)
            while True:
                await self._find_failed()
                is_active = await self.round(report)
                with trio.move_on_after(ROUND_S if is_active else SWEEP_S):
                    await self._replicas.broker.damage.wait()
                self._replicas.broker.damage = trio.Event()
                await trio.sleep(GAP_S)

    async def _note_failure(self, directory: LogDirectory) -> None:
        await directory.failure.wait()
        self._replicas.broker.damage.set()

    async def _find_failed(self) -> None:
        """Begin the repair of replicas whose log directory, or whose last flush, has failed."""
        for few in portions(self._replicas.all_online()):
            for partition in few:
                if not partition.is_online and not _is_damaged(partition):
                    partition.repair = Repair()
            await trio.lowlevel.checkpoint()

    async def round(self, report: NoteDirectories) -> bool:
        """Take the next step of each repair. Return whether a repair makes progress."""
        is_active = False
        complete: list[Partition] = []
        reported: dict[TopicIdPartition, bytes] = {}
        unreportable: set[Partition] = set()
        for partition in self._all():
            # New metadata must not change the role of the partition between the decision and its effect.
            async with self._replicas.changing:
                placed = placed_here(self._replicas, partition)
                if placed is None or partition.repair is None:
                    continue
                if can_report(self._replicas) or not _is_damaged(partition) or len(placed.replicas) == 1:
                    step = await self._take_step(partition, partition.repair, placed, reported)
                else:
                    step = RepairStep.STAY_OFFLINE
                    unreportable.add(partition)
            is_active |= step is not RepairStep.STAY_OFFLINE
            if step is RepairStep.END:
                complete.append(partition)
        self._note_unreportable(unreportable)
        report(reported)
        for partition in complete:
            await self._end(partition)
        return is_active

    def _note_unreportable(self, partitions: set[Partition]) -> None:
        for partition in sorted(partitions - self._unreportable, key=lambda one: one.key):
            logger.error(
                "%s: its log cannot be served, which the controller cannot learn below metadata.version 3.7-IV2. The"
                " replica stays offline, and so does the partition if it leads. Raise metadata.version"
                " (kafka-features.sh upgrade): the log is then fetched anew from another replica.",
                partition.key,
            )
        self._unreportable = partitions

    async def _take_step(
        self, partition: Partition, repair: Repair, placed: PartitionImage, reported: dict[TopicIdPartition, bytes]
    ) -> RepairStep:
        key, here = (partition.topic_id, partition.index), self._replicas.places.id_of(partition.directory)
        step = self._next_step(partition, repair, placed)
        if step is RepairStep.VERIFY and self._is_complete(partition, repair):
            repair.phase = RepairPhase.COMPLETE
            step = self._next_step(partition, repair, placed)
        match step:
            case RepairStep.LEAVE:
                await self._replicas.fetchers.unfollow(partition)
                if partition.directory.failed is None or not self._is_assigned_online(placed, here):
                    reported[key] = LOST  # a heartbeat reports a directory that has failed
                    if partition.directory.failed is None:  # otherwise one line named the directory
                        logger.warning(
                            "%s: reporting its log as lost, so that the replica leaves the ISR", partition.key
                        )
                # The new log is still fetched, since only a complete one may return to the ISR.
                if repair.is_fetched:
                    await self._replicas.follow(partition, placed)
            case RepairStep.BEGIN:
                anew = await self._begin(partition, repair)
                if anew is not None:
                    return await self._take_step(partition, anew, placed, reported)
            case RepairStep.FETCH:
                await self._replicas.follow(partition, placed)
            case RepairStep.REPORT:
                reported[key] = here
        return step

    def _is_assigned_online(self, placed: PartitionImage, directory_id: bytes) -> bool:
        """Whether the metadata has the replica in this directory, and has the directory online."""
        own = self._replicas.metadata.cluster.brokers.get(self._node_id)
        return placed.directory(self._node_id) == directory_id and (own is None or own.is_online(directory_id))

    def _next_step(self, partition: Partition, repair: Repair, placed: PartitionImage) -> RepairStep:
        node_id, assigned = self._node_id, placed.directory(self._node_id)
        own = self._replicas.metadata.cluster.brokers.get(node_id)
        standing = ReplicaStanding(
            in_isr=node_id in placed.isr,
            is_online=own is None or own.is_online(assigned),
            is_reported=assigned == self._replicas.places.id_of(partition.directory),
            is_lost=assigned == LOST,
        )
        return repair.step(placed, node_id, standing, partition.fetched_epoch)

    def _all(self) -> list[Partition]:
        topics = self._replicas.topics()
        return [one for topic in topics for one in topic.partitions.values() if one.repair is not None]

    async def _begin(self, partition: Partition, repair: Repair) -> Repair | None:
        """Replace the damaged log of a partition by an empty one, and return its repair.

        If the disk fails, the partition stays offline, and the next round tries again.
        """
        replicas = self._replicas
        replicas.moves.forget(partition)
        await replicas.fetchers.unfollow(partition)
        config = replicas.log_config(partition.topic, replicas.metadata)
        return partition.repair if await replicas.opener.begin_anew(partition, config, is_last=repair.is_last) else None

    def _is_complete(self, partition: Partition, repair: Repair) -> bool:
        fetchers = self._replicas.fetchers
        if repair.since is None:
            # Only a fetch from now on has found the replica in the committed ISR: see 5 of `core/replication/repair`.
            repair.since = fetchers.newest
            return False
        return fetchers.is_level(partition, repair.since)

    async def _end(self, partition: Partition) -> None:
        """Make the new log durable, and remove the damaged one."""
        log, repair = partition.log, partition.repair
        if log is None:
            return
        try:
            with partition.errors():
                await log.flush()
        except ApiError as refusal:
            logger.warning("%s: the new log cannot be flushed: %s", partition.key, refusal)
            return
        # The new log may have been found damaged during the flush.
        if partition.repair is repair and log is partition.log:
            for directory in self._directories:
                if directory.failed is None:
                    await directory.damaged.end(partition.key, partition.high_watermark)
            partition.repair = None
            logger.info("%s: repaired: the log was fetched anew, and the replica is in the ISR", partition.key)


def _is_damaged(partition: Partition) -> bool:
    return partition.repair is not None and partition.repair.phase is RepairPhase.DAMAGED
