"""Group requests that no client sends, over a raw socket. The tests pass on Apache Kafka 4.3.1, too
(see `bootstrap`).
"""

from __future__ import annotations

import time
import uuid
from collections.abc import Iterator
from typing import Any

import pytest

from tests.interop.raw_client import PATIENCE_S, RawClient
from wire.error_codes import ErrorCode
from wire.messages.consumer_group_heartbeat import (
    ConsumerGroupHeartbeatRequest,
    ConsumerGroupHeartbeatResponse,
    TopicPartitions,
)
from wire.messages.find_coordinator import FindCoordinatorRequest, FindCoordinatorResponse
from wire.messages.heartbeat import HeartbeatRequest, HeartbeatResponse
from wire.messages.join_group import JoinGroupRequest, JoinGroupRequestProtocol, JoinGroupResponse
from wire.messages.leave_group import LeaveGroupRequest, LeaveGroupResponse, MemberIdentity
from wire.messages.offset_commit import (
    OffsetCommitRequest,
    OffsetCommitRequestPartition,
    OffsetCommitRequestTopic,
    OffsetCommitResponse,
)
from wire.messages.sync_group import SyncGroupRequest, SyncGroupRequestAssignment, SyncGroupResponse
from wire.stored.consumer_protocol import ConsumerProtocolSubscription
from wire.stored.framing import encode_versioned

MEMBER = "m" * 22


class Group:
    """A new group, with methods that send requests in which one field is unusual."""

    def __init__(self, client: RawClient) -> None:
        self.client, self.topic, self.id = client, client.create_topic(), f"group-{uuid.uuid4().hex}"
        deadline = time.monotonic() + PATIENCE_S
        while client.call(FindCoordinatorResponse, FindCoordinatorRequest(self.id), 3).error_code or (
            self.beat(1, "nobody") != ErrorCode.UNKNOWN_MEMBER_ID
        ):
            assert time.monotonic() < deadline
            time.sleep(0.01)

    def join(self, member_id: str = "", *, version: int = 9, **odd: Any) -> JoinGroupResponse:
        subscription = encode_versioned(ConsumerProtocolSubscription([self.topic]), 1)
        fields = {
            "group_id": self.id,
            "session_timeout_ms": 30_000,
            "rebalance_timeout_ms": 30_000,
            "member_id": member_id,
            "protocol_type": "consumer",
            "protocols": [JoinGroupRequestProtocol("range", subscription)],
            **odd,
        }
        return self.client.call(JoinGroupResponse, JoinGroupRequest(**fields), version)

    def joined(self) -> JoinGroupResponse:
        """Join a member whose assignment cannot be parsed."""
        member = self.join(version=3)
        assert self.sync(member.member_id, member.generation_id) == 0
        return member

    def sync(self, member_id: str, generation: int, version: int = 4, **odd: Any) -> ErrorCode:
        request = SyncGroupRequest(self.id, generation, member_id, **odd)
        return ErrorCode(self.client.call(SyncGroupResponse, request, version).error_code)

    def beat(self, generation: int, member_id: str, **odd: Any) -> ErrorCode:
        request = HeartbeatRequest(self.id, generation, member_id, **odd)
        return ErrorCode(self.client.call(HeartbeatResponse, request, 4).error_code)

    def leave(self, *members: tuple[str, str | None]) -> list[int]:
        request = LeaveGroupRequest(self.id, members=[MemberIdentity(*one) for one in members])
        return [one.error_code for one in self.client.call(LeaveGroupResponse, request, 5).members]

    def commit(
        self, generation: int = -1, member_id: str = "", metadata: str | None = "", partition: int = 0, version: int = 9
    ) -> ErrorCode:
        topics = [
            OffsetCommitRequestTopic(self.topic, partitions=[OffsetCommitRequestPartition(partition, 1, -1, metadata)])
        ]
        request = OffsetCommitRequest(self.id, generation, member_id, topics=topics)
        answer = self.client.call(OffsetCommitResponse, request, version)
        return ErrorCode(answer.topics[0].partitions[0].error_code)

    def enter(
        self, epoch: int = 0, member_id: str = MEMBER, version: int = 1, **odd: Any
    ) -> ConsumerGroupHeartbeatResponse:
        fields = {
            "group_id": self.id,
            "member_id": member_id,
            "member_epoch": epoch,
            "rebalance_timeout_ms": 30_000,
            "subscribed_topic_names": [self.topic],
            "topic_partitions": [],
            **odd,
        }
        return self.client.call(ConsumerGroupHeartbeatResponse, ConsumerGroupHeartbeatRequest(**fields), version)


@pytest.fixture
def group(bootstrap: str) -> Iterator[Group]:
    with RawClient(bootstrap) as client:
        yield Group(client)


