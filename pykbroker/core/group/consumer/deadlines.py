"""What falls due for a member of a consumer group, and when."""

from __future__ import annotations

from math import inf

from pykbroker.core.group.consumer.group import StoredMember
from pykbroker.core.group.shard import Due, Shard
from pykbroker.core.group.step import Step

CONSUMER_SESSION, REVOCATION = "consumer session", "revocation"
"""A member's next heartbeat, and that it has given back what it was to give back."""
REJOIN, FETCH = "rejoin", "fetch"
"""And of one that uses the classic protocol: that it joins again, and that it fetches its assignment."""


def expect(shard: Shard, group_id: str, member_id: str, said: StoredMember, step: Step) -> None:
    """The member has shown that it lives, and must do so again in time."""
    classic = said.classic_member_metadata
    session_ms = (
        shard.settings.consumer_session_timeout_ms(shard.configs_of(group_id))
        if classic is None
        else classic.session_timeout_ms
    )
    shard.timers.set(Due(CONSUMER_SESSION, group_id, member_id), step.now_ms + session_ms)


def expect_rejoin(shard: Shard, group_id: str, member_id: str, said: StoredMember, step: Step) -> None:
    """The member is told to join again, and has its time for that from when it was told first."""
    due = Due(REJOIN, group_id, member_id)
    if shard.timers.get(due) == inf:
        shard.timers.set(due, step.now_ms + said.rebalance_timeout_ms)


def forget(shard: Shard, group_id: str, member_id: str) -> None:
    """The member goes: nothing of it falls due any more."""
    for kind in (CONSUMER_SESSION, REVOCATION, REJOIN, FETCH):
        shard.timers.cancel(Due(kind, group_id, member_id))
