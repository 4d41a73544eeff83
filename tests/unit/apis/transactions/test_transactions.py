"""Transactions on a complete broker, compared with the responses of Apache Kafka 4.3.1 to the same requests."""

from __future__ import annotations

from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from tests.unit.apis.conftest import Client, LocalBroker, batch, serving
from tests.unit.apis.transactional import GROUP, TransactionalClient
from wire.error_codes import ErrorCode
from wire.messages.describe_producers import DescribeProducersRequest, TopicRequest
from wire.messages.init_producer_id import InitProducerIdRequest
from wire.messages.list_transactions import ListTransactionsRequest
from wire.messages.produce import PartitionProduceData, ProduceRequest, TopicProduceData
from wire.messages.txn_offset_commit import (
    TxnOffsetCommitRequest,
    TxnOffsetCommitRequestPartition,
    TxnOffsetCommitRequestTopic,
)

OK = ErrorCode.NONE
CONFIGS = {
    "offsets_topic_num_partitions": "3",
    "offsets_topic_replication_factor": "1",
    "transaction_state_log_num_partitions": "3",
    "transaction_state_log_replication_factor": "1",
    "transaction_state_log_min_isr": "1",
}
ABORTED_SOON = {**CONFIGS, "transaction_abort_timed_out_transaction_cleanup_interval_ms": "1"}


@pytest.fixture
async def local_broker(tmp_path: Path) -> AsyncIterator[LocalBroker]:
    async with serving(tmp_path, topics=(("a", 4),), **CONFIGS) as running:
        yield running


@pytest.fixture(params=[False, True], ids=["version 1", "version 2"])
async def producer(client: Client, request: pytest.FixtureRequest) -> TransactionalClient:
    return await TransactionalClient(client, version_2=request.param).begin()


async def write(producer: TransactionalClient, topic: str, value: bytes, sequence: int = 0) -> None:
    """Produce one record in a transaction; begin the transaction if none is open."""
    if not producer.version_2:
        assert await producer.add((topic, 0)) == [OK]
    assert await producer.produce(topic, sequence, value=value) is OK


async def test_read_committed_returns_committed_records_and_no_aborted_records(producer: TransactionalClient) -> None:
    for sequence, (value, commit) in enumerate(((b"1", True), (b"2", False), (b"3", True))):
        await write(producer, "a", value, 0 if producer.version_2 else sequence)
        assert await producer.end(commit=commit) is OK
        assert await producer.settled() == ("CompleteCommit" if commit else "CompleteAbort")
    assert await producer.read("a") == ([b"1", b"3"], 6)


async def test_read_committed_stops_at_an_open_transaction(producer: TransactionalClient) -> None:
    await write(producer, "a", b"open")
    assert (await producer.client.produce("a", batch(b"plain"))).error_code == OK
    assert await producer.read("a") == ([], 0)
    await producer.end(commit=True)
    await producer.settled()
    assert await producer.read("a") == ([b"open", b"plain"], 3)


async def test_offsets_take_effect_when_the_transaction_commits(producer: TransactionalClient) -> None:
    await producer.find(GROUP, "g")
    for offset, commit in ((10, True), (20, False)):
        if not producer.version_2:
            assert await producer.add_offsets("g") is OK
        assert await producer.commit_offset("g", "a", offset) is OK
        assert await producer.committed("g", "a") == -2
        await producer.end(commit=commit)
        await producer.settled()
        assert await producer.committed("g", "a") == 10


async def test_committed_and_open_transactions_survive_a_restart(tmp_path: Path) -> None:
    async with serving(tmp_path, topics=(("a", 1),), **CONFIGS) as local_broker:
        decided = await TransactionalClient(await local_broker.connect(), "decided").begin()
        await write(decided, "a", b"decided")
        open_ = await TransactionalClient(await local_broker.connect(), "open").begin()
        await write(open_, "a", b"open")
        await decided.end(commit=True)
    async with serving(tmp_path, topics=(("a", 1),), **CONFIGS) as local_broker:
        decided.client = open_.client = await local_broker.connect()
        await loaded(decided)
        assert await decided.settled() == "CompleteCommit"
        assert await open_.end(commit=True) is OK
        await open_.settled()
        assert await open_.read("a") == ([b"decided", b"open"], 4)


