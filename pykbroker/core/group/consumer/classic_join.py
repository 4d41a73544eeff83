"""JoinGroup to a consumer group: a member that uses the classic protocol joins, or continues a rebalance.

The request never waits for other members, and no member is the leader: the generation is the member's epoch, and
SyncGroup returns its assignment.
"""

from __future__ import annotations

from pykbroker.core.errors import ApiError
from pykbroker.core.group.classic.group import CONSUMER
from pykbroker.core.group.classic.join import (
    MEMBER_ID_REQUIRED_VERSION_FIRST,
    check_member,
    protocols,
    rebalance_timeout_ms,
)
from pykbroker.core.group.classic.rebalance import failed_join
from pykbroker.core.group.consumer.check import full
from pykbroker.core.group.consumer.deadlines import FETCH
from pykbroker.core.group.consumer.departure import check_instance
from pykbroker.core.group.consumer.downgrade import downgrade, may_downgrade
from pykbroker.core.group.consumer.draft import GroupDraft
from pykbroker.core.group.consumer.embedded import classic_metadata, owned, read_subscription
from pykbroker.core.group.consumer.group import STABLE, ConsumerGroup, StoredMember
from pykbroker.core.group.consumer.membership import advance, take_over, update_member
from pykbroker.core.group.requests import ClientRequest
from pykbroker.core.group.shard import Due, Shard
from pykbroker.core.group.step import Step
from pykbroker.core.ids import id_text, new_id
from pykbroker.core.outcome import Token
from wire.error_codes import ErrorCode
from wire.errors import DecodeError
from wire.messages.join_group import JoinGroupRequest, JoinGroupResponse
from wire.stored.consumer_protocol import ConsumerProtocolSubscription


def join(shard: Shard, client_request: ClientRequest, token: Token, step: Step) -> None:
    """Answer a JoinGroup at once.

    If a static member replaces the last member that used the consumer protocol, the group becomes a classic group.
    """
    request: JoinGroupRequest = client_request.message
    group = shard.find_consumer(request.group_id)
    assert group is not None
    check_member(shard, request)
    member_id = request.member_id or id_text(new_id(shard.randomness))
    if _check(shard, group, request, member_id, client_request.version):
        step.reply(token, failed_join(ErrorCode.MEMBER_ID_REQUIRED, member_id))
        return
    subscription = _subscription(request)
    replaced = None if request.group_instance_id is None else group.static.get(request.group_instance_id)
    ends = replaced is not None and not group.is_classic(replaced) and may_downgrade(shard, group, [replaced], 1)
    draft = GroupDraft(group, step)
    before = take_over(draft, member_id, request.group_instance_id)
    changed = update_member(draft, member_id, before, _updated_member(client_request, before, subscription))
    # The classic group rebalances at once, so that nobody would follow a new target. A member that has just taken
    # another's place has epoch 0, which Kafka answers, too: SyncGroup then refuses it, and the member joins again.
    if ends and changed:
        epoch = draft.group.current[member_id].epoch
    else:
        epoch = advance(draft, shard, member_id, owned(subscription.owned_partitions, shard.topics()), changed=changed)[
            1
        ].epoch
    if ends:
        settled = not changed and draft.group.state == STABLE
        downgrade(draft, shard, (), group.epoch, rebalances=not settled)
    else:
        shard.timers.set(Due(FETCH, group.id, member_id), step.now_ms + rebalance_timeout_ms(request))
    step.reply(
        token,
        JoinGroupResponse(
            generation_id=epoch, protocol_type=CONSUMER, member_id=member_id, protocol_name=request.protocols[0].name
        ),
    )


def _check(shard: Shard, group: ConsumerGroup, request: JoinGroupRequest, member_id: str, version: int) -> bool:
    """Whether the member must repeat the request with its new member id. Raise ApiError if it may not join."""
    if member_id not in group.members and len(group.members) >= shard.settings.group_consumer_max_size:
        raise full(shard.settings.group_consumer_max_size)
    names = [protocol.name for protocol in request.protocols]
    if request.protocol_type != CONSUMER or not group.supports_any_of(names):
        raise ApiError(ErrorCode.INCONSISTENT_GROUP_PROTOCOL)
    if request.group_instance_id is not None and request.member_id:
        check_instance(group, request.group_instance_id, member_id)
    # The id is not kept as pending, unlike in a classic group: a JoinGroup with any new id is accepted.
    return not request.member_id and request.group_instance_id is None and version >= MEMBER_ID_REQUIRED_VERSION_FIRST


def _subscription(request: JoinGroupRequest) -> ConsumerProtocolSubscription:
    """Return the subscription from the metadata of the first protocol. All protocols have the same subscription."""
    try:
        return read_subscription(bytes(request.protocols[0].metadata))
    except DecodeError as error:
        raise ApiError(ErrorCode.UNKNOWN_SERVER_ERROR, f"Malformed subscription: {error}") from None


def _updated_member(
    client_request: ClientRequest, before: StoredMember | None, subscription: ConsumerProtocolSubscription
) -> StoredMember:
    request: JoinGroupRequest = client_request.message
    return StoredMember(
        instance_id=request.group_instance_id if before is None else request.group_instance_id or before.instance_id,
        rack_id=subscription.rack_id if before is None else subscription.rack_id or before.rack_id,
        client_id=client_request.client_id,
        client_host=client_request.client_host,
        subscribed_topic_names=sorted(set(subscription.topics)),
        subscribed_topic_regex="",
        rebalance_timeout_ms=rebalance_timeout_ms(request),
        server_assignor=before.server_assignor if before else None,
        classic_member_metadata=classic_metadata(request.session_timeout_ms, protocols(request)),
    )
