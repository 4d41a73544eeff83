"""The metrics of topics and groups, with the names that they have in Kafka's JMX exporter and in kafka_exporter."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING

from pykbroker.console.text import Family, escaped, labels

if TYPE_CHECKING:
    from pykbroker.broker.group_statistics import GroupsStatistics
    from pykbroker.replica.partition.topic_traffic import TopicTraffic
    from pykbroker.replica.topic_statistics import TopicsStatistics

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


def topic_families(found: TopicsStatistics) -> Iterator[Family]:
    """Yield the metrics of topics and partitions."""
    for name, documentation, value in TRAFFIC:
        samples = traffic_samples(found, value)
        yield Family(f"kafka_server_brokertopicmetrics_{name}_total", "counter", documentation, samples)
    yield Family(
        "kafka_topic_partitions",
        "gauge",
        "Partitions of a topic that have a replica on this broker",
        ((labels(topic=topic.name), topic.partitions) for topic in found.topics),
    )
    yield Family(
        "kafka_topic_partition_current_offset",
        "gauge",
        "High watermark of a partition that this broker leads: the offset after its last committed record",
        ((text, high_watermark) for text, _, high_watermark in offsets(found)),
    )
    yield Family(
        "kafka_topic_partition_oldest_offset",
        "gauge",
        "Log start offset of a partition that this broker leads: the offset of its first record",
        ((text, log_start_offset) for text, log_start_offset, _ in offsets(found)),
    )
    yield Family(
        "pykbroker_metrics_partitions_omitted",
        "gauge",
        "Partitions of topics without metrics, because pykbroker.metrics.partitions.max is reached",
        [("", found.partitions_omitted)],
    )


def traffic_samples(found: TopicsStatistics, value: Callable[[TopicTraffic], int]) -> Iterator[tuple[str, int]]:
    """Yield (labels, value) of a counter: first the total of all topics, without labels, then each topic."""
    yield "", value(found.total)
    for topic in found.topics:
        yield labels(topic=topic.name), value(topic.traffic)


def offsets(found: TopicsStatistics) -> Iterator[tuple[str, int, int]]:
    """Yield (labels, log start offset, high watermark) of each partition."""
    for topic in found.topics:
        for one in topic.offsets:
            yield labels(topic=topic.name, partition=one.partition), one.log_start_offset, one.high_watermark


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
        ((text, offset) for text, offset, _ in committed(found)),
    )
    yield Family(
        "kafka_consumergroup_lag",
        "gauge",
        "Offsets between a group's committed offset and the high watermark of the partition",
        ((text, lag) for text, _, lag in committed(found) if lag is not None),
    )
    yield Family(
        "pykbroker_metrics_offsets_omitted",
        "gauge",
        "Committed offsets of groups without metrics, because pykbroker.metrics.partitions.max is reached",
        [("", found.offsets_omitted)],
    )


def committed(found: GroupsStatistics) -> Iterator[tuple[str, int, int | None]]:
    """Yield (labels, committed offset, lag) of each partition of each group."""
    for group in found.groups:
        group_id = escaped(group.group_id)
        for one in group.offsets:
            text = f'{{consumergroup="{group_id}",topic="{escaped(one.topic)}",partition="{one.partition}"}}'
            yield text, one.offset, one.lag
