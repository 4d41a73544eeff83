"""Commits: the requests for offsets, what their errors mean, and when a consumer commits by itself."""

from __future__ import annotations

import pytest

from pykbroker.core.consumer.commits import (
    AutoCommit,
    CommitIdentity,
    CommitResult,
    commit_request,
    commit_result,
    fetch_offsets_request,
    offsets_fetched,
)
from pykbroker.core.consumer.errors import CommitFailed, TopicsUnauthorized
from pykbroker.core.consumer.position import CommittedOffset
from pykbroker.core.topic_partition import TopicPartition
from wire.error_codes import ErrorCode
from wire.messages.offset_commit import OffsetCommitResponse, OffsetCommitResponsePartition, OffsetCommitResponseTopic
from wire.messages.offset_fetch import (
    OffsetFetchResponse,
    OffsetFetchResponseGroup,
    OffsetFetchResponsePartitions,
    OffsetFetchResponseTopics,
)

A, B, C = TopicPartition("a", 0), TopicPartition("a", 1), TopicPartition("b", 0)
OFFSETS = {A: CommittedOffset(5, 2, "m"), B: CommittedOffset(6), C: CommittedOffset(7)}
MEMBER = CommitIdentity("g", "member", 4, "static")


def topic_id(topic: str) -> bytes:
    return topic.encode() * 16


def committed(*codes: int) -> CommitResult:
    request, _ = commit_request(MEMBER, OFFSETS, topic_id)
    topics = [
        OffsetCommitResponseTopic("", topic_id("a"), [OffsetCommitResponsePartition(n, code)])
        for n, code in enumerate(codes)
    ]
    return commit_result(request, OffsetCommitResponse(topics=topics))


def test_a_commit_has_the_identity_of_the_member_and_all_offsets() -> None:
    request, version_max = commit_request(MEMBER, OFFSETS, topic_id)
    assert (request.group_id, request.member_id, request.generation_id_or_member_epoch) == ("g", "member", 4)
    assert (request.group_instance_id, version_max) == ("static", None)
    assert [(topic.name, topic.topic_id, len(topic.partitions)) for topic in request.topics] == [
        ("a", b"a" * 16, 2),
        ("b", b"b" * 16, 1),
    ]
    first = request.topics[0].partitions[0]
    assert (first.committed_offset, first.committed_leader_epoch, first.committed_metadata) == (5, 2, "m")


def test_a_topic_without_known_id_limits_the_version() -> None:
    def unknown(topic: str) -> bytes:
        return bytes(16)

    assert commit_request(MEMBER, OFFSETS, unknown)[1] == 9
    assert fetch_offsets_request(MEMBER, [A], unknown)[1] == 9


def test_a_commit_without_errors_succeeds() -> None:
    assert committed(0, 0) == CommitResult()


@pytest.mark.parametrize(
    ("code", "is_retriable", "drops_coordinator"),
    [
        (ErrorCode.COORDINATOR_LOAD_IN_PROGRESS, True, False),
        (ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, True, False),
        (ErrorCode.UNKNOWN_TOPIC_ID, True, False),
        (ErrorCode.NOT_COORDINATOR, True, True),
        (ErrorCode.COORDINATOR_NOT_AVAILABLE, True, True),
        (ErrorCode.REQUEST_TIMED_OUT, True, True),
        (ErrorCode.OFFSET_METADATA_TOO_LARGE, False, False),
        (ErrorCode.GROUP_AUTHORIZATION_FAILED, False, False),
        (ErrorCode.REBALANCE_IN_PROGRESS, False, False),
        (ErrorCode.FENCED_INSTANCE_ID, False, False),
    ],
)
def test_an_error_of_a_commit_is_retriable_or_not(code: ErrorCode, is_retriable: bool, drops_coordinator: bool) -> None:
    result = committed(0, code)
    assert (result.code, result.is_retriable, result.drops_coordinator) == (code, is_retriable, drops_coordinator)
    assert not result.is_removed


