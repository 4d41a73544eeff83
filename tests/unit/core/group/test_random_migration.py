"""Random lives of groups whose members change protocol at any time.

A partition never has two owners, in the end each has one, and at every step the records define the machine's state.
This also holds if members die silently and the log refuses some of the records, which then have no effect.
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
from tests.unit.core.group.talk import SESSION_MS
from tests.unit.core.group.test_consumer import Room, topics
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
"""The error that callers get when the log refuses the records of their reply."""


class Place(Room):
    """A group machine whose log refuses a tenth of all outcomes while `draw` is set."""

    draw: Random | None = None

    def _do(self, outcome: Any) -> None:
        if outcome.records and self.draw is not None and self.draw.random() < 0.1:
            self.replies |= dict.fromkeys((token for token, _ in outcome.replies), REFUSED)
        else:
            super()._do(outcome)

    def restarted(self) -> Place:
        other = Place(self.seen, settings=self.settings, log=self.log, now_ms=self.now_ms)
        other.epochs, other.has, other.draw = dict(self.epochs), dict(self.has), self.draw
        return other


class Member:
    """A client: its protocol, the partitions that it believes to own, and its state in the classic protocol."""

    def __init__(self, name: str, *, classic: bool) -> None:
        self.name, self.classic, self.member_id = name, classic, ""
        self.owned: Owned = {}
        self.joined: JoinGroupResponse | None = None  # the generation it is in
        self.parked: tuple[str, Any] | None = None


class MixedLife:
    """A group with classic clients that are all eager or all cooperative. `shadow` sees only the records.

    `hard`: the log refuses records, and members die.
    """

    def __init__(self, seed: int, *, hard: bool) -> None:
        self.draw, self.room, self.hard = Random(seed), Place(topics(**TOPICS)), hard
        self.room.draw = self.draw if hard else None
        self.cooperative = bool(seed % 2)
        self.members: dict[str, Member] = {}
        self.shadow, self.seen = self.room.new_machine(), 0

    def step(self) -> None:
        if self.hard and self.members and self.draw.random() < 0.06:
            del self.members[self.draw.choice(sorted(self.members))]
            self.room.wait(SESSION_MS * self.draw.choice((0, 1, 5)))
        name, deed = self.draw.choice(NAMES), self.draw.random()
        member = self.members.get(name)
        if deed < 0.05:
            self.room.wait(self.draw.choice((0, 1, SESSION_MS / 20)))
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
        """Replace the machine by a restarted one. Members with a parked caller join again."""
        self.collect()
        self.room = self.room.restarted()
        self.room.machine._shard.randomness = Random(self.draw.random())
        for member in self.members.values():
            if member.parked is not None:
                member.parked = member.joined = None

    def leave(self, member: Member) -> None:
        del self.members[member.name]
        if not member.classic:
            self.room.say(member.name, member_epoch=-1)
        elif member.member_id:
            self.room.leave((member.member_id, None))

    def live(self, member: Member) -> None:
        """Take the client's next step."""
        if not member.classic:
            self.beat(member)
        elif member.parked is None and member.joined is None:
            self.join(member)
        elif member.parked is None and member.joined is not None:
            self.heartbeat(member, member.joined)

    def beat(self, member: Member) -> None:
        answer = (
            self.room.enter(member.name, *sorted(TOPICS))
            if member.joined is None
            else self.room.say(member.name, owned=member.owned)
        )
        if answer == REFUSED:
            return
        if isinstance(answer, ErrorCode):
            assert answer in (ErrorCode.UNKNOWN_MEMBER_ID, ErrorCode.FENCED_MEMBER_EPOCH, ErrorCode.GROUP_ID_NOT_FOUND)
            member.joined, member.owned = None, {}
        else:
            member.joined = JoinGroupResponse(generation_id=answer.member_epoch)
            if answer.assignment is not None:
                member.owned = dict(self.room.has[member.name])

    def heartbeat(self, member: Member, generation: JoinGroupResponse) -> None:
        code = self.room.beat(generation)
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
        said = ConsumerProtocolSubscription(
            sorted(TOPICS),
            None,
            [ConsumerProtocolSubscriptionTopicPartition(*one) for one in sorted(member.owned.items())],
        )
        token = object()
        answer = self.room.join(member.member_id, token, protocols={"p": encode_versioned(said, 1)})
        self.asked(member, "join", token, answer)

    def asked(self, member: Member, what: str, token: Any, answer: Any) -> None:
        if isinstance(answer, ErrorCode):
            self.lost(member, answer)
        else:
            member.parked = what, token

    def collect(self) -> None:
        """Handle replies until none is left: each may cause another one."""
        waiting = [member for member in self.members.values() if member.parked]
        while waiting:
            waiting = [member for member in waiting if member.parked and self.collected(member, *member.parked)]

    def collected(self, member: Member, what: str, token: Any) -> bool:
        answer = self.room.replies.get(token)
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
            self.asked(member, "sync", again, self.room.sync(answer, again, given))
        else:
            self.assigned(member, answer.assignment)
        return True

    def lead(self, generation: JoinGroupResponse) -> dict[str, bytes]:
        """Assign evenly. Cooperative members keep their partitions and receive free ones."""
        said = {
            one.member_id: decode_versioned(ConsumerProtocolSubscription, one.metadata) for one in generation.members
        }
        held = {
            (one.topic, index): member_id
            for member_id, told in said.items()
            for one in told.owned_partitions
            for index in one.partitions
        }
        given = {member_id: dict[str, list[int]]() for member_id in sorted(said)}
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

    # ---- what must hold

    def check(self) -> None:
        """Check that no partition has two owners, and that the records define the machine's state.

        A cooperative member may learn late what it lost in the upgrade of its group, as with Kafka, and so may a member
        that was silent for too long. For these the broker's assignment counts.
        """
        trusted = () if self.cooperative or self.hard else self.members.values()
        believed = Counter(
            (topic, index) for member in trusted for topic, found in member.owned.items() for index in found
        )
        assert max(believed.values(), default=1) == 1
        for entry in self.room.log[self.seen :]:
            self.shadow.replay(Entry(self.seen, entry))
            self.seen += 1
        known, rebuilt = (
            {name: stored_state(group) for name, group in machine._shard.groups.items()}
            for machine in (self.room.machine, self.shadow)
        )
        assert {name: what for name, what in known.items() if what} == {
            name: what for name, what in rebuilt.items() if known.get(name) is not None
        }

    def settle(self) -> None:
        """Wait until the coordinator has removed members without a client, as after a response that a restart lost."""
        self.room.draw = None
        for _ in range(60):
            for member in list(self.members.values()):
                self.live(member)
                self.collect()
                self.check()
            self.room.wait(SESSION_MS / 4)
        owned = Counter(
            (topic, index)
            for member in self.members.values()
            for topic, found in member.owned.items()
            for index in found
        )
        everything = [(topic, index) for topic, count in TOPICS.items() for index in range(count)]
        assert owned == Counter(everything if self.members else [])


def stored_state(group: Group) -> Any:
    """Return the group's stored state; None for a classic group during a rebalance."""
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
    life = MixedLife(seed, hard=hard)
    for _ in range(120):
        life.step()
        life.check()
    life.settle()
