"""Tests of confluent-kafka, the Python client of librdkafka, with the broker."""

from __future__ import annotations

import uuid
from collections.abc import Iterable, Mapping
from functools import partial
from typing import ClassVar

import pytest
from confluent_kafka import Consumer, KafkaError, KafkaException, Producer, TopicCollection, TopicPartition
from confluent_kafka.admin import (
    AdminClient,
    AlterConfigOpType,
    ConfigEntry,
    ConfigResource,
    NewTopic,
    ScramCredentialInfo,
    ScramMechanism,
    UserScramCredentialDeletion,
    UserScramCredentialUpsertion,
)

from tests.interop.group_scenarios import POLL_S, SESSION_MS, GroupScenarios
from tests.interop.leaving import leave
from tests.interop.scenarios import PATIENCE_S, Message, Reading, Scenarios, eventually, eventually_equal

END = -1
BACK_SOON = {"reconnect.backoff.max.ms": 100}
"""Options for a short reconnect backoff; by default librdkafka waits up to 12 s before it reconnects."""


class ConfluentKafka:
    """The `Client` for confluent-kafka."""

    def __init__(self, bootstrap: str) -> None:
        self.bootstrap = bootstrap
        self._admin = AdminClient({"bootstrap.servers": bootstrap})

    def create_topic(self, name: str, partitions: int = 1, configs: Mapping[str, str] = {}, replicas: int = 1) -> None:
        topic = NewTopic(name, partitions, replicas, config=dict(configs))
        self._admin.create_topics([topic])[name].result(PATIENCE_S)

    def delete_topic(self, name: str) -> None:
        self._admin.delete_topics([name])[name].result(PATIENCE_S)

    def topics(self) -> Mapping[str, int]:
        topics = self._admin.list_topics(timeout=PATIENCE_S).topics
        return {name: len(topic.partitions) for name, topic in topics.items()}

    def topic_id(self, name: str) -> str:
        return str(self._admin.describe_topics(TopicCollection([name]))[name].result(PATIENCE_S).topic_id)

    def send(
        self,
        topic: str,
        messages: Iterable[Message],
        *,
        codec: str = "none",
        acks: str = "all",
        idempotent: bool = False,
    ) -> list[int]:
        failed: list[KafkaException] = []
        offsets: dict[int, int] = {}
        producer = Producer(
            {
                "bootstrap.servers": self.bootstrap,
                "compression.type": codec,
                "acks": acks,
                "enable.idempotence": idempotent,
                "message.max.bytes": 10_000_000,
                **BACK_SOON,
            }
        )
        for index, message in enumerate(messages):

            def on_delivery(error, sent, index=index):
                if error is not None:
                    failed.append(KafkaException(error))
                offsets[index] = END if sent.offset() is None else sent.offset()

            producer.produce(
                topic,
                message.value,
                message.key,
                message.partition,
                on_delivery=on_delivery,
                timestamp=message.timestamp_ms,
                headers=list(message.headers),
            )
            producer.poll(0)
        assert producer.flush(4 * PATIENCE_S) == 0
        if failed:
            raise failed[0]
        return [offsets[index] for index in sorted(offsets)]

    def read(self, topic: str, partition: int, offset: int, *, wait_ms: int = 20) -> Reading:
        consumer = self._consumer({"fetch.wait.max.ms": wait_ms, "socket.timeout.ms": wait_ms + 30_000})
        try:
            consumer.assign([TopicPartition(topic, partition, offset)])
            while (record := consumer.poll(PATIENCE_S)) is not None:
                if record.error():
                    raise KafkaException(record.error())
                yield (
                    record.offset(),
                    Message(
                        record.partition(),
                        record.key(),
                        record.value(),
                        tuple(record.headers() or ()),
                        record.timestamp()[1],
                    ),
                )
            raise TimeoutError(f"no message within {PATIENCE_S} s")
        finally:
            consumer.close()

    def bounds(self, topic: str, partition: int) -> tuple[int, int]:
        consumer = self._consumer()
        try:
            low, high = consumer.get_watermark_offsets(TopicPartition(topic, partition), PATIENCE_S)
            return low, high
        finally:
            consumer.close()

    def offset_at(self, topic: str, partition: int, timestamp_ms: int) -> int | None:
        consumer = self._consumer()
        try:
            (found,) = consumer.offsets_for_times([TopicPartition(topic, partition, timestamp_ms)], PATIENCE_S)
            return None if found.offset == END else found.offset
        finally:
            consumer.close()

    def _consumer(self, settings: Mapping[str, object] = {}) -> Consumer:
        return Consumer(
            {
                "bootstrap.servers": self.bootstrap,
                "group.id": "unused",
                "enable.auto.commit": False,
                "auto.offset.reset": "earliest",
                **settings,
            }
        )

    @staticmethod
    def error_code(error: BaseException) -> int | None:
        return error.args[0].code() if isinstance(error, KafkaException) else None

    def close(self) -> None:
        """Drop the admin client, whose threads end with it."""


