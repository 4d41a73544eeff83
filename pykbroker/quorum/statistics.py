"""A frozen snapshot of the controller's counters, made on demand."""

from __future__ import annotations

import msgspec

from pykbroker.core.metadata.image import MetadataImage


class ControllerDuty(msgspec.Struct, frozen=True):
    """Numbers that only the active controller counts, as of its last decision.

    `offline_partitions` have no leader. Of `unbalanced_partitions`, the preferred replica is not the leader.
    `unclean_elections` is the number of leaders that were elected outside of ISR and ELR since the controller's start.
    """

    offline_partitions: int
    unbalanced_partitions: int
    unclean_elections: int


class ControllerStatistics(msgspec.Struct, frozen=True):
    """Statistics of the controller: the sizes of the applied metadata, and the requests that wait for a commit."""

    epoch: int
    offset: int
    """The offset of the last record in the current image."""
    brokers: int
    topics: int
    partitions: int
    waiting: int
    """The number of callers whose change is not committed yet."""
    fenced_brokers: int = 0
    duty: ControllerDuty | None = None
    """The statistics of the active controller, or None on other nodes."""

    @classmethod
    def of(
        cls, epoch: int, image: MetadataImage, waiting: int, duty: ControllerDuty | None = None
    ) -> ControllerStatistics:
        partitions = sum(len(topic.partitions) for topic in image.topics.by_name.values())
        brokers = image.cluster.brokers
        fenced = sum(broker.fenced for broker in brokers.values())
        return cls(epoch, image.offset, len(brokers), len(image.topics), partitions, waiting, fenced, duty)
