"""Random lives of members in one group of the real group state machine: no partition has two owners, and all settle."""

from __future__ import annotations

from random import Random
from typing import Any

import pytest

from pykbroker.core.consumer.assignors.cooperative_sticky import CooperativeStickyAssignor
from pykbroker.core.consumer.assignors.sticky import StickyAssignor
from pykbroker.core.consumer.membership.classic import ClassicMembership
from pykbroker.core.consumer.membership.consumer import ConsumerMembership
from pykbroker.core.consumer.membership.steps import (
    CallListener,
    LeaveMode,
    LoadTopics,
    MemberSettings,
    RebalanceEvent,
    SendToCoordinator,
)
from pykbroker.core.consumer.offset_reset import EARLIEST
from pykbroker.core.consumer.subscription import ConsumerSubscription
from pykbroker.core.topic_partition import TopicPartition
from tests.unit.core.group.test_consumer import ConsumerGroupHarness, topics
from wire.error_codes import ErrorCode
from wire.messages.consumer_group_heartbeat import ConsumerGroupHeartbeatResponse
from wire.messages.heartbeat import HeartbeatRequest, HeartbeatResponse
from wire.messages.join_group import JoinGroupRequest, JoinGroupResponse
from wire.messages.leave_group import LeaveGroupRequest, LeaveGroupResponse
from wire.messages.sync_group import SyncGroupRequest, SyncGroupResponse

COUNTS = {"t": 4, "u": 2}
PARTITIONS = [TopicPartition(topic, index) for topic, count in COUNTS.items() for index in range(count)]
ASSIGNORS: dict[str, type[Any]] = {"eager": StickyAssignor, "cooperative": CooperativeStickyAssignor}
STEP_MS = 500.0
VERSIONS: dict[type, tuple[int, type]] = {
    JoinGroupRequest: (9, JoinGroupResponse),
    SyncGroupRequest: (5, SyncGroupResponse),
    HeartbeatRequest: (4, HeartbeatResponse),
    LeaveGroupRequest: (5, LeaveGroupResponse),
}


class World:
    """One group, its members, and the owner of each partition as the rebalance listeners know it."""

    def __init__(self, seed: int, kind: str) -> None:
        self.draw, self.kind = Random(seed), kind
        self.group = ConsumerGroupHarness(topics(t=4, u=2))
        self.members: dict[str, Member] = {}
        self.owners: dict[TopicPartition, str] = {}
        self.count = 0

    def step(self) -> None:
        action = self.draw.random()
        if (action < 0.08 or not self.members) and len(self.members) < 4:
            self.count += 1
            self.members[f"n{self.count}"] = Member(self, f"n{self.count}")
        elif action < 0.1 and self.members:
            self.remove(self.draw.choice(sorted(self.members)), closes=True)
        elif action < 0.12 and self.members:
            self.remove(self.draw.choice(sorted(self.members)), closes=False)
        self.advance()

    def advance(self) -> None:
        for name in self.draw.sample(sorted(self.members), len(self.members)):
            self.members[name].run()
        self.group.wait(STEP_MS)

    def remove(self, name: str, *, closes: bool) -> None:
        member = self.members.pop(name)
        if closes:
            member.close()
        self.owners = {partition: owner for partition, owner in self.owners.items() if owner != name}

    def heard(self, name: str, call: CallListener) -> None:
        for partition in call.partitions:
            if call.event is RebalanceEvent.ASSIGNED:
                assert self.owners.get(partition) is None, f"{partition} has two owners"
                self.owners[partition] = name
            else:
                assert self.owners.pop(partition) == name


