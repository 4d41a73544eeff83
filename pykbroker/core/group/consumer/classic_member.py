"""SyncGroup, Heartbeat and LeaveGroup of consumer group members that use the classic protocol.

A Heartbeat response tells such a member when it must rejoin with JoinGroup: see `classic_join`.
"""

from __future__ import annotations

from pykbroker.core.errors import ApiError
from pykbroker.core.group.classic.group import CONSUMER
from pykbroker.core.group.classic.leave import answer, leaving
from pykbroker.core.group.consumer.assignment import each, without
from pykbroker.core.group.consumer.deadlines import FETCH, expect, expect_rejoin
from pykbroker.core.group.consumer.departure import check_instance, remove, unknown
from pykbroker.core.group.consumer.draft import GroupDraft
from pykbroker.core.group.consumer.embedded import assignment
from pykbroker.core.group.consumer.group import ConsumerGroup, StoredMember
from pykbroker.core.group.consumer.reconcile import Current, MemberState
from pykbroker.core.group.requests import ClientRequest
from pykbroker.core.group.shard import Due, Shard
from pykbroker.core.group.step import Step
from pykbroker.core.outcome import Token
from wire.error_codes import ErrorCode
from wire.messages.heartbeat import HeartbeatRequest, HeartbeatResponse
from wire.messages.leave_group import LeaveGroupRequest, MemberIdentity
from wire.messages.sync_group import SyncGroupRequest, SyncGroupResponse
from wire.stored.consumer_group import ClassicMemberMetadata


def sync(shard: Shard, client_request: ClientRequest, token: Token, step: Step) -> None:
    """Return the member's assignment, unless it must rejoin first. Assignments in the request are ignored."""
    request: SyncGroupRequest = client_request.message
    group, stored_member, classic, has = _member(shard, request)
    protocol = classic.supported_protocols[0]
    if request.protocol_type not in (None, CONSUMER) or request.protocol_name not in (None, protocol.name):
        raise ApiError(ErrorCode.INCONSISTENT_GROUP_PROTOCOL)
    # A member that must revoke needs this response, in which those partitions are missing. It rejoins afterwards.
    if has.epoch < group.epoch and has.state is not MemberState.UNREVOKED_PARTITIONS:
        expect_rejoin(shard, group.id, request.member_id, stored_member, step)
        raise ApiError(ErrorCode.REBALANCE_IN_PROGRESS)
    shard.timers.cancel(Due(FETCH, group.id, request.member_id))
    expect(shard, group.id, request.member_id, stored_member, step)
    given = assignment(has.assigned, shard.topics(), bytes(protocol.metadata))
    step.reply(
        token,
        SyncGroupResponse(protocol_type=request.protocol_type, protocol_name=request.protocol_name, assignment=given),
    )


def heartbeat(shard: Shard, client_request: ClientRequest, token: Token, step: Step) -> None:
    """Extend the session. The error REBALANCE_IN_PROGRESS tells the member to rejoin.

    It must rejoin to reach the group's epoch, to revoke partitions, or to receive partitions that others have released.
    """
    request: HeartbeatRequest = client_request.message
    group, stored_member, _, has = _member(shard, request)
    expect(shard, group.id, request.member_id, stored_member, step)
    code = ErrorCode.NONE
    if (
        has.epoch < group.epoch
        or has.state is MemberState.UNREVOKED_PARTITIONS
        # As long as others own the partitions, a rejoin gives the member nothing new.
        or (has.state is MemberState.UNRELEASED_PARTITIONS and not _waits(group, request.member_id, has))
    ):
        code = ErrorCode.REBALANCE_IN_PROGRESS
        expect_rejoin(shard, group.id, request.member_id, stored_member, step)
    step.reply(token, HeartbeatResponse(error_code=code))


def leave(shard: Shard, client_request: ClientRequest, token: Token, step: Step) -> None:
    """Remove the members of the request together, and reply with an error code for each.

    Members of either protocol may leave this way.
    """
    request: LeaveGroupRequest = client_request.message
    group = shard.find_consumer(request.group_id)
    assert group is not None
    gone: dict[str, None] = {}
    codes, identities = [], leaving(request, client_request.version)
    for identity in identities:
        code = ErrorCode.NONE
        try:
            gone[_leaving(group, identity)] = None
        except ApiError as error:
            code = error.code
        codes.append(code)
    if gone:
        remove(GroupDraft(group, step), shard, gone)
    step.reply(token, answer(identities, codes, client_request.version))


def _leaving(group: ConsumerGroup, identity: MemberIdentity) -> str:
    """Return the id of the leaving member. An administrator may name a static member by its instance id alone."""
    member_id = identity.member_id
    if identity.group_instance_id is not None:
        member_id = member_id or group.static.get(identity.group_instance_id, "")
        check_instance(group, identity.group_instance_id, member_id)
    if member_id not in group.members:
        raise unknown(group, member_id)
    return member_id


def _member(
    shard: Shard, request: SyncGroupRequest | HeartbeatRequest
) -> tuple[ConsumerGroup, StoredMember, ClassicMemberMetadata, Current]:
    """Return the group and its member.

    Raise ApiError if the member is unknown, uses the consumer protocol, or is in another generation.
    """
    group = shard.find_consumer(request.group_id)
    assert group is not None
    if request.group_instance_id is not None:
        check_instance(group, request.group_instance_id, request.member_id)
    stored_member = group.members.get(request.member_id)
    if stored_member is None or stored_member.classic_member_metadata is None:
        raise unknown(group, request.member_id)
    has = group.current.get(request.member_id, Current())
    if request.generation_id != has.epoch:
        raise ApiError(ErrorCode.ILLEGAL_GENERATION)
    return group, stored_member, stored_member.classic_member_metadata, has


def _waits(group: ConsumerGroup, member_id: str, has: Current) -> bool:
    """Whether another member still owns a partition of this member's target."""
    missing = without(group.target_of(member_id), has.assigned)
    return any(not group.is_free(topic_id, index) for topic_id, index in each(missing))
