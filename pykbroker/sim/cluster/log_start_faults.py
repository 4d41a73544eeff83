"""The faults of a follower that is away while the log start passes the end of its log, and then begins anew."""

from __future__ import annotations

from random import Random

import trio

from pykbroker.sim.cluster.deletions import Deletions
from pykbroker.sim.cluster.nodes import SimCluster
from pykbroker.sim.cluster.patience import FILL_S_MAX, holds
from pykbroker.sim.history import Place
from wire.sentinels import NO_LEADER

APPEND_S_MAX, APART_S_MAX = 3.0, 0.5
"""The longest times in seconds to wait for new records, and between the kills of two brokers."""
LOOK_S = 0.01


class LogStartFaults:
    """Faults of a follower of one of the places of `deletions`, and of the brokers after it has joined again."""

    def __init__(self, cluster: SimCluster, deletions: Deletions, dice: Random) -> None:
        self._cluster, self._deletions, self._dice = cluster, deletions, dice

    async def pass_follower(self) -> None:
        """Kill a follower, and have records deleted past the end of its log while it is away.

        Once it is in the ISR again, kill its leader, so that a leader epoch begins, and then all brokers. The follower
        is killed only if all other replicas of its partitions are in sync.
        """
        cluster, away = self._cluster, self._dice.choice(self._cluster.node_ids[1:])
        place = self._led_by_another(away)
        if place is None or not cluster.is_expendable(away):
            return
        replica = cluster.replica(away, place)
        end = 0 if replica is None or replica.log is None else replica.log.log_end_offset
        cluster.held.add(away)
        cluster.nodes[away].machine.kill()
        if await holds(lambda: self._committed(place) > end + 1, APPEND_S_MAX, LOOK_S):
            await self._deletions.delete_from(place, above=end)
        cluster.held.discard(away)
        cluster.nodes[away].start()
        if await holds(lambda: self._is_in_sync(away, place), FILL_S_MAX, LOOK_S):
            await self._kill_leader(place)
            await self._kill_all()

    async def _kill_leader(self, place: Place) -> None:
        placed = self._cluster.placed(place)
        if placed is not None and placed.leader in self._cluster.nodes and self._cluster.is_expendable(placed.leader):
            self._cluster.nodes[placed.leader].machine.kill()
            await holds(lambda: self._has_other_leader(place, placed.leader_epoch), FILL_S_MAX, LOOK_S)
            self._cluster.nodes[placed.leader].start()

    async def _kill_all(self) -> None:
        await trio.sleep(self._dice.uniform(0, APART_S_MAX))
        nodes = list(self._cluster.nodes.values())
        for node in nodes:
            node.machine.kill()
        self._dice.shuffle(nodes)
        for node in nodes:
            node.start()

    def _led_by_another(self, node_id: int) -> Place | None:
        """Return a place that this node follows, or None without one."""
        found = [
            place
            for place in self._deletions.places
            if (placed := self._cluster.placed(place)) is not None
            and node_id in placed.isr
            and placed.leader not in (node_id, NO_LEADER)
        ]
        return self._dice.choice(found) if found else None

    def _committed(self, place: Place) -> int:
        placed = self._cluster.placed(place)
        leader = None if placed is None else self._cluster.replica(placed.leader, place)
        return 0 if leader is None else leader.high_watermark

    def _is_in_sync(self, node_id: int, place: Place) -> bool:
        placed = self._cluster.placed(place)
        return placed is not None and node_id in placed.isr and self._cluster.registration(node_id) is not None

    def _has_other_leader(self, place: Place, leader_epoch: int) -> bool:
        placed = self._cluster.placed(place)
        return placed is not None and placed.leader >= 0 and placed.leader_epoch > leader_epoch
