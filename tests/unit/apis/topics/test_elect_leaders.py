"""ElectLeaders: the only broker leads every partition, so each result is ELECTION_NOT_NEEDED."""

from __future__ import annotations

from typing import Any

import pytest

from tests.unit.apis.conftest import Client, batch
from wire.error_codes import ErrorCode
from wire.messages.elect_leaders import ElectLeadersRequest, ElectLeadersResponse, TopicPartitions

NOT_NEEDED, UNKNOWN = ErrorCode.ELECTION_NOT_NEEDED, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION


def asking(topics: list[tuple[str, list[int]]] | None, **fields: Any) -> ElectLeadersRequest:
    asked = None if topics is None else [TopicPartitions(*topic) for topic in topics]
    return ElectLeadersRequest(**{"topic_partitions": asked, "timeout_ms": 5000, **fields})


def codes(response: ElectLeadersResponse) -> list[tuple[str, int, int]]:
    return [
        (topic.topic, one.partition_id, one.error_code)
        for topic in response.replica_election_results
        for one in topic.partition_result
    ]


@pytest.mark.parametrize(("version", "election"), [(0, 0), (1, 0), (1, 1), (2, 0), (2, 1)])
async def test_every_version_answers_each_partition(client: Client, version: int, election: int) -> None:
    asked = asking([("a", [3, 0, 4, -1, 3]), ("nobody", [0]), ("", [0]), ("a", [])], election_type=election)
    response = await client.call(asked, version)
    assert response.error_code == 0
    assert codes(response) == [
        ("a", 3, NOT_NEEDED),
        ("a", 0, NOT_NEEDED),
        ("a", 4, UNKNOWN),
        ("a", -1, UNKNOWN),
        ("a", 3, NOT_NEEDED),
        ("nobody", 0, UNKNOWN),
        ("", 0, UNKNOWN),
    ]
    assert (await client.produce("a", batch(b"x"))).error_code == 0


@pytest.mark.parametrize("election", [0, 1])
async def test_a_request_for_all_partitions_returns_none_that_needs_no_election(client: Client, election: int) -> None:
    response = await client.call(asking(None, election_type=election), 2)
    assert (response.error_code, codes(response)) == (0, [])
    assert [topic.topic for topic in response.replica_election_results] == ["a"]


async def test_a_request_without_partitions_has_no_results(client: Client) -> None:
    assert await client.call(asking([], election_type=7, timeout_ms=0), 2) == ElectLeadersResponse()


@pytest.mark.parametrize("election", [-128, -1, 2, 127])
async def test_an_unknown_election_type_is_refused(client: Client, election: int) -> None:
    response = await client.call(asking([("a", [0, 1])], election_type=election), 2)
    invalid = ErrorCode.INVALID_REQUEST
    assert (response.error_code, codes(response)) == (invalid, [("a", 0, invalid), ("a", 1, invalid)])
    assert {one.error_message for topic in response.replica_election_results for one in topic.partition_result} == {
        f"Unknown election type {election}"
    }


async def test_a_request_with_a_timeout_of_zero_times_out(client: Client) -> None:
    response = await client.call(asking([("a", [0])], timeout_ms=0), 2)
    assert (response.error_code, codes(response)) == (
        ErrorCode.REQUEST_TIMED_OUT,
        [("a", 0, ErrorCode.REQUEST_TIMED_OUT)],
    )


@pytest.mark.parametrize("version", [0, 1, 2])
async def test_a_refused_request_has_a_top_level_error_where_the_version_has_one(client: Client, version: int) -> None:
    response = await client.call(asking([("a", [0])], timeout_ms=0), version)
    timed_out = ErrorCode.REQUEST_TIMED_OUT
    assert (response.error_code, codes(response)) == (timed_out if version else 0, [("a", 0, timed_out)])
