"""The traffic, the placement and the sizes of the partitions of all topics, collected in short steps."""

from __future__ import annotations

from collections.abc import Mapping

import msgspec

from pykbroker.core.metadata.image import PartitionImage
from pykbroker.core.replication.leading import Leading
from pykbroker.core.steps import Steps
from pykbroker.replica.partition.partition import Partition
from pykbroker.replica.partition.topic_traffic import TopicTraffic
from pykbroker.replica.replicas import Replicas, TopicReplicas
from wire.sentinels import NO_LEADER

PARTITIONS_A_STEP = 16


class PlacedPartition(msgspec.Struct, frozen=True, gc=False):
    """A partition of the committed metadata: its leader, or NO_LEADER, and its numbers of replicas.

    The offsets are None unless this broker leads the partition and can serve it.
    """

    partition: int
    leader: int
    is_preferred: bool
    replicas: int
    in_sync: int
    log_start_offset: int | None = None
    high_watermark: int | None = None


class OwnReplica(msgspec.Struct, frozen=True, gc=False):
    """A replica on this broker whose log can be served. As in Kafka, only a leader counts `replicas` and the ISR.

    `size_bytes` is the size of all batches on disk.
    """

    partition: int
    size_bytes: int
    replicas: int = 0
    is_under_min_isr: bool = False
    is_at_min_isr: bool = False


class TopicStatistics(msgspec.Struct, frozen=True, gc=False):
    """A topic: the partitions that this broker reports, its replicas on this broker, and their counters.

    `traffic` is None if no replica of the topic is on this broker.
    """

    name: str
    traffic: TopicTraffic | None
    placed: list[PlacedPartition]
    replicas: list[OwnReplica]


class TopicsStatistics(msgspec.Struct, frozen=True):
    """The total counters of all topics, including deleted ones, and the statistics of topics up to a limit.

    `partitions_omitted` is the number of partitions of the topics beyond the limit, which is a number of partitions.
    """

    total: TopicTraffic
    topics: tuple[TopicStatistics, ...]
    partitions_omitted: int


def topics_statistics(replicas: Replicas, partitions_max: int, *, with_leaderless: bool) -> Steps[TopicsStatistics]:
    """Return the statistics of topics, with at most `partitions_max` partitions.

    A broker reports the partitions that it leads, so that each partition of the cluster is reported once.
    `with_leaderless` adds all partitions of the cluster that have no leader, which one node has to report.
    """
    total, found, left, omitted = TopicTraffic(), list[TopicStatistics](), partitions_max, 0
    total.add(replicas.traffic_of_deleted_topics)
    own_topics = {topic.name: topic for topic in replicas.topics()}
    for own in own_topics.values():
        total.add(own.traffic)
        yield
    leaders = {replicas.broker.node_id, NO_LEADER} if with_leaderless else {replicas.broker.node_id}
    for topic in replicas.metadata.topics.by_name.values():
        here = own_topics.get(topic.name)
        placed = {index: one for index, one in topic.partitions.items() if one.leader in leaders}
        partitions = len(placed) if here is None else len(placed.keys() | here.partitions.keys())
        if partitions > left:
            omitted += partitions
        elif partitions:
            left -= partitions
            found.append((yield from _topic_statistics(topic.name, placed, here)))
        yield
    return TopicsStatistics(total, tuple(found), omitted)


def _topic_statistics(
    name: str, images: Mapping[int, PartitionImage], here: TopicReplicas | None
) -> Steps[TopicStatistics]:
    own = {} if here is None else dict(here.partitions)
    placed, replicas = list[PlacedPartition](), list[OwnReplica]()
    for index, image in images.items():
        placed.append(_placed(index, image, own.get(index)))
        if len(placed) % PARTITIONS_A_STEP == 0:
            yield
    for index, partition in own.items():
        log = partition.log
        if log is not None and partition.is_online:
            replicas.append(_own_replica(index, log.size_bytes, partition.leading))
        if len(replicas) % PARTITIONS_A_STEP == 0:
            yield
    return TopicStatistics(name, None if here is None else here.traffic, placed, replicas)


def _placed(index: int, image: PartitionImage, partition: Partition | None) -> PlacedPartition:
    leader, replicas = image.leader, image.replicas
    start = end = None
    if partition is not None and partition.log is not None and partition.is_leader and partition.is_online:
        start, end = partition.log.state.log_start_offset, partition.high_watermark
    return PlacedPartition(index, leader, leader == replicas[0], len(replicas), len(image.isr), start, end)


def _own_replica(index: int, size_bytes: int, leading: Leading | None) -> OwnReplica:
    if leading is None:
        return OwnReplica(index, size_bytes)
    return OwnReplica(index, size_bytes, leading.replication_factor, leading.is_under_min_isr, leading.is_at_min_isr)
