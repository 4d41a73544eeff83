"""The faults that strike while a replica joins an ISR: its leader has proposed that, and waits for the controller."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from random import Random

import trio

from pykbroker.core.replication.leading import Leading
from pykbroker.sim.cluster.link_faults import has_uncommitted
from pykbroker.sim.cluster.nodes import SimCluster
from pykbroker.sim.cluster.patience import FILL_S_MAX, holds
from pykbroker.sim.cluster.plan import CLIENT_PORT, CONTROLLER_ID, CONTROLLER_PORT, host_of
from pykbroker.sim.cluster.stalls import stall
from pykbroker.sim.history import Place
from pykbroker.sim.network import Network
from wire.sentinels import NO_LEADER

LEFT_S_MIN, LEFT_S_MAX = 1.0, 5.0
"""The duration in seconds for which a follower gets no answer, so that it leaves the ISR."""
JOINS_S_MAX, LOOK_S = 3.0, 0.001
"""The time in seconds to wait for a replica that joins, and the time between two looks at its leader."""
JOIN_S_MIN, JOIN_S_MAX = 0.1, 1.0
"""The duration in seconds for which a leader does not hear that a replica has joined."""
HELD_S_MAX, RELEASE_S = 0.8, 0.3
"""The longest time in seconds for which a request of a leader is held, and the time until it has arrived after that."""
BEHIND_S, LATE_S = 0.5, 2.0
"""The durations in seconds of the pause of a replica that is behind, and of the stall of a request to change an ISR."""
COMMIT_S_MAX, ELECTED_S_MAX, SEEN_S = 1.0, 3.0, 0.05
"""The longest times in seconds to wait for a commit and for an election, and the time in which a commit is seen."""
FILL_LOOK_S = 0.1
"""The time between two looks at an emptied broker, in seconds."""


class JoiningFaults:
    """Faults of one replica that joins the ISR of one of `places`, and of its leader, which is not the controller.

    `reassign` changes the replicas of a partition, as an operator does.
    """

    def __init__(
        self,
        network: Network,
        cluster: SimCluster,
        places: list[Place],
        reassign: Callable[[Place, list[int]], Awaitable[None]],
        dice: Random,
    ) -> None:
        self._network, self._cluster, self._places, self._dice = network, cluster, places, dice
        self._reassign = reassign

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

    async def join_behind(self) -> None:
        """Kill a leader that has committed records without a slow follower, before the other follower knows of it.

        The follower that knows too small a high watermark is elected. The slow one fetches from it, and is then paused
        before it has the committed records.
        """
        place, leader, slow = self._dice.choice(self._places), *self._dice.sample(self._cluster.node_ids[1:], 2)
        if not self._is_led(place, leader):
            return
        self._stall(leader, CLIENT_PORT, slow, LEFT_S_MAX)
        if not await holds(lambda: self._is_leaving(slow, leader, place), LEFT_S_MAX, LOOK_S):
            return
        self._stall(leader, CLIENT_PORT, CONTROLLER_ID, LEFT_S_MAX)
        cluster, node = self._cluster, self._cluster.nodes[leader]
        await holds(lambda: self._is_left(slow, leader, place), COMMIT_S_MAX, LOOK_S)
        await trio.sleep(SEEN_S)
        cluster.held.add(leader)
        node.machine.kill()
        if await holds(lambda: self._fetches_from(CONTROLLER_ID, slow, place), ELECTED_S_MAX, LOOK_S):
            cluster.nodes[slow].machine.pause()
            await trio.sleep(BEHIND_S)
            cluster.nodes[slow].machine.resume()
        cluster.held.discard(leader)
        node.start()

    async def join_late(self) -> None:
        """Let a leader's request to add a follower to an ISR arrive late, after an operator's change of the partition.

        The leader no longer waits for that follower, which gets no answers meanwhile.
        """
        place, leader, follower = self._dice.choice(self._places), *self._dice.sample(self._cluster.node_ids[1:], 2)
        if not self._is_led(place, leader):
            return
        self._stall(leader, CLIENT_PORT, follower, LEFT_S_MIN + JOIN_S_MAX)
        if not await holds(lambda: not self._is_in_sync(follower, place), JOINS_S_MAX, LOOK_S):
            return
        requests = [
            end
            for end in self._network.ends(host_of(leader), 0, host_of(CONTROLLER_ID))
            if end.remote[1] == CONTROLLER_PORT
        ]
        if requests:
            self._dice.choice(requests).stall(trio.current_time() + LATE_S)
        if await holds(lambda: self._is_joining(follower, leader, place), JOINS_S_MAX, LOOK_S):
            self._stall(leader, CLIENT_PORT, follower, LATE_S + JOIN_S_MAX)
            placed = self._cluster.placed(place)
            if placed is not None:
                await self._reassign(place, [*placed.replicas[1:], placed.replicas[0]])
            await trio.sleep(LATE_S)

    def _is_led(self, place: Place, leader: int) -> bool:
        """Whether a broker leads a partition, and all brokers are in its ISR."""
        placed = self._cluster.placed(place)
        return placed is not None and placed.leader == leader and {*placed.isr} == {*self._cluster.node_ids}

    def _is_in_sync(self, node_id: int, place: Place) -> bool:
        placed = self._cluster.placed(place)
        return placed is None or node_id in placed.isr

    def _is_leaving(self, node_id: int, leader: int, place: Place) -> bool:
        """Whether a leader proposes to remove a follower from the ISR, and has records that only wait for that."""
        replica, leading = self._cluster.replica(leader, place), self._leading(leader, place)
        return (
            replica is not None
            and has_uncommitted(replica)
            and leading is not None
            and leading.pending is not None
            and node_id not in leading.pending.members
        )

    def _is_left(self, node_id: int, leader: int, place: Place) -> bool:
        """Whether a leader has committed all records without a follower."""
        replica, leading = self._cluster.replica(leader, place), self._leading(leader, place)
        return (
            replica is not None
            and replica.log is not None
            and leading is not None
            and node_id not in leading.isr
            and replica.high_watermark == replica.log.log_end_offset
        )

    def _fetches_from(self, leader: int, node_id: int, place: Place) -> bool:
        """Whether a broker leads, and knows where a follower's log ends."""
        leading = self._leading(leader, place)
        state = None if leading is None else leading.followers.get(node_id)
        return state is not None and state.log_end_offset >= 0

    def _leading(self, leader: int, place: Place) -> Leading | None:
        """Return the leadership of a broker, or None if it does not lead the partition or does not serve."""
        replica = self._cluster.replica(leader, place)
        return None if replica is None else replica.leading

    def _stall(self, node_id: int, port: int, other: int, seconds: float) -> None:
        """Stall the answers of one node to another, on their current connections."""
        stall(self._network, host_of(node_id), port, host_of(other), seconds)

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
        leading = self._leading(leader, place)
        return (
            leading is not None
            and leading.pending is not None
            and node_id not in leading.isr
            and node_id in leading.pending.members
        )
