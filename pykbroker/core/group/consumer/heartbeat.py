"""ConsumerGroupHeartbeat: a member says what it wants and what it has, and is told what it may have next (KIP-848).

1. What the member says is compared with what is stored; what differs is written.
2. A change of members, subscriptions or topics raises the group's epoch and gives everybody a new target: `plan`.
3. The member takes the next step towards its target: `reconcile`. Others take theirs when they are heard of.
"""

from __future__ import annotations

from pykbroker.core.errors import ApiError
from pykbroker.core.group.asked import Asked
from pykbroker.core.group.classic import stored as classic_stored
from pykbroker.core.group.classic.group import ClassicGroup
from pykbroker.core.group.classic.state import State
from pykbroker.core.group.consumer import assignment, stored
from pykbroker.core.group.consumer.assignment import without
from pykbroker.core.group.consumer.check import JOINING, LEAVING, LEAVING_FOR_NOW, check
from pykbroker.core.group.consumer.departure import REVOCATION, check_instance, expect, leave, tombstones, unknown
from pykbroker.core.group.consumer.draft import Draft
from pykbroker.core.group.consumer.group import ConsumerGroup, Said
from pykbroker.core.group.consumer.plan import plan
from pykbroker.core.group.consumer.reconcile import Current, MemberState, reconcile
from pykbroker.core.group.consumer.topic_pattern import matching
from pykbroker.core.group.shard import Due, Shard
from pykbroker.core.group.step import Step
from pykbroker.core.metadata.ids import id_text, new_id
from pykbroker.core.outcome import Token
from wire.error_codes import ErrorCode
from wire.messages.consumer_group_heartbeat import (
    Assignment,
    ConsumerGroupHeartbeatRequest,
    ConsumerGroupHeartbeatResponse,
    TopicPartitions,
)


def heartbeat(shard: Shard, asked: Asked, token: Token, step: Step) -> None:
    """ApiError refuses: FENCED_MEMBER_EPOCH means that the member must give all up and join again."""
    request: ConsumerGroupHeartbeatRequest = asked.message
    check(request, asked.version)
    if request.member_epoch in (LEAVING, LEAVING_FOR_NOW):
        leave(shard, request, token, step)
        return
    group = _group(shard, request)
    member_id = request.member_id or id_text(new_id(shard.randomness))
    _check_member(shard, group, request, member_id)
    if request.subscribed_topic_regex:
        matching(request.subscribed_topic_regex, ())
    draft, topics = Draft(group, step), shard.topics()
    if request.group_id not in shard.groups or isinstance(shard.groups[request.group_id], ClassicGroup):
        _make_way(shard, request.group_id, step)
    before = _replace(draft, shard, request, member_id)
    said = _said(asked, before)
    if said != before:
        draft.write(stored.member(group.id, member_id, said))
    subscribed = ([], "") if before is None else (before.subscribed_topic_names, before.subscribed_topic_regex)
    plan(draft, topics, changed=(said.subscribed_topic_names, said.subscribed_topic_regex) != subscribed)
    group.seen = topics
    _step(draft, shard, request, member_id, token)


def _group(shard: Shard, request: ConsumerGroupHeartbeatRequest) -> ConsumerGroup:
    """The group, or a new one for its first member; an empty classic group gives way to one."""
    group = shard.groups.get(request.group_id)
    if isinstance(group, ConsumerGroup):
        return group
    if request.member_epoch != JOINING:
        raise ApiError(ErrorCode.GROUP_ID_NOT_FOUND, f"Consumer group {request.group_id} not found.")
    if group is not None and (group.state is not State.EMPTY or group.pending):
        raise ApiError(ErrorCode.GROUP_ID_NOT_FOUND, f"Group {request.group_id} is not a consumer group.")
    return ConsumerGroup(request.group_id)


def _make_way(shard: Shard, group_id: str, step: Step) -> None:
    if group_id in shard.groups:
        step.write(classic_stored.deleted(group_id))


def _check_member(shard: Shard, group: ConsumerGroup, request: ConsumerGroupHeartbeatRequest, member_id: str) -> None:
    """ApiError: the member may not go on, or may not come in."""
    joins, instance_id = request.member_epoch == JOINING, request.instance_id
    if instance_id is not None:
        known = group.static.get(instance_id)
        if not joins:
            check_instance(group, instance_id, member_id)
        elif known is not None and known != member_id:
            if group.member_epoch(known) != LEAVING_FOR_NOW:
                raise ApiError(ErrorCode.UNRELEASED_INSTANCE_ID, f"Static member {member_id} with instance id "
                               f"{instance_id} cannot join the group because the instance id is owned by {known} "
                               "member.")
            return
    if member_id in group.members:
        _check_epoch(group.current.get(member_id, Current()), request)
    elif not joins:
        raise unknown(group, member_id)
    elif len(group.members) >= shard.settings.group_consumer_max_size:
        raise ApiError(ErrorCode.GROUP_MAX_SIZE_REACHED, "The consumer group has reached its maximum capacity of "
                       f"{shard.settings.group_consumer_max_size} members.")


