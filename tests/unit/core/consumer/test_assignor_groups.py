"""The assignors over the life of a group: members join, leave, crash and change topics, and partitions are added."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from random import Random
from typing import Any

import msgspec
import pytest

from pykbroker.core.consumer.assignors import balancing, cooperative_sticky, sticky, sticky_assignment
from pykbroker.core.consumer.assignors.assignor import Assignments, Assignor, RebalanceProtocol
from pykbroker.core.consumer.assignors.balancing import Balancing
from pykbroker.core.consumer.assignors.cooperative_sticky import CooperativeStickyAssignor
from pykbroker.core.consumer.assignors.exchanges import Exchanges
from pykbroker.core.consumer.assignors.member import MemberSubscription
from pykbroker.core.consumer.assignors.ownership import Claim
from pykbroker.core.consumer.assignors.range import RangeAssignor
from pykbroker.core.consumer.assignors.roundrobin import RoundRobinAssignor
from pykbroker.core.consumer.assignors.sticky import StickyAssignor
from pykbroker.core.topic_partition import TopicPartition

TOPICS, RACKS = ("a", "b", "c"), ("r1", "r2", "r3")
EVENTS, SEEDS = 15, 200
REBALANCES_MAX = 2
"""The rebalances after which a cooperative group has assigned everything."""


class GroupMember(msgspec.Struct, eq=False):
    """A member with its assignor, and the partitions that it owns in a generation."""

    assignor: Assignor
    topics: frozenset[str]
    rack: str | None
    owned: list[TopicPartition]
    generation: int = -1

    def subscription(self) -> MemberSubscription:
        owned = tuple(self.owned) if self.is_cooperative else ()
        return MemberSubscription(self.topics, self.assignor.user_data(), owned, self.generation, self.rack)

    @property
    def is_cooperative(self) -> bool:
        return RebalanceProtocol.COOPERATIVE in self.assignor.protocols


class Group:
    """A group whose events a seed determines. `findings` has what contradicts Kafka's documentation."""

    def __init__(self, kind: type[Assignor], seed: int) -> None:
        self._kind, self._dice = kind, Random(seed)
        self._is_alike, self._is_racked = self._dice.random() < 0.5, self._dice.random() < 0.3
        self.cluster: dict[str, list[frozenset[str]]] = {topic: [] for topic in TOPICS}
        self.members: dict[str, GroupMember] = {}
        self.findings: list[str] = []
        self._joined = self._generation = 0

    def run(self) -> list[str]:
        """Run all events, each with the rebalances that follow. Return the findings."""
        self.add_partitions()
        events = (self.join, self.join, self.leave, self.change, self.add_partitions, self.miss)
        for event in (self.join, self.join, self.join, *self._dice.choices(events, k=EVENTS)):
            event()
            self._rebalance_until_settled()
        return self.findings

    # ---- events

    def join(self) -> None:
        """Let a member join."""
        self._joined += 1
        rack = self._dice.choice(RACKS) if self._is_racked else None
        name = f"m{self._dice.randrange(10, 100)}-{self._joined}"
        self.members[name] = GroupMember(self._kind(), self._topics(), rack, [])

    def leave(self) -> None:
        """Let a member leave or crash, if there are two. What it owned has no owner then."""
        if len(self.members) > 1:
            del self.members[self._dice.choice(sorted(self.members))]

    def change(self) -> None:
        """Let a member subscribe to other topics, and revoke the partitions of all others."""
        member = self.members[self._dice.choice(sorted(self.members))]
        member.topics = self._topics()
        member.owned = [one for one in member.owned if one.topic in member.topics]

    def miss(self) -> None:
        """Let a member miss the rebalances of its group. It comes back with partitions that others own by now."""
        if len(self.members) > 1:
            name = self._dice.choice(sorted(self.members))
            member = self.members.pop(name)
            self._rebalance_until_settled()
            self.members[name] = member

    def add_partitions(self) -> None:
        """Add partitions to a topic."""
        for _ in range(self._dice.randint(1, 12)):
            racks = frozenset(self._dice.sample(RACKS, 2)) if self._is_racked else frozenset[str]()
            self.cluster[self._dice.choice(TOPICS)].append(racks)

    def _topics(self) -> frozenset[str]:
        return frozenset(TOPICS if self._is_alike else self._dice.sample(TOPICS, self._dice.randint(1, 3)))

    # ---- rebalances

    def _rebalance_until_settled(self) -> None:
        before = self._owners()
        for number in range(REBALANCES_MAX if self._kind is CooperativeStickyAssignor else 1):
            self._rebalance(is_second=number > 0)
        self._check_settled()
        if self._kind in (StickyAssignor, CooperativeStickyAssignor):
            self._check_stickiness(before)

    def _owners(self) -> dict[TopicPartition, str]:
        """Return the owner of each partition: the member that was assigned it last."""
        by_generation = sorted(self.members, key=lambda member: self.members[member].generation)
        return {one: member for member in by_generation for one in self.members[member].owned}

    def _rebalance(self, *, is_second: bool) -> None:
        """Let a member assign the partitions, and hand them out."""
        self._generation += 1
        order = sorted(self.members)
        self._dice.shuffle(order)
        found = self._kind().assign(self.cluster, {member: self.members[member].subscription() for member in order})
        self._expect(found.keys() == self.members.keys(), "members: not every member has an entry")
        owners = self._owners() if self._kind is CooperativeStickyAssignor else {}
        for member, assigned in found.items():
            for one in assigned:
                self._expect(owners.get(one, member) == member, f"transfer: {owners.get(one)} still owns {one}")
            if is_second:
                kept = set(self.members[member].owned) <= set(assigned)
                self._expect(kept, f"unsettled: {member} loses partitions in the second rebalance")
        for member, assigned in found.items():
            joined = self.members[member]
            joined.owned, joined.generation = list(assigned), self._generation
            joined.assignor.on_assignment(assigned, self._generation)

    # ---- checks

    def _expect(self, holds: bool, finding: str) -> None:
        if not holds:
            self.findings.append(finding)

    def _check_settled(self) -> None:
        """Expect one subscribed owner of every partition that has subscribers."""
        counts = Counter(one for member in self.members.values() for one in member.owned)
        for topic, partitions in self.cluster.items():
            is_wanted = any(topic in member.topics for member in self.members.values())
            for index in range(len(partitions)):
                count = counts[TopicPartition(topic, index)]
                self._expect(count == is_wanted, f"owners: {topic}-{index} has {count}")
        for name, member in self.members.items():
            self._expect({one.topic for one in member.owned} <= member.topics, f"topics: {name} gets others")
        if self._kind is not RangeAssignor and self._is_alike:
            loads = [len(member.owned) for member in self.members.values()]
            self._expect(max(loads) - min(loads) <= 1, f"balance: {sorted(loads)}")

    def _check_stickiness(self, before: dict[TopicPartition, str]) -> None:
        """Expect that no partition can go back to its previous owner without a worse balance or rack."""
        for name, member in self.members.items():
            for one in member.owned:
                previous = before.get(one, name)
                is_right = previous == name or self._is_justified(one, name, previous)
                self._expect(is_right, f"sticky: {one} has moved from {previous} to {name}")

    def _is_justified(self, partition: TopicPartition, owner: str, previous: str) -> bool:
        if len(self.members[owner].owned) <= len(self.members[previous].owned):
            return True
        racks = self.cluster[partition.topic][partition.partition]
        subscribes = partition.topic in self.members[previous].topics
        return not subscribes or self.members[previous].rack not in {None, *racks}


