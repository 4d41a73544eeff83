"""ConsumerGroupHeartbeat: a member reports its subscription and partitions, and receives its assignment (KIP-848).

1. The request is compared with the stored member, and differences are written.
2. After a change of members, subscriptions or topics, `plan` raises the group's epoch and gives all members new
   targets.
3. `reconcile` moves the member's assignment towards its target. Other members move with their own heartbeats.
"""

from __future__ import annotations

from pykbroker.core.errors import ApiError
from pykbroker.core.group.consumer import assignment
from pykbroker.core.group.consumer.assignment import without
from pykbroker.core.group.consumer.check import JOINING, LEAVING, LEAVING_FOR_NOW, check, full
from pykbroker.core.group.consumer.departure import check_instance, leave, no_consumer_group, unknown
from pykbroker.core.group.consumer.draft import GroupDraft
from pykbroker.core.group.consumer.group import ConsumerGroup, StoredMember
from pykbroker.core.group.consumer.membership import NEWCOMER, advance, take_over, update_member
from pykbroker.core.group.consumer.reconcile import Current
from pykbroker.core.group.consumer.upgrade import answer_members, upgrade
from pykbroker.core.group.requests import ClientRequest
from pykbroker.core.group.shard import Shard
from pykbroker.core.group.step import Step
from pykbroker.core.ids import id_text, new_id
from pykbroker.core.name_pattern import compiled
from pykbroker.core.outcome import Token
from wire.error_codes import ErrorCode
from wire.messages.consumer_group_heartbeat import (
    Assignment,
    ConsumerGroupHeartbeatRequest,
    ConsumerGroupHeartbeatResponse,
    TopicPartitions,
)


def heartbeat(shard: Shard, client_request: ClientRequest, token: Token, step: Step) -> None:
    """Handle a heartbeat. The error FENCED_MEMBER_EPOCH tells the member to give up all partitions and rejoin."""
    request: ConsumerGroupHeartbeatRequest = client_request.message
    check(request, client_request.version, shard.settings.group_consumer_assignors)
    if request.member_epoch in (LEAVING, LEAVING_FOR_NOW):
        leave(shard, request, token, step)
        return
    draft, upgraded = _draft(shard, request, step), shard.find_classic(request.group_id)
    member_id = request.member_id or id_text(new_id(shard.randomness))
    _check_member(shard, draft.group, request, member_id)
    if request.subscribed_topic_regex:
        # Raises ApiError INVALID_REGULAR_EXPRESSION before anything is written.
        compiled(request.subscribed_topic_regex)
    before = take_over(draft, member_id, request.instance_id)
    # An upgraded group that was rebalancing has incomplete assignments.
    changed = update_member(draft, member_id, before, _updated_member(client_request, before)) or (
        upgraded is not None and upgraded.is_rebalancing
    )
    owned = None if request.topic_partitions is None else assignment.of(request.topic_partitions)
    has, following = advance(draft, shard, member_id, owned, changed=changed)
    # From here on nothing refuses this request, so the members' own requests can be answered.
    if upgraded is not None:
        answer_members(shard, upgraded, draft)
    # A member sends all fields after an error, since a response may have been lost with its assignment (KIP-848).
    is_full = (
        request.rebalance_timeout_ms != -1
        and owned is not None
        and not (request.subscribed_topic_names is None and request.subscribed_topic_regex is None)
    )
    sends_assignment = is_full or request.member_epoch == JOINING or has is None or following.assigned != has.assigned
    step.reply(
        token,
        ConsumerGroupHeartbeatResponse(
            member_id=member_id,
            member_epoch=following.epoch,
            heartbeat_interval_ms=shard.settings.consumer_heartbeat_interval_ms(shard.configs_of(request.group_id)),
            assignment=Assignment(
                [TopicPartitions(topic_id, sorted(partitions)) for topic_id, partitions in following.assigned.items()]
            )
            if sends_assignment
            else None,
        ),
    )


