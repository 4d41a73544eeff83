"""confluent-kafka, which is librdkafka, against the broker."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping

from confluent_kafka import Consumer, KafkaException, Producer, TopicCollection, TopicPartition
from confluent_kafka.admin import AdminClient, NewTopic

from tests.interop.group_scenarios import SESSION_MS, GroupScenarios
from tests.interop.scenarios import PATIENCE_S, Message, Scenarios

END = -1


class ConfluentKafka:
    """`Client` by confluent-kafka."""

    def __init__(self, bootstrap: str) -> None:
        self.bootstrap = bootstrap
        self._admin = AdminClient({"bootstrap.servers": bootstrap})

    def create_topic(
        self, name: str, partitions: int = 1, configs: Mapping[str, str] = {}, replicas: int = 1
    ) -> None:
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
        self, topic: str, messages: Iterable[Message], *, codec: str = "none", acks: str = "all",
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
            }
        )
        for index, message in enumerate(messages):

            def on_delivery(error, sent, index=index):
                if error is not None:
                    failed.append(KafkaException(error))
                offsets[index] = END if sent.offset() is None else sent.offset()

            producer.produce(
                topic, message.value, message.key, message.partition, on_delivery=on_delivery,
                timestamp=message.timestamp_ms, headers=list(message.headers),
            )
            producer.poll(0)
        assert producer.flush(4 * PATIENCE_S) == 0
        if failed:
            raise failed[0]
        return [offsets[index] for index in sorted(offsets)]

    def read(self, topic: str, partition: int, offset: int, *, wait_ms: int = 100) -> Iterator[tuple[int, Message]]:
        consumer = self._consumer({"fetch.wait.max.ms": wait_ms, "socket.timeout.ms": wait_ms + 30_000})
        try:
            consumer.assign([TopicPartition(topic, partition, offset)])
            while (record := consumer.poll(PATIENCE_S)) is not None:
                if record.error():
                    raise KafkaException(record.error())
                yield record.offset(), Message(
                    record.partition(), record.key(), record.value(), tuple(record.headers() or ()),
                    record.timestamp()[1],
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
        """Its threads end with the object."""


class ConfluentMember:
    """`Member` by confluent-kafka."""

    strategy = "range"

    def __init__(self, bootstrap: str, topic: str, group: str, instance: str | None) -> None:
        self._topic = topic
        self._consumer = Consumer({
            "bootstrap.servers": bootstrap, "group.id": group, "enable.auto.commit": False,
            "auto.offset.reset": "earliest", "session.timeout.ms": SESSION_MS, "heartbeat.interval.ms": 200,
            "partition.assignment.strategy": self.strategy,
            **({} if instance is None else {"group.instance.id": instance})})
        self._consumer.subscribe([topic])

    def poll(self) -> list[tuple[int, int]]:
        found = self._consumer.consume(100, 0.2)
        return [(message.partition(), message.offset()) for message in found if message.error() is None]

    def assigned(self) -> set[int]:
        return {place.partition for place in self._consumer.assignment()}

    def commit(self) -> None:
        for place in self._consumer.commit(asynchronous=False):
            assert place.error is None

    def committed(self, partition: int) -> int | None:
        (place,) = self._consumer.committed([TopicPartition(self._topic, partition)], PATIENCE_S)
        return None if place.offset < 0 else place.offset

    def close(self) -> None:
        self._consumer.close()


class CooperativeMember(ConfluentMember):
    """One that gives back no more than it must (KIP-429)."""

    strategy = "cooperative-sticky"


class TestConfluentKafka(Scenarios):
    library = ConfluentKafka


class TestGroups(GroupScenarios):
    library, member = ConfluentKafka, ConfluentMember


class TestCooperativeGroups(GroupScenarios):
    library, member = ConfluentKafka, CooperativeMember
