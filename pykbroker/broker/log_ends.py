"""The ends of logs that only other brokers know: a group's coordinator asks their leaders for them, for the lags."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping

import trio

from pykbroker.broker.group_statistics import OFFSETS_A_STEP, log_end
from pykbroker.coordinator.cluster import PeerBrokers
from pykbroker.core.errors import ApiError
from pykbroker.core.group.summary import GroupSummaries
from pykbroker.core.steps import Steps
from pykbroker.core.topic_partition import TopicPartition, indexes_by_topic
from pykbroker.replica.replicas import Replicas
from pykbroker.world.portions import portions
from wire.error_codes import ErrorCode
from wire.messages.list_offsets import ListOffsetsPartition, ListOffsetsRequest, ListOffsetsTopic
from wire.sentinels import CONSUMER_REPLICA_ID, LATEST_TIMESTAMP, NO_LEADER

LOG_ENDS_S_MAX = 2
"""The time that leaders may take to respond. A metrics scrape waits for it."""
ENDS_A_REQUEST = 1000
"""The partitions of a request. One for 10,000 held up the event loop for 30 ms."""

Asked = Mapping[int, Mapping[TopicPartition, None]]
"""Leader -> partitions, in the order of the offsets."""


def ends_to_ask(found: list[GroupSummaries], replicas: Replicas) -> Steps[Asked]:
    """Return the partitions with committed offsets whose ends this broker does not know, by leader."""
    asked: dict[int, dict[TopicPartition, None]] = defaultdict(dict)
    for group in (group for summaries in found for group in summaries.groups):
        for place, (topic, partition, _) in enumerate(group.offsets, 1):
            key = TopicPartition(topic, partition)
            if log_end(replicas, key) is None:
                image = replicas.metadata.topics.partition(*key)
                if image is not None and image.leader not in (NO_LEADER, replicas.broker.node_id):
                    asked[image.leader][key] = None
            if place % OFFSETS_A_STEP == 0:
                yield
        yield
    return asked


async def log_ends(asked: Asked, peers: PeerBrokers) -> dict[TopicPartition, int]:
    """Return the high watermarks that the leaders report in time."""
    ends: dict[TopicPartition, int] = {}

    async def ask(leader: int, keys: Iterable[TopicPartition]) -> None:
        for few in portions(keys, ENDS_A_REQUEST):
            try:
                response = await peers.ask(leader, latest_offsets(few))
            except ApiError:
                return
            for one in response.topics:
                for part in one.partitions:
                    if part.error_code == ErrorCode.NONE:
                        ends[TopicPartition(one.name, part.partition_index)] = part.offset

    with trio.move_on_after(LOG_ENDS_S_MAX):
        async with trio.open_nursery() as nursery:
            for leader, keys in asked.items():
                nursery.start_soon(ask, leader, keys)
    return ends


def latest_offsets(keys: list[TopicPartition]) -> ListOffsetsRequest:
    """Return the request for the high watermarks of partitions."""
    topics = [
        ListOffsetsTopic(topic, [ListOffsetsPartition(index, timestamp=LATEST_TIMESTAMP) for index in indexes])
        for topic, indexes in indexes_by_topic(keys).items()
    ]
    return ListOffsetsRequest(CONSUMER_REPLICA_ID, topics=topics)
