"""ListOffsets: special timestamps (earliest, latest, ...) and real timestamps, in every version that has them."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from tests.unit.apis.conftest import Client, serving
from tests.unit.apis.transactional import TransactionalClient
from wire.error_codes import ErrorCode
from wire.messages.list_offsets import (
    ListOffsetsPartition,
    ListOffsetsPartitionResponse,
    ListOffsetsRequest,
    ListOffsetsTopic,
)
from wire.records.builder import BatchBuilder

T = 1_700_000_000_000


async def ask(
    client: Client, timestamp: int, version: int = 11, *, committed: bool = False, **fields: Any
) -> ListOffsetsPartitionResponse:
    name, index = fields.pop("topic", "a"), fields.pop("partition", 0)
    request = ListOffsetsRequest(
        replica_id=-1,
        isolation_level=int(committed),
        topics=[
            ListOffsetsTopic(
                name=name, partitions=[ListOffsetsPartition(partition_index=index, timestamp=timestamp, **fields)]
            )
        ],
    )
    answer: ListOffsetsPartitionResponse = (await client.call(request, version)).topics[0].partitions[0]
    return answer


async def fill(client: Client) -> None:
    """Produce three batches of two records, with timestamps T and T + 1, T + 10 and T + 5, T + 20 and T + 21."""
    for first, second in ((0, 1), (10, 5), (20, 21)):
        builder = BatchBuilder()
        builder.append(b"k", b"v", timestamp=T + first)
        builder.append(b"k", b"v", timestamp=T + second)
        assert (await client.produce("a", builder.build())).error_code == 0


@pytest.mark.parametrize("version", range(1, 12))
async def test_every_version_returns_the_earliest_and_the_latest_offset(client: Client, version: int) -> None:
    await fill(client)
    latest, earliest = await ask(client, -1, version), await ask(client, -2, version)
    assert (latest.error_code, latest.offset, latest.timestamp) == (0, 6, -1)
    assert (earliest.error_code, earliest.offset, earliest.timestamp) == (0, 0, -1)
    assert (latest.leader_epoch, earliest.leader_epoch) == ((0, 0) if version >= 4 else (-1, -1))


@pytest.mark.parametrize(
    ("timestamp", "found"),
    [
        (0, (T, 0)),
        (T, (T, 0)),
        (T + 1, (T + 1, 1)),
        (T + 2, (T + 10, 2)),
        (T + 10, (T + 10, 2)),
        (T + 11, (T + 20, 4)),
        (T + 21, (T + 21, 5)),
        (T + 22, (-1, -1)),
    ],
)
async def test_a_timestamp_finds_the_first_record_at_or_after_it(
    client: Client, timestamp: int, found: tuple[int, int]
) -> None:
    await fill(client)
    answer = await ask(client, timestamp)
    assert (answer.error_code, answer.timestamp, answer.offset) == (0, *found)


async def test_max_timestamp_finds_the_record_with_the_largest_timestamp(client: Client) -> None:
    assert (await ask(client, -3)).offset == -1
    await fill(client)
    answer = await ask(client, -3)
    assert (answer.timestamp, answer.offset) == (T + 21, 5)


async def test_max_timestamp_of_a_log_without_timestamps_finds_its_first_record(client: Client) -> None:
    builder = BatchBuilder()
    for _ in range(2):
        builder.append(b"k", b"v", timestamp=-1)
    assert (await client.produce("a", builder.build())).error_code == 0
    answer = await ask(client, -3)
    assert (answer.error_code, answer.timestamp, answer.offset, answer.leader_epoch) == (0, -1, 0, 0)


async def test_max_timestamp_in_an_open_transaction_is_not_found_under_read_committed(tmp_path: Path) -> None:
    async with serving(
        tmp_path, topics=(("a", 1),), transaction_state_log_replication_factor="1", transaction_state_log_min_isr="1"
    ) as local_broker:
        client = await local_broker.connect()
        producer = await TransactionalClient(client, version_2=True).begin()
        assert await producer.produce("a") is ErrorCode.NONE
        assert (await ask(client, -3)).offset == 0
        assert (await ask(client, -3, committed=True)).offset == -1
        assert await producer.end(commit=True) is ErrorCode.NONE
        await producer.settled()
        assert (await ask(client, -3, committed=True)).offset == 1


@pytest.mark.parametrize(("timestamp", "offset", "first_version"), [(-3, 5, 7), (-4, 0, 8), (-5, -1, 9), (-6, -1, 11)])
async def test_a_special_timestamp_is_refused_in_versions_that_lack_it(
    client: Client, timestamp: int, offset: int, first_version: int
) -> None:
    await fill(client)
    early = await ask(client, timestamp, first_version - 1)
    assert (early.error_code, early.offset) == (ErrorCode.UNSUPPORTED_VERSION, -1)
    assert (await ask(client, timestamp, first_version)).offset == offset


async def test_unknown_partitions_are_refused(client: Client) -> None:
    assert (await ask(client, -1, topic="nobody")).error_code == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    assert (await ask(client, -1, partition=4)).error_code == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    assert (await ask(client, -1, current_leader_epoch=9)).error_code == ErrorCode.UNKNOWN_LEADER_EPOCH


@pytest.mark.parametrize("version", [1, 7, 11])
async def test_a_repeated_partition_is_refused_and_has_one_result(client: Client, version: int) -> None:
    await client.create("b")
    asked = [
        ListOffsetsTopic(name, [ListOffsetsPartition(partition_index=index, timestamp=time) for index, time in those])
        for name, those in (
            ("a", [(0, -1), (1, -1), (0, -2), (9, -1), (9, -1)]),
            ("b", [(0, -1)]),
            ("a", [(1, -1), (2, -1)]),
        )
    ]
    response = await client.call(ListOffsetsRequest(replica_id=-1, topics=asked), version)
    refused = ErrorCode.INVALID_REQUEST
    assert [
        (one.name, [(part.partition_index, part.error_code) for part in one.partitions]) for one in response.topics
    ] == [("a", [(0, refused), (1, refused), (9, refused), (2, 0)]), ("b", [(0, 0)])]
