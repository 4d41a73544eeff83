"""The clients and state that Kafka's group tools describe: consumers, empty groups and open transactions.

Topic `g` has partitions of 10 and 5 records, one second apart, of which the first is an hour old. `g2`, `hang` and `v`
also have two partitions.
"""

from __future__ import annotations

import contextlib
import threading
import time
from collections.abc import Callable, Iterator
from datetime import UTC, datetime

import confluent_kafka as ck
from confluent_kafka.admin import AdminClient, NewTopic

from tests.interop.leaving import leave
from tests.interop.raw_client import RawClient
from wire.messages.find_coordinator import FindCoordinatorRequest, FindCoordinatorResponse
from wire.messages.incremental_alter_configs import (
    AlterableConfig,
    AlterConfigsResource,
    IncrementalAlterConfigsRequest,
    IncrementalAlterConfigsResponse,
)
from wire.messages.init_producer_id import InitProducerIdRequest, InitProducerIdResponse
from wire.messages.produce import PartitionProduceData, ProduceRequest, ProduceResponse, TopicProduceData
from wire.records.builder import BatchBuilder

PATIENCE_S = 30
HOUR_MS = 3_600_000
BROKER_RESOURCE, SET, TRANSACTION = 4, 0, 1
VERIFICATION = "transaction.partition.verification.enable"
OF_CLASSIC: dict[str, str | int] = {"group.protocol": "classic", "session.timeout.ms": 45_000}
OF_CONSUMER: dict[str, str | int] = {"group.protocol": "consumer"}


@contextlib.contextmanager
def actors(bootstrap: str) -> Iterator[dict[str, str]]:
    """Keep all clients and state alive during the block; yield the values that the tools need as arguments.

    `moment` is the timestamp of the fourth records of `g`; `lost` is the producer id of a hanging transaction.
    """
    begun_ms = int(time.time()) * 1000 - HOUR_MS
    fill(bootstrap, begun_ms)
    for group in ("left", "forgotten", "moved"):
        visit(bootstrap, group, OF_CLASSIC)
    for group in ("newleft", "newgone"):
        visit(bootstrap, group, OF_CONSUMER)
    for group in ("simple", "gone"):
        commit(consumer(bootstrap, group, OF_CLASSIC))
    active = [joined(bootstrap, "busy", OF_CLASSIC), joined(bootstrap, "newbusy", OF_CONSUMER)]
    open_transactions = [begun(bootstrap, "open"), begun(bootstrap, "cut")]
    with RawClient(bootstrap) as client:
        leave_hanging(client, "lost", 0)
        lost = leave_hanging(client, "lost-too", 1)
    ended = threading.Event()
    polling = threading.Thread(target=poll, args=(active, ended))
    polling.start()
    moment = datetime.fromtimestamp(begun_ms / 1000 + 3, UTC).strftime("%Y-%m-%dT%H:%M:%S.000")
    yield {"moment": moment, "lost": str(lost)}
    ended.set()
    polling.join()
    for one in active:
        leave(one)
    del open_transactions


def fill(bootstrap: str, begun_ms: int) -> None:
    """Create the topics and their records."""
    admin = AdminClient({"bootstrap.servers": bootstrap})
    for created in admin.create_topics([NewTopic(name, 2, 1) for name in ("g", "g2", "hang", "v")]).values():
        created.result(PATIENCE_S)
    producer = ck.Producer({"bootstrap.servers": bootstrap})
    for partition, count in ((0, 10), (1, 5)):
        for offset in range(count):
            producer.produce("g", b"%d" % offset, partition=partition, timestamp=begun_ms + 1000 * offset)
    assert producer.flush(PATIENCE_S) == 0


def consumer(bootstrap: str, group: str, protocol: dict[str, str | int]) -> ck.Consumer:
    return ck.Consumer(
        {
            "bootstrap.servers": bootstrap,
            "group.id": group,
            "client.id": "actor",
            "log_level": 0,
            "auto.offset.reset": "earliest",
            "enable.auto.commit": False,
            "fetch.wait.max.ms": 50,
            **protocol,
        }
    )


def commit(one: ck.Consumer) -> None:
    """Commit offset 5 of the first partition and offset 2 of the second."""
    places = [ck.TopicPartition("g", 0, 5), ck.TopicPartition("g", 1, 2)]
    eventually(lambda: one.commit(offsets=places, asynchronous=False))


def eventually(call: Callable[[], object]) -> None:
    """Repeat `call` until it succeeds, since Kafka's coordinators load in the background."""
    deadline = time.monotonic() + PATIENCE_S
    while True:
        with contextlib.suppress(ck.KafkaException):
            call()
            return
        assert time.monotonic() < deadline
        time.sleep(0.05)


def joined(bootstrap: str, group: str, protocol: dict[str, str | int]) -> ck.Consumer:
    """Return a consumer that is assigned both partitions and has committed."""
    one = consumer(bootstrap, group, protocol)
    one.subscribe(["g"])
    deadline = time.monotonic() + PATIENCE_S
    while len(one.assignment()) < 2:
        assert time.monotonic() < deadline
        one.poll(0.02)
    commit(one)
    return one


def visit(bootstrap: str, group: str, protocol: dict[str, str | int]) -> None:
    """Create a group whose only member has left."""
    leave(joined(bootstrap, group, protocol))


def poll(active: list[ck.Consumer], ended: threading.Event) -> None:
    """Poll the consumers until `ended` is set."""
    while not ended.wait(0.1):
        for one in active:
            one.poll(0)


def begun(bootstrap: str, transactional_id: str) -> ck.Producer:
    """Return a producer with an open transaction."""
    producer = ck.Producer(
        {
            "bootstrap.servers": bootstrap,
            "transactional.id": transactional_id,
            "log_level": 0,
            "transaction.timeout.ms": 600_000,
        }
    )
    producer.init_transactions(PATIENCE_S)
    producer.begin_transaction()
    producer.produce("g2", b"x", partition=0)
    assert producer.flush(PATIENCE_S) == 0
    return producer


def leave_hanging(client: RawClient, transactional_id: str, partition: int) -> int:
    """Leave a transaction of one partition open for which the coordinator has no record; return its producer id.

    The transaction is one hour old.
    """
    find = FindCoordinatorRequest(key_type=TRANSACTION, coordinator_keys=[transactional_id])
    while client.call(FindCoordinatorResponse, find, 4).coordinators[0].error_code:
        time.sleep(0.05)
    made = client.call(InitProducerIdResponse, InitProducerIdRequest(transactional_id, 60_000), 4)
    assert made.error_code == 0, made
    builder = BatchBuilder(
        producer_id=made.producer_id, producer_epoch=made.producer_epoch, base_sequence=0, transactional=True
    )
    builder.append(None, b"x", (), int(time.time() * 1000) - HOUR_MS)
    verify(client, "false")
    records = [PartitionProduceData(partition, builder.build())]
    request = ProduceRequest(transactional_id, -1, 10_000, [TopicProduceData("hang", partition_data=records)])
    while client.call(ProduceResponse, request, 11).responses[0].partition_responses[0].error_code:
        time.sleep(0.05)  # Kafka applies a changed config after some time.
    verify(client, "true")
    return made.producer_id


def verify(client: RawClient, text: str) -> None:
    """Set whether the broker verifies transactions with the coordinator before it appends a batch."""
    request = IncrementalAlterConfigsRequest(
        [AlterConfigsResource(BROKER_RESOURCE, "", [AlterableConfig(VERIFICATION, SET, text)])]
    )
    assert client.call(IncrementalAlterConfigsResponse, request, 1).responses[0].error_code == 0
