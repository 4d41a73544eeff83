"""Tests of kafka-python with the broker."""

from __future__ import annotations

import contextlib
import time
import uuid
from collections.abc import Iterable, Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from typing import Any, ClassVar

import pytest
from kafka import KafkaAdminClient, KafkaConsumer, KafkaProducer, TopicPartition
from kafka.admin import (
    ConfigResource,
    NewTopic,
    ScramMechanism,
    UserScramCredentialDeletion,
    UserScramCredentialUpsertion,
)
from kafka.errors import KafkaError

from tests.interop.group_scenarios import POLL_S, SESSION_MS, GroupScenarios, member_settings
from tests.interop.metadata_pause import without_pause
from tests.interop.scenarios import PATIENCE_S, Message, Reading, Scenarios, eventually, eventually_equal

BACK_SOON = {"reconnect_backoff_max_ms": 100}
"""Options for a short reconnect backoff; by default kafka-python waits longer after each failed attempt."""
RETRY_SOON = {"retry_backoff_ms": 20}
"""Options of a consumer that soon looks again for what it waits for; by default kafka-python waits for 100 ms."""


class KafkaPython:
    """The `Client` for kafka-python. A subclass may replace the classes of the producer and the consumer."""

    producer_type: Any = KafkaProducer
    consumer_type: Any = KafkaConsumer
    ways: ClassVar[Mapping[str, object]] = RETRY_SOON

    def __init__(self, bootstrap: str) -> None:
        self.bootstrap = bootstrap
        self._admin = KafkaAdminClient(bootstrap_servers=bootstrap)
        self._asking = self._consumer()

    def create_topic(self, name: str, partitions: int = 1, configs: Mapping[str, str] = {}, replicas: int = 1) -> None:
        topic = NewTopic(name, partitions, replicas, topic_configs=dict(configs))
        self._admin.create_topics([topic])

    def delete_topic(self, name: str) -> None:
        self._admin.delete_topics([name])

    def topics(self) -> Mapping[str, int]:
        described = self._admin.describe_topics(self._admin.list_topics())
        return {topic["name"]: len(topic["partitions"]) for topic in described if not topic["error_code"]}

    def topic_id(self, name: str) -> str:
        return str(self._admin.describe_topics([name])[0]["topic_id"])

    def send(
        self,
        topic: str,
        messages: Iterable[Message],
        *,
        codec: str = "none",
        acks: str = "all",
        idempotent: bool = False,
    ) -> list[int]:
        producer = without_pause(
            self.producer_type(
                bootstrap_servers=self.bootstrap,
                compression_type=None if codec == "none" else codec,
                acks="all" if acks == "all" else int(acks),
                enable_idempotence=idempotent,
                max_request_size=10_000_000,
                linger_ms=5,
                **BACK_SOON,
            )
        )
        try:
            futures = [
                producer.send(
                    topic, message.value, message.key, list(message.headers), message.partition, message.timestamp_ms
                )
                for message in messages
            ]
            return [future.get(4 * PATIENCE_S).offset for future in futures]
        finally:
            producer.close()

    def read(self, topic: str, partition: int, offset: int, *, wait_ms: int = 20) -> Reading:
        consumer = self._consumer(fetch_max_wait_ms=wait_ms, request_timeout_ms=wait_ms + 30_000)
        try:
            place = TopicPartition(topic, partition)
            consumer.assign([place])
            consumer.seek(place, offset)
            deadline = time.monotonic() + PATIENCE_S
            while time.monotonic() < deadline:
                for record in consumer.poll(PATIENCE_S * 1000).get(place, ()):
                    yield (
                        record.offset,
                        Message(record.partition, record.key, record.value, tuple(record.headers), record.timestamp),
                    )
                    deadline = time.monotonic() + PATIENCE_S
            raise TimeoutError(f"no message within {PATIENCE_S} s")
        finally:
            consumer.close()

    def bounds(self, topic: str, partition: int) -> tuple[int, int]:
        place = TopicPartition(topic, partition)
        return self._asking.beginning_offsets([place])[place], self._asking.end_offsets([place])[place]

    def offset_at(self, topic: str, partition: int, timestamp_ms: int) -> int | None:
        place = TopicPartition(topic, partition)
        found = self._asking.offsets_for_times({place: timestamp_ms})[place]
        return found and found.offset

    def _consumer(self, **settings: object) -> Any:
        return without_pause(
            self.consumer_type(
                bootstrap_servers=self.bootstrap,
                enable_auto_commit=False,
                auto_offset_reset="earliest",
                **self.ways,
                **settings,
            )
        )

    @staticmethod
    def error_code(error: BaseException) -> int | None:
        return error.errno if isinstance(error, KafkaError) else None

    def close(self) -> None:
        self._asking.close()
        self._admin.close()


