"""The last step of a sticky assignment: exchanges of partitions among members, until no exchange improves it.

An exchange moves partitions along a cycle of members, or along a path. A path makes the load of its first member
smaller by one, and that of its last member larger by one. An assignment is optimal if no cycle of moves has a negative
cost: this is the theorem of cycle cancelling for flows of minimal cost. The squares of the loads count before all other
costs.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Mapping
from typing import NamedTuple

from pykbroker.core.consumer.assignors.balancing import Candidates
from pykbroker.core.topic_partition import TopicPartition

MEMBERS_MAX = 40
"""The largest group whose assignment is improved by exchanges. The search takes the cube of the number of members."""
OUTSIDE = ""
"""The node of the graph at which a path begins and ends."""

Cost = Callable[[TopicPartition, str], int]
"""The cost of a partition with a member. The sum of all costs must be below `cost_max`."""


class CheapestMove(NamedTuple):
    """The cheapest move from one member to another. The partition is None if one of them is OUTSIDE."""

    cost: int
    partition: TopicPartition | None


class Exchanges:
    """The graph of all moves that an assignment allows. `assigned` is changed in place."""

    def __init__(
        self,
        assigned: Mapping[str, set[TopicPartition]],
        candidates: Mapping[TopicPartition, Candidates],
        cost: Cost,
        cost_max: int,
    ) -> None:
        self._assigned, self._candidates, self._cost, self._cost_max = assigned, candidates, cost, cost_max
        self._moves: dict[str, dict[str, CheapestMove]] = {OUTSIDE: {}}
        for member in sorted(assigned):
            self._note_moves(member)

    def improve(self) -> None:
        """Exchange partitions until no exchange has a negative cost."""
        while cycle := self._negative_cycle():
            for donor, receiver in zip(cycle, [*cycle[1:], cycle[0]], strict=True):
                partition = self._moves[donor][receiver].partition
                if partition is not None:
                    self._assigned[donor].remove(partition)
                    self._assigned[receiver].add(partition)
            for member in cycle:
                if member != OUTSIDE:
                    self._note_moves(member)

    def _note_moves(self, member: str) -> None:
        """Find the moves from a member to all others, and the changes of its load."""
        moves: dict[str, CheapestMove] = {}
        for partition in sorted(self._assigned[member]):
            cost = self._cost(partition, member)
            for other in self._candidates[partition]:
                move = CheapestMove(self._cost(partition, other) - cost, partition)
                if other != member and (other not in moves or move.cost < moves[other].cost):
                    moves[other] = move
        load = len(self._assigned[member])
        moves[OUTSIDE] = CheapestMove(self._cost_max * (2 * load + 1), None)
        self._moves[member] = moves
        self._moves[OUTSIDE][member] = CheapestMove(self._cost_max * (1 - 2 * load), None)

    def _negative_cycle(self) -> list[str]:
        """Return the members of a cycle of moves whose cost is negative, or nothing (Bellman and Ford)."""
        distances = defaultdict[str, int](int)
        before: dict[str, str] = {}
        changed = None
        for _ in self._moves:
            changed = None
            for donor, moves in self._moves.items():
                for receiver, move in moves.items():
                    if distances[donor] + move.cost < distances[receiver]:
                        distances[receiver] = distances[donor] + move.cost
                        before[receiver], changed = donor, receiver
            if changed is None:
                return []
        assert changed is not None, "the graph has a node"
        for _ in self._moves:
            changed = before[changed]
        cycle, at = [changed], before[changed]
        while at != changed:
            cycle.append(at)
            at = before[at]
        return cycle[::-1]