async def loaded(producer: TransactionalClient) -> None:
    """Wait until the coordinator has loaded `__transaction_state`."""
    while (await producer.described()).error_code in (
        ErrorCode.COORDINATOR_LOAD_IN_PROGRESS,
        ErrorCode.NOT_COORDINATOR,
    ):
        pass


# Producers


@pytest.mark.parametrize(
    ("asked", "code"),
    [
        ({"name": ""}, ErrorCode.INVALID_REQUEST),
        ({"timeout_ms": 0}, ErrorCode.INVALID_TRANSACTION_TIMEOUT),
        ({"timeout_ms": 900_001}, ErrorCode.INVALID_TRANSACTION_TIMEOUT),
        ({"timeout_ms": 900_000}, OK),
        ({"epoch": 0}, ErrorCode.INVALID_REQUEST),
        ({"producer_id": 5}, ErrorCode.INVALID_REQUEST),
    ],
)
async def test_init_producer_id_validates_its_request(
    client: Client, asked: dict[str, object], code: ErrorCode
) -> None:
    producer = TransactionalClient(client)
    await producer.find()
    assert await producer.init(**asked) is code  # type: ignore[arg-type]


async def test_a_refused_init_producer_id_returns_no_producer_id_or_epoch(client: Client) -> None:
    answer = await client.call(InitProducerIdRequest("", 1000), 5)
    assert (answer.producer_id, answer.producer_epoch) == (-1, -1)


async def test_requests_before_find_coordinator_are_refused(client: Client) -> None:
    assert await TransactionalClient(client).init() is ErrorCode.NOT_COORDINATOR


async def test_a_new_producer_fences_the_old_one_and_aborts_its_transaction(local_broker: LocalBroker) -> None:
    old, new = (
        await TransactionalClient(await local_broker.connect()).begin(),
        TransactionalClient(await local_broker.connect()),
    )
    await write(old, "a", b"left")
    assert await new.init() is OK, "InitProducerId waits until the old transaction is aborted"
    assert new.epoch == old.epoch + 2
    assert await old.produce("a", 1) is ErrorCode.INVALID_PRODUCER_EPOCH
    assert await old.add(("a", 0), version=1) == [ErrorCode.INVALID_PRODUCER_EPOCH]
    assert await old.add(("a", 0), version=2) == [ErrorCode.PRODUCER_FENCED]
    assert await old.end(commit=True, version=1) is ErrorCode.INVALID_PRODUCER_EPOCH
    assert await old.end(commit=True, version=2) is ErrorCode.PRODUCER_FENCED
    assert await old.init(producer_id=old.producer_id, epoch=old.epoch, version=3) is ErrorCode.INVALID_PRODUCER_EPOCH
    assert await old.init(producer_id=old.producer_id, epoch=old.epoch, version=4) is ErrorCode.PRODUCER_FENCED
    assert await old.read("a") == ([], 2)


async def test_a_transaction_that_times_out_is_aborted(tmp_path: Path) -> None:
    async with serving(tmp_path, topics=(("a", 1),), **ABORTED_SOON) as local_broker:
        producer = TransactionalClient(await local_broker.connect())
        await producer.find()
        await producer.init(timeout_ms=1_000)
        await write(producer, "a", b"late")
        while (await producer.described()).transaction_state != "CompleteAbort":
            pass
        assert await producer.produce("a", 1) is ErrorCode.INVALID_PRODUCER_EPOCH
        assert await producer.end(commit=True) is ErrorCode.PRODUCER_FENCED
        assert await producer.read("a") == ([], 2)


# Partitions


async def test_no_partition_is_added_if_one_of_the_request_is_refused(client: Client) -> None:
    producer = await TransactionalClient(client).begin()
    assert await producer.add(("a", 0), ("nowhere", 0), ("a", 99), ("__consumer_offsets", 0)) == [
        ErrorCode.OPERATION_NOT_ATTEMPTED,
        ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
        ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
        ErrorCode.TOPIC_AUTHORIZATION_FAILED,
    ]
    assert (await producer.described()).transaction_state == "Empty"


