"""Questions to the metadata about a replica whose log directory may be reported to the controller (KIP-858)."""

from __future__ import annotations

from collections.abc import Callable, Mapping

from pykbroker.core.metadata.context import METADATA_FEATURE
from pykbroker.core.metadata.image import PartitionImage
from pykbroker.core.metadata.record import DIRECTORIES_LEVEL
from pykbroker.core.topic_partition import TopicIdPartition
from pykbroker.replica.partition.partition import Partition
from pykbroker.replica.replicas import Replicas

NoteDirectories = Callable[[Mapping[TopicIdPartition, bytes]], None]
"""A function that reports soon to the controller the log directory id of each of these partitions."""


def can_report(replicas: Replicas) -> bool:
    """Whether the controller learns in which directories replicas are: from metadata.version 3.7-IV2 on."""
    return replicas.metadata.features.level(METADATA_FEATURE) >= DIRECTORIES_LEVEL


def placed_here(replicas: Replicas, partition: Partition) -> PartitionImage | None:
    """Return the metadata of a partition, or None if this broker has no replica of it any more."""
    image = replicas.metadata.topics.by_id.get(partition.topic_id)
    placed = None if image is None else image.partitions.get(partition.index)
    return placed if placed is not None and replicas.broker.node_id in placed.replicas else None
