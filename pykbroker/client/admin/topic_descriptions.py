"""The topics of a cluster with their ids and eligible leader replicas, which Metadata does not have (KIP-966)."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from pykbroker.client.admin.admin import Admin, check
from pykbroker.core.ids import id_text
from wire.messages.describe_topic_partitions import (
    Cursor,
    DescribeTopicPartitionsRequest,
    DescribeTopicPartitionsResponsePartition,
    TopicRequest,
)


class FullTopic(NamedTuple):
    """A topic with all that DescribeTopicPartitions returns. `topic_id` has 16 bytes."""

    name: str
    topic_id: bytes
    partitions: list[DescribeTopicPartitionsResponsePartition]

    @property
    def id_text(self) -> str:
        """Return the topic id as Kafka prints it."""
        return id_text(self.topic_id)

    @property
    def replication_factor(self) -> int:
        """Return the number of replicas of the first partition."""
        return len(self.partitions[0].replica_nodes) if self.partitions else 0


async def describe_topics(admin: Admin, names: Sequence[str]) -> list[FullTopic]:
    """Return these topics, sorted by name. ApiError: one of them does not exist, or may not be described.

    The broker limits the partitions of a response, and returns a cursor where the next one begins.
    """
    found: dict[str, FullTopic] = {}
    cursor: Cursor | None = None
    wanted = [TopicRequest(name) for name in sorted(names)]
    while wanted:
        answer = await admin.connection.ask(DescribeTopicPartitionsRequest(wanted, cursor=cursor))
        for topic in answer.topics:
            name = topic.name or ""
            check(topic.error_code, f"Topic '{name}'")
            found.setdefault(name, FullTopic(name, bytes(topic.topic_id), [])).partitions.extend(topic.partitions)
        cursor = answer.next_cursor
        if cursor is None:
            break
        wanted = [each for each in wanted if each.name >= cursor.topic_name]
    return [found[name] for name in sorted(found)]
