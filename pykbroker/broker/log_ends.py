"""The ends of logs that only other brokers know: a group's coordinator asks their leaders for them, for the lags."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping

import trio

from pykbroker.broker.group_statistics import OFFSETS_A_STEP, log_end
from pykbroker.coordinator.cluster import PeerBrokers
from pykbroker.core.errors import ApiError
from pykbroker.core.group.summary import GroupSummaries
from pykbroker.core.steps import Steps
from pykbroker.core.topic_partition import TopicPartition
from pykbroker.replica.replicas import Replicas
from wire.error_codes import ErrorCode
from wire.messages.list_offsets import ListOffsetsPartition, ListOffsetsRequest, ListOffsetsTopic
from wire.sentinels import CONSUMER_REPLICA_ID, LATEST_TIMESTAMP, NO_LEADER

LOG_ENDS_S_MAX = 2
"""The time that a leader may take to respond. A metrics scrape waits for it."""

Asked = Mapping[int, Mapping[str, set[int]]]
"""Leader -> topic -> partitions."""


def ends_to_ask(found: list[GroupSummaries], replicas: Replicas) -> Steps[Asked]:
    """Return the partitions with committed offsets whose ends this broker does not know, by leader."""
    asked: dict[int, dict[str, set[int]]] = defaultdict(lambda: defaultdict(set))
    for group in (group for summaries in found for group in summaries.groups):
        for place, (topic, partition, _) in enumerate(group.offsets, 1):
            key = TopicPartition(topic, partition)
            if log_end(replicas, key) is None:
                image = replicas.metadata.topics.partition(*key)
                if image is not None and image.leader not in (NO_LEADER, replicas.broker.node_id):
                    asked[image.leader][topic].add(partition)
            if place % OFFSETS_A_STEP == 0:
                yield
        yield
    return asked


async def log_ends(asked: Asked, peers: PeerBrokers) -> dict[TopicPartition, int]:
    """Return the high watermarks that the leaders report. A leader that does not respond is left out."""
    ends: dict[TopicPartition, int] = {}

    async def ask(leader: int, topics: Mapping[str, set[int]]) -> None:
        request = ListOffsetsRequest(
            replica_id=CONSUMER_REPLICA_ID,
            topics=[
                ListOffsetsTopic(
                    topic,
                    [ListOffsetsPartition(partition, timestamp=LATEST_TIMESTAMP) for partition in sorted(partitions)],
                )
                for topic, partitions in topics.items()
            ],
        )
        try:
            response = await peers.ask(leader, request)
        except ApiError:
            return
        for one in response.topics:
            for part in one.partitions:
                if part.error_code == ErrorCode.NONE:
                    ends[TopicPartition(one.name, part.partition_index)] = part.offset

    async with trio.open_nursery() as nursery:
        for leader, topics in asked.items():
            nursery.start_soon(ask, leader, topics)
    return ends
