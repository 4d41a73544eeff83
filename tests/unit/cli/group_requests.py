"""Requests that create groups with members and committed offsets for the tests of commands."""

from __future__ import annotations

import trio

from pykbroker.client.admin.admin import Admin
from pykbroker.client.admin.group_offsets import commit_offsets
from pykbroker.client.group_coordinators import RETRIABLE, GroupCoordinators
from pykbroker.core.consumer.assignors.member import MemberSubscription
from pykbroker.core.consumer.assignors.protocol import encode_assignment, encode_subscription
from pykbroker.core.topic_partition import TopicPartition
from wire.error_codes import ErrorCode
from wire.messages.consumer_group_heartbeat import ConsumerGroupHeartbeatRequest, TopicPartitions
from wire.messages.join_group import JoinGroupRequest, JoinGroupRequestProtocol, JoinGroupResponse
from wire.messages.sync_group import SyncGroupRequest, SyncGroupRequestAssignment

SESSION_MS = 300_000
MEMBER_ID = "AAAAAAAAAAAAAAAAAAAAAQ"


async def commit(admin: Admin, group: str, offsets: dict[TopicPartition, int]) -> None:
    """Commit offsets for a group without members."""
    outcomes = await commit_offsets(GroupCoordinators(admin), group, offsets)
    assert set(outcomes.values()) == {None}


async def join_classic(admin: Admin, group: str, partitions: list[TopicPartition]) -> str:
    """Add a static member `one` to a classic group, assign it these partitions, and return its member id.

    The member never sends heartbeats, and stays for `SESSION_MS`.
    """
    subscription = encode_subscription(MemberSubscription(frozenset(each.topic for each in partitions)))
    request = JoinGroupRequest(
        group,
        SESSION_MS,
        SESSION_MS,
        group_instance_id="one",
        protocol_type="consumer",
        protocols=[JoinGroupRequestProtocol("range", subscription)],
    )
    joined = await join(admin, request)
    assignment = SyncGroupRequestAssignment(joined.member_id, encode_assignment(partitions))
    synced = await admin.connection.ask(
        SyncGroupRequest(group, joined.generation_id, joined.member_id, "one", "consumer", "range", [assignment])
    )
    assert synced.error_code == 0
    return joined.member_id


async def join(admin: Admin, request: JoinGroupRequest) -> JoinGroupResponse:
    """Join a classic group. Retry while the coordinator loads, and with the member id that it has given."""
    while True:
        answer = await admin.connection.ask(request)
        if answer.error_code not in (*RETRIABLE, ErrorCode.MEMBER_ID_REQUIRED):
            assert answer.error_code == 0
            return answer
        request.member_id = answer.member_id
        await trio.lowlevel.checkpoint()


async def join_consumer(admin: Admin, group: str, topic: str) -> None:
    """Add a member to a group of the consumer protocol, and wait until it has its assignment."""
    epoch, owned = 0, list[TopicPartitions]()
    while True:
        request = ConsumerGroupHeartbeatRequest(
            group,
            MEMBER_ID,
            epoch,
            rebalance_timeout_ms=SESSION_MS,
            subscribed_topic_names=[topic],
            topic_partitions=owned,
        )
        answer = await admin.connection.ask(request)
        if answer.error_code not in RETRIABLE:
            assert answer.error_code == 0, answer.error_message
            epoch = answer.member_epoch
            assigned = answer.assignment.topic_partitions if answer.assignment else []
            if assigned and [each.partitions for each in assigned] == [each.partitions for each in owned]:
                return
            owned = [TopicPartitions(each.topic_id, each.partitions) for each in assigned]
        await trio.lowlevel.checkpoint()
