"""Random events in groups whose members change their protocol at any time.

A partition never has two owners, and in the end exactly one. After each step, replaying the records gives the state of
the group. This also holds if members crash and if the log refuses records.
"""

from __future__ import annotations

import itertools
from collections import Counter
from random import Random
from typing import Any

import pytest

from pykbroker.core.group.classic.group import ClassicGroup
from pykbroker.core.group.classic.state import ClassicGroupState
from pykbroker.core.group.consumer.assignment import each, joined
from pykbroker.core.group.consumer.group import ConsumerGroup
from pykbroker.core.group.group import Group
from pykbroker.core.outcome import Entry
from tests.unit.core.group.harness import SESSION_MS
from tests.unit.core.group.test_consumer import ConsumerGroupHarness, topics
from wire.error_codes import ErrorCode
from wire.messages.join_group import JoinGroupResponse
from wire.stored.consumer_protocol import (
    ConsumerProtocolAssignment,
    ConsumerProtocolAssignmentTopicPartition,
    ConsumerProtocolSubscription,
    ConsumerProtocolSubscriptionTopicPartition,
)
from wire.stored.framing import decode_versioned, encode_versioned

NAMES = "abcd"
TOPICS = {"t": 5, "u": 2}
Owned = dict[str, list[int]]
REFUSED = ErrorCode.UNKNOWN_SERVER_ERROR
"""The error code for callers whose records the log refused."""


class RefusingConsumerGroup(ConsumerGroupHarness):
    """A consumer group whose log refuses a tenth of all records while `draw` is set."""

    draw: Random | None = None

    def _do(self, outcome: Any) -> None:
        if outcome.records and self.draw is not None and self.draw.random() < 0.1:
            self.replies |= dict.fromkeys((token for token, _ in outcome.replies), REFUSED)
        else:
            super()._do(outcome)

    def restarted(self) -> RefusingConsumerGroup:
        other = RefusingConsumerGroup(self.seen, settings=self.settings, log=self.log, now_ms=self.now_ms)
        other.epochs, other.has, other.draw = dict(self.epochs), dict(self.has), self.draw
        return other


class Member:
    """A client: its protocol, the partitions that it believes to own, and its state in the classic protocol."""

    def __init__(self, name: str, *, classic: bool) -> None:
        self.name, self.classic, self.member_id = name, classic, ""
        self.owned: Owned = {}
        self.joined: JoinGroupResponse | None = None  # the generation of the member
        self.parked: tuple[str, Any] | None = None


