"""AlterPartitionReassignments and ListPartitionReassignments on a cluster of one broker."""

from __future__ import annotations

from typing import Any

import pytest

from pykbroker.apis.topics.list_partition_reassignments import ListPartitionReassignments
from pykbroker.core.metadata.image import MetadataImage, PartitionImage, TopicImage, TopicsImage
from tests.unit.apis.calling import context, gone_through
from tests.unit.apis.conftest import Client, batch
from wire.error_codes import ErrorCode
from wire.messages.alter_partition_reassignments import (
    AlterPartitionReassignmentsRequest,
    AlterPartitionReassignmentsResponse,
    ReassignablePartition,
    ReassignableTopic,
)
from wire.messages.list_partition_reassignments import (
    ListPartitionReassignmentsRequest,
    ListPartitionReassignmentsTopics,
    OngoingPartitionReassignment,
    OngoingTopicReassignment,
)

UNKNOWN, INVALID = ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, ErrorCode.INVALID_REPLICA_ASSIGNMENT
NONE_UNDER_WAY = ErrorCode.NO_REASSIGNMENT_IN_PROGRESS
Places = list[tuple[str, int, list[int] | None]]


def moving(places: Places, **fields: Any) -> AlterPartitionReassignmentsRequest:
    return AlterPartitionReassignmentsRequest(
        **{"timeout_ms": 5000, **fields},
        topics=[ReassignableTopic(name, [ReassignablePartition(index, replicas)]) for name, index, replicas in places],
    )


def codes(response: AlterPartitionReassignmentsResponse) -> list[tuple[str, int, int]]:
    return [
        (topic.name, one.partition_index, one.error_code) for topic in response.responses for one in topic.partitions
    ]


@pytest.mark.parametrize("version", [0, 1])
async def test_every_version_answers_each_partition(client: Client, version: int) -> None:
    asked: Places = [
        ("a", 0, [1]),
        ("a", 1, [2]),
        ("a", 1, []),
        ("a", 1, [1, 1]),
        ("a", 1, [-1]),
        ("a", 1, [1, 2]),
        ("a", 2, None),
        ("a", 4, [1]),
        ("a", -1, None),
        ("nobody", 0, [1]),
        ("", 0, None),
        ("a", 3, [1]),
    ]
    response = await client.call(moving(asked), version)
    assert (response.error_code, response.error_message) == (0, None)
    assert [code for *_, code in codes(response)] == [
        0,
        INVALID,
        INVALID,
        INVALID,
        INVALID,
        INVALID,
        NONE_UNDER_WAY,
        UNKNOWN,
        UNKNOWN,
        UNKNOWN,
        UNKNOWN,
        0,
    ]
    assert (await client.produce("a", batch(b"x"))).error_code == 0


@pytest.mark.parametrize("may_resize", [True, False])
async def test_the_response_returns_allow_replication_factor_change_of_the_request(
    client: Client, may_resize: bool
) -> None:
    response = await client.call(moving([("a", 0, [1])], allow_replication_factor_change=may_resize), 1)
    assert (response.allow_replication_factor_change, codes(response)) == (may_resize, [("a", 0, 0)])


async def test_a_request_without_topics_has_no_results(client: Client) -> None:
    assert await client.call(moving([], timeout_ms=0), 1) == AlterPartitionReassignmentsResponse()


async def test_a_request_with_a_timeout_of_zero_times_out(client: Client) -> None:
    response = await client.call(moving([("a", 0, [1])], timeout_ms=0), 1)
    assert (response.error_code, codes(response)) == (
        ErrorCode.REQUEST_TIMED_OUT,
        [("a", 0, ErrorCode.REQUEST_TIMED_OUT)],
    )


@pytest.mark.parametrize("topics", [None, [], [("a", [0, 9, -1, 0])], [("nobody", [0]), ("", [0])]])
async def test_a_cluster_of_one_broker_has_no_reassignments(
    client: Client, topics: list[tuple[str, list[int]]] | None
) -> None:
    asked = None if topics is None else [ListPartitionReassignmentsTopics(*topic) for topic in topics]
    response = await client.call(ListPartitionReassignmentsRequest(topics=asked, timeout_ms=0), 0)
    assert (response.error_code, response.error_message, response.topics) == (0, None, [])


def listing(topics: list[tuple[str, list[int]]] | None) -> Any:
    """Return the response for a topic whose partition 0 stays and whose partition 1 moves from broker 1 to 2."""
    stays = PartitionImage((1,), (1,), 1, 0, 0)
    moves = PartitionImage((2, 1), (1,), 1, 0, 0, adding=(2,), removing=(1,))
    topic, other = TopicImage("t", b"t" * 16, {0: stays, 1: moves}), TopicImage("u", b"u" * 16, {0: stays})
    image = MetadataImage(topics=TopicsImage({"t": topic, "u": other}, {topic.id: topic, other.id: other}))
    asked = None if topics is None else [ListPartitionReassignmentsTopics(*one) for one in topics]
    return gone_through(
        ListPartitionReassignments(lambda: image)(context(0), ListPartitionReassignmentsRequest(topics=asked))
    )


@pytest.mark.parametrize("topics", [None, [("t", [1])], [("u", [0]), ("nobody", [1]), ("t", [0, 1, 7])]])
def test_partitions_that_are_being_reassigned_are_listed(topics: list[tuple[str, list[int]]] | None) -> None:
    moves = OngoingPartitionReassignment(1, [2, 1], [2], [1])
    assert listing(topics).topics == [OngoingTopicReassignment("t", [moves])]
