"""The faults of the network of a cluster: between brokers, and between brokers and clients."""

from __future__ import annotations

from random import Random
from typing import ClassVar

import trio

from pykbroker.replica.partition.partition import Partition
from pykbroker.sim.cluster.nodes import SimCluster
from pykbroker.sim.cluster.plan import host_of
from pykbroker.sim.fault_pace import FaultPace
from pykbroker.sim.history import Place
from pykbroker.sim.link_faults import LinkFaults
from pykbroker.sim.network import Network

FLAPS_MAX = 6
"""The maximum number of times that a flapping link is cut."""
SILENCE_S = (8.0, 40.0)
"""The shortest and the longest silence in seconds."""
APPEND_S_MAX, LOOK_S = 1.0, 0.001
"""The time to wait for an append that is not committed yet, and the time between two looks at the log, in seconds."""


class ClusterLinkFaults:
    """Faults of the links of a cluster. `hosts` are the hosts of all clients, `places` the partitions."""

    ONE_BROKER: ClassVar = LinkFaults.KINDS
    """The faults that concern the links between one broker and all other hosts."""

    def __init__(
        self,
        network: Network,
        cluster: SimCluster,
        hosts: list[str],
        places: list[Place],
        pace: FaultPace,
        dice: Random,
    ) -> None:
        self._network, self._cluster, self._hosts, self._places = network, cluster, hosts, places
        self._pace, self._dice = pace, dice

    async def strike(self, kind: str) -> None:
        """Cause one fault, and end it."""
        if kind in self.ONE_BROKER:
            node_id = self._dice.choice(sorted(self._cluster.nodes))
            others = [host_of(each) for each in self._cluster.nodes if each != node_id]
            links = LinkFaults(self._network, lambda: host_of(node_id), [*others, *self._hosts], self._pace, self._dice)
            await getattr(links, kind)()
        else:
            await getattr(self, kind)()

    async def flap(self) -> None:
        """Cut and heal the links between two brokers several times, in one direction or in both."""
        one, other = self._pair()
        for _ in range(self._dice.randrange(2, FLAPS_MAX + 1)):
            self._network.cut(one, other)
            if self._dice.random() < 0.5:
                self._network.cut(other, one)
            await self._pace.wait_during()
            self._network.heal()
            await self._pace.wait_during()

    async def silence(self) -> None:
        """Cut a broker off from the others for so long that TCP's retransmissions are many seconds apart.

        Clients still reach it.
        """
        node_id = self._dice.choice(sorted(self._cluster.nodes))
        self._cut_off(node_id)
        await trio.sleep(self._dice.uniform(*SILENCE_S))
        self._network.heal()

    async def split(self) -> None:
        """Cut all traffic between two brokers, which clients and other brokers can still reach."""
        one, other = self._pair()
        self._network.cut(one, other)
        self._network.cut(other, one)
        await self._pace.wait_during()
        self._network.heal()

    async def cut_leader(self) -> None:
        """Cut a leader off from the other brokers between an append and its commit. Clients still reach it."""
        place = self._dice.choice(self._places)
        leader = await self._uncommitted(place)
        if leader is None:
            return
        self._cut_off(leader)
        await self._pace.wait_during()
        await self._pace.wait_during()
        self._network.heal()

    def _cut_off(self, node_id: int) -> None:
        for each in self._cluster.nodes:
            if each != node_id:
                self._network.cut(host_of(node_id), host_of(each))
                self._network.cut(host_of(each), host_of(node_id))

    async def _uncommitted(self, place: Place) -> int | None:
        """Return the leader of a partition as soon as its log has a record above the high watermark."""
        with trio.move_on_after(APPEND_S_MAX):
            while True:
                placed = self._cluster.placed(place)
                replica = None if placed is None else self._cluster.replica(placed.leader, place)
                if placed is not None and replica is not None and has_uncommitted(replica):
                    return placed.leader
                await trio.sleep(LOOK_S)
        return None

    def _pair(self) -> tuple[str, str]:
        one, other = self._dice.sample(sorted(self._cluster.nodes), 2)
        return host_of(one), host_of(other)


def has_uncommitted(replica: Partition) -> bool:
    """Whether a replica leads, and its log has a record above the high watermark."""
    log = replica.log
    return replica.is_leader and log is not None and log.log_end_offset > replica.high_watermark
