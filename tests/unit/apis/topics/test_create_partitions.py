"""CreatePartitions: new partitions are usable at once, and a refused topic stays unchanged."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from pykbroker.apis.topics.create_partitions import CreatePartitions
from pykbroker.core.security.operation import Operation
from tests.unit.apis.calling import Denies, context, gone_through, work_of
from tests.unit.apis.conftest import Client, batch, serving
from wire.error_codes import ErrorCode
from wire.messages.create_partitions import (
    CreatePartitionsAssignment,
    CreatePartitionsRequest,
    CreatePartitionsResponse,
    CreatePartitionsTopic,
    CreatePartitionsTopicResult,
)
from wire.messages.metadata import MetadataRequest, MetadataRequestTopic


def growing(*topics: tuple[str, int], brokers: list[list[int]] | None = None, **fields: Any) -> CreatePartitionsRequest:
    """Return a request for (topic, new partition count) pairs; `brokers` has the replicas of each new partition."""
    assignments = None if brokers is None else [CreatePartitionsAssignment(ids) for ids in brokers]
    return CreatePartitionsRequest(
        **{"timeout_ms": 5000, **fields},
        topics=[CreatePartitionsTopic(name, count, assignments) for name, count in topics],
    )


async def grow(client: Client, *topics: tuple[str, int], version: int = 3, **fields: Any) -> dict[str, int]:
    """Map each topic to its error code."""
    response = await client.call(growing(*topics, **fields), version)
    return {one.name: one.error_code for one in response.results}


async def count(client: Client, topic: str) -> int:
    (answer,) = (await client.call(MetadataRequest(topics=[MetadataRequestTopic(name=topic)]), 9)).topics
    assert all(one.leader_id == 1 for one in answer.partitions)
    return len(answer.partitions)


@pytest.mark.parametrize("version", range(4))
async def test_every_version_adds_partitions_that_are_available_at_once(client: Client, version: int) -> None:
    await client.produce("a", batch(b"before"), partition=3)
    assert await grow(client, ("a", 6), version=version) == {"a": 0}
    assert await count(client, "a") == 6
    for partition in (4, 5):
        assert (await client.produce("a", batch(b"x"), partition=partition)).base_offset == 0
    assert (await client.fetch("a", 0, partition=3)).high_watermark == 1


@pytest.mark.parametrize("partitions", [4, 3, 0, -1])
async def test_the_number_of_partitions_cannot_decrease(client: Client, partitions: int) -> None:
    assert await grow(client, ("a", partitions)) == {"a": ErrorCode.INVALID_PARTITIONS}
    assert await count(client, "a") == 4


async def test_a_refused_topic_does_not_affect_the_others(client: Client) -> None:
    await client.create("b")
    codes = await grow(client, ("a", 4), ("b", 2), ("nobody", 2), ("bad name", 2), ("twice", 2), ("twice", 3))
    unknown = ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    assert codes == {
        "a": ErrorCode.INVALID_PARTITIONS,
        "b": 0,
        "nobody": unknown,
        "bad name": unknown,
        "twice": ErrorCode.INVALID_REQUEST,
    }
    assert await count(client, "b") == 2


@pytest.mark.parametrize(
    ("brokers", "code"),
    [
        ([[1], [1]], ErrorCode.NONE),
        *((wrong, ErrorCode.INVALID_REPLICA_ASSIGNMENT) for wrong in ([[1]], [], [[1], [9]], [[1], []], [[1], [1, 1]])),
    ],
)
async def test_replicas_may_be_assigned_manually(client: Client, brokers: list[list[int]], code: ErrorCode) -> None:
    assert await grow(client, ("a", 6), brokers=brokers) == {"a": code}
    assert await count(client, "a") == (4 if code else 6)


async def test_validate_only_adds_nothing(client: Client) -> None:
    assert await grow(client, ("a", 6), validate_only=True) == {"a": 0}
    assert await count(client, "a") == 4


async def test_too_many_new_partitions_are_refused(client: Client) -> None:
    assert await grow(client, ("a", 100_000)) == {"a": ErrorCode.POLICY_VIOLATION}
    assert await count(client, "a") == 4


async def test_a_request_with_a_timeout_of_zero_times_out(client: Client) -> None:
    assert await grow(client, ("a", 5), timeout_ms=0) == {"a": ErrorCode.REQUEST_TIMED_OUT}
    assert await count(client, "a") == 4


async def test_new_partitions_survive_a_restart(tmp_path: Path) -> None:
    async with serving(tmp_path, topics=(("a", 1),)) as local_broker:
        client = await local_broker.connect()
        assert await grow(client, ("a", 3)) == {"a": 0}
        await client.produce("a", batch(b"x"), partition=2)
    async with serving(tmp_path) as local_broker:
        client = await local_broker.connect()
        assert await count(client, "a") == 3
        assert (await client.fetch("a", 0, partition=2)).high_watermark == 1


async def test_an_unauthorized_topic_does_not_affect_the_others() -> None:
    class Grows:
        async def ask(self, request: CreatePartitionsRequest) -> CreatePartitionsResponse:
            assert [topic.name for topic in request.topics] == ["a", "a"]
            duplicate = CreatePartitionsTopicResult("a", ErrorCode.INVALID_REQUEST, "Duplicate topic name.")
            return CreatePartitionsResponse(results=[duplicate])

    controller: Any = Grows()
    api = CreatePartitions(controller)
    request = growing(("a", 5), ("b", 5), ("a", 6))
    held = gone_through(api(context(3, Denies(Operation.ALTER)), request))
    response = await work_of(held)
    assert isinstance(response, CreatePartitionsResponse)
    assert [(one.name, one.error_code) for one in response.results] == [
        ("a", ErrorCode.INVALID_REQUEST),
        ("b", ErrorCode.TOPIC_AUTHORIZATION_FAILED),
    ]
    assert len(request.topics) == 3, "a response has a result for each, also if the controller is away"