def _draft(shard: Shard, request: ConsumerGroupHeartbeatRequest, step: Step) -> GroupDraft:
    """Return a draft of the group, or of a new group for its first member. A classic group is upgraded."""
    group = shard.find_consumer(request.group_id)
    if group is not None:
        return GroupDraft(group, step)
    if request.member_epoch != JOINING:
        raise no_consumer_group(shard.groups.get(request.group_id), request.group_id, "Consumer group")
    draft = GroupDraft(ConsumerGroup(request.group_id), step)
    upgraded = shard.find_classic(request.group_id)
    if upgraded is not None:
        upgrade(draft, shard, upgraded)
    return draft


def _check_member(shard: Shard, group: ConsumerGroup, request: ConsumerGroupHeartbeatRequest, member_id: str) -> None:
    """Raise ApiError if the member may not continue or join."""
    joins, instance_id = request.member_epoch == JOINING, request.instance_id
    if instance_id is not None:
        known = group.static.get(instance_id)
        if not joins:
            check_instance(group, instance_id, member_id)
        elif known is not None and known != member_id:
            # In the classic protocol the newer instance takes over. In the consumer protocol the older one must have
            # left.
            if group.member_epoch(known) != LEAVING_FOR_NOW and not group.is_classic(known):
                raise ApiError(
                    ErrorCode.UNRELEASED_INSTANCE_ID,
                    f"Static member {member_id} with instance id "
                    f"{instance_id} cannot join the group because the instance id is owned by {known} "
                    "member.",
                )
            # The member takes the place of the earlier one, so that its new id makes the group no larger.
            return
    if member_id in group.members:
        _check_epoch(group.current.get(member_id, Current()), request)
    elif not joins:
        raise unknown(group, member_id)
    elif len(group.members) >= shard.settings.group_consumer_max_size:
        raise full(shard.settings.group_consumer_max_size)


def _check_epoch(has: Current, request: ConsumerGroupHeartbeatRequest) -> None:
    """Raise ApiError FENCED_MEMBER_EPOCH unless the epoch is the member's, or the previous one after a lost response.

    A member that rejoins reports no partitions and receives its assignment again.
    """
    epoch = request.member_epoch
    owned = None if request.topic_partitions is None else assignment.of(request.topic_partitions)
    behind = has.previous_epoch == epoch < has.epoch and owned is not None and not without(owned, has.assigned)
    if epoch not in (has.epoch, JOINING) and not behind:
        order = "greater" if epoch > has.epoch else "smaller"
        raise ApiError(
            ErrorCode.FENCED_MEMBER_EPOCH,
            f"The consumer group member has a {order} member epoch ({epoch}) "
            f"than the one known by the group coordinator ({has.epoch}). The member must abandon all its "
            "partitions and rejoin.",
        )


def _updated_member(client_request: ClientRequest, before: StoredMember | None) -> StoredMember:
    """Return the member as updated by the request. Omitted fields keep their values."""
    request: ConsumerGroupHeartbeatRequest = client_request.message
    stored_member = before or NEWCOMER
    names, timeout_ms = request.subscribed_topic_names, request.rebalance_timeout_ms
    return StoredMember(
        instance_id=_or(request.instance_id, stored_member.instance_id),
        rack_id=_or(request.rack_id, stored_member.rack_id),
        client_id=client_request.client_id,
        client_host=client_request.client_host,
        subscribed_topic_names=stored_member.subscribed_topic_names if names is None else sorted(set(names)),
        subscribed_topic_regex=_or(request.subscribed_topic_regex, stored_member.subscribed_topic_regex),
        rebalance_timeout_ms=stored_member.rebalance_timeout_ms if timeout_ms == -1 else timeout_ms,
        server_assignor=_or(request.server_assignor, stored_member.server_assignor),
        classic_member_metadata=None,
    )


def _or(requested: str | None, known: str | None) -> str | None:
    return known if requested is None else requested
