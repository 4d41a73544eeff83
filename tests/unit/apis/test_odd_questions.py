"""Unusual but valid requests, compared with the responses of Apache Kafka 4.3.1."""

from __future__ import annotations

from typing import Any

import pytest

from tests.unit.apis.conftest import Client, batch
from wire.declare import NIL
from wire.error_codes import ErrorCode
from wire.messages.create_partitions import CreatePartitionsRequest, CreatePartitionsTopic
from wire.messages.create_topics import CreatableTopic, CreateTopicsRequest
from wire.messages.delete_records import DeleteRecordsPartition, DeleteRecordsRequest, DeleteRecordsTopic
from wire.messages.delete_topics import DeleteTopicsRequest, DeleteTopicState
from wire.messages.describe_cluster import DescribeClusterRequest
from wire.messages.describe_topic_partitions import Cursor, DescribeTopicPartitionsRequest, TopicRequest
from wire.messages.metadata import MetadataRequest, MetadataRequestTopic

INVALID, UNKNOWN, UNKNOWN_ID = (
    ErrorCode.INVALID_REQUEST,
    ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
    ErrorCode.UNKNOWN_TOPIC_ID,
)
POLICY, TIME_UP, BAD_NAME = (ErrorCode.POLICY_VIOLATION, ErrorCode.REQUEST_TIMED_OUT, ErrorCode.INVALID_TOPIC_EXCEPTION)
TOPIC_OPERATIONS = 3576


async def created(client: Client, *topics: tuple[str, int], **fields: Any) -> dict[str, tuple[int, str | None]]:
    request = CreateTopicsRequest(
        **{"timeout_ms": 5000, "validate_only": True, **fields},
        topics=[CreatableTopic(name, partitions, 1) for name, partitions in topics],
    )
    return {one.name: (one.error_code, one.error_message) for one in (await client.call(request, 7)).topics}


async def test_a_topic_named_like_the_metadata_log_cannot_be_created(client: Client) -> None:
    assert await created(client, ("__cluster_metadata", 1), ("__consumer_offsets", 1), ("ok", 1)) == {
        "__cluster_metadata": (INVALID, "Creation of internal topic __cluster_metadata is prohibited."),
        "__consumer_offsets": (0, None),
        "ok": (0, None),
    }


@pytest.mark.parametrize("most", [10_000, 10_001])
async def test_the_number_of_partitions_in_one_request_is_limited(client: Client, most: int) -> None:
    answers = await created(client, ("many", most - 1), ("one", 1))
    reason = "Excessively large number of partitions per request."
    assert set(answers.values()) == ({(0, None)} if most == 10_000 else {(POLICY, reason)})


@pytest.mark.parametrize("timeout_ms", [0, -1])
async def test_a_request_that_timed_out_has_no_error_message(client: Client, timeout_ms: int) -> None:
    assert await created(client, ("b", 1), timeout_ms=timeout_ms) == {"b": (TIME_UP, None)}


async def test_too_many_new_partitions_do_not_affect_other_topics(client: Client) -> None:
    await client.create("b")
    request = CreatePartitionsRequest(
        timeout_ms=5000,
        validate_only=True,
        topics=[
            CreatePartitionsTopic(name, count, None)
            for name, count in (("a", 10_004), ("b", 2), ("__cluster_metadata", 3), ("nobody", 2**31 - 1))
        ],
    )
    results = (await client.call(request, 3)).results
    assert [(one.name, one.error_code) for one in results] == [
        ("a", 0),
        ("b", POLICY),
        ("__cluster_metadata", UNKNOWN),
        ("nobody", UNKNOWN),
    ]
    assert results[2].error_message is None


async def test_a_topic_named_twice_is_not_deleted(client: Client) -> None:
    topic_id = await client.create("b")
    request = DeleteTopicsRequest(
        timeout_ms=5000,
        topics=[
            DeleteTopicState(*one) for one in ((None, NIL), ("b", NIL), (None, topic_id), (None, NIL), ("nobody", NIL))
        ],
    )
    responses = (await client.call(request, 6)).responses
    assert sorted((str(one.name), one.topic_id, one.error_code) for one in responses) == sorted(
        [("None", NIL, INVALID), ("None", NIL, INVALID), ("b", topic_id, INVALID), ("nobody", NIL, UNKNOWN)]
    )
    assert (await client.produce("b", batch(b"x"))).error_code == 0


async def test_delete_records_has_no_result_for_a_topic_without_partitions(client: Client) -> None:
    request = DeleteRecordsRequest(
        timeout_ms=1000, topics=[DeleteRecordsTopic("a", []), DeleteRecordsTopic("", [DeleteRecordsPartition(0, 0)])]
    )
    assert [topic.name for topic in (await client.call(request, 2)).topics] == [""]


