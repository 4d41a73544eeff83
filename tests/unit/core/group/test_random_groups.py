"""Random events in groups of both protocols: a partition never has two owners, and in the end exactly one."""

from __future__ import annotations

from collections import Counter
from random import Random
from typing import Any

import pytest

from pykbroker.core.group.settings import GroupSettings
from tests.unit.core.group.harness import REBALANCE_MS, SESSION_MS, GroupHarness
from tests.unit.core.group.test_consumer import CONSUMER_SESSION_MS, ConsumerGroupHarness, topics
from wire.error_codes import ErrorCode

NAMES = "abcdef"
TOPICS = {"t": 5, "u": 3, "v": 1}


class RandomConsumerGroup:
    """A consumer group with slow, silent and repeating members. The broker restarts sometimes."""

    def __init__(self, seed: int) -> None:
        self.draw, self.harness = Random(seed), ConsumerGroupHarness(topics(**TOPICS))
        self.owned: dict[str, dict[str, list[int]]] = {}  # the partitions that a member believes to own

    def step(self) -> None:
        name, deed = self.draw.choice(NAMES), self.draw.random()
        if deed < 0.1:
            self.harness.wait(self.draw.choice((1, CONSUMER_SESSION_MS / 3, REBALANCE_MS / 2)))
        elif deed < 0.15:
            self.harness = self.harness.restarted()
        elif deed < 0.2:
            self.harness.seen = topics(
                **{topic: count + self.draw.randrange(2) for topic, count in TOPICS.items() if self.draw.random() < 0.9}
            )
        elif name not in self.owned:
            self.answered(
                name,
                self.harness.enter(
                    name,
                    *self.draw.sample(sorted(TOPICS), self.draw.randrange(1, 4)),
                    instance_id=self.draw.choice((None, None, f"i-{name}")),
                ),
            )
        elif deed < 0.3:
            self.harness.say(name, member_epoch=-1)
            del self.owned[name]
        else:
            self.beat(name)

    def beat(self, name: str) -> None:
        """Send a heartbeat with the partitions that the member owns; a slow member reports its previous partitions."""
        self.answered(name, self.harness.say(name, owned=self.owned[name]))

    def answered(self, name: str, answer: Any) -> None:
        if isinstance(answer, ErrorCode):
            assert answer in (ErrorCode.UNKNOWN_MEMBER_ID, ErrorCode.FENCED_MEMBER_EPOCH, ErrorCode.GROUP_ID_NOT_FOUND)
            self.owned.pop(name, None)
        elif name not in self.owned or (answer.assignment is not None and self.draw.random() < 0.8):
            self.owned[name] = dict(self.harness.has[name])

    def check(self) -> None:
        """Check that no partition has two owners, in the described group and in the view of the members."""
        members = self.harness.described().members
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
                self.owned[name] = dict(self.harness.has[name])
                self.beat(name)
                self.check()
        described = self.harness.described()
        assert described.group_state == ("Stable" if self.owned else "Empty") or not described.members
        wanted = {topic for member in described.members for topic in member.subscribed_topic_names}
        given = Counter(
            (one.topic_name, index)
            for member in described.members
            for one in member.assignment.topic_partitions
            for index in one.partitions
        )
        assert given == Counter(
            (topic, index)
            for topic in wanted & set(self.harness.seen.by_name)
            for index in self.harness.seen.by_name[topic].partitions
        )


@pytest.mark.parametrize("seed", range(60))
def test_random_consumer_groups_become_stable(seed: int) -> None:
    life = RandomConsumerGroup(seed)
    for _ in range(80):
        life.step()
        if life.harness.described().error_code == 0:
            life.check()
    life.harness.wait(CONSUMER_SESSION_MS * 0.9)
    for name in list(life.owned):
        life.beat(name)
    life.harness.wait(CONSUMER_SESSION_MS * 0.9)  # A member that sent no heartbeat is removed.
    life.settle()
    again = life.harness.restarted().described()
    assert [member.assignment for member in again.members] == [
        one.assignment for one in life.harness.described().members
    ]


@pytest.mark.parametrize("seed", range(60))
def test_random_classic_groups_become_stable(seed: int) -> None:
    draw, harness = Random(seed), GroupHarness(GroupSettings(group_initial_rebalance_delay_ms=0))
    members: dict[str, str] = {}  # member ids by name
    for number in range(120):
        name, deed = draw.choice(NAMES), draw.random()
        instance = name if name in "ab" else None
        if deed < 0.15:
            harness.wait(draw.choice((1, SESSION_MS / 2, SESSION_MS, REBALANCE_MS)))
        elif deed < 0.2:
            harness = harness.restarted()
        elif name not in members or deed < 0.5:
            answer = harness.join(members.get(name, ""), number, instance=instance, version=draw.choice((3, 5, 9)))
            answer = harness.replies.get(number, answer)
            if answer is not None and not isinstance(answer, ErrorCode) and answer.member_id:
                members[name] = answer.member_id
            elif isinstance(answer, ErrorCode):
                members.pop(name, None)
        elif deed < 0.6:
            harness.leave((members.pop(name), instance))
        else:
            described = harness.replies.get(number - 1)
            if described is not None and hasattr(described, "generation_id") and described.generation_id >= 0:
                harness.sync(described, ("sync", number), dict.fromkeys(members.values(), b"x"))
        state = harness.state()
        assert state in ("Empty", "PreparingRebalance", "CompletingRebalance", "Stable", "Dead")
        if state == "Empty":
            assert harness.describe().members == []
    harness.wait(10 * REBALANCE_MS)
    assert harness.state() in ("Empty", "Dead"), "no member has sent a heartbeat within the session timeout"
    assert harness.restarted().state() in ("Empty", "Dead", "Stable")
    assert len(harness.stable(2)) == 2
