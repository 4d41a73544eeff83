"""A frozen snapshot of the controller's counters, made on demand."""

from __future__ import annotations

import msgspec

from pykbroker.core.metadata.image import MetadataImage


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

    @classmethod
    def of(cls, epoch: int, image: MetadataImage, waiting: int) -> ControllerStatistics:
        """Return the statistics of an applied image."""
        partitions = sum(len(topic.partitions) for topic in image.topics.by_name.values())
        return cls(epoch, image.offset, len(image.cluster.brokers), len(image.topics), partitions, waiting)
