"""ConsumerGroupDescribe: the members of consumer groups, their assignments and their targets."""

from __future__ import annotations

from pykbroker.core.group.consumer.assignment import Assignment, joined
from pykbroker.core.group.consumer.group import ConsumerGroup
from pykbroker.core.group.consumer.plan import assignor_of
from pykbroker.core.group.consumer.reconcile import Current
from pykbroker.core.group.requests import ClientRequest
from pykbroker.core.group.shard import Shard
from pykbroker.core.group.step import Step
from pykbroker.core.metadata.image import TopicsImage
from pykbroker.core.outcome import Token
from wire.error_codes import ErrorCode
from wire.messages import consumer_group_describe as wire

CLASSIC_MEMBER, CONSUMER_MEMBER = 0, 1


def describe(shard: Shard, client_request: ClientRequest, token: Token, step: Step) -> None:
    """Describe the groups. A group that does not exist or is classic gets GROUP_ID_NOT_FOUND."""
    request: wire.ConsumerGroupDescribeRequest = client_request.message
    step.reply(
        token,
        wire.ConsumerGroupDescribeResponse(groups=[_described(shard, group_id) for group_id in request.group_ids]),
    )


def _described(shard: Shard, group_id: str) -> wire.DescribedGroup:
    group, topics = shard.find_consumer(group_id), shard.topics()
    if group is None:
        why = "is not a consumer group" if group_id in shard.groups else "not found"
        return wire.DescribedGroup(
            error_code=ErrorCode.GROUP_ID_NOT_FOUND, group_id=group_id, error_message=f"Group {group_id} {why}."
        )
    return wire.DescribedGroup(
        group_id=group_id,
        group_state=group.state,
        group_epoch=group.epoch,
        assignment_epoch=group.assignment_epoch,
        assignor_name=assignor_of(group, shard.settings.group_consumer_assignors),
        members=[_member(group, member_id, topics) for member_id in group.members],
    )


def _member(group: ConsumerGroup, member_id: str, topics: TopicsImage) -> wire.Member:
    """Return a member's description. Partitions that it must still revoke count as assigned."""
    stored_member, has = group.members[member_id], group.current.get(member_id, Current())
    return wire.Member(
        member_id=member_id,
        instance_id=stored_member.instance_id,
        rack_id=stored_member.rack_id,
        member_epoch=has.epoch,
        client_id=stored_member.client_id,
        client_host=stored_member.client_host,
        subscribed_topic_names=stored_member.subscribed_topic_names,
        subscribed_topic_regex=stored_member.subscribed_topic_regex,
        assignment=_assignment(joined(has.assigned, has.revoking), topics),
        target_assignment=_assignment(group.target_of(member_id), topics),
        member_type=CLASSIC_MEMBER if group.is_classic(member_id) else CONSUMER_MEMBER,
    )


def _assignment(given: Assignment, topics: TopicsImage) -> wire.Assignment:
    """Return an assignment with topic names, without deleted topics."""
    return wire.Assignment(
        [
            wire.TopicPartitions(topic_id, topics.by_id[topic_id].name, sorted(partitions))
            for topic_id, partitions in given.items()
            if topic_id in topics.by_id
        ]
    )
