"""Tests of the server-side assignors with random groups: balanced assignments that move few partitions."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from random import Random

import pytest

from pykbroker.core.group.consumer.assignors import ASSIGNORS, MemberAssignments, Members, Subscriber, ranges, uniform

TOPICS = [bytes([number]) * 16 for number in range(6)]


def drawn(draw: Random, *, same: bool) -> tuple[dict[str, Subscriber], dict[bytes, int]]:
    partitions = {topic: draw.randrange(1, 12) for topic in TOPICS if draw.random() < 0.8}
    shared = frozenset(draw.sample(TOPICS, draw.randrange(1, 6)))
    members = {
        f"m{draw.randrange(10**6)}": Subscriber(
            shared if same else frozenset(draw.sample(TOPICS, draw.randrange(0, 6)))
        )
        for _ in range(draw.randrange(1, 9))
    }
    return members, partitions


def check(members: Members, partitions: Mapping[bytes, int], assigned: MemberAssignments) -> None:
    """Check that every partition is assigned to exactly one subscriber of its topic."""
    given = Counter((topic, index) for one in assigned.values() for topic, found in one.items() for index in found)
    wanted = {
        (topic, index)
        for topic, count in partitions.items()
        for index in range(count)
        if any(topic in member.topics for member in members.values())
    }
    assert given == Counter(wanted)
    assert all(topic in members[name].topics for name, one in assigned.items() for topic in one)
    assert set(assigned) == set(members)


def sizes(assigned: MemberAssignments) -> dict[str, int]:
    return {name: sum(map(len, one.values())) for name, one in assigned.items()}


def moves(before: MemberAssignments, after: MemberAssignments) -> int:
    """Return the number of assigned partitions whose member changed."""
    owners = {(topic, index): name for name, one in before.items() for topic, found in one.items() for index in found}
    return sum(
        owners.get((topic, index), name) != name
        for name, one in after.items()
        for topic, found in one.items()
        for index in found
    )


def again(members: Members, had: MemberAssignments) -> dict[str, Subscriber]:
    return {name: Subscriber(member.topics, had.get(name, {}), member.instance_id) for name, member in members.items()}


@pytest.mark.parametrize("name", ASSIGNORS)
@pytest.mark.parametrize("same", [True, False])
def test_every_partition_is_assigned_to_one_member(name: str, same: bool) -> None:
    for seed in range(300):
        members, partitions = drawn(Random(seed), same=same)
        check(members, partitions, ASSIGNORS[name](members, partitions))


def test_the_uniform_assignor_balances_to_within_one_partition_and_moves_as_few_as_possible() -> None:
    for seed in range(300):
        draw = Random(seed)
        members, partitions = drawn(draw, same=True)
        first = uniform(members, partitions)
        assert max(sizes(first).values()) - min(sizes(first).values()) <= 1
        assert moves(first, uniform(again(members, first), partitions)) == 0
        leaving = draw.choice(sorted(members))
        fewer = {name: one for name, one in again(members, first).items() if name != leaving}
        if fewer:
            second = uniform(fewer, partitions)
            check(fewer, partitions, second)
            assert moves(first, second) == sizes(first)[leaving]
        topics = next(iter(members.values())).topics
        more = {**again(members, first), "new": Subscriber(topics)}
        third = uniform(more, partitions)
        check(more, partitions, third)
        assert max(sizes(third).values()) - min(sizes(third).values()) <= 1
        assert moves(first, third) == sizes(third)["new"]


def test_the_uniform_assignor_leaves_no_member_two_partitions_short_of_another() -> None:
    for seed in range(300):
        members, partitions = drawn(Random(seed), same=False)
        assigned = uniform(members, partitions)
        count = sizes(assigned)
        for name, one in assigned.items():
            for other, member in members.items():
                assert count[name] - count[other] < 2 or not any(topic in member.topics for topic in one)
        assert uniform(again(members, assigned), partitions) == assigned


def test_the_range_assignor_splits_each_topic_in_the_order_of_member_ids() -> None:
    topics = frozenset(TOPICS[:2])
    members = {"b": Subscriber(topics), "a": Subscriber(topics), "z": Subscriber(topics, instance_id="1")}
    assert ranges(members, dict.fromkeys(TOPICS[:2], 4)) == {
        "z": dict.fromkeys(TOPICS[:2], frozenset((0, 1))),
        "a": dict.fromkeys(TOPICS[:2], frozenset((2,))),
        "b": dict.fromkeys(TOPICS[:2], frozenset((3,))),
    }


def test_members_lose_the_partitions_of_deleted_or_unsubscribed_topics() -> None:
    had = {TOPICS[0]: frozenset((0, 5)), TOPICS[1]: frozenset((0,)), TOPICS[2]: frozenset((0,))}
    members = {"a": Subscriber(frozenset(TOPICS[:2]), had), "b": Subscriber(frozenset(TOPICS[:2]), had)}
    assigned = uniform(members, {TOPICS[0]: 2})
    check(members, {TOPICS[0]: 2}, assigned)
