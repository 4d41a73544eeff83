"""The replicas of this broker that refuse appends, since their disk is full or their log could not be opened.

`core/replication/unwritable` decides about each step. Below metadata.version 3.7-IV2, in which the controller learns of
a replica that cannot be served, all replicas keep their roles.
"""

from __future__ import annotations

import logging

import trio

from pykbroker.core.ids import LOST
from pykbroker.core.metadata.image import PartitionImage
from pykbroker.core.replication.unwritable import Unwritable, UnwritableStep
from pykbroker.core.topic_partition import TopicIdPartition
from pykbroker.replica.care.reporting import NoteDirectories, can_report, placed_here
from pykbroker.replica.partition.partition import Partition
from pykbroker.replica.replicas import Replicas
from pykbroker.storage.directory.log_directory import LogDirectory
from pykbroker.world.portions import portions

logger = logging.getLogger(__name__)

LOOK_S = 0.5
"""The time in seconds between two looks at the replicas that refuse appends, and between two probes of a directory."""


class UnwritableReplicas:
    """The replicas that refuse appends. Each partition has its refusals."""

    def __init__(self, replicas: Replicas) -> None:
        self._replicas, self._broker = replicas, replicas.broker
        self._lost: dict[Partition, LogDirectory] = {}
        """The replicas that the last round has reported as lost, or has found lost, with their directories."""

    async def run(self, report: NoteDirectories) -> None:
        """Look at the replicas until cancelled."""
        while True:
            if not self._all():
                await self._broker.refusal.wait()
            self._broker.refusal = trio.Event()
            await trio.sleep(LOOK_S)
            await self.round(report)

    async def round(self, report: NoteDirectories) -> None:
        """Take the next step of each replica."""
        reported: dict[TopicIdPartition, bytes] = {}
        lost: dict[Partition, LogDirectory] = {}
        rooms: dict[LogDirectory, bool] = {}
        for few in portions(self._all()):
            for partition in few:
                unwritable, placed = partition.unwritable, placed_here(self._replicas, partition)
                if unwritable is None:
                    continue
                # A repair reports the replica's directory by itself.
                if placed is None or partition.repair is not None or not can_report(self._replicas):
                    partition.unwritable = None
                    continue
                step, directory = self._step(partition, unwritable, placed), partition.directory
                if step is UnwritableStep.PROBE:
                    step = await self._probed(partition, unwritable, rooms)
                if step is UnwritableStep.LEAVE:
                    reported[partition.topic_id, partition.index] = LOST
                elif step is UnwritableStep.RETURN:
                    reported[partition.topic_id, partition.index] = self._replicas.places.id_of(directory)
                elif step is UnwritableStep.END:
                    partition.unwritable = None
                if step is UnwritableStep.LEAVE or placed.directory(self._broker.node_id) == LOST:
                    lost[partition] = directory
            await trio.lowlevel.checkpoint()
        self._log_changes(lost)
        report(reported)

    def _all(self) -> list[Partition]:
        topics = self._replicas.topics()
        return [one for topic in topics for one in topic.partitions.values() if one.unwritable is not None]

    async def _probed(
        self, partition: Partition, unwritable: Unwritable, rooms: dict[LogDirectory, bool]
    ) -> UnwritableStep:
        """Return RETURN for a replica that lacks nothing if its log directory has room, and WAIT otherwise.

        Return WAIT, too, for a replica that was deleted or moved during the probe.
        """
        directory = partition.directory
        if directory not in rooms:
            rooms[directory] = await directory.has_room()
        is_current = partition.unwritable is unwritable and partition.directory is directory
        return UnwritableStep.RETURN if rooms[directory] and is_current else UnwritableStep.WAIT

    def _step(self, partition: Partition, unwritable: Unwritable, placed: PartitionImage) -> UnwritableStep:
        broker = self._broker
        electable = self._replicas.metadata.cluster.electable(placed) - {broker.node_id}
        log, leading = partition.log, partition.leading
        # See 2 of `core/replication/unwritable`.
        if log is not None and leading is not None:
            electable &= leading.caught_up(log.log_end_offset)
        return unwritable.step(
            placed, broker.node_id, broker.now_ms, partition.written_offset, has_successor=bool(electable)
        )

    def _log_changes(self, lost: dict[Partition, LogDirectory]) -> None:
        """Log how many replicas of each directory were reported as lost, and how many have returned."""
        before, self._lost = self._lost, lost
        for directory in self._replicas.places.directories:
            gone = [one.key for one in lost if lost[one] is directory and one not in before]
            back = [one.key for one in before if before[one] is directory and one not in lost]
            if gone:
                logger.error(
                    "%s takes no records of %d replicas, of which %s is the first: reporting them as lost, so that"
                    " other replicas lead; free space on the disk",
                    directory.path,
                    len(gone),
                    min(gone),
                )
            if back:
                logger.info(
                    "%s takes the records of %d replicas again, of which %s is the first",
                    directory.path,
                    len(back),
                    min(back),
                )
