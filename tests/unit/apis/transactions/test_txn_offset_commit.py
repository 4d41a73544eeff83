"""Tests of the error codes of TxnOffsetCommit, which Apache Kafka 4.3.1 returns, too."""

from __future__ import annotations

from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from pykbroker.apis.transactions.txn_offset_commit import code_for_client
from pykbroker.broker.parts import Parts
from pykbroker.core.errors import ApiError
from pykbroker.core.names import GROUP_METADATA_TOPIC
from pykbroker.core.topic_partition import TopicPartition
from pykbroker.storage.files.errors import CorruptLog
from tests.unit.apis.conftest import Client, LocalBroker, serving
from tests.unit.apis.transactional import GROUP, TransactionalClient
from wire.error_codes import ErrorCode
from wire.messages.heartbeat import HeartbeatRequest
from wire.messages.offset_commit import OffsetCommitRequest, OffsetCommitRequestPartition, OffsetCommitRequestTopic
from wire.messages.offset_fetch import OffsetFetchRequest, OffsetFetchRequestGroup
from wire.messages.txn_offset_commit import (
    TxnOffsetCommitRequest,
    TxnOffsetCommitRequestPartition,
    TxnOffsetCommitRequestTopic,
)

CONFIGS = {
    "offsets_topic_num_partitions": "1",
    "offsets_topic_replication_factor": "1",
    "transaction_state_log_num_partitions": "1",
    "transaction_state_log_replication_factor": "1",
    "transaction_state_log_min_isr": "1",
}
UNAVAILABLE, NOT_COORDINATOR = ErrorCode.COORDINATOR_NOT_AVAILABLE, ErrorCode.NOT_COORDINATOR


@pytest.fixture
async def local_broker(tmp_path: Path) -> AsyncIterator[LocalBroker]:
    async with serving(tmp_path, topics=(("a", 1),), **CONFIGS) as running:
        yield running


async def in_transaction(producer: TransactionalClient, version: int) -> dict[tuple[str, int], ErrorCode]:
    """Commit offsets of two partitions, of which one does not exist. Return the error codes."""
    topics = [TxnOffsetCommitRequestTopic("a", [TxnOffsetCommitRequestPartition(index, 1) for index in (0, 77)])]
    request = TxnOffsetCommitRequest(producer.name, "g", producer.producer_id, producer.epoch, topics=topics)
    answer = await producer.client.call(request, version)
    return {
        (topic.name, one.partition_index): ErrorCode(one.error_code)
        for topic in answer.topics
        for one in topic.partitions
    }


async def of_group(client: Client) -> list[ErrorCode]:
    """Return the error codes of OffsetCommit, OffsetFetch and Heartbeat."""
    topics = [OffsetCommitRequestTopic("a", partitions=[OffsetCommitRequestPartition(0, 1)])]
    committed = await client.call(OffsetCommitRequest("g", topics=topics), 8)
    fetched = await client.call(OffsetFetchRequest(groups=[OffsetFetchRequestGroup("g", topics=None)]), 8)
    heard = await client.call(HeartbeatRequest("g", 1, "m"), 3)
    codes = (committed.topics[0].partitions[0].error_code, fetched.groups[0].error_code, heard.error_code)
    return [ErrorCode(code) for code in codes]


@pytest.mark.parametrize("version", [0, 3, 5])
async def test_offsets_of_a_transaction_wait_for_the_topic_of_coordinators(client: Client, version: int) -> None:
    producer = await TransactionalClient(client).begin()
    unknown = ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    assert await in_transaction(producer, version) == {("a", 0): UNAVAILABLE, ("a", 77): unknown}
    assert await of_group(client) == [NOT_COORDINATOR] * 3


@pytest.mark.parametrize("version", [0, 3, 5])
async def test_an_offline_partition_of_a_coordinator_has_no_coordinator(
    client: Client, local_broker: LocalBroker, version: int
) -> None:
    producer = await TransactionalClient(client).begin()
    await producer.find(GROUP, "g")
    assert (await of_group(client))[0] is ErrorCode.NONE
    parts = local_broker.serving.observer.parts
    assert isinstance(parts, Parts)
    partition = parts.replicas.partition(TopicPartition(GROUP_METADATA_TOPIC, 0))
    with pytest.raises(ApiError), partition.errors():
        raise CorruptLog("bit rot")
    assert not partition.is_online
    unknown = ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    assert await in_transaction(producer, version) == {("a", 0): NOT_COORDINATOR, ("a", 77): unknown}
    assert await of_group(client) == [NOT_COORDINATOR] * 3


@pytest.mark.parametrize(
    ("code", "version", "expected"),
    [
        (ErrorCode.NETWORK_EXCEPTION, 5, ErrorCode.COORDINATOR_LOAD_IN_PROGRESS),
        (ErrorCode.NETWORK_EXCEPTION, 2, ErrorCode.COORDINATOR_LOAD_IN_PROGRESS),
        (ErrorCode.NETWORK_EXCEPTION, 1, ErrorCode.COORDINATOR_NOT_AVAILABLE),
        (ErrorCode.TRANSACTION_ABORTABLE, 4, ErrorCode.TRANSACTION_ABORTABLE),
        (ErrorCode.TRANSACTION_ABORTABLE, 3, ErrorCode.INVALID_TXN_STATE),
        (ErrorCode.PRODUCER_FENCED, 5, ErrorCode.INVALID_PRODUCER_EPOCH),
        (ErrorCode.NOT_COORDINATOR, 5, ErrorCode.NOT_COORDINATOR),
        (ErrorCode.KAFKA_STORAGE_ERROR, 5, ErrorCode.NOT_COORDINATOR),
        (ErrorCode.NOT_LEADER_OR_FOLLOWER, 0, ErrorCode.NOT_COORDINATOR),
        (ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, 0, ErrorCode.COORDINATOR_NOT_AVAILABLE),
        (ErrorCode.NOT_ENOUGH_REPLICAS, 5, ErrorCode.COORDINATOR_NOT_AVAILABLE),
        (ErrorCode.REQUEST_TIMED_OUT, 5, ErrorCode.COORDINATOR_NOT_AVAILABLE),
    ],
)
def test_a_client_gets_an_error_that_its_version_understands(code, version, expected):
    assert code_for_client(code, version) is expected
