"""The judge of a full disk: once all faults have ended, the disk of a leader fills up, which must not stop writes.

The disk has the broker's copy of the metadata, too, so that the broker no longer learns who leads.
"""

from __future__ import annotations

from dataclasses import replace
from random import Random

from pykbroker.sim.cluster.nodes import SimCluster, electable
from pykbroker.sim.cluster.patience import holds
from pykbroker.sim.cluster.plan import CONTROLLER_ID
from pykbroker.sim.history import Place
from pykbroker.storage.files.partition_directory import STRAY
from wire.sentinels import NO_LEADER, NO_OFFSET

READY_S_MAX = 20.0
"""The time in seconds in which all ISRs must be full before the disk fills up. The judge is silent otherwise."""
WRITES_S_MAX = 20.0
"""The time in seconds in which each partition must have new committed records, on a leader with room.

A replica leaves after 3 s of refusals, and a producer that waits for one does not write to the others meanwhile.
"""
LOOK_S = 0.1


class FullDisk:
    """The judge of a full disk. `places` are the partitions to which clients write.

    A reassignment may have left a partition only `min_isr` replicas. Without the full disk's it takes no writes.
    """

    def __init__(self, cluster: SimCluster, places: list[Place], min_isr: int, dice: Random) -> None:
        self._cluster, self._places, self._min_isr, self._dice = cluster, places, min_isr, dice

    async def judge(self) -> list[str]:
        """Fill the disk of a leader, and give it room again.

        Return a finding if a partition takes no writes meanwhile, or if a replica is fetched anew afterwards.
        """
        if not await holds(self._is_ready, READY_S_MAX, LOOK_S):
            return []
        leader = self._dice.choice(sorted(self._leaders()))
        machine = self._cluster.nodes[leader].machine
        healthy, before = machine.disk_faults, {place: self._committed(place) for place in self._places}
        aside = set(machine.directories())
        machine.set_disk_faults(replace(healthy, room_bytes=0))

        def stuck() -> list[Place]:
            return [
                place
                for place in self._places
                if self._leads(leader, place)
                or (self._can_do_without(leader, place) and self._committed(place) <= before[place])
            ]

        served = await holds(lambda: not stuck(), WRITES_S_MAX, LOOK_S)
        findings = [] if served else [f"the full disk of broker {leader} stops writes: {stuck()}"]
        machine.set_disk_faults(healthy)
        await holds(self._is_ready, READY_S_MAX, LOOK_S)
        if anew := [name for name in machine.directories() if name.endswith(STRAY) and name not in aside]:
            findings.append(f"broker {leader}, whose disk was full, has set its logs aside: {anew}")
        return findings

    def _is_ready(self) -> bool:
        """Whether each partition is in sync on all its replicas, and a broker that is no controller leads one."""
        image = self._cluster.image()
        placed = [self._cluster.placed(place) for place in self._places]
        return (
            image is not None
            and bool(self._leaders())
            and all(one is not None and electable(image, one) == set(one.replicas) for one in placed)
        )

    def _leaders(self) -> set[int]:
        """Return the brokers without the controller's that lead a partition."""
        placed = [self._cluster.placed(place) for place in self._places]
        return {one.leader for one in placed if one is not None} - {CONTROLLER_ID, NO_LEADER}

    def _can_do_without(self, node_id: int, place: Place) -> bool:
        """Whether enough replicas of a partition are on other brokers for it to take writes."""
        placed = self._cluster.placed(place)
        return placed is not None and len(set(placed.replicas) - {node_id}) >= self._min_isr

    def _leads(self, node_id: int, place: Place) -> bool:
        replica = self._cluster.replica(node_id, place)
        return replica is not None and replica.is_leader

    def _committed(self, place: Place) -> int:
        """Return the high watermark of a partition on the leader that the metadata names, -1 without a leader."""
        placed = self._cluster.placed(place)
        replica = None if placed is None else self._cluster.replica(placed.leader, place)
        return replica.high_watermark if replica is not None and replica.is_leader else NO_OFFSET
