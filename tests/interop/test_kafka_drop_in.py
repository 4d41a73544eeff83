"""The drop-in for kafka-python: the scenarios of kafka-python, and the same calls on both."""

from __future__ import annotations

import uuid
from collections.abc import Iterator, Mapping
from typing import Any, ClassVar

import kafka
import pytest

import pykbroker.kafka
from tests.interop.drop_in_programs import OF_CONSUMER, OF_PRODUCER
from tests.interop.drop_in_run import differences
from tests.interop.group_scenarios import GroupScenarios
from tests.interop.metadata_pause import without_pause
from tests.interop.scenarios import Scenarios
from tests.interop.target import Target
from tests.interop.test_kafka_python import KafkaPython, KafkaPythonMember

pytestmark = [pytest.mark.timeout(120), pytest.mark.filterwarnings("ignore:.* does not implement:DeprecationWarning")]
TIME_MS = 1_700_000_000_000


class DropIn(KafkaPython):
    """The `Client` with the classes of pykbroker.kafka."""

    producer_type = pykbroker.kafka.KafkaProducer
    consumer_type = pykbroker.kafka.KafkaConsumer
    ways: ClassVar[Mapping[str, object]] = {}


class DropInMember(KafkaPythonMember):
    """The `Member` with the consumer of pykbroker.kafka."""

    consumer_type = pykbroker.kafka.KafkaConsumer
    ways: ClassVar[Mapping[str, object]] = {}

    def generation(self) -> int:
        """Return the generation in which it is a member, or -1."""
        return int(self._thread.submit(self._consumer.group_metadata).result().generation_id)


class TestDropIn(Scenarios):
    library = DropIn


class TestGroups(GroupScenarios):
    library, member = DropIn, DropInMember


class Told:
    """A listener of both libraries that notes how many partitions come and go. kafka-python also calls it with none."""

    def __init__(self) -> None:
        self.calls: list[tuple[str, int]] = []

    def on_partitions_assigned(self, assigned: Any) -> None:
        self.note("assigned", assigned)

    def on_partitions_revoked(self, revoked: Any) -> None:
        self.note("revoked", revoked)

    def note(self, event: str, partitions: Any) -> None:
        if partitions:
            self.calls.append((event, len(partitions)))


class TheirListener(Told, kafka.ConsumerRebalanceListener):
    pass


def transcript(module: Any, target: Target, topic: str) -> Iterator[Any]:
    """Yield what the calls of a consumer return."""
    listener = TheirListener() if module is kafka else Told()
    consumer = module.KafkaConsumer(
        bootstrap_servers=target.servers,
        group_id=f"group-{uuid.uuid4().hex}",
        auto_offset_reset="earliest",
        consumer_timeout_ms=20_000,
        fetch_max_wait_ms=20,
        metadata_max_age_ms=1000,  # a node of Kafka may not know the new topic so far
        value_deserializer=lambda value: value.decode(),
    )
    consumer.subscribe([topic], listener=listener)
    yield sorted(tuple(next(consumer)) for _ in range(30))
    yield listener.calls
    partitions = [module.TopicPartition(topic, index) for index in range(3)]
    first = partitions[0]
    yield consumer.assignment(), consumer.subscription(), consumer.paused()
    yield [consumer.position(each) for each in partitions], consumer.highwater(first)
    yield consumer.committed(first), consumer.commit(), consumer.committed(first)
    consumer.commit({first: module.OffsetAndMetadata(4, "four", -1)})
    yield tuple(consumer.committed(first, metadata=True))
    yield consumer.beginning_offsets(partitions), consumer.end_offsets(partitions)
    yield {key: tuple(each) for key, each in consumer.offsets_for_times({first: TIME_MS + 10}).items()}
    yield consumer.offsets_for_times({first: TIME_MS + 1000})
    yield consumer.partitions_for_topic(topic), topic in consumer.topics()
    consumer.seek(first, 7)
    yield [record.offset for record in consumer.poll(20_000)[first]]
    consumer.seek_to_beginning(first)
    yield consumer.position(first)
    consumer.seek_to_end()
    yield [consumer.position(each) for each in partitions]
    consumer.pause(first)
    yield consumer.paused()
    consumer.resume(first)
    yield consumer.paused(), consumer.poll(0)
    consumer.unsubscribe()
    yield consumer.assignment(), consumer.subscription()
    consumer.assign([first])
    consumer.seek(first, 9)
    yield [record.value for record in consumer.poll(20_000)[first]]
    consumer.close()


def test_both_consumers_return_the_same(target: Target) -> None:
    topic = target.topic()
    producer = without_pause(kafka.KafkaProducer(bootstrap_servers=target.servers))
    for number in range(30):
        headers = [("number", b"%d" % number)] if number % 2 else None
        producer.send(topic, b"%d" % number, b"key", headers, number % 3, TIME_MS + number)
    producer.close()
    theirs = transcript(kafka, target, topic)
    for ours, expected in zip(transcript(pykbroker.kafka, target, topic), theirs, strict=True):
        assert ours == expected


@pytest.mark.parametrize("target", ["pykbroker"], indirect=True)
def test_programs_have_the_same_outcome_except_for_the_differences_in_the_docs(target: Target) -> None:
    target.topic("letters")
    target.topic("numbers")
    with kafka.KafkaProducer(bootstrap_servers=target.servers) as producer:
        for partition in range(3):
            producer.send("letters", b"a", partition=partition)
    expected = [part.outcomes for part in (*OF_PRODUCER, *OF_CONSUMER)]
    assert differences(target.servers) == {(program, *each) for part in expected for program, each in part.items()}


@pytest.mark.parametrize("libraries", [("kafka", "pykbroker.kafka"), ("pykbroker.kafka", "pykbroker.kafka")])
def test_a_transactional_copy_has_each_record_once(target: Target, libraries: tuple[str, str]) -> None:
    source, copy, group = target.topic(), target.topic(), uuid.uuid4().hex
    producer = without_pause(kafka.KafkaProducer(bootstrap_servers=target.servers))
    for number in range(300):
        producer.send(source, b"%d" % number, partition=number % 3)
    producer.close()
    for library in libraries:
        copy_some(kafka if library == "kafka" else pykbroker.kafka, target, source, copy, group)
    consumer = pykbroker.kafka.KafkaConsumer(
        copy, bootstrap_servers=target.servers, auto_offset_reset="earliest", isolation_level="read_committed"
    )
    found = [int(next(consumer).value) for _ in range(300)]
    consumer.close()
    assert sorted(found) == list(range(300))


def copy_some(module: Any, target: Target, source: str, copy: str, group: str) -> None:
    """Copy 150 records in transactions, and leave another one open."""
    consumer = module.KafkaConsumer(
        source,
        bootstrap_servers=target.servers,
        group_id=group,
        enable_auto_commit=False,
        auto_offset_reset="earliest",
        max_poll_records=50,
        fetch_max_wait_ms=20,
    )
    producer = module.KafkaProducer(bootstrap_servers=target.servers, transactional_id=group)
    producer.init_transactions()
    done = 0
    while done < 150:
        for partition, records in consumer.poll(1000, max_records=min(50, 150 - done)).items():
            producer.begin_transaction()
            for record in records:
                producer.send(copy, record.value, partition=record.partition)
            offsets = {partition: module.OffsetAndMetadata(records[-1].offset + 1, "", -1)}
            producer.send_offsets_to_transaction(offsets, consumer.group_metadata())
            producer.commit_transaction()
            done += len(records)
    producer.begin_transaction()
    producer.send(copy, b"-1").get(timeout=20)
    consumer.close()
    producer.abort_transaction()
    producer.close()
