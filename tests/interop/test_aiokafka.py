"""Tests of aiokafka with the broker. Its event loop runs in a thread, so that scenarios can call it synchronously."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Coroutine, Iterable, Mapping
from typing import Any, TypeVar

from aiokafka import AIOKafkaConsumer, AIOKafkaProducer, TopicPartition
from aiokafka.admin import AIOKafkaAdminClient, NewTopic
from aiokafka.errors import KafkaError, for_code

from tests.interop.group_scenarios import POLL_S, SESSION_MS, GroupScenarios, member_settings
from tests.interop.scenarios import PATIENCE_S, Message, Reading, Scenarios

T = TypeVar("T")


class AioKafka:
    """The `Client` for aiokafka."""

    def __init__(self, bootstrap: str) -> None:
        self.bootstrap = bootstrap
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._loop.run_forever, daemon=True)
        self._thread.start()
        self._admin = self._run(self._administrate())

    def _run(self, what: Coroutine[Any, Any, T]) -> T:
        return asyncio.run_coroutine_threadsafe(what, self._loop).result(4 * PATIENCE_S)

    async def _administrate(self) -> AIOKafkaAdminClient:
        admin = AIOKafkaAdminClient(bootstrap_servers=self.bootstrap)
        await admin.start()
        return admin

    def create_topic(self, name: str, partitions: int = 1, configs: Mapping[str, str] = {}, replicas: int = 1) -> None:
        topic = NewTopic(name, partitions, replicas, topic_configs=dict(configs))
        answer = self._run(self._admin.create_topics([topic]))
        _check(answer.topic_errors[0][1])

    def delete_topic(self, name: str) -> None:
        answer = self._run(self._admin.delete_topics([name]))
        _check(answer.topic_error_codes[0][1])

    def topics(self) -> Mapping[str, int]:
        described = self._run(self._admin.describe_topics())
        return {topic["topic"]: len(topic["partitions"]) for topic in described if not topic["error_code"]}

    def topic_id(self, name: str) -> None:
        return None

    def send(
        self,
        topic: str,
        messages: Iterable[Message],
        *,
        codec: str = "none",
        acks: str = "all",
        idempotent: bool = False,
    ) -> list[int]:
        return self._run(self._send(topic, messages, codec, acks, idempotent))

    async def _send(
        self, topic: str, messages: Iterable[Message], codec: str, acks: str, idempotent: bool
    ) -> list[int]:
        async with AIOKafkaProducer(
            bootstrap_servers=self.bootstrap,
            compression_type=None if codec == "none" else codec,
            acks="all" if acks == "all" else int(acks),
            enable_idempotence=idempotent,
            max_request_size=10_000_000,
            linger_ms=5,
        ) as producer:
            futures = [
                await producer.send(
                    topic, message.value, message.key, message.partition, message.timestamp_ms, list(message.headers)
                )
                for message in messages
            ]
            records = await asyncio.gather(*futures)
        return [-1 if record is None else record.offset for record in records]

    def read(self, topic: str, partition: int, offset: int, *, wait_ms: int = 20) -> Reading:
        consumer = self._run(self._follow(TopicPartition(topic, partition), offset, wait_ms))
        try:
            while True:
                record = self._run(asyncio.wait_for(consumer.getone(), PATIENCE_S))
                yield (
                    record.offset,
                    Message(record.partition, record.key, record.value, tuple(record.headers), record.timestamp),
                )
        finally:
            self._run(consumer.stop())

    async def _follow(self, place: TopicPartition, offset: int, wait_ms: int) -> AIOKafkaConsumer:
        consumer = self._consumer(fetch_max_wait_ms=wait_ms, request_timeout_ms=wait_ms + 30_000)
        await consumer.start()
        consumer.assign([place])
        consumer.seek(place, offset)
        return consumer

    def bounds(self, topic: str, partition: int) -> tuple[int, int]:
        return self._run(self._bounds(TopicPartition(topic, partition)))

    async def _bounds(self, place: TopicPartition) -> tuple[int, int]:
        async with self._consumer() as consumer:
            begin = await consumer.beginning_offsets([place])
            end = await consumer.end_offsets([place])
            return begin[place], end[place]

    def offset_at(self, topic: str, partition: int, timestamp_ms: int) -> int | None:
        return self._run(self._offset_at(TopicPartition(topic, partition), timestamp_ms))

    async def _offset_at(self, place: TopicPartition, timestamp_ms: int) -> int | None:
        async with self._consumer() as consumer:
            found = (await consumer.offsets_for_times({place: timestamp_ms}))[place]
            return found and found.offset

    def _consumer(self, **settings: Any) -> AIOKafkaConsumer:
        return AIOKafkaConsumer(
            bootstrap_servers=self.bootstrap,
            enable_auto_commit=False,
            auto_offset_reset="earliest",
            retry_backoff_ms=20,
            **settings,
        )

    @staticmethod
    def error_code(error: BaseException) -> int | None:
        return error.errno if isinstance(error, KafkaError) else None

    def close(self) -> None:
        self._run(self._admin.close())
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join()
        self._loop.close()


class AioKafkaMember:
    """The `Member` for aiokafka, with an event loop of its own."""

    def __init__(
        self, bootstrap: str, topic: str, group: str, instance: str | None = None, session_ms: int = SESSION_MS
    ) -> None:
        self._topic = topic
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._loop.run_forever, daemon=True)
        self._thread.start()
        self._consumer = self._run(self._join(bootstrap, topic, group, instance, session_ms))

    def _run(self, what: Coroutine[Any, Any, T]) -> T:
        return asyncio.run_coroutine_threadsafe(what, self._loop).result(4 * PATIENCE_S)

    async def _join(
        self, bootstrap: str, topic: str, group: str, instance: str | None, session_ms: int
    ) -> AIOKafkaConsumer:
        consumer = AIOKafkaConsumer(
            topic, retry_backoff_ms=50, **member_settings(bootstrap, group, instance, session_ms)
        )
        await consumer.start()
        return consumer

    def poll(self) -> list[tuple[int, int]]:
        found = self._run(self._consumer.getmany(timeout_ms=round(1000 * POLL_S)))
        return [(record.partition, record.offset) for records in found.values() for record in records]

    def assigned(self) -> set[int]:
        return {place.partition for place in self._consumer.assignment()}

    def commit(self) -> None:
        self._run(self._consumer.commit())

    def committed(self, partition: int) -> int | None:
        return self._run(self._consumer.committed(TopicPartition(self._topic, partition)))

    def close(self) -> None:
        if self._thread.is_alive():
            self._run(self._consumer.stop())
            self._loop.call_soon_threadsafe(self._loop.stop)
            self._thread.join()
            self._loop.close()


def _check(code: int) -> None:
    if code:
        raise for_code(code)


class TestAioKafka(Scenarios):
    library = AioKafka


class TestGroups(GroupScenarios):
    library, member = AioKafka, AioKafkaMember
