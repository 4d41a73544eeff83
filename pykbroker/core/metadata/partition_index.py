"""The partitions of each broker, so that a decision about a broker does not walk through all partitions."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable

from pykbroker.core.metadata.image import MetadataImage, PartitionImage
from pykbroker.core.topic_partition import TopicIdPartition
from wire.sentinels import NO_LEADER

OrderedPartitions = dict[TopicIdPartition, None]
"""A set of partitions in the order of their last addition, which is the same in every process."""


class PartitionIndex:
    """The partitions by the members of their ISR and ELR and by their leader.

    `led[NO_LEADER]` are the partitions without a leader, and `unbalanced` those that another replica than the preferred
    one leads. `leadership_lost` has the offset of the last record that took a leadership from each broker.
    `unclean_elections` counts the leaders that were elected outside of ISR and ELR.
    """

    def __init__(self) -> None:
        self.isr: dict[int, OrderedPartitions] = defaultdict(dict)
        self.elr: dict[int, OrderedPartitions] = defaultdict(dict)
        self.led: dict[int, OrderedPartitions] = defaultdict(dict)
        self.unbalanced: OrderedPartitions = {}
        self.leadership_lost: dict[int, int] = {}
        self.unclean_elections = 0

    @classmethod
    def of(cls, image: MetadataImage) -> PartitionIndex:
        index = cls()
        for topic in image.topics.by_id.values():
            for number, partition in topic.partitions.items():
                index.update((topic.id, number), None, partition, image.offset)
        return index

    def update(
        self, key: TopicIdPartition, old: PartitionImage | None, new: PartitionImage | None, offset: int
    ) -> None:
        """Replace a partition. `old` is None for a new partition, and `new` for a deleted one."""
        _move(self.isr, key, () if old is None else old.isr, () if new is None else new.isr)
        _move(self.elr, key, () if old is None else old.elr, () if new is None else new.elr)
        before, after = None if old is None else old.leader, None if new is None else new.leader
        if before != after:
            if before is not None:
                self.led[before].pop(key, None)
                self.leadership_lost[before] = offset
            if after is not None:
                self.led[after][key] = None
                if old is not None and after != NO_LEADER and after not in old.isr and after not in old.elr:
                    self.unclean_elections += 1
        if new is None or new.leader == new.replicas[0]:
            self.unbalanced.pop(key, None)
        else:
            self.unbalanced[key] = None


def _move(members: dict[int, OrderedPartitions], key: TopicIdPartition, old: Iterable[int], new: Iterable[int]) -> None:
    if old != new:
        for broker_id in old:
            if broker_id not in new:
                members[broker_id].pop(key, None)
        for broker_id in new:
            members[broker_id][key] = None
