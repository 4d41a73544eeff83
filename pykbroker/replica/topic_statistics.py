"""The traffic and the offsets of all topics on this broker. Other tasks run while they are collected."""

from __future__ import annotations

from typing import NamedTuple

import msgspec

from pykbroker.core.steps import Steps
from pykbroker.replica.partition.topic_traffic import TopicTraffic
from pykbroker.replica.replicas import Replicas, TopicReplicas

PARTITIONS_A_STEP = 16


class PartitionOffsets(NamedTuple):
    """The offsets of a partition that this broker leads."""

    partition: int
    log_start_offset: int
    high_watermark: int


class TopicStatistics(msgspec.Struct, frozen=True):
    """The counters of a topic, the number of its partitions on this broker, and the offsets of the led ones."""

    name: str
    traffic: TopicTraffic
    partitions: int
    offsets: tuple[PartitionOffsets, ...]


class TopicsStatistics(msgspec.Struct, frozen=True):
    """The total counters of all topics, including deleted ones, and the counters per topic up to a limit.

    `partitions_omitted` is the number of partitions of the topics beyond the limit, which is a number of partitions.
    """

    total: TopicTraffic
    topics: tuple[TopicStatistics, ...]
    partitions_omitted: int


def topics_statistics(replicas: Replicas, partitions_max: int) -> Steps[TopicsStatistics]:
    """Return the statistics of topics in the order of their creation, with at most `partitions_max` partitions."""
    total, found, left, omitted = TopicTraffic(), list[TopicStatistics](), partitions_max, 0
    total.add(replicas.traffic_of_deleted_topics)
    for topic in replicas.topics():
        total.add(topic.traffic)
        partitions = len(topic.partitions)
        if partitions > left:
            omitted += partitions
        else:
            left -= partitions
            found.append((yield from _topic_statistics(topic)))
        yield
    return TopicsStatistics(total, tuple(found), omitted)


def _topic_statistics(topic: TopicReplicas) -> Steps[TopicStatistics]:
    offsets, partitions = list[PartitionOffsets](), list(topic.partitions.values())
    for place, partition in enumerate(partitions, 1):
        log = partition.log
        if log is not None and partition.is_leader and partition.is_online:
            offsets.append(PartitionOffsets(partition.index, log.state.log_start_offset, partition.high_watermark))
        if place % PARTITIONS_A_STEP == 0:
            yield
    return TopicStatistics(topic.name, topic.traffic, len(partitions), tuple(offsets))