@pytest.mark.parametrize(
    ("endpoint_type", "code", "message"),
    [
        (
            2,
            ErrorCode.MISMATCHED_ENDPOINT_TYPE,
            "The request was sent to an endpoint of type BROKER, but we wanted an endpoint of type CONTROLLER",
        ),
        (0, ErrorCode.UNSUPPORTED_ENDPOINT_TYPE, "Unsupported endpoint type 0"),
        (-1, ErrorCode.UNSUPPORTED_ENDPOINT_TYPE, "Unsupported endpoint type -1"),
    ],
)
async def test_describe_cluster_lists_brokers_only(
    client: Client, endpoint_type: int, code: ErrorCode, message: str
) -> None:
    response = await client.call(DescribeClusterRequest(endpoint_type=endpoint_type), 1)
    assert (response.error_code, response.error_message, response.endpoint_type) == (code, message, 1)
    assert response.brokers == []


async def pages(client: Client, names: list[str], limit: int, cursor: tuple[str, int] | None = None) -> Any:
    """Return the described topics with their errors or partitions, and the next cursor."""
    response = await client.call(
        DescribeTopicPartitionsRequest(
            topics=[TopicRequest(name) for name in names],
            response_partition_limit=limit,
            cursor=None if cursor is None else Cursor(*cursor),
        ),
        0,
    )
    following = response.next_cursor
    topics = [
        (one.name, one.error_code or [part.partition_index for part in one.partitions]) for one in response.topics
    ]
    return topics, following and (following.topic_name, following.partition_index)


@pytest.mark.parametrize(
    ("names", "limit", "cursor", "expected", "following"),
    [
        (["b", "a", "a"], 2000, None, [("a", [0, 1, 2, 3]), ("b", [0, 1])], None),
        (["a", "b"], 0, None, [("a", [0])], ("a", 1)),
        (["a", "b"], -(2**31), None, [("a", [0])], ("a", 1)),
        (["a", "b"], 4, None, [("a", [0, 1, 2, 3])], ("b", 0)),
        (["a", "b"], 5, None, [("a", [0, 1, 2, 3]), ("b", [0])], ("b", 1)),
        (["a", "b"], 6, None, [("a", [0, 1, 2, 3]), ("b", [0, 1])], None),
        (["a", "aa", "b"], 4, None, [("a", [0, 1, 2, 3])], ("aa", 0)),
        (["a", "aa", "b"], 5, None, [("a", [0, 1, 2, 3]), ("aa", UNKNOWN), ("b", [0])], ("b", 1)),
        (
            ["a", "zz", "a/b", ""],
            9,
            None,
            [("", BAD_NAME), ("a", [0, 1, 2, 3]), ("a/b", BAD_NAME), ("zz", UNKNOWN)],
            None,
        ),
        (["a", "b"], 2, ("a", 3), [("a", [3]), ("b", [0])], ("b", 1)),
        (["a", "b"], 2, ("a", 9), [("a", []), ("b", [0, 1])], None),
        (["a", "b"], 2, ("c", 0), [("a", INVALID), ("b", INVALID)], None),
        (["a", "b"], 2, ("", 0), [("a", INVALID), ("b", INVALID)], None),
        (["a", "b"], 2, ("a", -1), [("a", INVALID), ("b", INVALID)], None),
        (["aa", "b"], 2, ("aa", 0), [("aa", UNKNOWN), ("b", [0, 1])], None),
        ([], 2, ("aa", 5), [("b", [0, 1])], None),
    ],
)
async def test_describe_topic_partitions_pages_through_all_partitions(
    client: Client, names: list[str], limit: int, cursor: tuple[str, int] | None, expected: Any, following: Any
) -> None:
    await client.create("b", 2)
    assert await pages(client, names, limit, cursor) == (expected, following)


async def test_describe_topic_partitions_returns_authorized_operations_of_unknown_topics(client: Client) -> None:
    described = await client.call(DescribeTopicPartitionsRequest(topics=[TopicRequest("a"), TopicRequest("no")]), 0)
    asked = MetadataRequest(
        [MetadataRequestTopic(name=name) for name in ("a", "no")],
        include_topic_authorized_operations=True,
        allow_auto_topic_creation=False,
    )
    for topic in (*described.topics, *(await client.call(asked, 10)).topics):
        assert topic.topic_authorized_operations == TOPIC_OPERATIONS


async def test_metadata_ignores_topic_names_if_topic_ids_are_given(client: Client) -> None:
    topic_id = await client.create("b")
    asked = MetadataRequest(
        [
            MetadataRequestTopic(topic_id, None),
            MetadataRequestTopic(topic_id, "new"),
            MetadataRequestTopic(NIL, "a"),
            MetadataRequestTopic(b"q" * 16, None),
        ]
    )
    answer = [(topic.name, topic.error_code) for topic in (await client.call(asked, 12)).topics]
    assert answer == [("b", 0), (None, UNKNOWN_ID)]
    assert len((await client.call(MetadataRequest(topics=None), 12)).topics) == 2
