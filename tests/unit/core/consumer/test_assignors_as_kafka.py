"""The assignors beside Kafka's own, on recorded groups. tools/assignors/record.py records them."""

import json
import lzma
from pathlib import Path
from typing import Any

from pykbroker.core.consumer.assignors.assignor import Assignments, Assignor
from pykbroker.core.consumer.assignors.cooperative_sticky import CooperativeStickyAssignor
from pykbroker.core.consumer.assignors.member import MemberSubscription
from pykbroker.core.consumer.assignors.range import RangeAssignor
from pykbroker.core.consumer.assignors.roundrobin import RoundRobinAssignor
from pykbroker.core.consumer.assignors.sticky import StickyAssignor
from pykbroker.core.topic_partition import TopicPartition

DATA = Path(__file__).parents[3] / "data/assignors/cases.jsonl.xz"
CASES = [json.loads(line) for line in lzma.decompress(DATA.read_bytes()).splitlines()]


def ours(assignor: Assignor, case: dict[str, Any]) -> Assignments:
    cluster = {topic: [frozenset(racks) for racks in rows] for topic, rows in case["cluster"].items()}
    members = {
        member: MemberSubscription(
            frozenset(one["topics"]),
            bytes.fromhex(one["sticky_user_data"]),
            tuple(TopicPartition(*place) for place in one["owned"]),
            one["generation"],
            one["rack"],
            one["instance"],
        )
        for member, one in case["members"].items()
    }
    return assignor.assign(cluster, members)


def kafkas(assignor: Assignor, case: dict[str, Any]) -> Assignments:
    rows = case["assigned"][assignor.name].items()
    return {member: [TopicPartition(*place) for place in places] for member, places in rows}


def imbalance(assignments: Assignments) -> int:
    loads = [len(partitions) for partitions in assignments.values()]
    return sum(abs(one - other) for one in loads for other in loads)


def kept(assignments: Assignments, case: dict[str, Any]) -> int:
    return sum(list(one) in case["members"][member]["owned"] for member, own in assignments.items() for one in own)


def test_range_and_roundrobin_assign_exactly_as_kafka_does() -> None:
    for case in CASES:
        for assignor in (RangeAssignor(), RoundRobinAssignor()):
            assert ours(assignor, case) == kafkas(assignor, case)


def have_equal_subscriptions(case: dict[str, Any]) -> bool:
    return len({frozenset(one["topics"]) for one in case["members"].values()}) == 1


def mismatches(assignments: Assignments, case: dict[str, Any]) -> int:
    """Return the number of partitions without a replica in the rack of their owner."""
    owners = ((case["members"][member]["rack"], one) for member, own in assignments.items() for one in own)
    return sum(rack is not None and rack not in case["cluster"][one.topic][one.partition] for rack, one in owners)


def rank(assignments: Assignments, case: dict[str, Any]) -> tuple[int, int, int]:
    """Return what a sticky assignment minimizes, the most important first."""
    return imbalance(assignments), mismatches(assignments, case), -kept(assignments, case)


def test_sticky_is_at_least_as_balanced_as_kafka_then_as_near_then_as_sticky() -> None:
    ranks = [(rank(ours(StickyAssignor(), case), case), rank(kafkas(StickyAssignor(), case), case)) for case in CASES]
    assert all(own <= other for own, other in ranks)
    assert sum(own == other for own, other in ranks) > len(CASES) / 2


def test_cooperative_sticky_keeps_and_assigns_as_many_as_kafka_does_if_subscriptions_are_equal_without_racks() -> None:
    equal = filter(have_equal_subscriptions, CASES)
    alike = [case for case in equal if not any(one["rack"] for one in case["members"].values())]
    assert len(alike) > 50
    for case in alike:
        own, other = ours(CooperativeStickyAssignor(), case), kafkas(CooperativeStickyAssignor(), case)
        assert kept(own, case) == kept(other, case)
        assert sum(map(len, own.values())) == sum(map(len, other.values()))
