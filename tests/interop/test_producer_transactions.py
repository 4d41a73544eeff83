"""Transactions of the producer's faces against this broker and against three nodes of Apache Kafka."""

from __future__ import annotations

import asyncio
import threading
import uuid
from collections.abc import Callable

import kafka
import kafka.errors
import pytest
import trio

from pykbroker.core.errors import ApiError
from pykbroker.core.producer.errors import IllegalCall, TransactionAborted, TransactionError
from pykbroker.kafka import ConsumerGroupMetadata, KafkaProducer, OffsetAndMetadata
from pykbroker.producer import AsyncProducer, Producer
from tests.interop.metadata_pause import without_pause
from tests.interop.target import Target
from tests.interop.test_producer import Restarts, restarts

pytestmark = pytest.mark.timeout(180)
__all__ = ["restarts"]


def new_id() -> str:
    """Return a transactional id that no other test has."""
    return f"transaction-{uuid.uuid4().hex[:8]}"


def committed(target: Target, topic: str) -> list[bytes]:
    """Return the values of committed records."""
    consumer = without_pause(
        kafka.KafkaConsumer(
            bootstrap_servers=target.servers,
            isolation_level="read_committed",
            auto_offset_reset="earliest",
            fetch_max_wait_ms=20,
            retry_backoff_ms=20,
        )
    )
    partitions = [kafka.TopicPartition(topic, index) for index in range(3)]
    consumer.assign(partitions)
    ends = consumer.end_offsets(partitions)
    found: list[bytes] = []
    while any(consumer.position(each) < end for each, end in ends.items()):
        for records in consumer.poll(timeout_ms=1000).values():
            found += [record.value for record in records]
    consumer.close()
    return sorted(found)


async def on_trio(servers: str, topic: str) -> None:
    async with Producer(bootstrap_servers=servers, transactional_id=new_id()) as producer:
        await producer.init_transactions()
        for number in range(3):
            async with producer.transaction():
                await producer.send(topic, b"committed %d" % number)
            with pytest.raises(LookupError):
                await abort_by_an_error(producer, topic)
        await producer.begin_transaction()
        await producer.send(topic, b"open")


async def abort_by_an_error(producer: Producer, topic: str) -> None:
    async with producer.transaction():
        await (await producer.send(topic, b"aborted"))
        raise LookupError


async def on_asyncio(servers: str, topic: str) -> None:
    async with AsyncProducer(bootstrap_servers=servers, transactional_id=new_id()) as producer:
        for number in range(3):
            async with producer.transaction():
                await producer.send(topic, b"committed %d" % number)
            await producer.begin_transaction()
            await (await producer.send(topic, b"aborted"))
            await producer.abort_transaction()
        await producer.begin_transaction()
        await producer.send(topic, b"open")


def in_a_thread(servers: str, topic: str) -> None:
    with KafkaProducer(bootstrap_servers=servers, transactional_id=new_id()) as producer:
        producer.init_transactions()
        for number in range(3):
            producer.begin_transaction()
            producer.send(topic, b"committed %d" % number)
            producer.commit_transaction()
            producer.begin_transaction()
            producer.send(topic, b"aborted").get(60)
            producer.abort_transaction()
        producer.begin_transaction()
        producer.send(topic, b"open")


FACES: dict[str, Callable[[str, str], None]] = {
    "trio": lambda *arguments: trio.run(on_trio, *arguments),
    "asyncio": lambda *arguments: asyncio.run(on_asyncio(*arguments)),
    "threads": in_a_thread,
}


@pytest.mark.parametrize("face", FACES)
def test_only_committed_records_are_visible(target: Target, face: str) -> None:
    topic = target.topic()
    FACES[face](target.servers, topic)
    assert committed(target, topic) == [b"committed %d" % number for number in range(3)]


def test_a_zombie_is_fenced(target: Target) -> None:
    topic, name = target.topic(), new_id()
    zombie = KafkaProducer(bootstrap_servers=target.servers, transactional_id=name)
    zombie.init_transactions()
    zombie.begin_transaction()
    zombie.send(topic, b"zombie").get(60)
    with KafkaProducer(bootstrap_servers=target.servers, transactional_id=name) as producer:
        producer.init_transactions()
        producer.begin_transaction()
        producer.send(topic, b"alive")
        producer.commit_transaction()
        with pytest.raises(kafka.errors.ProducerFencedError):
            zombie.commit_transaction()
        with pytest.raises(kafka.errors.KafkaError):
            zombie.begin_transaction()
    zombie.close()
    assert committed(target, topic) == [b"alive"]