class RandomMixedGroup:
    """A group whose classic clients are all eager or all cooperative. `shadow` is a state machine that only replays
    records.

    If `hard` is true, the log refuses records and members crash.
    """

    def __init__(self, seed: int, *, hard: bool) -> None:
        self.draw, self.harness, self.hard = Random(seed), RefusingConsumerGroup(topics(**TOPICS)), hard
        self.harness.draw = self.draw if hard else None
        self.cooperative = bool(seed % 2)
        self.members: dict[str, Member] = {}
        self.shadow, self.seen = self.harness.new_machine(), 0

    def step(self) -> None:
        if self.hard and self.members and self.draw.random() < 0.06:
            del self.members[self.draw.choice(sorted(self.members))]
            self.harness.wait(SESSION_MS * self.draw.choice((0, 1, 5)))
        name, deed = self.draw.choice(NAMES), self.draw.random()
        member = self.members.get(name)
        if deed < 0.05:
            self.harness.wait(self.draw.choice((0, 1, SESSION_MS / 20)))
        elif deed < 0.08:
            self.restart()
        elif member is None:
            member = self.members[name] = Member(name, classic=self.draw.random() < 0.5)
            self.live(member)
        elif deed < 0.15:
            self.leave(member)
        else:
            self.live(member)
        self.collect()

    def restart(self) -> None:
        """Restart the broker. Members with a waiting request join again."""
        self.collect()
        self.harness = self.harness.restarted()
        self.harness.machine._shard.randomness = Random(self.draw.random())
        for member in self.members.values():
            if member.parked is not None:
                member.parked = member.joined = None

    def leave(self, member: Member) -> None:
        del self.members[member.name]
        if not member.classic:
            self.harness.say(member.name, member_epoch=-1)
        elif member.member_id:
            self.harness.leave((member.member_id, None))

    def live(self, member: Member) -> None:
        """Run the next step of the client."""
        if not member.classic:
            self.beat(member)
        elif member.parked is None and member.joined is None:
            self.join(member)
        elif member.parked is None and member.joined is not None:
            self.heartbeat(member, member.joined)

    def beat(self, member: Member) -> None:
        answer = (
            self.harness.enter(member.name, *sorted(TOPICS))
            if member.joined is None
            else self.harness.say(member.name, owned=member.owned)
        )
        if answer == REFUSED:
            return
        if isinstance(answer, ErrorCode):
            assert answer in (ErrorCode.UNKNOWN_MEMBER_ID, ErrorCode.FENCED_MEMBER_EPOCH, ErrorCode.GROUP_ID_NOT_FOUND)
            member.joined, member.owned = None, {}
        else:
            member.joined = JoinGroupResponse(generation_id=answer.member_epoch)
            if answer.assignment is not None:
                member.owned = dict(self.harness.has[member.name])

    def heartbeat(self, member: Member, generation: JoinGroupResponse) -> None:
        code = self.harness.beat(generation)
        if code == ErrorCode.REBALANCE_IN_PROGRESS:
            self.join(member)
        elif code:
            self.lost(member, code)

    def lost(self, member: Member, code: ErrorCode) -> None:
        assert code in (
            ErrorCode.UNKNOWN_MEMBER_ID,
            ErrorCode.ILLEGAL_GENERATION,
            ErrorCode.REBALANCE_IN_PROGRESS,
            REFUSED,
        )
        member.joined = None
        if code not in (ErrorCode.REBALANCE_IN_PROGRESS, REFUSED):
            member.owned = {}
        if code == ErrorCode.UNKNOWN_MEMBER_ID:
            member.member_id = ""

    def join(self, member: Member) -> None:
        if not self.cooperative:
            member.owned = {}
        subscription = ConsumerProtocolSubscription(
            sorted(TOPICS),
            None,
            [ConsumerProtocolSubscriptionTopicPartition(*one) for one in sorted(member.owned.items())],
        )
        token = object()
        answer = self.harness.join(member.member_id, token, protocols={"p": encode_versioned(subscription, 1)})
        self.asked(member, "join", token, answer)

    def asked(self, member: Member, what: str, token: Any, answer: Any) -> None:
        if isinstance(answer, ErrorCode):
            self.lost(member, answer)
        else:
            member.parked = what, token

    def collect(self) -> None:
        """Handle replies until no new one arrives."""
        waiting = [member for member in self.members.values() if member.parked]
        while waiting:
            waiting = [member for member in waiting if member.parked and self.collected(member, *member.parked)]

    def collected(self, member: Member, what: str, token: Any) -> bool:
        answer = self.harness.replies.get(token)
        if answer is None:
            return False
        member.parked = None
        if answer == REFUSED:
            self.lost(member, REFUSED)
        elif answer.error_code == ErrorCode.MEMBER_ID_REQUIRED:
            member.member_id = answer.member_id
            self.join(member)
        elif answer.error_code:
            self.lost(member, ErrorCode(answer.error_code))
        elif what == "join":
            member.joined, member.member_id = answer, answer.member_id
            again = object()
            given = self.lead(answer) if answer.leader == answer.member_id else {}
            self.asked(member, "sync", again, self.harness.sync(answer, again, given))
        else:
            self.assigned(member, answer.assignment)
        return True

    def lead(self, generation: JoinGroupResponse) -> dict[str, bytes]:
        """Assign partitions evenly as the leader. Cooperative members keep their partitions and receive free ones."""
        subscriptions = {
            one.member_id: decode_versioned(ConsumerProtocolSubscription, one.metadata) for one in generation.members
        }
        held = {
            (one.topic, index): member_id
            for member_id, described in subscriptions.items()
            for one in described.owned_partitions
            for index in one.partitions
        }
        given = {member_id: dict[str, list[int]]() for member_id in sorted(subscriptions)}
        places = [(topic, index) for topic, count in TOPICS.items() for index in range(count)]
        for place, receiver in zip(places, itertools.cycle(given), strict=False):
            if held.get(place, receiver) == receiver:
                given[receiver].setdefault(place[0], []).append(place[1])
        return {
            member_id: encode_versioned(
                ConsumerProtocolAssignment([ConsumerProtocolAssignmentTopicPartition(*one) for one in mine.items()]), 1
            )
            for member_id, mine in given.items()
        }

    def assigned(self, member: Member, data: bytes) -> None:
        new = (
            {}
            if not data
            else {
                one.topic: list(one.partitions)
                for one in decode_versioned(ConsumerProtocolAssignment, data).assigned_partitions
            }
        )
        gives_back = any(set(held) - set(new.get(topic, ())) for topic, held in member.owned.items())
        member.owned = new
        if gives_back:
            self.join(member)

    # ---- invariants

    def check(self) -> None:
        """Check that no partition has two owners, and that replaying the records gives the state of the group.

        As in Kafka, a cooperative member may learn late that it lost a partition when its group was upgraded or while
        it sent no heartbeats. For such a member the broker's assignment counts.
        """
        trusted = () if self.cooperative or self.hard else self.members.values()
        believed = Counter(
            (topic, index) for member in trusted for topic, found in member.owned.items() for index in found
        )
        assert max(believed.values(), default=1) == 1
        for entry in self.harness.log[self.seen :]:
            self.shadow.replay(Entry(self.seen, entry))
            self.seen += 1
        known, rebuilt = (
            {name: stored_state(group) for name, group in machine._shard.groups.items()}
            for machine in (self.harness.machine, self.shadow)
        )
        assert {name: what for name, what in known.items() if what} == {
            name: what for name, what in rebuilt.items() if known.get(name) is not None
        }

    def settle(self) -> None:
        """Wait until the coordinator removes members without a client, for example of a response that was lost in a
        restart.
        """
        self.harness.draw = None
        for _ in range(60):
            for member in list(self.members.values()):
                self.live(member)
                self.collect()
                self.check()
            self.harness.wait(SESSION_MS / 4)
        owned = Counter(
            (topic, index)
            for member in self.members.values()
            for topic, found in member.owned.items()
            for index in found
        )
        everything = [(topic, index) for topic, count in TOPICS.items() for index in range(count)]
        assert owned == Counter(everything if self.members else [])


