"""The replicas of a broker with two simulated disks, for tests of moves between log directories."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import trio

from pykbroker.core.config.config import BrokerConfig
from pykbroker.core.config.live_config import LiveConfig
from pykbroker.core.ids import UNASSIGNED
from pykbroker.core.metadata.image import ConfigsImage, Delta, MetadataImage, PartitionImage, TopicImage, TopicsImage
from pykbroker.core.topic_partition import TopicIdPartition, TopicPartition
from pykbroker.replica.partition.own_broker import OwnBroker
from pykbroker.replica.partition.partition import Partition
from pykbroker.replica.placing.places import Places
from pykbroker.replica.replicas import Replicas
from pykbroker.replica.topic_configs import TopicConfigs
from pykbroker.sim.disk import SimDisk
from pykbroker.sim.volume import Volume
from pykbroker.storage.directory.log_directory import LogDirectory

NOW_MS = 1_700_000_000_000
TOPIC_ID = bytes(range(16))
IDS = (b"1" * 16, b"2" * 16)
PATHS = ("one", "two")


async def inline(function: Any, *args: Any) -> Any:
    """Run a function at once, in place of a worker thread."""
    await trio.lowlevel.checkpoint()
    return function(*args)


class Host:
    """The replicas of broker 1 with two log directories, on a simulated disk each.

    Partition t-0 has replicas on `brokers`, in this `isr`.
    """

    def __init__(
        self, volumes: tuple[Volume, ...], assigned: bytes, note: Callable[[], None] = lambda: None, **configs: str
    ) -> None:
        self.assigned, self._note = assigned, note
        self.disks = tuple(SimDisk(volume, path) for volume, path in zip(volumes, PATHS, strict=True))
        self._configs = {"internal.segment.bytes": "1000"} | configs
        self.topic_id = TOPIC_ID
        self.brokers: tuple[int, ...] = (1,)
        self.isr: tuple[int, ...] = (1,)

    async def open(self) -> Partition:
        self.directories = directories = tuple(
            [
                await LogDirectory.open(disk, off_loop=inline, wall_ms=lambda: NOW_MS, jitter=lambda: 0.5)
                for disk in self.disks
            ]
        )
        configs = TopicConfigs(LiveConfig(BrokerConfig.from_mapping({})))
        self.replicas = Replicas(OwnBroker(1), Places(directories, IDS), configs)
        directory_ids = (self.assigned, *(UNASSIGNED for _ in self.brokers[1:]))
        placed = PartitionImage(self.brokers, self.isr, self.isr[0], 0, 0, directories=directory_ids)
        topic = TopicImage("t", self.topic_id, {0: placed})
        overrides = {(2, "t"): self._configs}
        await self.replicas.apply(
            Delta.since_nothing(
                MetadataImage(
                    offset=1, topics=TopicsImage({"t": topic}, {self.topic_id: topic}), configs=ConfigsImage(overrides)
                )
            )
        )
        return self.replicas.partition(TopicPartition("t", 0))

    async def assign(self, placed: Mapping[TopicIdPartition, bytes]) -> None:
        (self.assigned,) = placed.values()
        self._note()
        await trio.lowlevel.checkpoint()

    async def finish_moves(self, partition: Partition) -> None:
        """Wait until the partition is no longer being moved."""
        if any(list(self.replicas.moves.into(one)) for one in self.replicas.moves._places.directories):
            await self.move_away(partition)

    async def move_away(self, partition: Partition) -> None:
        before = partition.directory
        async with trio.open_nursery() as nursery:
            nursery.start_soon(self.replicas.moves.run, self.assign)
            while partition.directory is before or not is_named(partition):
                await trio.lowlevel.checkpoint()
            nursery.cancel_scope.cancel()


def is_named(partition: Partition) -> bool:
    return partition.log is not None and partition.log.directory == "t-0"