@pytest.mark.parametrize("version", range(6))
async def test_partitions_are_added_in_every_version(client: Client, version: int) -> None:
    producer = await TransactionalClient(client).begin()
    added = (
        producer.add(("a", 0), version=version)
        if version < 4
        else producer.ask_as_broker(("a", 0), verify_only=False, version=version)
    )
    assert await added == [OK]
    described = await producer.described()
    assert (described.transaction_state, described.transaction_timeout_ms) == ("Ongoing", 60_000)
    assert described.transaction_start_time_ms > 0
    assert [(topic.topic, topic.partitions) for topic in described.topics] == [("a", [0])]


async def test_a_broker_verifies_partitions_without_adding_them(client: Client) -> None:
    producer = await TransactionalClient(client).begin()
    await producer.add(("a", 0))
    assert await producer.ask_as_broker(("a", 0), ("a", 1), verify_only=True) == [OK, ErrorCode.TRANSACTION_ABORTABLE]
    assert await producer.ask_as_broker(("a", 0), ("nowhere", 1), verify_only=True) == [
        ErrorCode.OPERATION_NOT_ATTEMPTED,
        ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
    ]
    producer.epoch += 1
    assert await producer.ask_as_broker(("a", 0), verify_only=True) == [ErrorCode.PRODUCER_FENCED]


@pytest.mark.parametrize(
    ("version", "code"),
    [
        (9, ErrorCode.INVALID_TXN_STATE),
        (10, ErrorCode.INVALID_TXN_STATE),
        (11, ErrorCode.TRANSACTION_ABORTABLE),
        (12, OK),
    ],
)
async def test_a_batch_for_a_partition_outside_the_transaction_is_refused(
    client: Client, version: int, code: ErrorCode
) -> None:
    producer = await TransactionalClient(client).begin()
    assert await producer.produce("a", version=version) is code
    assert (await producer.described()).transaction_state == ("Ongoing" if code is OK else "Empty")
    assert (await producer.read("a"))[1] == 0


async def test_a_client_may_write_to_any_partition_if_verification_is_disabled(tmp_path: Path) -> None:
    async with serving(
        tmp_path, topics=(("a", 1),), transaction_partition_verification_enable="false", **CONFIGS
    ) as local_broker:
        producer = await TransactionalClient(await local_broker.connect()).begin()
        assert await producer.produce("a") is OK
        assert (await producer.described()).transaction_state == "Empty"


async def test_a_transactional_batch_with_a_wrong_producer_id_or_epoch_is_refused(client: Client) -> None:
    producer = await TransactionalClient(client).begin()
    await producer.add(("a", 0))
    assert await producer.produce("a", name=None) is ErrorCode.TRANSACTIONAL_ID_AUTHORIZATION_FAILED
    assert await producer.produce("a", name="another") is ErrorCode.INVALID_PRODUCER_ID_MAPPING
    assert await producer.produce("a", producer_epoch=7) is ErrorCode.INVALID_PRODUCER_EPOCH
    assert await producer.produce("a", producer_id=777) is ErrorCode.INVALID_PRODUCER_ID_MAPPING
    assert await producer.produce("a") is OK
    assert await producer.produce("a", 1, transactional=False) is ErrorCode.INVALID_TXN_STATE
    assert await producer.produce("a", 5) is ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER


async def test_a_request_with_batches_of_two_producers_is_refused(client: Client) -> None:
    producer = await TransactionalClient(client).begin()
    request = ProduceRequest(
        "copier",
        -1,
        5000,
        [
            TopicProduceData(
                "a",
                partition_data=[
                    PartitionProduceData(
                        index,
                        batch(
                            b"v",
                            producer_id=producer.producer_id + index,
                            producer_epoch=0,
                            base_sequence=0,
                            transactional=True,
                        ),
                    )
                    for index in range(2)
                ],
            )
        ],
    )
    answers = (await client.call(request, 12)).responses[0].partition_responses
    assert [(one.error_code, one.error_message) for one in answers] == [
        (ErrorCode.INVALID_PRODUCER_ID_MAPPING, "Transactional records contained more than one producer ID")
    ] * 2