KINDS = (RangeAssignor, RoundRobinAssignor, StickyAssignor, CooperativeStickyAssignor)


@pytest.mark.parametrize("kind", KINDS)
def test_a_group_always_settles_balanced_and_with_as_few_moves_as_possible(kind: type[Assignor]) -> None:
    for seed in range(SEEDS):
        assert Group(kind, seed).run() == [], f"seed {seed}"


@pytest.mark.parametrize("kind", KINDS)
def test_the_same_seed_gives_the_same_assignments(kind: type[Assignor]) -> None:
    def assignments() -> list[Assignments]:
        groups = [Group(kind, seed) for seed in range(5)]
        for group in groups:
            group.run()
        return [{name: one.owned for name, one in group.members.items()} for group in groups]

    assert assignments() == assignments()


# ---- planted bugs

Plant = Callable[[pytest.MonkeyPatch], None]


def transfer_at_once(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(cooperative_sticky, "without_transfers", lambda assignments, _: assignments)


def forget_owned(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(cooperative_sticky, "claim_of", lambda _: Claim((), -1))


def forget_user_data(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(sticky, "decode_sticky_user_data", lambda _: Claim((), -1))


def keep_unsubscribed(patch: pytest.MonkeyPatch) -> None:
    def keep(self: Balancing, candidates: Any) -> None:
        for partition in candidates:
            if self.owners.get(partition) in self.assigned:
                self.assigned[self.owners[partition]].add(partition)

    patch.setattr(Balancing, "keep", keep)


def balance_nothing(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(Balancing, "balance", lambda *_: None)
    patch.setattr(Exchanges, "improve", lambda _: None)


def forget_stale_claims(patch: pytest.MonkeyPatch) -> None:
    def without_transfers(assignments: Assignments, claims: dict[str, Claim]) -> Assignments:
        revoked = {one for member, claim in claims.items() for one in {*claim.partitions} - {*assignments[member]}}
        return {
            member: [one for one in own if one in claims[member].partitions or one not in revoked]
            for member, own in assignments.items()
        }

    patch.setattr(cooperative_sticky, "without_transfers", without_transfers)


def ignore_generations(patch: pytest.MonkeyPatch) -> None:
    def owners(claims: dict[str, Claim]) -> dict[TopicPartition, str]:
        return {partition: member for member, claim in sorted(claims.items()) for partition in claim.partitions}

    patch.setattr(sticky_assignment, "owners", owners)


def keep_twice(patch: pytest.MonkeyPatch) -> None:
    def fill(self: Balancing, candidates: Any) -> None:
        for members, partitions in balancing.pools(candidates):
            for partition in partitions:
                least = min(members, key=lambda member: (len(self.assigned[member]), member))
                self.assigned[least].add(partition)

    patch.setattr(Balancing, "fill", fill)


def move_any(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(Balancing, "_cost", lambda _, partition, *__: (0, partition))
    patch.setattr(Exchanges, "improve", lambda _: None)


BUGS = [
    (transfer_at_once, CooperativeStickyAssignor),
    (forget_stale_claims, CooperativeStickyAssignor),
    (forget_owned, CooperativeStickyAssignor),
    (forget_user_data, StickyAssignor),
    (keep_unsubscribed, StickyAssignor),
    (balance_nothing, StickyAssignor),
    (ignore_generations, CooperativeStickyAssignor),
    (ignore_generations, StickyAssignor),
    (keep_twice, StickyAssignor),
    (move_any, StickyAssignor),
]


@pytest.mark.parametrize(("plant", "kind"), BUGS)
def test_a_planted_bug_of_an_assignor_is_found(
    monkeypatch: pytest.MonkeyPatch, plant: Plant, kind: type[Assignor]
) -> None:
    plant(monkeypatch)
    assert any(Group(kind, seed).run() for seed in range(SEEDS))