class KafkaPythonMember:
    """The `Member` for kafka-python.

    A thread polls it without pause, since a join that ends between two polls would be repeated.
    """

    consumer_type: Any = KafkaConsumer
    ways: ClassVar[Mapping[str, object]] = RETRY_SOON

    def __init__(
        self, bootstrap: str, topic: str, group: str, instance: str | None = None, session_ms: int = SESSION_MS
    ) -> None:
        self._topic = topic
        self._consumer = without_pause(
            self.consumer_type(
                topic, **member_settings(bootstrap, group, instance, session_ms), **BACK_SOON, **self.ways
            )
        )
        # A leader that learns of new members later may lose its own next join.
        self._consumer.partitions_for_topic(topic)
        self._found: list[tuple[int, int]] = []
        self._thread = ThreadPoolExecutor(1)
        self._thread.submit(self._poll_on)

    def _poll_on(self) -> None:
        """Poll until the executor is shut down."""
        try:
            for records in self._consumer.poll(timeout_ms=round(1000 * POLL_S)).values():
                self._found.extend((record.partition, record.offset) for record in records)
        finally:
            self._thread.submit(self._poll_on)

    def _taken(self) -> list[tuple[int, int]]:
        found, self._found = self._found, []
        return found

    def poll(self) -> list[tuple[int, int]]:
        return self._thread.submit(self._taken).result()

    def assigned(self) -> set[int]:
        return {place.partition for place in self._consumer.assignment()}

    def commit(self) -> None:
        self._thread.submit(self._consumer.commit).result()

    def committed(self, partition: int) -> int | None:
        return self._thread.submit(self._consumer.committed, TopicPartition(self._topic, partition)).result()

    def close(self) -> None:
        with contextlib.suppress(RuntimeError):  # The consumer is already closed.
            self._thread.submit(self._consumer.close, autocommit=False)
        self._thread.shutdown()


class TestKafkaPython(Scenarios):
    library = KafkaPython


class TestGroups(GroupScenarios):
    library, member = KafkaPython, KafkaPythonMember


@pytest.fixture
def admin(bootstrap: str) -> Iterator[KafkaAdminClient]:
    client = KafkaAdminClient(bootstrap_servers=bootstrap)
    yield client
    client.close()


@pytest.mark.parametrize("incremental", [True, False])
def test_configs_are_changed_and_reset(admin: KafkaAdminClient, incremental: bool) -> None:
    name = f"configured-{uuid.uuid4().hex}"
    admin.create_topics([NewTopic(name, 1, 1)])

    def described() -> object:
        (found,) = admin.describe_configs([ConfigResource("TOPIC", name)]).values()
        return found

    admin.alter_configs([ConfigResource("TOPIC", name, {"retention.ms": "5000"})], incremental=incremental)
    eventually(lambda: "5000" in str(described()))
    admin.reset_configs([ConfigResource("TOPIC", name, ["retention.ms"])], incremental=incremental)
    eventually(lambda: "5000" not in str(described()))


def level_of(admin: KafkaAdminClient, feature: str) -> int:
    return admin.describe_features()[feature]["finalized"][1]


def test_a_feature_level_is_lowered_and_raised_again(admin: KafkaAdminClient) -> None:
    for change, level in ((("SAFE_DOWNGRADE", 1), 1), (2, 2)):
        admin.update_features({"transaction.version": change})
        eventually_equal(partial(level_of, admin, "transaction.version"), level)


def test_a_scram_credential_is_set_described_and_deleted(admin: KafkaAdminClient) -> None:
    user = f"user-{uuid.uuid4().hex}"
    admin.alter_user_scram_credentials(
        [UserScramCredentialUpsertion(user, ScramMechanism.SCRAM_SHA_256, "secret", 4096)]
    )
    expected = [{"mechanism": ScramMechanism.SCRAM_SHA_256, "iterations": 4096}]
    eventually(lambda: admin.describe_user_scram_credentials([user])[user]["credential_infos"] == expected)
    admin.alter_user_scram_credentials([UserScramCredentialDeletion(user, ScramMechanism.SCRAM_SHA_256)])
    eventually(lambda: not admin.describe_user_scram_credentials([user])[user]["credential_infos"])