class Member:
    """A member and its requests that wait for an answer."""

    def __init__(self, world: World, name: str) -> None:
        self.world, self.name = world, name
        self.subscription = ConsumerSubscription(EARLIEST)
        self.subscription.subscribe(["t", "u"])
        settings = MemberSettings(
            "g", session_timeout_ms=10_000, poll_interval_ms_max=60_000, commits=world.draw.random() < 0.5
        )
        now = world.group.now_ms
        self.classic: ClassicMembership | None = None
        self.consumer: ConsumerMembership | None = None
        if world.kind == "consumer":
            self.consumer = ConsumerMembership(
                settings, self.subscription, name, lambda each: each[:1].decode(), self.uniform, now
            )
        else:
            self.classic = ClassicMembership(settings, self.subscription, [ASSIGNORS[world.kind]()], self.uniform, now)
        self.token: object | None = None

    def uniform(self, low: float, high: float) -> float:
        return self.world.draw.uniform(low, high)

    def run(self) -> None:
        """Poll, carry out the steps up to a request that has to wait, and send a heartbeat if it is due."""
        if self.classic is not None:
            self.run_classic(self.classic)
        elif self.consumer is not None:
            self.run_consumer(self.consumer)

    def run_classic(self, member: ClassicMembership) -> None:
        group = self.world.group
        member.poll(group.now_ms)
        while (step := member.step(group.now_ms)) is not None:
            if isinstance(step, SendToCoordinator):
                answer = self.send(step.request)
                if answer is None:
                    break
            else:
                answer = self.carry_out(step)
            member.answer(answer, group.now_ms)
        request = member.heartbeat(group.now_ms)
        if isinstance(request, HeartbeatRequest):
            member.heartbeat_answered(request, self.ask(request, object()), group.now_ms)

    def run_consumer(self, member: ConsumerMembership) -> None:
        group = self.world.group
        member.poll(group.now_ms)
        while (step := member.step(group.now_ms)) is not None and self.world.draw.random() < 0.8:
            self.carry_out(step)
            member.answer(True, group.now_ms)
        self.beat(member)

    def beat(self, member: ConsumerMembership) -> None:
        now = self.world.group.now_ms
        request = member.heartbeat(now)
        if request is not None:
            answer = self.world.group.ask(request, 1, object())
            if isinstance(answer, ErrorCode):
                answer = ConsumerGroupHeartbeatResponse(error_code=answer)
            is_lost = self.world.draw.random() < 0.05
            member.heartbeat_answered(request, None if is_lost else answer, now)

    def carry_out(self, step: Any) -> Any:
        if isinstance(step, CallListener):
            self.world.heard(self.name, step)
        if isinstance(step, LoadTopics):
            return {topic: [frozenset()] * COUNTS[topic] for topic in step.topics}
        return True

    def send(self, request: Any) -> Any:
        """Send a request once, and return its answer, or None while it waits."""
        if self.token is None:
            self.token = object()
            answer = self.ask(request, self.token)
        else:
            answer = self.world.group.replies.get(self.token)
        if answer is not None:
            self.token = None
        return answer

    def ask(self, request: Any, token: object) -> Any:
        version, response = VERSIONS[type(request)]
        answer = self.world.group.ask(request, version, token)
        return response(error_code=answer) if isinstance(answer, ErrorCode) else answer

    def close(self) -> None:
        now = self.world.group.now_ms
        if self.classic is not None:
            self.token = None
            self.classic.leave(LeaveMode.DEFAULT, "test", now)
            while (step := self.classic.steps.pending) is not None:
                sends = isinstance(step, SendToCoordinator)
                self.classic.answer(self.send(step.request) if sends else self.carry_out(step), now)
        elif self.consumer is not None:
            self.consumer.leave(LeaveMode.DEFAULT, "test", now)
            while (last := self.consumer.step(now)) is not None:
                self.carry_out(last)
                self.consumer.answer(True, now)
            self.beat(self.consumer)


@pytest.mark.parametrize("kind", ["eager", "cooperative", "consumer"])
@pytest.mark.parametrize("seed", range(12))
def test_no_partition_has_two_owners_and_all_have_one_in_the_end(kind: str, seed: int) -> None:
    world = World(seed, kind)
    for _ in range(300):
        world.step()
    if not world.members:
        world.members["last"] = Member(world, "last")
    for _ in range(300):
        world.advance()
    assert set(world.owners) == set(PARTITIONS)
    assert set(world.owners.values()) == set(world.members)
    for name, member in world.members.items():
        mine = {partition for partition, owner in world.owners.items() if owner == name}
        assert set(member.subscription.partitions) == mine