@pytest.mark.parametrize(
    ("odd", "code"),
    [
        ({"group_id": ""}, ErrorCode.INVALID_GROUP_ID),
        ({"session_timeout_ms": 5999}, ErrorCode.INVALID_SESSION_TIMEOUT),
        ({"session_timeout_ms": 1_800_001}, ErrorCode.INVALID_SESSION_TIMEOUT),
        ({"session_timeout_ms": -1}, ErrorCode.INVALID_SESSION_TIMEOUT),
        ({"protocol_type": ""}, ErrorCode.INCONSISTENT_GROUP_PROTOCOL),
        ({"protocols": []}, ErrorCode.INCONSISTENT_GROUP_PROTOCOL),
        ({"member_id": "zz"}, ErrorCode.UNKNOWN_MEMBER_ID),
        ({"member_id": "zz", "group_instance_id": "i"}, ErrorCode.UNKNOWN_MEMBER_ID),
        ({"session_timeout_ms": 6000}, ErrorCode.MEMBER_ID_REQUIRED),
        ({"session_timeout_ms": 1_800_000}, ErrorCode.MEMBER_ID_REQUIRED),
        ({"protocols": [JoinGroupRequestProtocol("", b"")]}, ErrorCode.MEMBER_ID_REQUIRED),
    ],
)
def test_join_group_requests_are_validated_as_by_kafka(group: Group, odd: dict[str, Any], code: ErrorCode) -> None:
    assert group.join(**odd).error_code == code


def test_requests_of_classic_members_are_validated_as_by_kafka(group: Group) -> None:
    member = group.joined()
    name, now = member.member_id, member.generation_id
    for generation in (-(2**31), -1, 0, now + 1, 2**31 - 1):
        assert group.sync(name, generation) == group.beat(generation, name) == ErrorCode.ILLEGAL_GENERATION
    assert (
        group.sync("", now)
        == group.beat(now, "")
        == group.beat(now, name, group_instance_id="i")
        == (ErrorCode.UNKNOWN_MEMBER_ID)
    )
    for odd in (
        {"protocol_type": "x", "protocol_name": "range"},
        {"protocol_type": "consumer", "protocol_name": "x"},
        {"protocol_type": None, "protocol_name": "range"},
    ):
        assert group.sync(name, now, 5, **odd) == ErrorCode.INCONSISTENT_GROUP_PROTOCOL
    assert group.join(version=3, protocol_type="connect").error_code == ErrorCode.INCONSISTENT_GROUP_PROTOCOL
    assert group.commit(now + 1, name) == ErrorCode.ILLEGAL_GENERATION
    assert group.commit() == group.commit(now, "zz") == ErrorCode.UNKNOWN_MEMBER_ID
    assert group.leave() == []
    assert group.leave((name, None), (name, None), ("", None), ("", "i"), ("x", "i")) == [
        0,
        *[ErrorCode.UNKNOWN_MEMBER_ID] * 4,
    ]


