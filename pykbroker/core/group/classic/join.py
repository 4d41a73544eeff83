"""JoinGroup: a member joins a classic group or a rebalance of it."""

from __future__ import annotations

from pykbroker.core.errors import ApiError
from pykbroker.core.group.classic import rebalance, stored
from pykbroker.core.group.classic.group import ClassicGroup
from pykbroker.core.group.classic.member import ClassicMember, Protocols
from pykbroker.core.group.classic.state import ClassicGroupState
from pykbroker.core.group.requests import ClientRequest
from pykbroker.core.group.shard import Due, Shard
from pykbroker.core.group.step import Step
from pykbroker.core.ids import new_id
from pykbroker.core.outcome import Token
from wire.error_codes import ErrorCode
from wire.messages.join_group import JoinGroupRequest

MEMBER_ID_REQUIRED_VERSION_FIRST = 4
SKIP_ASSIGNMENT_VERSION_FIRST = 9
NEW_MEMBER_JOIN_TIMEOUT_MS = 300_000
"""The longest time for which a new member's JoinGroup waits.

If the rebalance takes longer, the member is removed and may join again.
"""
PENDING_MEMBERS_MAX = 10_000
"""The number of member ids of one group that were assigned but not used. Each is dropped after a session timeout."""
PROTOCOLS_MAX, PROTOCOLS_BYTES_MAX = 1000, 4 << 20
"""The number of protocols of one member, and their size in total.

Protocols are kept in memory before a record with a limited size contains them.
"""


def join(shard: Shard, client_request: ClientRequest, token: Token, step: Step) -> None:
    """Answer a JoinGroup. If the request starts or joins a rebalance, it waits until the rebalance has ended."""
    request: JoinGroupRequest = client_request.message
    if not request.group_id:
        raise ApiError(ErrorCode.INVALID_GROUP_ID)
    check_member(shard, request)
    group, is_new = _group(shard, request, step)
    if not _accepts(group, request.member_id, shard.settings.group_max_size):
        # The client gives up after this error, so its id must not hold up a rebalance until its session times out.
        group.remove(request.member_id)
        step.reply(token, rebalance.failed_join(ErrorCode.GROUP_MAX_SIZE_REACHED, ""))
        return
    if not group.supports_any_of(request.protocol_type, [protocol.name for protocol in request.protocols]):
        raise ApiError(ErrorCode.INCONSISTENT_GROUP_PROTOCOL)
    if is_new:
        shard.groups[group.id] = group
        step.write(stored.empty(group, 0, step.wall_ms))
    if request.member_id:
        _join_with_id(shard, group, client_request, token, step)
    else:
        _join_without_id(shard, group, client_request, token, step)


def check_member(shard: Shard, request: JoinGroupRequest) -> None:
    """Raise ApiError if the session timeout is out of bounds, or if the member has too many or too large protocols."""
    least_ms, most_ms = shard.settings.group_min_session_timeout_ms, shard.settings.group_max_session_timeout_ms
    if not least_ms <= request.session_timeout_ms <= most_ms:
        raise ApiError(ErrorCode.INVALID_SESSION_TIMEOUT)
    protocols_bytes = sum(len(protocol.name) + len(protocol.metadata) for protocol in request.protocols)
    if len(request.protocols) > PROTOCOLS_MAX or protocols_bytes > PROTOCOLS_BYTES_MAX:
        raise ApiError(ErrorCode.UNKNOWN_SERVER_ERROR)


def _group(shard: Shard, request: JoinGroupRequest, step: Step) -> tuple[ClassicGroup, bool]:
    """Return the group and whether it is new. A classic group for a new member replaces an empty consumer group."""
    group = shard.find_classic(request.group_id)
    if group is not None:
        return group, False
    if request.member_id:
        raise ApiError(ErrorCode.UNKNOWN_MEMBER_ID)
    replaced = shard.groups.get(request.group_id)
    if replaced is not None:
        for record in replaced.tombstones():
            step.write(record)
    return ClassicGroup(request.group_id, step.wall_ms), True


