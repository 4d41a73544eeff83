"""The source of faults of a simulated cluster: each seed chooses kinds of faults and the times between them."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterable

import trio

from pykbroker.sim.cluster import fault_kinds
from pykbroker.sim.cluster.deletions import Deletions
from pykbroker.sim.cluster.joining_faults import JoiningFaults
from pykbroker.sim.cluster.leadership_faults import LeadershipFaults
from pykbroker.sim.cluster.link_faults import ClusterLinkFaults
from pykbroker.sim.cluster.log_start_faults import LogStartFaults
from pykbroker.sim.cluster.machine_faults import ClusterMachineFaults
from pykbroker.sim.cluster.metadata_changes import MetadataChanges
from pykbroker.sim.cluster.nodes import SimCluster
from pykbroker.sim.cluster.refill_faults import RefillFaults
from pykbroker.sim.cluster.unclean_topic import UncleanTopic
from pykbroker.sim.fault_pace import FaultPace
from pykbroker.sim.history import Place
from pykbroker.sim.network import Network
from pykbroker.sim.simulation import Simulation

CHOSEN = 0.6
"""The chance that a seed chooses a kind of fault."""
LEFT_DOWN = 0.3
"""The chance that one broker stays down while the others must recover."""
MIN_ISR = 2
Strike = Callable[[str], Awaitable[None]]


class ClusterNemesis:
    """An injector of faults. A fault of machines, a fault of links and a change of metadata may happen at once."""

    def __init__(
        self,
        simulation: Simulation,
        network: Network,
        cluster: SimCluster,
        hosts: list[str],
        places: list[Place],
        kinds: Iterable[str],
        changes: MetadataChanges,
        unclean: UncleanTopic,
        deletions: Deletions,
    ) -> None:
        self._simulation, self._network, self._cluster = simulation, network, cluster
        self._dice = dice = simulation.dice("nemesis")
        kinds = list(kinds)
        self.kinds = [kind for kind in kinds if dice.random() < CHOSEN] or kinds
        machines = ClusterMachineFaults(cluster, FaultPace(dice), dice)
        links = ClusterLinkFaults(network, cluster, hosts, places, FaultPace(dice), dice)
        self._strands: list[tuple[tuple[str, ...], Strike]] = [
            (fault_kinds.MACHINES, machines.strike),
            (fault_kinds.LINKS, links.strike),
            (fault_kinds.METADATA, changes.strike),
        ]
        dice = simulation.dice("faults of leaders")
        joining = JoiningFaults(network, cluster, places, changes.assign, dice)
        leaderships = LeadershipFaults(network, cluster, places, FaultPace(dice), dice)
        self._of_leaders: dict[str, Callable[[], Awaitable[None]]] = {
            "slow_join": joining.slow_join,
            "lose_joining": joining.lose_joining,
            "join_behind": joining.join_behind,
            "join_late": joining.join_late,
            "wipe_source": RefillFaults(network, cluster, places, dice).wipe_source,
            "elect_uncleanly": unclean.elect,
            "depose_twice": leaderships.depose_twice,
            "fork_epochs": leaderships.fork_epochs,
            "strand_leader": leaderships.strand_leader,
            "pass_follower": LogStartFaults(cluster, deletions, dice).pass_follower,
        }
        self.happened: dict[str, int] = {}

    async def run(self, until_s: float) -> None:
        """Inject faults until `until_s`, then end all of them and start the nodes of the core."""
        async with trio.open_nursery() as nursery:
            nursery.start_soon(self._cluster.keep_up, self._simulation.dice("restarts"))
            async with trio.open_nursery() as strands:
                for number, (kinds, strike) in enumerate(self._strands):
                    chosen = [kind for kind in self.kinds if kind in kinds]
                    if chosen:
                        strands.start_soon(self._strand, number, chosen, strike, until_s)
                await trio.sleep_until(until_s)
            nursery.cancel_scope.cancel()
        self._network.heal()
        self._leave_one_down()
        self._cluster.start_core()

    def _leave_one_down(self) -> None:
        """Kill a broker that the core does not need, in some seeds: each ISR without it is large enough for writes."""
        image, left = self._cluster.image(), self._dice.choice(self._cluster.node_ids[1:])
        if image is None or self._dice.random() > LEFT_DOWN:
            return
        placed = [each for topic in image.topics.by_name.values() for each in topic.partitions.values()]
        if all(
            len(set(each.isr) - {left}) >= min(MIN_ISR, len(each.replicas)) and not each.adding and not each.removing
            for each in placed
        ):
            self._cluster.held.add(left)
            self._cluster.nodes[left].machine.kill()

    async def _strand(self, number: int, kinds: list[str], strike: Strike, until_s: float) -> None:
        dice = self._simulation.dice(f"strand {number}")
        pace = FaultPace(dice)
        while True:
            await pace.wait_before()
            if self._simulation.now >= until_s:
                return
            kind = dice.choice(kinds)
            self.happened[kind] = self.happened.get(kind, 0) + 1
            self._simulation.trace("nemesis", kind)
            await self._simulation.at_rest()
            if kind in self._of_leaders:
                await self._of_leaders[kind]()
            else:
                await strike(kind)
