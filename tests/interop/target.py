"""A cluster that the tests of our own clients use: this broker, or three nodes of Apache Kafka."""

from __future__ import annotations

import uuid
from typing import Any

import kafka
from kafka.admin import NewTopic

from tests.interop.metadata_pause import without_pause

PARTITIONS = 3
LOST_SESSION_MS = 10_000
"""The session timeout of members. If a coordinator moves as a member leaves, the group keeps the member for so long.

Kafka's clients do not repeat LeaveGroup either. The next member waits, by default for 45 s, and anew after each move.
"""


class Target:
    """A cluster to send to, and what is in its topics."""

    def __init__(self, servers: str, replicas: int) -> None:
        self.servers, self._replicas = servers, replicas

    def topic(self, name: str | None = None, **configs: str) -> str:
        """Create a topic of three partitions."""
        name = name or f"topic-{uuid.uuid4().hex[:8]}"
        admin = kafka.KafkaAdminClient(bootstrap_servers=self.servers)
        admin.create_topics([NewTopic(name, PARTITIONS, self._replicas, topic_configs=configs)])
        admin.close()
        return name

    def records(self, topic: str, count: int, **settings: Any) -> list[Any]:
        """Return all records of a topic, of which there are at least `count`, in the order of their partitions."""
        consumer = without_pause(
            kafka.KafkaConsumer(
                bootstrap_servers=self.servers,
                auto_offset_reset="earliest",
                consumer_timeout_ms=60_000,
                fetch_max_wait_ms=20,
                retry_backoff_ms=20,
                **settings,
            )
        )
        partitions = [kafka.TopicPartition(topic, index) for index in range(PARTITIONS)]
        consumer.assign(partitions)
        ends = consumer.end_offsets(partitions)
        assert sum(ends.values()) >= count
        found: list[Any] = []
        while any(consumer.position(each) < end for each, end in ends.items()):
            for batch in consumer.poll(timeout_ms=1000).values():
                found += batch
        consumer.close()
        return sorted(found, key=lambda record: (record.partition, record.offset))