class ConfluentMember:
    """The `Member` for confluent-kafka."""

    ways: ClassVar[Mapping[str, object]] = {
        "session.timeout.ms": SESSION_MS,
        "heartbeat.interval.ms": 200,
        "partition.assignment.strategy": "range",
    }

    def __init__(
        self, bootstrap: str, topic: str, group: str, instance: str | None = None, session_ms: int = SESSION_MS
    ) -> None:
        self._topic = topic
        self._consumer = Consumer(
            {
                "bootstrap.servers": bootstrap,
                "group.id": group,
                "enable.auto.commit": False,
                "auto.offset.reset": "earliest",
                "fetch.wait.max.ms": 50,
                **BACK_SOON,
                **self.ways,
                **({} if instance is None else {"group.instance.id": instance}),
                **({"session.timeout.ms": session_ms} if "session.timeout.ms" in self.ways else {}),
            }
        )
        self._consumer.subscribe([topic])

    def poll(self) -> list[tuple[int, int]]:
        found = self._consumer.consume(100, POLL_S)
        return [(message.partition(), message.offset()) for message in found if message.error() is None]

    def assigned(self) -> set[int]:
        return {place.partition for place in self._consumer.assignment()}

    def commit(self) -> None:
        try:
            places = self._consumer.commit(asynchronous=False)
        except KafkaException as error:
            if error.args[0].code() != KafkaError._NO_OFFSET:  # The member has read nothing since its last commit.
                raise
        else:
            assert all(place.error is None for place in places)

    def committed(self, partition: int) -> int | None:
        (place,) = self._consumer.committed([TopicPartition(self._topic, partition)], PATIENCE_S)
        return None if place.offset < 0 else place.offset

    def close(self) -> None:
        leave(self._consumer)


class CooperativeMember(ConfluentMember):
    """A member with the cooperative assignor (KIP-429)."""

    ways: ClassVar = {**ConfluentMember.ways, "partition.assignment.strategy": "cooperative-sticky"}


class NewMember(ConfluentMember):
    """A member of the consumer protocol (KIP-848), whose partitions the broker assigns."""

    ways: ClassVar = {"group.protocol": "consumer"}


class TestConfluentKafka(Scenarios):
    library = ConfluentKafka


class TestGroups(GroupScenarios):
    library, member = ConfluentKafka, ConfluentMember


class TestCooperativeGroups(GroupScenarios):
    library, member = ConfluentKafka, CooperativeMember


class TestNewGroups(GroupScenarios):
    library, member = ConfluentKafka, NewMember


@pytest.fixture
def admin(bootstrap: str) -> AdminClient:
    return AdminClient({"bootstrap.servers": bootstrap})


def topic_of(admin: AdminClient) -> str:
    name = f"configured-{uuid.uuid4().hex}"
    admin.create_topics([NewTopic(name, 1, 1)])[name].result(PATIENCE_S)
    return name


def value_of(admin: AdminClient, topic: str, config: str) -> str:
    resource = ConfigResource(ConfigResource.Type.TOPIC, topic)
    return admin.describe_configs([resource])[resource].result(PATIENCE_S)[config].value


@pytest.mark.parametrize(
    ("config", "operation", "value", "becomes"),
    [
        ("retention.ms", AlterConfigOpType.SET, "5000", "5000"),
        ("cleanup.policy", AlterConfigOpType.APPEND, "compact", "delete,compact"),
        ("cleanup.policy", AlterConfigOpType.SUBTRACT, "delete", ""),
    ],
)
def test_incremental_alter_configs_changes_single_configs(
    admin: AdminClient, config: str, operation: AlterConfigOpType, value: str, becomes: str
) -> None:
    topic = topic_of(admin)
    before = value_of(admin, topic, config)
    for entry, after in [
        (ConfigEntry(config, value, incremental_operation=operation), becomes),
        (ConfigEntry(config, None, incremental_operation=AlterConfigOpType.DELETE), before),
    ]:
        resource = ConfigResource(ConfigResource.Type.TOPIC, topic, incremental_configs=[entry])
        admin.incremental_alter_configs([resource])[resource].result(PATIENCE_S)
        eventually_equal(partial(value_of, admin, topic, config), after)


@pytest.mark.filterwarnings("ignore:alter_configs has been deprecated")
def test_alter_configs_replaces_all_configs(admin: AdminClient) -> None:
    topic = topic_of(admin)
    for configs, retention_ms in [({"retention.ms": "5000"}, "5000"), ({"segment.ms": "6000"}, "604800000")]:
        resource = ConfigResource(ConfigResource.Type.TOPIC, topic, set_config=configs)
        admin.alter_configs([resource])[resource].result(PATIENCE_S)
        eventually_equal(partial(value_of, admin, topic, "retention.ms"), retention_ms)


def test_an_invalid_config_is_refused(admin: AdminClient) -> None:
    resource = ConfigResource(
        ConfigResource.Type.TOPIC,
        topic_of(admin),
        incremental_configs=[ConfigEntry("retention.ms", "soon", incremental_operation=AlterConfigOpType.SET)],
    )
    with pytest.raises(KafkaException) as refusal:
        admin.incremental_alter_configs([resource])[resource].result(PATIENCE_S)
    assert ConfluentKafka.error_code(refusal.value) == KafkaError.INVALID_CONFIG


def test_a_scram_credential_is_set_described_and_deleted(admin: AdminClient) -> None:
    user = f"user-{uuid.uuid4().hex}"
    info = ScramCredentialInfo(ScramMechanism.SCRAM_SHA_256, 4096)
    admin.alter_user_scram_credentials([UserScramCredentialUpsertion(user, info, b"secret")])[user].result(PATIENCE_S)

    def credentials() -> list[tuple[ScramMechanism, int]]:
        found = admin.describe_user_scram_credentials([user])[user].result(PATIENCE_S)
        return [(one.mechanism, one.iterations) for one in found.scram_credential_infos]

    eventually(lambda: credentials() == [(ScramMechanism.SCRAM_SHA_256, 4096)])
    admin.alter_user_scram_credentials([UserScramCredentialDeletion(user, ScramMechanism.SCRAM_SHA_256)])[user].result(
        PATIENCE_S
    )