def _accepts(group: ClassicGroup, member_id: str, size_max: int) -> bool:
    """Whether the group has room for the member.

    During a rebalance only members that have joined count, since the others may not return.
    """
    member = group.members.get(member_id)
    if group.state is ClassicGroupState.EMPTY:
        return True
    if group.state is ClassicGroupState.PREPARING_REBALANCE:
        return (member is not None and member.joining is not None) or group.joined < size_max
    return member is not None or len(group.members) < size_max


def _join_without_id(
    shard: Shard, group: ClassicGroup, client_request: ClientRequest, token: Token, step: Step
) -> None:
    """Assign a member id to a client. Static members and old clients join at once, others get MEMBER_ID_REQUIRED."""
    request: JoinGroupRequest = client_request.message
    member_id = (
        f"{client_request.client_id if request.group_instance_id is None else request.group_instance_id}-{_uuid(shard)}"
    )
    if request.group_instance_id is not None:
        replaced = group.static.get(request.group_instance_id)
        if replaced is not None:
            _replace(shard, group, group.members[replaced], member_id, client_request, token, step)
            return
    # A client that repeats a JoinGroup whose response was lost would otherwise leave a member behind (KIP-394).
    elif client_request.version >= MEMBER_ID_REQUIRED_VERSION_FIRST:
        if len(group.pending) >= PENDING_MEMBERS_MAX:
            raise ApiError(ErrorCode.GROUP_MAX_SIZE_REACHED)
        group.pending.add(member_id)
        rebalance.expect(shard, group, member_id, request.session_timeout_ms, step)
        step.reply(token, rebalance.failed_join(ErrorCode.MEMBER_ID_REQUIRED, member_id))
        return
    _add(shard, group, member_id, client_request, token, step)


def _uuid(shard: Shard) -> str:
    text = new_id(shard.randomness).hex()
    return f"{text[:8]}-{text[8:12]}-{text[12:16]}-{text[16:20]}-{text[20:]}"


def _add(
    shard: Shard, group: ClassicGroup, member_id: str, client_request: ClientRequest, token: Token, step: Step
) -> None:
    request: JoinGroupRequest = client_request.message
    if group.state is ClassicGroupState.PREPARING_REBALANCE and group.previous_state is ClassicGroupState.EMPTY:
        # The first rebalance of a group waits on while members come: see `rebalance.join_due`.
        group.member_added = True
    if not group.members:
        group.protocol_type = request.protocol_type
    group.add(
        ClassicMember(
            member_id,
            request.group_instance_id,
            client_request.client_id,
            client_request.client_host,
            rebalance_timeout_ms(request),
            request.session_timeout_ms,
            protocols(request),
            is_new=True,
            joining=token,
        )
    )
    rebalance.expect(shard, group, member_id, NEW_MEMBER_JOIN_TIMEOUT_MS, step)
    rebalance.rebalance_or_complete(shard, group, step)


def _join_with_id(shard: Shard, group: ClassicGroup, client_request: ClientRequest, token: Token, step: Step) -> None:
    """Handle a JoinGroup with a member id: after MEMBER_ID_REQUIRED, for a rebalance, or after a lost response."""
    request: JoinGroupRequest = client_request.message
    if request.member_id in group.pending:
        if request.group_instance_id is not None:
            raise ApiError(ErrorCode.UNKNOWN_MEMBER_ID)  # static members never get MEMBER_ID_REQUIRED
        _add(shard, group, request.member_id, client_request, token, step)
        return
    member = group.check(request.member_id, request.group_instance_id)
    if group.state is ClassicGroupState.EMPTY:
        raise ApiError(ErrorCode.UNKNOWN_MEMBER_ID)
    has_news = member.protocols != protocols(request)
    # The leader may have found new partitions, which need a new assignment.
    leads = group.state is ClassicGroupState.STABLE and group.leader == member.id
    if group.state is ClassicGroupState.PREPARING_REBALANCE or has_news or leads or member.joining is not None:
        _rejoin(group, member, request, token, step)
        rebalance.rebalance_when_synced(shard, group, step)
    else:
        step.reply(token, rebalance.generation(group, member.id))