@pytest.mark.parametrize(
    ("code", "drops"), [(ErrorCode.UNKNOWN_MEMBER_ID, True), (ErrorCode.ILLEGAL_GENERATION, False)]
)
def test_a_member_that_was_removed_has_to_join_again(code: ErrorCode, drops: bool) -> None:
    result = committed(code)
    assert isinstance(result.error, CommitFailed)
    assert (result.is_removed, result.drops_member_id, result.is_retriable) == (True, drops, False)


def test_a_stale_member_epoch_fails_the_commit_but_not_the_membership() -> None:
    result = committed(ErrorCode.STALE_MEMBER_EPOCH)
    assert isinstance(result.error, CommitFailed)
    assert not result.is_removed


def test_topics_without_authorization_are_named() -> None:
    result = committed(ErrorCode.TOPIC_AUTHORIZATION_FAILED)
    assert isinstance(result.error, TopicsUnauthorized)
    assert result.error.topics == {"a"}


def fetched(*rows: tuple[int, int], group_code: int = 0):
    request, _ = fetch_offsets_request(MEMBER, [A, B], topic_id)
    parts = [OffsetFetchResponsePartitions(n, offset, 2, None, code) for n, (offset, code) in enumerate(rows)]
    topics = [OffsetFetchResponseTopics("", topic_id("a"), parts)]
    return offsets_fetched(request, OffsetFetchResponse(groups=[OffsetFetchResponseGroup("g", topics, group_code)]))


def test_committed_offsets_are_read_and_no_offset_is_none() -> None:
    request, _ = fetch_offsets_request(MEMBER, [A, B], topic_id)
    group = request.groups[0]
    assert (request.require_stable, group.member_id, group.member_epoch) == (True, "member", 4)
    assert fetched((5, 0), (-1, 0)).offsets == {A: CommittedOffset(5, 2), B: None}


@pytest.mark.parametrize(
    ("group_code", "code", "is_retriable"),
    [
        (0, ErrorCode.UNSTABLE_OFFSET_COMMIT, True),
        (0, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, True),
        (0, ErrorCode.UNKNOWN_TOPIC_ID, True),
        (0, ErrorCode.NOT_LEADER_OR_FOLLOWER, False),
        (0, ErrorCode.TOPIC_AUTHORIZATION_FAILED, False),
        (ErrorCode.COORDINATOR_LOAD_IN_PROGRESS, 0, True),
        (ErrorCode.NOT_COORDINATOR, 0, True),
        (ErrorCode.STALE_MEMBER_EPOCH, 0, True),
        (ErrorCode.GROUP_AUTHORIZATION_FAILED, 0, False),
    ],
)
def test_an_error_of_a_look_up_is_retriable_or_not(group_code: int, code: int, is_retriable: bool) -> None:
    found = fetched((5, 0), (-1, code), group_code=group_code)
    assert found.offsets == {}
    assert found.result.code == (code or group_code)
    assert found.result.is_retriable == is_retriable


def test_a_response_without_the_group_is_an_error() -> None:
    request, _ = fetch_offsets_request(MEMBER, [A], topic_id)
    assert offsets_fetched(request, OffsetFetchResponse()).result.code == ErrorCode.UNKNOWN_SERVER_ERROR


def test_auto_commit_is_due_once_in_its_interval_and_never_twice_in_flight() -> None:
    schedule = AutoCommit(5000.0, 0.0)
    assert [schedule.take(now) for now in (4999.0, 5000.0, 5001.0, 20_000.0)] == [False, True, False, False]
    schedule.done(CommitResult(), 20_000.0, 100.0)
    assert schedule.take(20_000.0)
    schedule.done(CommitResult(is_retriable=True), 20_001.0, 100.0)
    assert [schedule.take(now) for now in (20_100.0, 20_101.0)] == [False, True]


def test_a_rebalance_starts_the_interval_of_auto_commit_anew() -> None:
    schedule = AutoCommit(5000.0, 0.0)
    schedule.reset(4000.0)
    assert [schedule.take(now) for now in (5000.0, 9000.0)] == [False, True]
