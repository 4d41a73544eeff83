"""The metrics of topics and groups, with the names that they have in Kafka's JMX exporter and in kafka_exporter."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from itertools import groupby
from typing import TYPE_CHECKING, TypeVar

from pykbroker.console.text import Family, escaped, gauge, labels
from pykbroker.replica.topic_statistics import OwnReplica, PlacedPartition
from wire.sentinels import NO_LEADER

if TYPE_CHECKING:
    from pykbroker.broker.group_statistics import GroupsStatistics, OffsetStatistics
    from pykbroker.replica.partition.topic_traffic import TopicTraffic
    from pykbroker.replica.topic_statistics import TopicsStatistics

Row = TypeVar("Row", PlacedPartition, OwnReplica)

TRAFFIC: tuple[tuple[str, str, Callable[[TopicTraffic], int]], ...] = (
    (
        "messagesin",
        "Records appended, by topic; the series without a topic counts all topics, including deleted ones",
        lambda traffic: traffic.messages_in,
    ),
    (
        "bytesin",
        "Bytes of record batches appended, by topic; the series without a topic counts all topics, including"
        " deleted ones",
        lambda traffic: traffic.bytes_in,
    ),
    (
        "bytesout",
        "Bytes of record batches sent to consumers, by topic; the series without a topic counts all topics,"
        " including deleted ones",
        lambda traffic: traffic.bytes_out,
    ),
    (
        "totalproducerequests",
        "Batches that the broker appended or refused, by topic; the series without a topic counts all"
        " topics, including deleted ones",
        lambda traffic: traffic.appends + traffic.appends_refused,
    ),
    (
        "failedproducerequests",
        "Batches that the broker refused with an error that Kafka counts as unexpected, by topic; the series"
        " without a topic counts all topics, including deleted ones",
        lambda traffic: traffic.appends_failed,
    ),
    (
        "totalfetchrequests",
        "Fetch requests that read the topic, by topic; the series without a topic counts all topics,"
        " including deleted ones",
        lambda traffic: traffic.fetches,
    ),
    (
        "failedfetchrequests",
        "Reads of a partition that failed with an error that Kafka counts as unexpected, by topic; the"
        " series without a topic counts all topics, including deleted ones",
        lambda traffic: traffic.fetches_failed,
    ),
)
"""The name, HELP text and value of each counter of Kafka's `BrokerTopicMetrics`."""


PLACED: tuple[tuple[str, str, Callable[[PlacedPartition], int | None]], ...] = (
    ("leader", "Broker id of the leader of a partition", lambda one: None if one.leader == NO_LEADER else one.leader),
    (
        "leader_is_preferred",
        "1 if the first replica of a partition leads it, else 0",
        lambda one: int(one.is_preferred),
    ),
    ("replicas", "Replicas of a partition", lambda one: one.replicas),
    ("in_sync_replica", "Members of the ISR of a partition", lambda one: one.in_sync),
    (
        "under_replicated_partition",
        "1 if the ISR of a partition lacks a replica, else 0",
        lambda one: int(one.in_sync < one.replicas),
    ),
    (
        "current_offset",
        "High watermark of a partition: the offset after its last committed record",
        lambda one: one.high_watermark,
    ),
    (
        "oldest_offset",
        "Log start offset of a partition: the offset of its first record",
        lambda one: one.log_start_offset,
    ),
)
"""The name, HELP text and value of each metric that kafka_exporter has for a partition."""

REPLICA: tuple[tuple[str, str, Callable[[OwnReplica], int]], ...] = (
    (
        "kafka_cluster_partition_replicascount",
        "Replicas of a partition that this broker leads, 0 if it follows",
        lambda one: one.replicas,
    ),
    (
        "kafka_cluster_partition_underminisr",
        "1 if this broker leads the partition and its ISR is smaller than min.insync.replicas, else 0",
        lambda one: int(one.is_under_min_isr),
    ),
    (
        "kafka_cluster_partition_atminisr",
        "1 if this broker leads the partition and its ISR has exactly min.insync.replicas, else 0",
        lambda one: int(one.is_at_min_isr),
    ),
    ("kafka_log_log_size", "Bytes of record batches of a replica on this broker", lambda one: one.size_bytes),
)
"""The name, HELP text and value of each metric that Kafka's JMX exporter has for a replica."""


