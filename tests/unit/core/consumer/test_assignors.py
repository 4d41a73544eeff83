"""The properties that Kafka documents of its assignors, for any group."""

import itertools
from collections.abc import Sequence

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pykbroker.core.consumer.assignors.assignor import Assignments, Assignor, ReplicaRacks
from pykbroker.core.consumer.assignors.cooperative_sticky import CooperativeStickyAssignor
from pykbroker.core.consumer.assignors.member import MemberSubscription, Subscriptions
from pykbroker.core.consumer.assignors.racks import racks_matter
from pykbroker.core.consumer.assignors.range import RangeAssignor
from pykbroker.core.consumer.assignors.roundrobin import RoundRobinAssignor
from pykbroker.core.consumer.assignors.sticky import StickyAssignor
from pykbroker.core.consumer.assignors.sticky_user_data import decode_sticky_user_data, encode_sticky_user_data
from pykbroker.core.topic_partition import TopicPartition

ALL = [RangeAssignor, RoundRobinAssignor, StickyAssignor, CooperativeStickyAssignor]
TOPICS = ["a", "b", "c", "d"]
RACKS = st.frozensets(st.sampled_from(["r1", "r2", "r3"]), max_size=3)
CLUSTERS = st.dictionaries(st.sampled_from(TOPICS), st.lists(RACKS, max_size=9))
MEMBER = st.builds(
    MemberSubscription,
    topics=st.frozensets(st.sampled_from(TOPICS)),
    rack=st.sampled_from([None, "", "r1", "r2"]),
    instance_id=st.none(),
)
GROUPS = st.dictionaries(st.sampled_from([f"m{n}" for n in range(7)]), MEMBER, min_size=1)


def partitions_of(cluster: ReplicaRacks, topics: frozenset[str]) -> list[TopicPartition]:
    return sorted(TopicPartition(topic, n) for topic in topics for n in range(len(cluster.get(topic, []))))


def owning(assignments: Assignments, group: Subscriptions, generation: int = 1) -> dict[str, MemberSubscription]:
    return {
        member: MemberSubscription(
            one.topics,
            encode_sticky_user_data(assignments.get(member, []), generation),
            tuple(assignments.get(member, [])),
            generation,
            one.rack,
        )
        for member, one in group.items()
    }


@pytest.mark.parametrize("kind", ALL)
@given(cluster=CLUSTERS, group=GROUPS)
def test_every_subscribed_partition_has_one_subscribed_owner(
    kind: type[Assignor], cluster: ReplicaRacks, group: Subscriptions
) -> None:
    assignments = kind().assign(cluster, group)
    subscribed = frozenset[str]().union(*(one.topics for one in group.values()))
    assert sorted(one for partitions in assignments.values() for one in partitions) == partitions_of(
        cluster, subscribed
    )
    assert assignments.keys() == group.keys()
    for member, partitions in assignments.items():
        assert {one.topic for one in partitions} <= group[member].topics
    assert assignments == kind().assign(dict(reversed([*cluster.items()])), dict(reversed([*group.items()])))


@pytest.mark.parametrize("kind", [RoundRobinAssignor, StickyAssignor, CooperativeStickyAssignor])
@given(cluster=CLUSTERS, group=GROUPS)
def test_members_with_equal_subscriptions_differ_by_one_partition_at_most(
    kind: type[Assignor], cluster: ReplicaRacks, group: Subscriptions
) -> None:
    equal = {member: MemberSubscription(frozenset(TOPICS), rack=one.rack) for member, one in group.items()}
    loads = [len(partitions) for partitions in kind().assign(cluster, equal).values()]
    assert max(loads) - min(loads) <= 1


@given(cluster=CLUSTERS, size=st.integers(1, 7), data=st.data())
def test_sticky_keeps_as_many_partitions_as_balance_allows(
    cluster: ReplicaRacks, size: int, data: st.DataObject
) -> None:
    group = {f"m{n}": MemberSubscription(frozenset(TOPICS)) for n in range(size)}
    before: Assignments = {member: [] for member in group}
    for partition in partitions_of(cluster, frozenset(TOPICS)):
        owner = data.draw(st.sampled_from([None, *group]))
        if owner is not None:
            before[owner].append(partition)
    after = StickyAssignor().assign(cluster, owning(before, group))
    quota, extra = divmod(sum(map(len, after.values())), size)
    wealthy = sum(len(owned) > quota for owned in before.values())
    most = sum(min(len(owned), quota) for owned in before.values()) + min(extra, wealthy)
    assert sum(len(set(before[member]) & set(after[member])) for member in group) == most


@given(cluster=CLUSTERS, before=GROUPS, after=GROUPS)
def test_cooperative_sticky_never_assigns_a_partition_that_another_member_owns(
    cluster: ReplicaRacks, before: Subscriptions, after: Subscriptions
) -> None:
    assignor = CooperativeStickyAssignor()
    group = owning(assignor.assign(cluster, before), after)
    owners = {partition: member for member, one in group.items() for partition in one.owned}
    first = assignor.assign(cluster, group)
    for member, partitions in first.items():
        assert all(owners.get(partition, member) == member for partition in partitions)


def test_sticky_user_data_has_kafkas_bytes() -> None:
    data = encode_sticky_user_data([TopicPartition("t", 0), TopicPartition("t", 2)], 7)
    assert data.hex() == "0000000100017400000002000000000000000200000007"
    assert decode_sticky_user_data(data) == ([("t", 0), ("t", 2)], 7)
    assert decode_sticky_user_data(data[:-4]) == ([("t", 0), ("t", 2)], -1)
    assert decode_sticky_user_data(data[:9]) == ((), -1)


def test_cooperative_sticky_user_data_has_kafkas_bytes() -> None:
    assignor = CooperativeStickyAssignor()
    assert assignor.user_data() == b"\xff\xff\xff\xff"
    assignor.on_assignment([TopicPartition("t", 0)], 258)
    assert assignor.user_data() == b"\x00\x00\x01\x02"


@given(
    cluster=st.dictionaries(st.sampled_from(["a", "b"]), st.lists(RACKS, max_size=3)),
    group=st.dictionaries(st.sampled_from(["m1", "m2", "m3"]), MEMBER, min_size=1),
    data=st.data(),
)
def test_no_assignment_is_more_balanced_then_nearer_then_stickier_than_that_of_sticky(
    cluster: ReplicaRacks, group: Subscriptions, data: st.DataObject
) -> None:
    subscribed = frozenset[str]().union(*(one.topics for one in group.values()))
    partitions = partitions_of(cluster, subscribed)
    before = {one: data.draw(st.sampled_from([None, *sorted(group)])) for one in partitions}
    owned = owning({name: [one for one in partitions if before[one] == name] for name in group}, group)
    uses_racks = racks_matter({one.rack for one in group.values() if one.rack}, {*itertools.chain(*cluster.values())})

    def rank(owners: Sequence[str]) -> tuple[int, int, int]:
        racks = [
            (group[name].rack, cluster[one.topic][one.partition]) for one, name in zip(partitions, owners, strict=True)
        ]
        far = sum(bool(rack) and rack not in replicas for rack, replicas in racks)
        moved = sum(before[one] != name for one, name in zip(partitions, owners, strict=True))
        return sum(owners.count(name) ** 2 for name in group), far if uses_racks else 0, moved

    found = {one: name for name, own in StickyAssignor().assign(cluster, owned).items() for one in own}
    candidates = [[name for name in group if one.topic in group[name].topics] for one in partitions]
    assert rank([found[one] for one in partitions]) == min(map(rank, itertools.product(*candidates)))