def _replace(
    shard: Shard,
    group: ClassicGroup,
    member: ClassicMember,
    member_id: str,
    client_request: ClientRequest,
    token: Token,
    step: Step,
) -> None:
    """Replace a static member that has restarted: the new instance takes its place and the old one is fenced."""
    request: JoinGroupRequest = client_request.message
    rebalance.refuse_waiting(group, member, ErrorCode.FENCED_INSTANCE_ID, member.id, step)
    shard.timers.cancel(Due(rebalance.SESSION, group.id, member.id))
    rebalance.expect(shard, group, member_id, request.session_timeout_ms, step)
    # A static member that restarts within its session costs no rebalance (KIP-345).
    if group.state is ClassicGroupState.STABLE and _keeps_protocol(group, member, protocols(request)):
        _resume(group, member, member_id, client_request, token, step)
        return
    group.rename(member, member_id)
    _rejoin(group, member, request, token, step)
    if group.state is ClassicGroupState.PREPARING_REBALANCE:
        rebalance.complete_if_all_joined(shard, group, step)
    else:
        rebalance.prepare(shard, group, step)


def _resume(
    group: ClassicGroup, member: ClassicMember, member_id: str, client_request: ClientRequest, token: Token, step: Step
) -> None:
    """Continue the current generation without a rebalance. The new instance gets the assignment of the old one."""
    request: JoinGroupRequest = client_request.message
    old_leader = group.leader
    group.set_protocols(member, protocols(request))
    member.rebalance_timeout_ms, member.session_timeout_ms = rebalance_timeout_ms(request), request.session_timeout_ms
    assignments = {one.id: one.assignment for one in group.members.values()}
    # The replay of this record renames the member, so that the old id stays if the log refuses the record.
    step.write(stored.assigned(group, assignments, {member.id: member_id}))
    response = rebalance.generation(group, member.id)
    response.member_id = member_id
    # The instance must know that it leads, in order to watch for new partitions, but must not assign now (KIP-814). An
    # older client that saw itself as the leader would assign, so it gets the id that led before.
    if client_request.version >= SKIP_ASSIGNMENT_VERSION_FIRST:
        if old_leader == member.id:
            response.leader, response.skip_assignment = member_id, True
            for one in response.members:
                if one.member_id == member.id:
                    one.member_id = member_id
    else:
        response.members, response.leader = [], old_leader or ""
    step.reply(token, response)


def _keeps_protocol(group: ClassicGroup, member: ClassicMember, protocols: Protocols) -> bool:
    """Whether the group would still select the same protocol if the member supported these protocols."""
    known = member.protocols
    group.set_protocols(member, protocols)
    selected = (
        group.select_protocol() if group.supports_any_of(group.protocol_type, [name for name, _ in protocols]) else None
    )
    group.set_protocols(member, known)
    return selected == group.protocol


def _rejoin(group: ClassicGroup, member: ClassicMember, request: JoinGroupRequest, token: Token, step: Step) -> None:
    """Update the member's protocols and timeouts, and make its JoinGroup wait.

    An earlier JoinGroup of the member that still waits gets REBALANCE_IN_PROGRESS.
    """
    group.set_protocols(member, protocols(request))
    member.rebalance_timeout_ms, member.session_timeout_ms = rebalance_timeout_ms(request), request.session_timeout_ms
    before = group.set_joining(member, token)
    if before is not None:
        step.reply(before, rebalance.failed_join(ErrorCode.REBALANCE_IN_PROGRESS, member.id))


def protocols(request: JoinGroupRequest) -> Protocols:
    """Return the request's protocols as `ClassicMember` stores them."""
    return tuple((protocol.name, bytes(protocol.metadata)) for protocol in request.protocols)


def rebalance_timeout_ms(request: JoinGroupRequest) -> int:
    """Return the rebalance timeout. Version 0 has none and uses the session timeout."""
    return request.session_timeout_ms if request.rebalance_timeout_ms < 0 else request.rebalance_timeout_ms