def topic_families(found: TopicsStatistics) -> Iterator[Family]:
    """Yield the metrics of topics and partitions."""
    topics = found.topics
    for name, documentation, value in TRAFFIC:
        samples = traffic_samples(found, value)
        yield Family(f"kafka_server_brokertopicmetrics_{name}_total", "counter", documentation, samples)
    yield Family(
        "kafka_topic_partitions",
        "gauge",
        "Partitions of a topic that this broker leads; the active controller adds partitions without a leader",
        ((labels(topic=topic.name), len(topic.placed)) for topic in topics if topic.placed),
    )
    for name, documentation, placed in PLACED:
        rows = partition_samples(((topic.name, topic.placed) for topic in topics), placed)
        yield Family(f"kafka_topic_partition_{name}", "gauge", documentation, rows)
    for name, documentation, replica in REPLICA:
        rows = partition_samples(((topic.name, topic.replicas) for topic in topics), replica)
        yield Family(name, "gauge", documentation, rows)
    yield gauge(
        "pykbroker_metrics_partitions_omitted",
        "Partitions of topics without metrics, because pykbroker.metrics.partitions.max is reached",
        found.partitions_omitted,
    )


def traffic_samples(found: TopicsStatistics, value: Callable[[TopicTraffic], int]) -> Iterator[tuple[str, int]]:
    """Yield (labels, value) of a counter: first the total of all topics, without labels, then each topic."""
    yield "", value(found.total)
    for topic in found.topics:
        if topic.traffic is not None:
            yield f'{{topic="{topic.name}"}}', value(topic.traffic)


def partition_samples(
    topics: Iterable[tuple[str, Iterable[Row]]], value: Callable[[Row], int | None]
) -> Iterator[tuple[str, int]]:
    """Yield (labels, value) of each partition that has a value. Names of topics have no character to escape."""
    for topic, rows in topics:
        for row in rows:
            found = value(row)
            if found is not None:
                yield f'{{topic="{topic}",partition="{row.partition}"}}', found


def group_families(found: GroupsStatistics) -> Iterator[Family]:
    """Yield the metrics of groups."""
    yield Family(
        "kafka_consumergroup_members",
        "gauge",
        "Members of a group",
        ((labels(consumergroup=group.group_id), group.members) for group in found.groups),
    )
    yield Family(
        "kafka_consumergroup_current_offset",
        "gauge",
        "Committed offset of a group in a partition",
        ((text, one.offset) for text, one in committed(found)),
    )
    yield Family(
        "kafka_consumergroup_lag",
        "gauge",
        "Offsets between a group's committed offset and the high watermark of the partition",
        ((text, one.lag) for text, one in committed(found) if one.lag is not None),
    )
    yield Family(
        "kafka_consumergroup_current_offset_sum",
        "gauge",
        "Sum of the committed offsets of a group in all partitions of a topic",
        ((text, sum(one.offset for one in offsets)) for text, offsets in committed_topics(found)),
    )
    yield Family(
        "kafka_consumergroup_lag_sum",
        "gauge",
        "Sum of the lags of a group in all partitions of a topic, if all are known",
        (
            (text, sum(one.lag for one in offsets if one.lag is not None))
            for text, offsets in committed_topics(found)
            if all(one.lag is not None for one in offsets)
        ),
    )
    yield gauge(
        "pykbroker_metrics_offsets_omitted",
        "Committed offsets of groups without metrics, because pykbroker.metrics.partitions.max is reached",
        found.offsets_omitted,
    )


def committed(found: GroupsStatistics) -> Iterator[tuple[str, OffsetStatistics]]:
    """Yield (labels, committed offset) of each partition of each group."""
    for group in found.groups:
        group_id = escaped(group.group_id)
        for one in group.offsets:
            yield f'{{consumergroup="{group_id}",topic="{escaped(one.topic)}",partition="{one.partition}"}}', one


def committed_topics(found: GroupsStatistics) -> Iterator[tuple[str, list[OffsetStatistics]]]:
    """Yield (labels, committed offsets) of each topic of each group."""
    for group in found.groups:
        group_id = escaped(group.group_id)
        for topic, offsets in groupby(group.offsets, lambda one: one.topic):
            yield f'{{consumergroup="{group_id}",topic="{escaped(topic)}"}}', list(offsets)