async def test_an_unknown_partition_is_not_added_to_the_transaction(client: Client) -> None:
    producer = await TransactionalClient(client).begin()
    data = batch(b"v", producer_id=producer.producer_id, producer_epoch=0, base_sequence=0, transactional=True)
    request = ProduceRequest(
        "copier",
        -1,
        5000,
        [
            TopicProduceData(topic, partition_data=[PartitionProduceData(index, data)])
            for topic, index in (("a", 0), ("nowhere", 0), ("a", 99))
        ],
    )
    answers = [one.partition_responses[0].error_code for one in (await client.call(request, 12)).responses]
    assert answers == [OK, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION]
    assert [(topic.topic, topic.partitions) for topic in (await producer.described()).topics] == [("a", [0])]


async def test_transaction_version_2_restarts_sequences_at_0(client: Client) -> None:
    producer = await TransactionalClient(client, version_2=True).begin()
    assert await producer.produce("a", 5) is ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER
    await write(producer, "a", b"1")
    await producer.end(commit=True)
    assert await producer.produce("a", 1) is ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER
    assert await producer.produce("a", 0) is OK


async def test_a_request_with_the_previous_epoch_does_not_join_the_next_transaction(client: Client) -> None:
    producer = await TransactionalClient(client, version_2=True).begin()
    await write(producer, "a", b"1")
    await producer.end(commit=True)
    await producer.settled()
    producer.epoch -= 1
    assert await producer.produce("a", 1) is ErrorCode.INVALID_PRODUCER_EPOCH
    assert await producer.end(commit=False) is ErrorCode.INVALID_TXN_STATE
    assert await producer.end(commit=True) is OK, (
        "the retry of a completed EndTxn succeeds with the epoch of the request"
    )
    assert producer.epoch == 1


async def test_a_batch_that_is_validated_off_the_event_loop_belongs_to_its_transaction(client: Client) -> None:
    await client.create("packed", compression_type="gzip", max_message_bytes="10000000")
    producer = await TransactionalClient(client, version_2=True).begin()
    assert await producer.produce("packed", value=bytes(1 << 20)) is OK
    await producer.end(commit=True)
    await producer.settled()
    assert len((await producer.read("packed"))[0]) == 1


# Offsets


async def test_add_offsets_to_txn_needs_a_valid_group_and_an_open_transaction(client: Client) -> None:
    producer = await TransactionalClient(client).begin()
    await producer.find(GROUP, "g")
    assert await producer.commit_offset("g", "a", 1, version=3) is ErrorCode.INVALID_TXN_STATE
    assert await producer.commit_offset("g", "a", 1, version=4) is ErrorCode.TRANSACTION_ABORTABLE
    assert await producer.commit_offset("", "a", 1, version=5) is ErrorCode.INVALID_GROUP_ID
    assert await producer.commit_offset("g", "nowhere", 1, version=5) is ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    producer.epoch += 1
    assert await producer.add_offsets("g", version=1) is ErrorCode.INVALID_PRODUCER_EPOCH
    assert await producer.add_offsets("g", version=2) is ErrorCode.PRODUCER_FENCED
    assert await producer.commit_offset("g", "a", 1, version=5) is ErrorCode.INVALID_PRODUCER_EPOCH


async def test_a_topic_with_committed_and_refused_offsets_appears_once_in_the_response(client: Client) -> None:
    producer = await TransactionalClient(client, version_2=True).begin()
    await producer.find(GROUP, "g")
    for epoch, code in ((producer.epoch, OK), (producer.epoch + 1, ErrorCode.INVALID_PRODUCER_EPOCH)):
        answer = await client.call(
            TxnOffsetCommitRequest(
                producer.name,
                "g",
                producer.producer_id,
                epoch,
                topics=[
                    TxnOffsetCommitRequestTopic("a", [TxnOffsetCommitRequestPartition(index, 1) for index in (0, 77)])
                ],
            ),
            5,
        )
        (topic,) = answer.topics
        assert {one.partition_index: one.error_code for one in topic.partitions} == {
            0: code,
            77: ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
        }


async def test_offsets_may_be_added_before_the_groups_coordinator_is_found(client: Client) -> None:
    producer = await TransactionalClient(client).begin()
    assert await producer.add_offsets("g") is OK
    await producer.find(GROUP, "g")
    assert await producer.commit_offset("g", "a", 5) is OK
    await producer.end(commit=True)
    assert await producer.settled() == "CompleteCommit"
    assert await producer.committed("g", "a") == 5


