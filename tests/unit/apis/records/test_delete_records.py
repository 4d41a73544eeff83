"""DeleteRecords: the new log start offset, fetches of deleted offsets, and refused requests."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from pykbroker.apis.records.delete_records import DeleteRecords
from pykbroker.core.security.operation import Operation
from tests.unit.apis.calling import Denies, context, gone_through
from tests.unit.apis.conftest import Client, batch, serving
from wire.error_codes import ErrorCode
from wire.messages.delete_records import DeleteRecordsPartition, DeleteRecordsRequest, DeleteRecordsTopic
from wire.messages.list_offsets import ListOffsetsPartition, ListOffsetsRequest, ListOffsetsTopic

EARLIEST = -2


def deleting(*records: tuple[str, int, int]) -> DeleteRecordsRequest:
    """Return a request to delete the records of each (topic, partition) before the offset."""
    return DeleteRecordsRequest(
        timeout_ms=1000,
        topics=[DeleteRecordsTopic(topic, [DeleteRecordsPartition(index, offset)]) for topic, index, offset in records],
    )


async def delete(client: Client, topic: str, offset: int, *, partition: int = 0, version: int = 2) -> tuple[int, int]:
    """Return (error code, low watermark)."""
    response = await client.call(deleting((topic, partition, offset)), version)
    (answer,) = response.topics[0].partitions
    assert (response.topics[0].name, answer.partition_index) == (topic, partition)
    return answer.error_code, answer.low_watermark


async def earliest(client: Client, topic: str) -> int:
    request = ListOffsetsRequest(
        replica_id=-1,
        topics=[ListOffsetsTopic(name=topic, partitions=[ListOffsetsPartition(partition_index=0, timestamp=EARLIEST)])],
    )
    offset: int = (await client.call(request, 7)).topics[0].partitions[0].offset
    return offset


async def fill(client: Client, topic: str = "a") -> None:
    """Produce five batches of two records."""
    for _ in range(5):
        assert (await client.produce(topic, batch(b"1", b"2"))).error_code == 0


@pytest.mark.parametrize("version", [0, 1, 2])
async def test_every_version_deletes_records(client: Client, version: int) -> None:
    await fill(client)
    assert await delete(client, "a", 5, version=version) == (0, 5)
    assert await earliest(client, "a") == 5
    assert (await client.fetch("a", 4)).error_code == ErrorCode.OFFSET_OUT_OF_RANGE
    data = await client.fetch("a", 5)
    assert (data.error_code, data.log_start_offset, data.high_watermark) == (0, 5, 10)
    assert (await client.produce("a", batch(b"next"))).base_offset == 10


async def test_the_log_start_offset_never_decreases(client: Client) -> None:
    await fill(client)
    assert await delete(client, "a", 7) == (0, 7)
    assert await delete(client, "a", 3) == (0, 7)
    assert await delete(client, "a", 7) == (0, 7)


async def test_offset_minus_1_deletes_up_to_the_high_watermark(client: Client) -> None:
    assert await delete(client, "a", -1) == (0, 0)
    await fill(client)
    assert await delete(client, "a", -1) == (0, 10)
    assert (await client.fetch("a", 10)).error_code == 0
    assert (await client.produce("a", batch(b"next"))).base_offset == 10


@pytest.mark.parametrize("offset", [11, -2, 2**63 - 1, -(2**63)])
async def test_an_offset_out_of_range_is_refused(client: Client, offset: int) -> None:
    await fill(client)
    assert await delete(client, "a", offset) == (ErrorCode.OFFSET_OUT_OF_RANGE, -1)
    assert await earliest(client, "a") == 0


@pytest.mark.parametrize(("topic", "partition"), [("a", 4), ("a", -1), ("nobody", 0), ("bad name", 0)])
async def test_unknown_partitions_are_refused(client: Client, topic: str, partition: int) -> None:
    assert await delete(client, topic, 0, partition=partition) == (ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, -1)


@pytest.mark.parametrize(
    ("policy", "answer"),
    [("compact", (ErrorCode.POLICY_VIOLATION, -1)), ("compact,delete", (0, 4)), ("delete", (0, 4))],
)
async def test_delete_records_is_refused_for_a_topic_that_is_only_compacted(
    client: Client, policy: str, answer: tuple[int, int]
) -> None:
    await client.create("b", cleanup_policy=policy)
    await fill(client, "b")
    assert await delete(client, "b", 4) == answer


async def test_records_of_internal_topics_cannot_be_deleted(client: Client) -> None:
    await client.create("__consumer_offsets")
    assert await delete(client, "__consumer_offsets", 0) == (ErrorCode.INVALID_TOPIC_EXCEPTION, -1)


async def test_a_repeated_partition_has_one_result(client: Client) -> None:
    await fill(client)
    response = await client.call(deleting(("a", 0, 6), ("a", 9, 0), ("a", 0, 3)), 2)
    assert [
        (one.partition_index, one.error_code, one.low_watermark)
        for topic in response.topics
        for one in topic.partitions
    ] == [(0, 0, 3), (9, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, -1)]
    assert (await client.call(DeleteRecordsRequest(), 2)).topics == []


async def test_deleted_records_stay_deleted_after_a_restart(tmp_path: Path) -> None:
    async with serving(tmp_path, topics=(("a", 1),)) as local_broker:
        client = await local_broker.connect()
        await fill(client)
        assert await delete(client, "a", 5) == (0, 5)
    async with serving(tmp_path, topics=(("a", 1),)) as local_broker:
        client = await local_broker.connect()
        assert await earliest(client, "a") == 5
        assert (await client.fetch("a", 4)).error_code == ErrorCode.OFFSET_OUT_OF_RANGE


def test_a_client_without_delete_on_the_topic_is_refused() -> None:
    nothing: Any = None
    api = DeleteRecords(nothing)
    (answer,) = gone_through(api(context(2, Denies(Operation.DELETE)), deleting(("a", 0, 1)))).topics[0].partitions
    assert (answer.error_code, answer.low_watermark) == (ErrorCode.TOPIC_AUTHORIZATION_FAILED, -1)
