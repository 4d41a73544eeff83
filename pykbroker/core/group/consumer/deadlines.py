"""The deadlines of the members of a consumer group."""

from __future__ import annotations

from math import inf

from pykbroker.core.group.consumer.group import StoredMember
from pykbroker.core.group.shard import Due, Shard
from pykbroker.core.group.step import Step

CONSUMER_SESSION, REVOCATION = "consumer session", "revocation"
"""Kinds of deadlines: of a member's next heartbeat, and of its revocation of partitions."""
REJOIN, FETCH = "rejoin", "fetch"
"""Kinds of deadlines of members that use the classic protocol: of the next JoinGroup, and of the next SyncGroup."""


def expect(shard: Shard, group_id: str, member_id: str, stored_member: StoredMember, step: Step) -> None:
    """Restart the member's session."""
    classic = stored_member.classic_member_metadata
    session_ms = (
        shard.settings.consumer_session_timeout_ms(shard.configs_of(group_id))
        if classic is None
        else classic.session_timeout_ms
    )
    shard.timers.set(Due(CONSUMER_SESSION, group_id, member_id), step.now_ms + session_ms)


def expect_rejoin(shard: Shard, group_id: str, member_id: str, stored_member: StoredMember, step: Step) -> None:
    """Start the member's rebalance timeout, unless an earlier request to rejoin has started it."""
    due = Due(REJOIN, group_id, member_id)
    if shard.timers.get(due) == inf:
        shard.timers.set(due, step.now_ms + stored_member.rebalance_timeout_ms)


def forget(shard: Shard, group_id: str, member_id: str) -> None:
    """Cancel all deadlines of a removed member."""
    for kind in (CONSUMER_SESSION, REVOCATION, REJOIN, FETCH):
        shard.timers.cancel(Due(kind, group_id, member_id))
