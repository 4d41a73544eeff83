"""Random lives of groups of both protocols: a partition never has two owners, and in the end each has one."""

from __future__ import annotations

from collections import Counter
from random import Random
from typing import Any

import pytest

from pykbroker.core.group.settings import GroupSettings
from tests.unit.core.group.talk import REBALANCE_MS, SESSION_MS, Talk
from tests.unit.core.group.test_consumer import CONSUMER_SESSION_MS, Room, topics
from wire.error_codes import ErrorCode

NAMES = "abcdef"
TOPICS = {"t": 5, "u": 3, "v": 1}


class NewLife:
    """A consumer group with slow members, silent members and repeated requests. The broker restarts now and then."""

    def __init__(self, seed: int) -> None:
        self.draw, self.room = Random(seed), Room(topics(**TOPICS))
        self.owned: dict[str, dict[str, list[int]]] = {}  # what a member believes to have

    def step(self) -> None:
        name, deed = self.draw.choice(NAMES), self.draw.random()
        if deed < 0.1:
            self.room.wait(self.draw.choice((1, CONSUMER_SESSION_MS / 3, REBALANCE_MS / 2)))
        elif deed < 0.15:
            self.room = self.room.restarted()
        elif deed < 0.2:
            self.room.seen = topics(
                **{topic: count + self.draw.randrange(2) for topic, count in TOPICS.items() if self.draw.random() < 0.9}
            )
        elif name not in self.owned:
            self.answered(
                name,
                self.room.enter(
                    name,
                    *self.draw.sample(sorted(TOPICS), self.draw.randrange(1, 4)),
                    instance_id=self.draw.choice((None, None, f"i-{name}")),
                ),
            )
        elif deed < 0.3:
            self.room.say(name, member_epoch=-1)
            del self.owned[name]
        else:
            self.beat(name)

    def beat(self, name: str) -> None:
        """Report the partitions that the member was last assigned, or, if it is slow, those of before."""
        self.answered(name, self.room.say(name, owned=self.owned[name]))

    def answered(self, name: str, answer: Any) -> None:
        if isinstance(answer, ErrorCode):
            assert answer in (ErrorCode.UNKNOWN_MEMBER_ID, ErrorCode.FENCED_MEMBER_EPOCH, ErrorCode.GROUP_ID_NOT_FOUND)
            self.owned.pop(name, None)
        elif name not in self.owned or (answer.assignment is not None and self.draw.random() < 0.8):
            self.owned[name] = dict(self.room.has[name])

    def check(self) -> None:
        """Check that no partition has two owners, neither in the broker's description nor in the members' views."""
        members = self.room.told().members
        held = Counter(
            (one.topic_name, index)
            for member in members
            for one in member.assignment.topic_partitions
            for index in one.partitions
        )
        assert not held or max(held.values()) == 1
        believed = Counter(
            (topic, index)
            for member in members
            for topic, found in self.owned.get(member.member_id, {}).items()
            for index in found
        )
        assert not believed or max(believed.values()) == 1

    def settle(self) -> None:
        for _ in range(40):
            for name in list(self.owned):
                self.owned[name] = dict(self.room.has[name])
                self.beat(name)
                self.check()
        told = self.room.told()
        assert told.group_state == ("Stable" if self.owned else "Empty") or not told.members
        wanted = {topic for member in told.members for topic in member.subscribed_topic_names}
        given = Counter(
            (one.topic_name, index)
            for member in told.members
            for one in member.assignment.topic_partitions
            for index in one.partitions
        )
        assert given == Counter(
            (topic, index)
            for topic in wanted & set(self.room.seen.by_name)
            for index in self.room.seen.by_name[topic].partitions
        )


@pytest.mark.parametrize("seed", range(60))
def test_random_consumer_groups_become_stable(seed: int) -> None:
    life = NewLife(seed)
    for _ in range(80):
        life.step()
        if life.room.told().error_code == 0:
            life.check()
    life.room.wait(CONSUMER_SESSION_MS * 0.9)
    for name in list(life.owned):
        life.beat(name)
    life.room.wait(CONSUMER_SESSION_MS * 0.9)  # whoever forgot to leave is put out
    life.settle()
    again = life.room.restarted().told()
    assert [member.assignment for member in again.members] == [one.assignment for one in life.room.told().members]


@pytest.mark.parametrize("seed", range(60))
def test_random_classic_groups_become_stable(seed: int) -> None:
    draw, talk = Random(seed), Talk(GroupSettings(group_initial_rebalance_delay_ms=0))
    members: dict[str, str] = {}  # name -> member id
    for number in range(120):
        name, deed = draw.choice(NAMES), draw.random()
        instance = name if name in "ab" else None
        if deed < 0.15:
            talk.wait(draw.choice((1, SESSION_MS / 2, SESSION_MS, REBALANCE_MS)))
        elif deed < 0.2:
            talk = talk.restarted()
        elif name not in members or deed < 0.5:
            answer = talk.join(members.get(name, ""), number, instance=instance, version=draw.choice((3, 5, 9)))
            answer = talk.replies.get(number, answer)
            if answer is not None and not isinstance(answer, ErrorCode) and answer.member_id:
                members[name] = answer.member_id
            elif isinstance(answer, ErrorCode):
                members.pop(name, None)
        elif deed < 0.6:
            talk.leave((members.pop(name), instance))
        else:
            told = talk.replies.get(number - 1)
            if told is not None and hasattr(told, "generation_id") and told.generation_id >= 0:
                talk.sync(told, ("sync", number), dict.fromkeys(members.values(), b"x"))
        state = talk.state()
        assert state in ("Empty", "PreparingRebalance", "CompletingRebalance", "Stable", "Dead")
        if state == "Empty":
            assert talk.describe().members == []
    talk.wait(10 * REBALANCE_MS)
    assert talk.state() in ("Empty", "Dead"), "nobody has been heard of for long"
    assert talk.restarted().state() in ("Empty", "Dead", "Stable")
    assert len(talk.stable(2)) == 2