# Markers


async def test_transaction_markers_are_fenced_per_partition(client: Client) -> None:
    producer = await TransactionalClient(client).begin()
    await producer.init()
    assert await producer.markers("nowhere") is ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    assert await producer.markers("a", index=1) is OK, (
        "a marker of a producer that never wrote to the partition is accepted"
    )
    await write(producer, "a", b"1")
    assert await producer.markers("a", epoch=0) is ErrorCode.INVALID_PRODUCER_EPOCH
    assert await producer.markers("a", version=2, transaction_version=2) is ErrorCode.INVALID_PRODUCER_EPOCH
    assert await producer.markers("a", coordinator_epoch=3) is OK
    assert await producer.markers("a", coordinator_epoch=2) is ErrorCode.TRANSACTION_COORDINATOR_FENCED
    assert await producer.markers("a", coordinator_epoch=3) is OK
    described = await client.call(DescribeProducersRequest([TopicRequest("a", [0])]), 0)
    (active,) = described.topics[0].partitions[0].active_producers
    assert (active.producer_epoch, active.last_sequence, active.coordinator_epoch, active.current_txn_start_offset) == (
        1,
        0,
        3,
        -1,
    )


async def test_an_admin_can_abort_a_hanging_transaction(client: Client) -> None:
    """A transaction hangs if the coordinator has no record of it, for example after a data loss in
    `__transaction_state`.
    """
    producer = await TransactionalClient(client).begin()
    await write(producer, "a", b"1")
    await client.produce("a", batch(b"behind"))
    assert await producer.read("a") == ([], 0)
    assert await producer.markers("a") is OK
    assert await producer.read("a") == ([b"behind"], 3)


# Admins


async def test_transactions_are_described_and_listed(local_broker: LocalBroker) -> None:
    producer = await TransactionalClient(await local_broker.connect()).begin()
    other = await TransactionalClient(await local_broker.connect(), "other").begin()
    await write(producer, "a", b"1")
    unknown = TransactionalClient(producer.client, "unknown")
    assert (await unknown.described()).error_code == ErrorCode.TRANSACTIONAL_ID_NOT_FOUND
    assert (await TransactionalClient(producer.client, "").described()).error_code == ErrorCode.INVALID_REQUEST

    async def listed(version: int = 2, **filters: object) -> dict[str, str]:
        answer = await producer.client.call(ListTransactionsRequest(**filters), version)  # type: ignore[arg-type]
        assert answer.error_code == OK
        return {one.transactional_id: one.transaction_state for one in answer.transaction_states}

    both = {"copier": "Ongoing", "other": "Empty"}
    assert await listed(0) == await listed() == await listed(duration_filter=-5) == both
    assert await listed(transactional_id_pattern="") == await listed(transactional_id_pattern="c.*|other") == both
    assert await listed(transactional_id_pattern="cop") == {}, "the pattern must match the whole transactional id"
    assert await listed(transactional_id_pattern="cop.*") == {"copier": "Ongoing"}
    assert await listed(state_filters=["Ongoing"]) == {"copier": "Ongoing"}
    assert await listed(state_filters=["ongoing"]) == {}
    assert await listed(producer_id_filters=[other.producer_id]) == {"other": "Empty"}
    assert await listed(producer_id_filters=[other.producer_id], state_filters=["Ongoing"]) == {}
    assert await listed(duration_filter=100_000) == {"other": "Empty"}, (
        "a transaction that never started counts from 1970, as in Kafka"
    )
    assert await listed(transactional_id_pattern=r"\pL{6}") == {"copier": "Ongoing"}
    for pattern in ("(", "(?=x)", r"(.)\1"):
        answer = await producer.client.call(ListTransactionsRequest(transactional_id_pattern=pattern), 2)
        assert (answer.error_code, answer.transaction_states) == (ErrorCode.INVALID_REGULAR_EXPRESSION, [])
    answer = await producer.client.call(ListTransactionsRequest(state_filters=["Empty", "Bogus"]), 1)
    assert answer.unknown_state_filters == ["Bogus"]