def test_offset_commits_are_validated_as_by_kafka(group: Group) -> None:
    for length, code in ((4096, ErrorCode.NONE), (4097, ErrorCode.OFFSET_METADATA_TOO_LARGE)):
        assert group.commit(metadata="x" * length) == group.commit(metadata="é" * length) == code
        assert group.commit(metadata="😀" * ((length + 1) // 2)) == code
    assert group.commit(metadata=None) == group.commit(-2) == group.commit(-1, "zz") == ErrorCode.NONE
    assert group.commit(0) == group.commit(5, "zz") == ErrorCode.UNKNOWN_MEMBER_ID
    for partition in (-1, 1, 2**31 - 1):
        assert group.commit(partition=partition) == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION


@pytest.mark.parametrize(
    ("odd", "code", "why"),
    [
        ({"group_id": " "}, ErrorCode.INVALID_REQUEST, "GroupId can't be empty."),
        ({"member_id": ""}, ErrorCode.INVALID_REQUEST, "MemberId can't be empty."),
        ({"instance_id": ""}, ErrorCode.INVALID_REQUEST, "InstanceId can't be empty."),
        ({"rack_id": ""}, ErrorCode.INVALID_REQUEST, "RackId can't be empty."),
        ({"epoch": -3}, ErrorCode.INVALID_REQUEST, "MemberEpoch is invalid."),
        ({"epoch": -2}, ErrorCode.INVALID_REQUEST, "InstanceId can't be null."),
        (
            {"rebalance_timeout_ms": -1},
            ErrorCode.INVALID_REQUEST,
            "RebalanceTimeoutMs must be provided in first request.",
        ),
        ({"topic_partitions": None}, ErrorCode.INVALID_REQUEST, "TopicPartitions must be empty when (re-)joining."),
        (
            {"server_assignor": ""},
            ErrorCode.UNSUPPORTED_ASSIGNOR,
            "ServerAssignor  is not supported. Supported assignors: uniform, range.",
        ),
        ({"epoch": 5}, ErrorCode.GROUP_ID_NOT_FOUND, "Consumer group {} not found."),
        ({"epoch": -1}, ErrorCode.GROUP_ID_NOT_FOUND, "Group {} not found."),
        *(
            ({"subscribed_topic_regex": pattern}, ErrorCode.INVALID_REGULAR_EXPRESSION, None)
            for pattern in (
                "(",
                ")",
                "[",
                "*",
                "a**",
                "a++",
                "(?=x)",
                "(?<=x)y",
                r"(a)\1",
                "a{1001}",
                "x{1,1000}{1,1000}",
                r"\C",
                r"\Z",
                "[z-a]",
                "[]",
                "a{2,1}",
                "(?P<n>a)(?P<n>b)",
                r"\8",
                r"\u0041",
                "(?#c)x",
                "(?z)",
                "[[:foo:]]",
                r"[a-\d]",
            )
        ),
        *(
            ({"subscribed_topic_regex": pattern}, ErrorCode.NONE, None)
            for pattern in (
                "[[:alpha:]]+",
                r"\Qa.b\E",
                r"\x41",
                r"\x{41}",
                r"\pL+",
                r"\P{Greek}",
                r"\bt\B",
                "(" * 200 + ")" * 200,
                "",
                "^t$",
                "(a*)*b",
                "(.*)*(.*)*(.*)*x",
                "a{1000}",
                "(?P<n>x)",
                "(?<n>x)",
                "(?i)T.*",
                "a|b|",
                "[]a]",
                "a{,3}",
                "{",
                "a{",
                r"\z",
                r"\A",
                "(?s-i:x)",
                "\0",
                "é",
                "[^x]",
                r"\d+\w*\s?\D",
                "x*?",
                "x{0}",
                "()",
            )
        ),
        ({"subscribed_topic_names": ["", "..", "a b", "x" * 300]}, ErrorCode.NONE, None),
        ({"rebalance_timeout_ms": 0}, ErrorCode.NONE, None),
        ({"member_id": "m" * 3000}, ErrorCode.NONE, None),
    ],
)
def test_first_heartbeats_of_consumer_group_members_are_validated_as_by_kafka(
    group: Group, odd: dict[str, Any], code: ErrorCode, why: str | None
) -> None:
    answer = group.enter(**odd)
    assert answer.error_code == code
    assert why is None or answer.error_message == why.format(group.id)


def test_requests_of_consumer_group_members_are_validated_as_by_kafka(group: Group) -> None:
    group.enter()

    def entered(epoch: int, **odd: Any) -> ErrorCode:
        return ErrorCode(group.enter(epoch, topic_partitions=None, **odd).error_code)

    for epoch in (1, 3, 2**31 - 1):
        assert entered(epoch) == ErrorCode.FENCED_MEMBER_EPOCH
    assert group.enter(2, topic_partitions=[TopicPartitions(b"z" * 16, [0, -1, 2**31 - 1])]).error_code == 0
    assert entered(2, member_id="zz") == entered(2, instance_id="i") == ErrorCode.UNKNOWN_MEMBER_ID
    assert entered(-1, instance_id="i") == ErrorCode.UNKNOWN_MEMBER_ID
    assert group.beat(2, MEMBER) == group.sync(MEMBER, 2) == ErrorCode.UNKNOWN_MEMBER_ID, (
        "the member uses the consumer protocol"
    )
    assert group.commit(2, MEMBER, version=8) == ErrorCode.UNSUPPORTED_VERSION
    for epoch in (-1, 1, 3):
        assert group.commit(epoch, MEMBER) == ErrorCode.STALE_MEMBER_EPOCH
    assert group.commit(2, "zz") == group.commit() == ErrorCode.UNKNOWN_MEMBER_ID
    assert group.join("zz", protocols=[JoinGroupRequestProtocol("range", b"zz")]).error_code == (
        ErrorCode.UNKNOWN_SERVER_ERROR
    )
    assert group.join(protocols=[]).error_code == ErrorCode.INCONSISTENT_GROUP_PROTOCOL
    assert group.join(protocol_type="connect").error_code == ErrorCode.INCONSISTENT_GROUP_PROTOCOL


@pytest.mark.parametrize(("before", "generation"), [(None, 2), ("another", 0)])
def test_a_static_classic_member_replaces_the_last_one_of_the_consumer_protocol_as_in_kafka(
    group: Group, before: str | None, generation: int
) -> None:
    group.enter(instance_id="i", subscribed_topic_names=[before or group.topic])
    joined = group.join(group_instance_id="i")
    assert (joined.error_code, joined.generation_id) == (0, generation)
    synced = group.sync(joined.member_id, generation, group_instance_id="i")
    assert synced == (ErrorCode.ILLEGAL_GENERATION if before else ErrorCode.NONE)
    again = group.join(joined.member_id, group_instance_id="i")
    assert (again.error_code, again.generation_id) == (0, 3), "the group is a classic one"


@pytest.mark.parametrize("given", [b"junk", b"\xff\xff", bytes(3)])
def test_a_group_with_unreadable_assignments_cannot_be_upgraded(group: Group, given: bytes) -> None:
    member = group.join(version=3)
    assert (
        group.sync(
            member.member_id, member.generation_id, assignments=[SyncGroupRequestAssignment(member.member_id, given)]
        )
        == 0
    )
    answer = group.enter()
    assert (answer.error_code, answer.error_message) == (
        ErrorCode.GROUP_ID_NOT_FOUND,
        f"Cannot upgrade classic group {group.id} to consumer group because the embedded "
        "consumer protocol is malformed.",
    )
    assert group.beat(member.generation_id, member.member_id) == 0
