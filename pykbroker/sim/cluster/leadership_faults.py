"""The faults that end leaderships while answers to followers are on their way."""

from __future__ import annotations

from collections.abc import Callable
from random import Random

import trio

from pykbroker.sim.cluster.nodes import SimCluster
from pykbroker.sim.cluster.patience import holds
from pykbroker.sim.cluster.plan import CLIENT_PORT, CONTROLLER_ID, host_of
from pykbroker.sim.cluster.stalls import stall
from pykbroker.sim.fault_pace import FaultPace
from pykbroker.sim.history import Place
from pykbroker.sim.network import Network
from wire.sentinels import NO_LEADER

ELECTED_S_MAX, LOOK_S = 6.0, 0.001
"""The time in seconds to wait for an election, and the time between two looks at the metadata."""
ASKED_S_MAX = 0.004
"""The time in seconds in which a follower asks a new leader for records."""
STALL_S_MIN, STALL_S_MAX = 1.0, 5.0
BEHIND_S = 0.5
"""The duration in seconds for which a follower gets no answer, so that it is behind but stays in the ISR."""
STRANDED_S_MAX = 1.0
"""The longest time in seconds for which a stranded leader lives."""


class LeadershipFaults:
    """Faults of the leader of one of `places`. It is never the controller, without which no leader is elected."""

    def __init__(
        self, network: Network, cluster: SimCluster, places: list[Place], pace: FaultPace, dice: Random
    ) -> None:
        self._network, self._cluster, self._places = network, cluster, places
        self._pace, self._dice = pace, dice

    async def depose_twice(self) -> None:
        """Cut off a leader until another broker leads, and then that one, too, while it answers the first one.

        The first leader's log has diverged. The answer that says where arrives after the second election.
        """
        places = [each for each in self._places if not {CONTROLLER_ID, NO_LEADER} & self._leaders(each)]
        if not places:
            return
        place = self._dice.choice(places)
        first = self._leader(place)
        for each in self._cluster.nodes:
            if each != first:
                self._network.cut(host_of(first), host_of(each))
                self._network.cut(host_of(each), host_of(first))
        await until(lambda: self._leader(place) not in (first, NO_LEADER))
        self._network.heal()
        second = self._leader(place)
        if second in (CONTROLLER_ID, NO_LEADER, first):
            return
        if await until(lambda: self._follows(first, second, place)):
            await trio.sleep(self._dice.uniform(0, ASKED_S_MAX))
            self._network.queue(host_of(second), host_of(first))
            self._network.cut(host_of(second), host_of(CONTROLLER_ID))
            await until(lambda: self._has_joined(first, second, place))
            self._network.heal()

    async def fork_epochs(self) -> None:
        """Let two followers of a dead leader lead one after the other, each without the other's records (KIP-279).

        The first one has less of the dead leader's last epoch than the second one, and appends in an epoch of its own.
        The second one is the controller's broker.
        """
        places = [each for each in self._places if not {CONTROLLER_ID, NO_LEADER} & self._leaders(each)]
        if not places:
            return
        place = self._dice.choice(places)
        dead = self._leader(place)
        first = next(iter(self._leaders(place) - {dead}), NO_LEADER)
        node = self._cluster.nodes[dead]
        self._stall(dead, first, BEHIND_S)
        if first == NO_LEADER or not await holds(
            lambda: self._is_behind(first, CONTROLLER_ID, place), BEHIND_S, LOOK_S
        ):
            return
        self._cluster.held.add(dead)
        node.machine.kill()
        self._stall(first, CONTROLLER_ID, STALL_S_MAX)
        if await until(lambda: self._leader(place) == first and self._follows(first, first, place)):
            self._network.cut(host_of(first), host_of(CONTROLLER_ID))
            await until(lambda: self._leader(place) not in (first, NO_LEADER))
            self._network.heal()
        self._cluster.held.discard(dead)
        node.start()

    def _stall(self, node_id: int, other: int, seconds: float) -> None:
        """Stall the answers of one broker to another, on their current connections."""
        stall(self._network, host_of(node_id), CLIENT_PORT, host_of(other), seconds)

    def _is_behind(self, node_id: int, other: int, place: Place) -> bool:
        """Whether the replica of one broker ends before that of another."""
        one, more = self._cluster.replica(node_id, place), self._cluster.replica(other, place)
        return (
            one is not None
            and more is not None
            and one.log is not None
            and more.log is not None
            and one.log.log_end_offset < more.log.log_end_offset
        )

    async def strand_leader(self) -> None:
        """Stall the busiest connection from each other broker, which fetches on it, and kill the leader."""
        leader, dice = self._leader(self._dice.choice(self._places)), self._dice
        if leader in (CONTROLLER_ID, NO_LEADER):
            return
        for other in self._cluster.node_ids:
            ends = self._network.ends(host_of(leader), CLIENT_PORT, host_of(other))
            if ends:
                busiest = max(ends, key=lambda end: end.sent)
                busiest.stall(trio.current_time() + dice.uniform(STALL_S_MIN, STALL_S_MAX))
        node = self._cluster.nodes[leader]
        self._cluster.held.add(leader)
        await trio.sleep(dice.uniform(0, STRANDED_S_MAX))
        node.machine.kill()
        await self._pace.wait_during()
        node.start()
        self._cluster.held.discard(leader)

    def _leader(self, place: Place) -> int:
        """Return the leader of a partition, or NO_LEADER."""
        placed = self._cluster.placed(place)
        return NO_LEADER if placed is None else placed.leader

    def _leaders(self, place: Place) -> set[int]:
        """Return the leader of a partition, or NO_LEADER, and the replica that is elected after it."""
        placed = self._cluster.placed(place)
        if placed is None:
            return {NO_LEADER}
        others = [each for each in placed.replicas if each in placed.isr and each != placed.leader]
        return {placed.leader, *others[:1]}

    def _follows(self, follower: int, leader: int, place: Place) -> bool:
        """Whether a broker knows that this leader leads."""
        placed, replica = self._cluster.placed(place), self._cluster.replica(follower, place)
        return (
            placed is not None
            and replica is not None
            and placed.leader == leader
            and replica.leader_epoch == placed.leader_epoch
        )

    def _has_joined(self, node_id: int, before: int, place: Place) -> bool:
        """Whether a broker is in the ISR of another leader than `before`."""
        placed = self._cluster.placed(place)
        return placed is not None and placed.leader not in (before, node_id, NO_LEADER) and node_id in placed.isr


async def until(condition: Callable[[], bool]) -> bool:
    """Wait for an election until a condition holds. Return whether it does."""
    return await holds(condition, ELECTED_S_MAX, LOOK_S)
