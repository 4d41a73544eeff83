"""The faults that strike when an emptied broker has been filled: it is then the only one with all records."""

from __future__ import annotations

from random import Random

import trio

from pykbroker.sim.cluster.nodes import SimCluster
from pykbroker.sim.cluster.patience import FILL_S_MAX, holds
from pykbroker.sim.cluster.plan import CLIENT_PORT, CONTROLLER_ID, host_of
from pykbroker.sim.cluster.stalls import stall
from pykbroker.sim.history import Place
from pykbroker.sim.network import Network

STALL_S, STALLED_AGAIN_S = 1.0, 0.2
"""The duration of a stall, and the time until it is extended, in seconds."""
ALONE_S_MAX = 6.0
"""The longest time in seconds to wait until a leader is alone in an ISR."""
LOOK_S, FILL_LOOK_S = 0.001, 0.1
BROKERS = 3
"""The size of a cluster in which a broker, the one that fills it, and the controller have all replicas."""


class RefillFaults:
    """Faults of a broker that is filled anew, and of the leader of some of `places` that fills it."""

    def __init__(self, network: Network, cluster: SimCluster, places: list[Place], dice: Random) -> None:
        self._network, self._cluster, self._places, self._dice = network, cluster, places, dice

    async def wipe_source(self) -> None:
        """Wipe the disks of a broker, and those of the leader that has filled it as soon as it is in the ISRs again.

        The controller gets no answers from the leader, and leaves these ISRs, so that only the filled broker can be
        elected. The second loss occurs only if another replica of each partition is in the ISR.
        """
        cluster = self._cluster
        filled, source = self._dice.sample(cluster.node_ids[1:], 2)
        if len(cluster.nodes) != BROKERS or not cluster.is_expendable(filled):
            return
        before = cluster.broker_epoch(source)
        cluster.held.update((filled, source))
        async with trio.open_nursery() as nursery:
            nursery.start_soon(self._stall, source)
            is_lost = await self._lose_both(filled, source)
            nursery.cancel_scope.cancel()
        for node_id in (filled, source):
            cluster.held.discard(node_id)
            cluster.nodes[node_id].start()
        await holds(lambda: cluster.is_refilled(source, before if is_lost else -1), FILL_S_MAX, FILL_LOOK_S)

    async def _lose_both(self, filled: int, source: int) -> bool:
        """Wipe the first broker and then the second one. Return whether the second loss occurred."""
        nodes = self._cluster.nodes
        nodes[filled].machine.kill()
        nodes[filled].machine.wipe()
        if not await holds(lambda: self._has_isr(source), ALONE_S_MAX, LOOK_S):
            return False
        nodes[filled].start()
        if not await holds(lambda: self._has_isr(source, filled) and self._is_spare(source), FILL_S_MAX, LOOK_S):
            return False
        nodes[source].machine.kill()
        nodes[source].machine.wipe()
        return True

    async def _stall(self, source: int) -> None:
        """Stall the answers of a broker to the controller's broker until cancelled."""
        while True:
            stall(self._network, host_of(source), CLIENT_PORT, host_of(CONTROLLER_ID), STALL_S)
            await trio.sleep(STALLED_AGAIN_S)

    def _has_isr(self, leader: int, *others: int) -> bool:
        """Whether a broker leads one of the places with exactly this ISR."""
        return any(
            placed is not None and placed.leader == leader and {*placed.isr} == {leader, *others}
            for placed in map(self._cluster.placed, self._places)
        )

    def _is_spare(self, node_id: int) -> bool:
        """Whether each partition of a broker has another replica in its ISR, which thus has all committed records."""
        image = self._cluster.image()
        return image is not None and all(
            {*placed.isr} - {node_id}
            for topic in image.topics.by_name.values()
            for placed in topic.partitions.values()
            if node_id in placed.replicas
        )