def test_offsets_of_a_group_are_committed_with_the_transaction(target: Target) -> None:
    source, group = target.topic(), f"group-{uuid.uuid4().hex[:8]}"
    partition = kafka.TopicPartition(source, 0)
    with KafkaProducer(bootstrap_servers=target.servers, transactional_id=new_id()) as producer:
        producer.init_transactions()
        for offset, ends in ((5, producer.commit_transaction), (9, producer.abort_transaction)):
            producer.begin_transaction()
            offsets = {partition: OffsetAndMetadata(offset, "note")}
            producer.send_offsets_to_transaction(offsets, ConsumerGroupMetadata(group))
            ends()
    consumer = kafka.KafkaConsumer(bootstrap_servers=target.servers, group_id=group)
    assert consumer.committed(partition) == 5
    consumer.close()


def test_calls_in_the_wrong_order_are_refused_and_change_nothing(target: Target) -> None:
    topic = target.topic()

    async def run() -> None:
        async with Producer(bootstrap_servers=target.servers, transactional_id=new_id()) as producer:
            with pytest.raises(IllegalCall, match="call init_transactions first"):
                await producer.begin_transaction()
            await producer.init_transactions()
            with pytest.raises(IllegalCall, match="call begin_transaction first"):
                await producer.send(topic, b"early")
            await producer.begin_transaction()
            with pytest.raises(IllegalCall, match="commit or abort it first"):
                await producer.begin_transaction()
            await producer.send(topic, b"sent")
            await producer.commit_transaction()
        async with Producer(bootstrap_servers=target.servers) as plain:
            with pytest.raises(IllegalCall, match="set transactional_id"):
                await plain.begin_transaction()

    trio.run(run)
    assert committed(target, topic) == [b"sent"]


def test_a_record_that_fails_aborts_its_transaction_and_the_next_one_works(target: Target) -> None:
    topic = target.topic(**{"cleanup.policy": "compact"})

    async def run() -> None:
        async with Producer(bootstrap_servers=target.servers, transactional_id=new_id(), linger_ms=1000) as producer:
            await producer.init_transactions()
            await producer.begin_transaction()
            refused = await producer.send(topic, b"no key", partition=0)
            await producer.flush()
            with pytest.raises(TransactionError, match="call abort_transaction"):
                await producer.send(topic, b"later", b"key", partition=1)
            with pytest.raises(ApiError, match="Compacted topic cannot accept message without key"):
                await refused
            with pytest.raises(TransactionError, match="call abort_transaction"):
                await producer.commit_transaction()
            await producer.abort_transaction()
            await producer.begin_transaction()
            dropped = await producer.send(topic, b"dropped", b"key", partition=1)
            await producer.abort_transaction()
            with pytest.raises(TransactionAborted):
                await dropped
            async with producer.transaction():
                await producer.send(topic, b"kept", b"key", partition=1)

    trio.run(run)
    assert committed(target, topic) == [b"kept"]


def test_kills_of_the_broker_leave_whole_transactions(restarts: tuple[Target, Restarts]) -> None:
    target, killing = restarts
    topic = target.topic(**{"min.insync.replicas": "1"})
    with killing:
        whole = copy_until(killing.done, target.servers, topic)
    values = committed(target, topic)
    assert len(set(values)) == len(values)
    assert set(values) == {b"%05d-%d" % (number, part) for number in whole for part in range(3)}


def copy_until(done: threading.Event, servers: str, topic: str) -> list[int]:
    """Commit transactions of three records until the event is set. Return the numbers of those that were committed."""
    found: list[int] = []
    number = 0
    with KafkaProducer(bootstrap_servers=servers, transactional_id=new_id(), request_timeout_ms=5000) as producer:
        producer.init_transactions()
        while not done.is_set() or number < 50:
            producer.begin_transaction()
            for part in range(3):
                producer.send(topic, b"%05d-%d" % (number, part), partition=part)
            if number % 5 == 4:
                producer.abort_transaction()
            else:
                producer.commit_transaction()
                found.append(number)
            number += 1
    return found
