"""The faults that strike while a replica joins an ISR: its leader has proposed that, and waits for the controller."""

from __future__ import annotations

from random import Random

import trio

from pykbroker.core.metadata.image import NO_LEADER
from pykbroker.sim.cluster.nodes import SimCluster
from pykbroker.sim.cluster.patience import holds
from pykbroker.sim.cluster.plan import CLIENT_PORT, CONTROLLER_ID, CONTROLLER_PORT, host_of
from pykbroker.sim.history import Place
from pykbroker.sim.network import Network

LEFT_S_MIN, LEFT_S_MAX = 1.0, 5.0
"""The duration in seconds for which a follower gets no answer, so that it leaves the ISR."""
JOINS_S_MAX, LOOK_S = 3.0, 0.001
"""The time in seconds to wait for a replica that joins, and the time between two looks at its leader."""
JOIN_S_MIN, JOIN_S_MAX = 0.1, 1.0
"""The duration in seconds for which a leader does not hear that a replica has joined."""
HELD_S_MAX, RELEASE_S = 0.8, 0.3
"""The longest time in seconds for which a request of a leader is held, and the time until it has arrived after that."""
FILL_S_MAX, FILL_LOOK_S = 20.0, 0.1
"""The time in which an emptied broker should be filled, and the time between two looks at it, in seconds."""


class JoiningFaults:
    """Faults of one replica that joins the ISR of one of `places`, and of its leader, which is not the controller."""

    def __init__(self, network: Network, cluster: SimCluster, places: list[Place], dice: Random) -> None:
        self._network, self._cluster, self._places, self._dice = network, cluster, places, dice

    async def slow_join(self) -> None:
        """Stall a leader's answers to a follower until it has left the ISR.

        When it joins again, stall the controller's answers to the leader, and the leader's answers to the follower.
        """
        placed = self._cluster.placed(self._dice.choice(self._places))
        if placed is None or placed.leader in (CONTROLLER_ID, NO_LEADER):
            return
        leader, dice = placed.leader, self._dice
        follower = dice.choice([each for each in self._cluster.node_ids if each != leader])
        left_s, join_s = dice.uniform(LEFT_S_MIN, LEFT_S_MAX), dice.uniform(JOIN_S_MIN, JOIN_S_MAX)
        self._stall(leader, CLIENT_PORT, follower, left_s)
        if await self._leader_of_joining(follower, left_s + JOINS_S_MAX, leader) == leader:
            self._stall(CONTROLLER_ID, CONTROLLER_PORT, leader, join_s)
            self._stall(leader, CLIENT_PORT, follower, join_s)
            await trio.sleep(join_s)

    def _stall(self, node_id: int, port: int, other: int, seconds: float) -> None:
        """Stall the answers of one node to another, on their current connections."""
        for end in self._network.ends(host_of(node_id), port, host_of(other)):
            end.stall(trio.current_time() + seconds)

    async def lose_joining(self) -> None:
        """Restart a broker, and cut its power when it joins an ISR, if all other replicas are in sync as in `wipe`.

        The leader's request to add it to the ISR arrives late: the broker has lost its unsynced records, and has
        registered again. Until its replicas are filled again, no other machine fails.
        """
        cluster, node_id = self._cluster, self._dice.choice(self._cluster.node_ids[1:])
        if not cluster.is_expendable(node_id):
            return
        node = cluster.nodes[node_id]
        cluster.held.add(node_id)
        node.machine.kill()
        node.start()
        leader = await self._leader_of_joining(node_id, JOINS_S_MAX)
        if leader is not None:
            await self._lose_while_joining(node_id, leader)
        cluster.held.discard(node_id)

    async def _lose_while_joining(self, node_id: int, leader: int) -> None:
        cluster, network, node = self._cluster, self._network, self._cluster.nodes[node_id]
        before = cluster.broker_epoch(node_id)
        network.cut(host_of(leader), host_of(CONTROLLER_ID))
        network.cut(host_of(leader), host_of(node_id))
        node.machine.kill()
        expendable = False
        with trio.move_on_after(HELD_S_MAX):
            while not self._is_fenced(node_id):  # noqa: ASYNC110 - nothing tells a change of an image
                await trio.sleep(LOOK_S)
            expendable = cluster.is_expendable(node_id)
            if expendable:
                node.machine.lose_power()
            node.start()
            while self._is_fenced(node_id):  # noqa: ASYNC110 - nothing tells a change of an image
                await trio.sleep(LOOK_S)
        node.start()
        network.heal((host_of(leader), host_of(CONTROLLER_ID)))
        await trio.sleep(RELEASE_S)
        network.heal((host_of(leader), host_of(node_id)))
        cluster.held.discard(node_id)
        await holds(lambda: cluster.is_refilled(node_id, before), FILL_S_MAX if expendable else 0, FILL_LOOK_S)

    def _is_fenced(self, node_id: int) -> bool:
        known = self._cluster.registration(node_id)
        return known is None or known.fenced

    async def _leader_of_joining(self, node_id: int, seconds: float, leader: int | None = None) -> int | None:
        """Return the leader that proposes to add a node to the ISR of a partition, or None after this time.

        With `leader`, only its proposals count.
        """
        with trio.move_on_after(seconds):
            while True:
                for place in self._places:
                    placed = self._cluster.placed(place)
                    if (
                        placed is not None
                        and placed.leader != CONTROLLER_ID
                        and leader in (None, placed.leader)
                        and self._is_joining(node_id, placed.leader, place)
                    ):
                        return placed.leader
                await trio.sleep(LOOK_S)
        return None

    def _is_joining(self, node_id: int, leader: int, place: Place) -> bool:
        replica = self._cluster.replica(leader, place)
        followers = None if replica is None else replica.leadership.followers
        return (
            followers is not None
            and followers.pending is not None
            and node_id not in followers.isr
            and node_id in followers.pending.members
        )
