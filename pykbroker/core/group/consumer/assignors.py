"""The server-side assignors of consumer groups (KIP-848).

1. Every partition of a subscribed topic is assigned to one member that subscribes to the topic.
2. `uniform` balances the number of partitions and moves as few as possible. With equal subscriptions, the numbers of
   two members differ by at most one. With different subscriptions, no member has two more than another member that
   subscribes to one of its topics.
3. `range` gives each member a contiguous range of each topic, with members in the order of their names, so that topics
   with the same number of partitions are split alike. It ignores the previous assignment.

Source: KIP-848; `uniform`, `range` of Kafka's group coordinator.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping

import msgspec

from pykbroker.core.group.consumer.assignment import Assignment
from pykbroker.core.topic_partition import TopicIdPartition, indexes_by_topic

MOVES_MAX = 100_000
"""The number of moves that balance members with different subscriptions. After them the assignment stays as it is."""


class Subscriber(msgspec.Struct, frozen=True):
    """A member, as assignors see it: its topic ids, its previous target, and its instance id if it is static."""

    topics: frozenset[bytes]
    had: Assignment = {}
    instance_id: str | None = None


Members = Mapping[str, Subscriber]
MemberAssignments = dict[str, Assignment]


def uniform(members: Members, partitions: Mapping[bytes, int]) -> MemberAssignments:
    """Return targets with balanced numbers of partitions and few moves. `partitions` has the size of each topic."""
    subscribed = sorted({topic for member in members.values() for topic in member.topics if topic in partitions})
    held: dict[str, dict[TopicIdPartition, None]] = {name: {} for name in members}
    taken: set[TopicIdPartition] = set()
    for name, member in members.items():
        for topic, had in member.had.items():
            for index in sorted(had):
                place = topic, index
                if topic in member.topics and index < partitions.get(topic, 0) and place not in taken:
                    held[name][place] = None
                    taken.add(place)
    free = [(topic, index) for topic in subscribed for index in range(partitions[topic]) if (topic, index) not in taken]
    if len({member.topics for member in members.values()}) <= 1:
        _level(held, free)
    else:
        _spread(members, held, free)
    return {name: _assignment(places) for name, places in held.items()}


def _level(held: dict[str, dict[TopicIdPartition, None]], free: list[TopicIdPartition]) -> None:
    """Balance members with the same subscriptions.

    If the partitions do not divide evenly, the members that had the most keep one more.
    """
    if not held:
        return
    share, extra = divmod(len(free) + sum(map(len, held.values())), len(held))
    wanted = {}
    for name in sorted(held, key=lambda one: -len(held[one])):
        wanted[name] = share + (extra > 0)
        extra -= extra > 0
    for name, places in held.items():
        while len(places) > wanted[name]:
            free.append(places.popitem()[0])
    free.sort(reverse=True)
    for name, places in held.items():
        while len(places) < wanted[name]:
            places[free.pop()] = None


def _spread(members: Members, held: dict[str, dict[TopicIdPartition, None]], free: list[TopicIdPartition]) -> None:
    """Give each free partition to the subscriber with the fewest partitions, then balance the members by moves."""
    subscribers: dict[bytes, list[str]] = {}
    for name, member in members.items():
        for topic in member.topics:
            subscribers.setdefault(topic, []).append(name)

    def least(topic: bytes) -> str:
        return min(subscribers[topic], key=lambda one: len(held[one]))

    # Topics with few subscribers first: the others have more members left to choose from.
    for place in sorted(free, key=lambda one: (len(subscribers[one[0]]), one)):
        held[least(place[0])][place] = None
    moves, moved = 0, True
    while moved and moves < MOVES_MAX:
        moved = False
        for name in sorted(held, key=lambda one: -len(held[one])):
            for place in list(held[name]):
                other = least(place[0])
                # At a difference of one, a move would only exchange the two numbers, again and again.
                if len(held[name]) - len(held[other]) >= 2:
                    del held[name][place]
                    held[other][place] = None
                    moves, moved = moves + 1, True


def ranges(members: Members, partitions: Mapping[bytes, int]) -> MemberAssignments:
    """Return targets with a contiguous range of each topic for each of its subscribers."""
    shares: dict[str, dict[bytes, frozenset[int]]] = {name: {} for name in members}
    # A static member keeps its place in the order after a restart, which gives it a new member id.
    order = sorted(members, key=lambda name: (members[name].instance_id is None, members[name].instance_id or name))
    for topic in sorted({topic for member in members.values() for topic in member.topics if topic in partitions}):
        readers = [name for name in order if topic in members[name].topics]
        share, extra = divmod(partitions[topic], len(readers))
        start = 0
        for place, name in enumerate(readers):
            end = start + share + (place < extra)
            if end > start:
                shares[name][topic] = frozenset(range(start, end))
            start = end
    return dict(shares)


def _assignment(places: Mapping[TopicIdPartition, None]) -> Assignment:
    return {topic: frozenset(indexes) for topic, indexes in indexes_by_topic(places).items()}


ASSIGNORS: dict[str, Callable[[Members, Mapping[bytes, int]], MemberAssignments]] = {
    "uniform": uniform,
    "range": ranges,
}
"""The assignors by their names in `group.consumer.assignors`, the default first."""
