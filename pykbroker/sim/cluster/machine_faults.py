"""The faults of the machines of a cluster: of one node, or of all nodes at once."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from random import Random

import trio

from pykbroker.sim.cluster.aimed_faults import AimedFaults
from pykbroker.sim.cluster.nodes import SimCluster
from pykbroker.sim.cluster.patience import FILL_S_MAX
from pykbroker.sim.fault_pace import FaultPace
from pykbroker.sim.machine_faults import MachineFaults

DRIFT_MIN, DRIFT_MAX = -0.5, 1.0
"""The seconds that a drifting clock gains in a second."""
LOOK_S = 0.1
"""The time between two looks at an emptied broker, in seconds."""


class ClusterMachineFaults:
    """Faults of the machines of a cluster. A node is not started again before the fault that stopped it ends."""

    def __init__(self, cluster: SimCluster, pace: FaultPace, dice: Random) -> None:
        self._cluster, self._pace, self._dice = cluster, pace, dice
        self._aimed = AimedFaults(cluster, pace, dice)

    async def strike(self, kind: str) -> None:
        """Cause one fault, and end it."""
        own: Callable[[], Awaitable[None]] | None = getattr(self, kind, None) or getattr(self._aimed, kind, None)
        if own is not None:
            await own()
            return
        node_id = self._dice.choice(sorted(self._cluster.nodes))
        node, held = self._cluster.nodes[node_id], self._cluster.held
        node.start()
        held.add(node_id)
        await getattr(MachineFaults(node, (), self._pace, self._dice), kind)()
        held.discard(node_id)

    async def kill_all(self) -> None:
        """Kill all brokers and start them again in random order."""
        await self._end_all(power=False)

    async def lose_power_of_all(self) -> None:
        await self._end_all(power=True)

    async def drift_clock(self) -> None:
        """Make the wall clock of a machine run at half to twice its speed."""
        node_id = self._dice.choice(self._cluster.node_ids)
        self._cluster.nodes[node_id].machine.drift(self._dice.uniform(DRIFT_MIN, DRIFT_MAX))

    async def wipe(self) -> None:
        """Replace the disks of a broker by empty ones, if all other replicas of its partitions are in sync.

        The controller's metadata has no copy that could replace it. Until the replicas are filled again, no other
        machine fails: the loss of a disk and of the power of all others is more than a cluster survives.
        """
        cluster, node_id = self._cluster, self._dice.choice(self._cluster.node_ids[1:])
        if not cluster.is_expendable(node_id):
            return
        broker_epoch = cluster.broker_epoch(node_id)
        cluster.held.add(node_id)
        cluster.nodes[node_id].machine.kill()
        cluster.nodes[node_id].machine.wipe()
        await self._pace.wait_during()
        cluster.held.discard(node_id)
        cluster.nodes[node_id].start()
        with trio.move_on_after(FILL_S_MAX):
            while not cluster.is_refilled(node_id, broker_epoch):  # noqa: ASYNC110 - nothing tells a change of an image
                await trio.sleep(LOOK_S)

    async def _end_all(self, *, power: bool) -> None:
        nodes = list(self._cluster.nodes.items())
        self._cluster.held.update(self._cluster.nodes)
        for _, node in nodes:
            if power:
                node.machine.lose_power()
            else:
                node.machine.kill()
        self._dice.shuffle(nodes)
        for node_id, node in nodes:
            await self._pace.wait_during()
            self._cluster.held.discard(node_id)
            node.start()