def stored_state(group: Group) -> Any:
    """Return the stored state of the group, or None for a classic group during a rebalance."""
    if isinstance(group, ConsumerGroup):
        assert Counter(group.owners.values()) == Counter(
            {name: len(list(each(joined(has.assigned, has.revoking)))) for name, has in group.current.items()}
        )
        return {name: value for name, value in vars(group).items() if name != "seen"}
    assert isinstance(group, ClassicGroup)
    if (
        group.state in (ClassicGroupState.PREPARING_REBALANCE, ClassicGroupState.COMPLETING_REBALANCE)
        or not group.protocol_type
    ):
        return None
    return (
        group.state,
        group.generation,
        group.protocol,
        group.leader,
        group.static,
        {
            member.id: (
                member.instance_id,
                member.client_id,
                member.client_host,
                member.rebalance_timeout_ms,
                member.session_timeout_ms,
                member.metadata(group.protocol),
                member.assignment,
            )
            for member in group.members.values()
        },
    )


@pytest.mark.parametrize("hard", [False, True])
@pytest.mark.parametrize("seed", range(60))
def test_random_groups_of_both_protocols_become_stable(seed: int, hard: bool) -> None:
    life = RandomMixedGroup(seed, hard=hard)
    for _ in range(120):
        life.step()
        life.check()
    life.settle()
