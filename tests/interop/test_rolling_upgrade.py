"""Tests of a group of confluent-kafka consumers that migrates to the consumer protocol, member by member, and back."""

from __future__ import annotations

import uuid
from collections import Counter
from collections.abc import Callable
from contextlib import ExitStack, closing

import pytest
from confluent_kafka import ConsumerGroupState, ConsumerGroupType
from confluent_kafka.admin import AdminClient

from tests.interop.group_scenarios import PARTITIONS, Found, is_shared, read, retried, shared, turns
from tests.interop.scenarios import PATIENCE_S, Message, eventually_equal
from tests.interop.test_confluent_kafka import ConfluentKafka, ConfluentMember, NewMember
from tools.broker_process import BrokerProcess

MEMBERS = 3
AT_ONCE = 8
OFTEN = ("--set", "group.consumer.min.heartbeat.interval.ms=100", "--set", "group.consumer.heartbeat.interval.ms=200")


class RollingGroup:
    """The members of one group, in the order in which they joined."""

    def __init__(self, address: str, stack: ExitStack) -> None:
        self.address, self.stack = address, stack
        self.client = stack.enter_context(closing(ConfluentKafka(address)))
        self.admin = AdminClient({"bootstrap.servers": address})
        self.topic, self.group = f"topic-{uuid.uuid4().hex[:12]}", uuid.uuid4().hex
        self.client.create_topic(self.topic, PARTITIONS)
        self.members: list[ConfluentMember] = []
        self.found: Found = Counter()
        self.sent = 0

    def enter(self, kind: type[ConfluentMember]) -> None:
        """Add a member to the group."""
        member = kind(self.address, self.topic, self.group, None)
        self.stack.callback(member.close)
        self.members.append(member)

    def settle(self) -> None:
        """Poll until the assignment is final; a member that must still rejoin would read records twice."""
        for _ in turns():
            self.found.update(shared(self.members))
            if self.state() == ConsumerGroupState.STABLE and is_shared(self.members):
                return
        raise AssertionError("the group has members that are still to join anew")

    def read_on(self) -> None:
        """Send records once all partitions are assigned; check that each record is read once and committed."""
        self.settle()
        self.client.send(
            self.topic, [Message(number % PARTITIONS, None, b"x", (), 1_700_000_000_000) for number in range(AT_ONCE)]
        )
        self.sent += AT_ONCE
        read(self.sent, *self.members, found=self.found)
        for member in self.members:
            retried(member.commit)

    def state(self) -> ConsumerGroupState:
        """Return the group's state as the broker describes it."""
        return self.admin.describe_consumer_groups([self.group])[self.group].result(PATIENCE_S).state

    def kind(self) -> ConsumerGroupType:
        """Return the group's protocol as the broker describes it."""
        listed = self.admin.list_consumer_groups().result(PATIENCE_S).valid
        return next(one.type for one in listed if one.group_id == self.group)


@pytest.mark.timeout(180)
def test_a_group_migrates_to_the_consumer_protocol_member_by_member_and_back(
    start_broker: Callable[..., BrokerProcess],
) -> None:
    """The assignor is eager.

    From generation 2 on, librdkafka's cooperative assignor adds fields to assignments, with which a group cannot be
    upgraded, in Kafka either.
    """
    old = ConfluentMember
    with ExitStack() as stack:
        group = RollingGroup(start_broker(*OFTEN).address, stack)
        for _ in range(MEMBERS):
            group.enter(old)
        group.read_on()
        assert group.kind() == ConsumerGroupType.CLASSIC
        for kind, while_mixed, after in (
            (NewMember, ConsumerGroupType.CONSUMER, ConsumerGroupType.CONSUMER),
            (old, ConsumerGroupType.CONSUMER, ConsumerGroupType.CLASSIC),
        ):
            for left in reversed(range(MEMBERS)):
                group.members.pop(0).close()
                group.enter(kind)
                group.read_on()
                expected = while_mixed if left else after
                eventually_equal(group.kind, expected)
        assert set(group.found.values()) == {1}, "no record is read twice"
        assert group.found.total() == group.sent
