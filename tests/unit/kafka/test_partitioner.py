"""The partitioners of kafka-python: the same partitions for keys, and one with a leader for records without a key."""

from __future__ import annotations

from collections.abc import Collection

import kafka
import pytest

from pykbroker.client.cluster import Cluster, ClusterPartition, ClusterTopic
from pykbroker.kafka.partitioner import DefaultPartitioner, StickyPartitioner, murmur2
from pykbroker.kafka.producer import PartitionerView


def view_of(topic: str, count: int, without_leader: Collection[int] = ()) -> PartitionerView:
    """Return a view of a cluster with one topic."""
    partitions = tuple(ClusterPartition(index, None if index in without_leader else 1) for index in range(count))
    return PartitionerView(Cluster(topics={topic: ClusterTopic(topic, partitions=partitions)}))


@pytest.mark.parametrize("key", [b"", b"key", "schlüssel".encode(), bytes(range(256))])
def test_the_default_partitioner_chooses_as_that_of_kafka_python(key: bytes) -> None:
    view = view_of("topic", 7)
    choice = ("topic", None, key, None, b"", view)
    assert DefaultPartitioner().partition(*choice) == kafka.partitioner.DefaultPartitioner().partition(*choice)
    assert murmur2(key) == kafka.partitioner.murmur2(key)


def test_the_default_partitioner_chooses_a_partition_with_a_leader_for_a_record_without_a_key() -> None:
    view = view_of("topic", 3, without_leader={0, 2})
    assert {StickyPartitioner().partition("topic", None, None, None, b"", view) for _ in range(20)} == {1}
    alone = view_of("topic", 1, without_leader={0})
    assert DefaultPartitioner().partition("topic", None, None, None, b"", alone) == 0
    with pytest.raises(ValueError, match="Topic other not found"):
        DefaultPartitioner().partition("other", None, None, None, b"", alone)
