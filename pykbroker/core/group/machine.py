"""The group coordinator of one partition of `__consumer_offsets`.

The functions for requests are in the table `HANDLE`, for deadlines in `DUE`, and for records in `replay.REPLAY`.
`coordinator.runtime` runs the machine.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from pykbroker.core.config.config import Texts
from pykbroker.core.coordinator.record import LogRecord, StoredRecord
from pykbroker.core.group import commit, describe, forget
from pykbroker.core.group.classic import rebalance
from pykbroker.core.group.classic.heartbeat import heartbeat
from pykbroker.core.group.classic.join import join
from pykbroker.core.group.classic.leave import leave
from pykbroker.core.group.classic.sync import sync
from pykbroker.core.group.consumer import classic_join, classic_member, deadlines, departure, matching
from pykbroker.core.group.consumer.describe import describe as consumer_describe
from pykbroker.core.group.consumer.heartbeat import heartbeat as consumer_heartbeat
from pykbroker.core.group.fetch_offsets import fetch_offsets
from pykbroker.core.group.replay import replay
from pykbroker.core.group.requests import ClientRequest, FetchOffsets, ForgetTopics
from pykbroker.core.group.settings import GroupSettings
from pykbroker.core.group.shard import Due, Shard
from pykbroker.core.group.step import Step
from pykbroker.core.group.summary import SummarizeGroups, summarize_groups
from pykbroker.core.ids import Randomness
from pykbroker.core.log.producers import Marker
from pykbroker.core.metadata.image import TopicsImage
from pykbroker.core.now import Now
from pykbroker.core.outcome import Entry, Outcome, Token
from pykbroker.core.steps import Steps
from wire.messages.consumer_group_describe import ConsumerGroupDescribeRequest
from wire.messages.consumer_group_heartbeat import ConsumerGroupHeartbeatRequest
from wire.messages.delete_groups import DeleteGroupsRequest
from wire.messages.describe_groups import DescribeGroupsRequest
from wire.messages.heartbeat import HeartbeatRequest
from wire.messages.join_group import JoinGroupRequest
from wire.messages.leave_group import LeaveGroupRequest
from wire.messages.list_groups import ListGroupsRequest
from wire.messages.offset_commit import OffsetCommitRequest
from wire.messages.offset_delete import OffsetDeleteRequest
from wire.messages.sync_group import SyncGroupRequest
from wire.messages.txn_offset_commit import TxnOffsetCommitRequest

GroupRequestHandler = Callable[[Shard, Any, Token, Step], Steps[None] | None]
GroupOutcome = Outcome[LogRecord, Any]
GroupRequest = ClientRequest | FetchOffsets | ForgetTopics | SummarizeGroups | Marker


def by_group(to_classic: GroupRequestHandler, to_consumer: GroupRequestHandler) -> GroupRequestHandler:
    """Return a handler for a classic request: `to_consumer` if the group is a consumer group, else `to_classic`."""

    def handle(shard: Shard, client_request: ClientRequest, token: Token, step: Step) -> None:
        group = shard.find_consumer(client_request.message.group_id)
        # A new classic member replaces an empty consumer group: see `join._group`.
        serves = to_consumer if group is not None and group.members else to_classic
        serves(shard, client_request, token, step)

    return handle


HANDLE: dict[type, GroupRequestHandler] = {
    JoinGroupRequest: by_group(join, classic_join.join),
    SyncGroupRequest: by_group(sync, classic_member.sync),
    HeartbeatRequest: by_group(heartbeat, classic_member.heartbeat),
    LeaveGroupRequest: by_group(leave, classic_member.leave),
    ConsumerGroupHeartbeatRequest: consumer_heartbeat,
    ConsumerGroupDescribeRequest: consumer_describe,
    OffsetCommitRequest: commit.commit,
    TxnOffsetCommitRequest: commit.commit_in_transaction,
    Marker: commit.end_transaction,
    FetchOffsets: fetch_offsets,
    OffsetDeleteRequest: forget.delete_offsets,
    DeleteGroupsRequest: forget.delete_groups,
    ForgetTopics: forget.forget_topics,
    ListGroupsRequest: describe.list_groups,
    DescribeGroupsRequest: describe.describe_groups,
    SummarizeGroups: summarize_groups,
}

DUE: dict[str, Callable[[Shard, Due, Step], None]] = {
    rebalance.SESSION: rebalance.session_due,
    rebalance.JOIN: rebalance.join_due,
    rebalance.SYNC: rebalance.sync_due,
    rebalance.BEGIN: rebalance.begin_due,
    deadlines.CONSUMER_SESSION: departure.session_due,
    deadlines.REVOCATION: departure.revocation_due,
    deadlines.REJOIN: departure.session_due,
    deadlines.FETCH: departure.session_due,
    matching.MATCHING: matching.matching_due,
    forget.EXPIRY: forget.expiry_due,
    forget.FORGETTING: forget.forgetting_due,
}


def no_configs(group_id: str) -> Texts:
    """Return no configs, for a group that has no configs of its own."""
    return {}


class GroupMachine:
    """The state machine of one partition's groups. It matches `core.outcome.Machine`.

    `configs_of` returns the configs that are set for a group.
    """

    def __init__(
        self,
        settings: GroupSettings,
        randomness: Randomness,
        topics: Callable[[], TopicsImage] = TopicsImage,
        configs_of: Callable[[str], Texts] = no_configs,
    ) -> None:
        self._shard = Shard(settings, randomness, topics, configs_of)

    @property
    def deadline_ms(self) -> float:
        """Return the time of the next `tick`, or inf if no deadline is set."""
        return self._shard.timers.deadline_ms

    def loaded(self, now: Now) -> GroupOutcome:
        """Restart every member's session. A group above the maximum size rebalances."""
        shard, step = self._shard, Step(now)
        shard.timers.set(Due(forget.EXPIRY), now.monotonic_ms + shard.settings.offsets_retention_check_interval_ms)
        for group_id in list(shard.groups):
            if (group := shard.find_classic(group_id)) is not None:
                rebalance.resume(shard, group, step)
            elif (consumer_group := shard.find_consumer(group_id)) is not None:
                departure.resume(shard, consumer_group, step)
        return step.outcome()

    def handle(self, request: GroupRequest, token: Token, now: Now) -> GroupOutcome | Steps[GroupOutcome]:
        """Decide the request or make it wait. Raise ApiError to refuse the whole request without a change."""
        if isinstance(request, ClientRequest):
            kind, step = type(request.message), Step(now, request.shows)
        else:
            kind, step = type(request), Step(now)
        steps = HANDLE[kind](self._shard, request, token, step)
        return step.outcome() if steps is None else _in_steps(steps, step)

    def tick(self, now: Now) -> GroupOutcome:
        """Handle the earliest deadline if it has passed."""
        step = Step(now)
        due = self._shard.timers.pop_due(now.monotonic_ms)
        if due is not None:
            DUE[due.kind](self._shard, due, step)
        return step.outcome()

    def replay(self, entry: Entry[StoredRecord]) -> None:
        """Apply a record of the log to the state."""
        replay(self._shard, entry)


def _in_steps(steps: Steps[None], step: Step) -> Steps[GroupOutcome]:
    yield from steps
    return step.outcome()
