"""Requests that prepare a broker for the tests of commands."""

from __future__ import annotations

from collections.abc import Awaitable, Callable

import trio

from pykbroker.cli.ask import converse
from pykbroker.cli.parameters import bootstrap_servers
from pykbroker.client.admin.admin import Admin
from wire.error_codes import ErrorCode
from wire.messages.add_partitions_to_txn import (
    AddPartitionsToTxnRequest,
    AddPartitionsToTxnTopic,
    AddPartitionsToTxnTransaction,
)
from wire.messages.find_coordinator import FindCoordinatorRequest
from wire.messages.init_producer_id import InitProducerIdRequest, InitProducerIdResponse
from wire.messages.metadata import MetadataRequest, MetadataRequestTopic
from wire.messages.produce import PartitionProduceData, ProduceRequest, TopicProduceData
from wire.records.builder import BatchBuilder

TRANSACTION = 1
TIMEOUT_MS = 5_000
RETRIABLE = (ErrorCode.COORDINATOR_NOT_AVAILABLE, ErrorCode.COORDINATOR_LOAD_IN_PROGRESS, ErrorCode.NOT_COORDINATOR)


def prepare(broker: str, work: Callable[[Admin], Awaitable[None]]) -> None:
    """Run `work` with an admin client of this broker."""
    trio.run(converse, bootstrap_servers(broker), work)


async def begin_transaction(admin: Admin, transactional_id: str, topic: str, partitions: list[int]) -> None:
    """Open a transaction with these partitions."""
    producer = await init_transactions(admin, transactional_id)
    topics = [AddPartitionsToTxnTopic(topic, partitions)]
    transaction = AddPartitionsToTxnTransaction(
        transactional_id, producer.producer_id, producer.producer_epoch, topics=topics
    )
    answer = await admin.connection.ask(AddPartitionsToTxnRequest([transaction]))
    codes = [
        part.partition_error_code
        for result in answer.results_by_transaction
        for each in result.topic_results
        for part in each.results_by_partition
    ]
    assert codes == [0] * len(partitions)


async def init_transactions(admin: Admin, transactional_id: str | None) -> InitProducerIdResponse:
    """Return a producer id. Retry while the coordinator loads."""
    while True:
        if transactional_id is not None:
            await admin.connection.ask(
                FindCoordinatorRequest(key_type=TRANSACTION, coordinator_keys=[transactional_id])
            )
        answer = await admin.connection.ask(InitProducerIdRequest(transactional_id, TIMEOUT_MS))
        if answer.error_code not in RETRIABLE:
            assert not answer.error_code
            return answer
        await trio.lowlevel.checkpoint()


async def produce(admin: Admin, topic: str, partition: int, timestamp: int) -> int:
    """Append two records by a new idempotent producer, and return its producer id."""
    producer = await init_transactions(admin, None)
    builder = BatchBuilder(producer_id=producer.producer_id, producer_epoch=producer.producer_epoch, base_sequence=0)
    builder.append(None, b"first", timestamp=timestamp)
    builder.append(None, b"second", timestamp=timestamp)
    metadata = await admin.connection.ask(MetadataRequest(topics=[MetadataRequestTopic(name=topic)]))
    data = [PartitionProduceData(partition, builder.build())]
    topics = [TopicProduceData(topic, metadata.topics[0].topic_id, data)]
    answer = await admin.connection.ask(ProduceRequest(acks=1, timeout_ms=TIMEOUT_MS, topic_data=topics))
    assert [part.error_code for each in answer.responses for part in each.partition_responses] == [0]
    return producer.producer_id
