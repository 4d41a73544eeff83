"""The default partitioner: the hash of the key, or any partition with a leader."""

from __future__ import annotations

import random
from typing import Any

from pykbroker.core.producer.murmur2 import murmur2 as murmur2
from pykbroker.kafka.partitioner.abc import Partitioner


class DefaultPartitioner(Partitioner):
    """The partition of a record's key, or a random one with a leader for a record without a key."""

    def partition(
        self,
        topic: str,
        key: Any,
        serialized_key: bytes | None,
        value: Any,
        serialized_value: bytes | None,
        cluster: Any,
    ) -> int:
        """Return the partition of a record. Raise ValueError for a topic that `cluster` does not have."""
        if topic not in cluster.topics():
            raise ValueError(f"Topic {topic} not found in ClusterMetadata")
        partitions: list[int] = sorted(cluster.partitions_for_topic(topic))
        if serialized_key is not None:
            return partitions[(murmur2(serialized_key) & 0x7FFF_FFFF) % len(partitions)]
        available: list[int] = sorted(cluster.available_partitions_for_topic(topic))
        return random.choice(available or partitions)