def _check_epoch(has: Current, request: ConsumerGroupHeartbeatRequest) -> None:
    """The epoch must be the member's, or the one before, if the answer that told of the next one may have been lost.

    One that joins again says that it owns nothing: it is told what it had.
    """
    epoch = request.member_epoch
    owned = None if request.topic_partitions is None else assignment.of(request.topic_partitions)
    behind = epoch == has.previous_epoch and owned is not None and not without(owned, has.assigned)
    if epoch not in (has.epoch, JOINING) and not behind:
        order = "greater" if epoch > has.epoch else "smaller"
        raise ApiError(ErrorCode.FENCED_MEMBER_EPOCH, f"The consumer group member has a {order} member epoch ({epoch}) "
                       f"than the one known by the group coordinator ({has.epoch}). The member must abandon all its "
                       "partitions and rejoin.")


def _replace(draft: Draft, shard: Shard, request: ConsumerGroupHeartbeatRequest, member_id: str) -> Said | None:
    """What is known of the member; of a static one that was away all passes over to its new id."""
    group = draft.group
    known = group.static.get(request.instance_id) if request.instance_id is not None else None
    if known is None or known == member_id:
        return group.members.get(member_id)
    said, has, target = group.members[known], group.current.get(known, Current()), group.target_of(known)
    tombstones(draft, shard, known)
    draft.write(stored.member(group.id, member_id, said))
    draft.write(stored.target(group.id, member_id, target))
    draft.write(stored.current(group.id, member_id, Current(0, 0, has.state, has.assigned, has.revoking)))
    return said


def _said(asked: Asked, before: Said | None) -> Said:
    """What holds of the member now: what the request leaves out stays as it was."""
    request: ConsumerGroupHeartbeatRequest = asked.message
    said = Said(instance_id=None, rack_id=None, subscribed_topic_regex="", server_assignor=None,
                classic_member_metadata=None) if before is None else before
    names, timeout_ms = request.subscribed_topic_names, request.rebalance_timeout_ms
    return Said(
        instance_id=_or(request.instance_id, said.instance_id), rack_id=_or(request.rack_id, said.rack_id),
        client_id=asked.client_id, client_host=asked.client_host,
        subscribed_topic_names=said.subscribed_topic_names if names is None else sorted(set(names)),
        subscribed_topic_regex=_or(request.subscribed_topic_regex, said.subscribed_topic_regex),
        rebalance_timeout_ms=said.rebalance_timeout_ms if timeout_ms == -1 else timeout_ms,
        server_assignor=_or(request.server_assignor, said.server_assignor), classic_member_metadata=None)


def _or(told: str | None, known: str | None) -> str | None:
    return known if told is None else told


def _step(draft: Draft, shard: Shard, request: ConsumerGroupHeartbeatRequest, member_id: str, token: Token) -> None:
    """Reconcile the member, set its timers, and answer it."""
    group, step = draft.group, draft.step
    has = group.current.get(member_id)
    owned = None if request.topic_partitions is None else assignment.of(request.topic_partitions)
    following = reconcile(has or Current(), group.target_of(member_id), group.assignment_epoch, owned, group.is_free)
    if following != has:
        draft.write(stored.current(group.id, member_id, following))
    expect(shard, group.id, member_id, step)
    revocation = Due(REVOCATION, group.id, member_id)
    if following.state is not MemberState.UNREVOKED_PARTITIONS:
        shard.timers.cancel(revocation)
    elif following != has:
        shard.timers.set(revocation, step.now_ms + group.members[member_id].rebalance_timeout_ms)
    is_full = request.rebalance_timeout_ms != -1 and owned is not None and not (
        request.subscribed_topic_names is None and request.subscribed_topic_regex is None)
    told = is_full or request.member_epoch == JOINING or has is None or following.assigned != has.assigned
    step.reply(token, ConsumerGroupHeartbeatResponse(
        member_id=member_id, member_epoch=following.epoch,
        heartbeat_interval_ms=shard.settings.group_consumer_heartbeat_interval_ms,
        assignment=Assignment([TopicPartitions(topic_id, sorted(partitions))
                               for topic_id, partitions in following.assigned.items()]) if told else None))
