"""The balancing of partitions over members, with as few moves as possible.

Partitions with the same candidates form a pool. Within a pool only the numbers of partitions of its members count, so a
move takes O(log members), and the work is near linear in the number of partitions.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping
from heapq import heapify, heappop, heappush, heapreplace

from pykbroker.core.topic_partition import TopicPartition

Candidates = tuple[str, ...]
"""The members that may have a partition, sorted."""


class Balancing:
    """An assignment under construction."""

    def __init__(self, members: Iterable[str], owners: Mapping[TopicPartition, str]) -> None:
        self.assigned: dict[str, set[TopicPartition]] = {member: set() for member in sorted(members)}
        self.owners = owners

    def keep(self, candidates: Mapping[TopicPartition, Candidates]) -> None:
        """Assign each partition to its previous owner, if that is still a candidate."""
        for partition, members in as_sets(candidates).items():
            owner = self.owners.get(partition)
            if owner in members:
                self.assigned[owner].add(partition)

    def fill(self, candidates: Mapping[TopicPartition, Candidates]) -> None:
        """Assign all unassigned partitions, those with the fewest candidates first, to the least loaded candidate."""
        taken = set[TopicPartition]().union(*self.assigned.values())
        missing = {partition: members for partition, members in candidates.items() if partition not in taken}
        for members, partitions in pools(missing):
            loads = [(len(self.assigned[member]), member) for member in members]
            heapify(loads)
            for partition in partitions:
                load, member = loads[0]
                self.assigned[member].add(partition)
                heapreplace(loads, (load + 1, member))

    def balance(self, candidates: Mapping[TopicPartition, Candidates]) -> None:
        """Move partitions until no move to another candidate makes the assignment more even."""
        found = pools(candidates)
        # Every move lowers the sum of the squares of the members' loads, so this loop ends.
        while sum(self._balance_pool(members, set(partitions)) for members, partitions in found):
            pass

    def _balance_pool(self, members: Candidates, pool: set[TopicPartition]) -> bool:
        held = {member: sorted(self.assigned[member] & pool) for member in members}
        low = [(len(self.assigned[member]), member) for member in members]
        high = [(-load, member) for load, member in low if held[member]]
        heapify(low)
        heapify(high)
        moved = False
        while high and -high[0][0] > low[0][0] + 1:
            (load, donor), (_, receiver) = high[0], low[0]
            partition = min(held[donor], key=lambda one: self._cost(one, donor, receiver))
            self._move(partition, donor, receiver)
            held[donor].remove(partition)
            held[receiver].append(partition)
            heappop(high)
            if held[donor]:
                heappush(high, (load + 1, donor))
            heapreplace(low, (len(self.assigned[receiver]), receiver))
            moved = True
        return moved

    def _cost(self, partition: TopicPartition, donor: str, receiver: str) -> tuple[int, TopicPartition]:
        owner = self.owners.get(partition)
        return 0 if owner == receiver else 2 if owner == donor else 1, partition

    def _move(self, partition: TopicPartition, donor: str, receiver: str) -> None:
        self.assigned[donor].remove(partition)
        self.assigned[receiver].add(partition)


def pools(candidates: Mapping[TopicPartition, Candidates]) -> list[tuple[Candidates, list[TopicPartition]]]:
    """Return the partitions by their candidates, pools with the fewest candidates first."""
    found = defaultdict[Candidates, list[TopicPartition]](list)
    for partition, members in sorted(candidates.items()):
        if members:
            found[members].append(partition)
    return sorted(found.items(), key=lambda pool: (len(pool[0]), pool[0]))


def as_sets(candidates: Mapping[TopicPartition, Candidates]) -> dict[TopicPartition, frozenset[str]]:
    """Return the candidates as sets, one for each distinct tuple."""
    sets = {members: frozenset(members) for members in set(candidates.values())}
    return {partition: sets[members] for partition, members in candidates.items()}
