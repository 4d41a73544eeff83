"""DescribeQuorum: the only voter is the leader, and its log is committed to the end."""

from __future__ import annotations

import time

import pytest

from tests.unit.apis.conftest import Client, LocalBroker
from wire.declare import NIL
from wire.error_codes import ErrorCode
from wire.messages.describe_quorum import (
    DescribeQuorumRequest,
    DescribeQuorumRequestPartitionData,
    DescribeQuorumRequestTopicData,
)

METADATA = "__cluster_metadata"


def asking(*topics: tuple[str, list[int]]) -> DescribeQuorumRequest:
    return DescribeQuorumRequest(
        topics=[
            DescribeQuorumRequestTopicData(name, [DescribeQuorumRequestPartitionData(index) for index in partitions])
            for name, partitions in topics
        ]
    )


@pytest.mark.parametrize("version", [0, 1, 2])
async def test_every_version_names_the_voter(client: Client, local_broker: LocalBroker, version: int) -> None:
    before_ms = time.time_ns() // 1_000_000
    response = await client.call(asking((METADATA, [0])), version)
    (topic,) = response.topics
    (partition,) = topic.partitions
    assert (response.error_code, topic.topic_name, partition.partition_index, partition.error_code) == (
        0,
        METADATA,
        0,
        0,
    )
    assert (partition.leader_id, partition.leader_epoch, partition.observers) == (1, 1, [])
    (voter,) = partition.current_voters
    assert voter.replica_id == 1
    assert (voter.replica_directory_id != NIL) == (version >= 2)
    assert voter.log_end_offset == partition.high_watermark > 0
    if version >= 1:
        assert before_ms <= voter.last_fetch_timestamp == voter.last_caught_up_timestamp
    else:
        assert (voter.last_fetch_timestamp, voter.last_caught_up_timestamp) == (-1, -1)
    assert [(node.node_id, [(one.host, one.port) for one in node.listeners]) for node in response.nodes] == (
        [(1, [("127.0.0.1", local_broker.serving.port)])] if version >= 2 else []
    )


async def test_the_high_watermark_advances_with_metadata_changes(client: Client) -> None:
    async def committed() -> int:
        response = await client.call(asking((METADATA, [0])), 2)
        offset: int = response.topics[0].partitions[0].high_watermark
        return offset

    before = await committed()
    await client.create("b", 3)
    assert await committed() >= before + 4  # a record for the topic and one for each partition


@pytest.mark.parametrize("version", [0, 1, 2])
@pytest.mark.parametrize(
    "topics",
    [
        ((METADATA, [1]),),
        (("a", [0]),),
        ((METADATA, [0, 0]),),
        ((METADATA, [0, 1]),),
        ((METADATA, [0]), ("a", [0])),
        (),
        ((METADATA, []),),
    ],
)
async def test_only_the_metadata_partition_can_be_described(
    client: Client, topics: tuple[tuple[str, list[int]], ...], version: int
) -> None:
    response = await client.call(asking(*topics), version)
    assert (response.error_code, response.nodes) == (0, [])
    assert [(topic.topic_name, [one.partition_index for one in topic.partitions]) for topic in response.topics] == list(
        topics
    )
    codes = {one.error_code for topic in response.topics for one in topic.partitions}
    assert codes <= {ErrorCode.UNKNOWN_TOPIC_OR_PARTITION}
