"""The faults of a scripted cluster and of the network to it."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, ClassVar

import trio

from pykbroker.core.topic_partition import TopicPartition
from pykbroker.sim.clients.stage import ClientStage
from pykbroker.sim.fault_pace import FaultPace
from pykbroker.sim.link_faults import LinkFaults
from pykbroker.sim.scripted.connection import Dropped, NoAnswer
from pykbroker.sim.scripted.node import ScriptedNode
from wire.api import ApiKey
from wire.header import RequestHeader
from wire.sentinels import NO_LEADER

FATED = 0.3
"""The chance of a request to be affected while its node is."""


class ClusterFaults:
    """A source of faults. The seed determines their kinds, and the times between them.

    `groups` and `transactional_ids` are those whose coordinators move.
    """

    KINDS: ClassVar = (
        *LinkFaults.KINDS,
        "disconnect",
        "restart",
        "move_leader",
        "take_leader",
        "move_coordinators",
        "answer_late",
        "drop_answers",
        "leave_unanswered",
    )
    DAMAGE = "damage"
    """Changed bytes in fetched records, which only consumers notice."""
    UNCLEAN = "truncate"
    """The loss of records that were written but not acknowledged. A topic with transactions does not have it."""

    def __init__(
        self,
        stage: ClientStage,
        kinds: Iterable[str] = KINDS,
        groups: Iterable[str] = (),
        transactional_ids: Iterable[str] = (),
    ) -> None:
        self._stage, self._cluster, self._network = stage, stage.cluster, stage.network
        self._dice = dice = stage.simulation.dice("faults")
        kinds = list(kinds)
        self._kinds = [kind for kind in kinds if dice.random() < 0.6] or kinds
        self._groups, self._transactional_ids = list(groups), list(transactional_ids)
        self._pace = FaultPace(dice)
        self._links = LinkFaults(self._network, lambda: f"node{self._node_id()}", stage.clients, self._pace, dice)
        self._fates: dict[int, str] = {}
        self.happened: dict[str, int] = {}
        for node in self._cluster.nodes.values():
            node.scripts.append(self._decide)

    async def run(self, until_s: float) -> None:
        """Inject faults until `until_s`, then end all of them."""
        while self._stage.simulation.now < until_s:
            await self._pace.wait_before()
            kind = self._dice.choice(self._kinds)
            self.happened[kind] = self.happened.get(kind, 0) + 1
            self._stage.simulation.trace("fault", kind)
            await (getattr(self, kind, None) or getattr(self._links, kind))()
        self.end()

    def end(self) -> None:
        """End all faults that last."""
        self._fates.clear()
        self._network.heal()

    # ---- the network

    async def stall(self) -> None:
        """Delay the segments of a client."""
        client, until_s = self._dice.choice(self._stage.clients), trio.current_time() + self._dice.uniform(0.2, 3)
        for end in self._network.ends(client):
            end.stall(until_s)
        await self._pace.wait_during()

    # ---- nodes

    async def disconnect(self) -> None:
        """Close all connections to a node."""
        self._cluster.nodes[self._node_id()].disconnect()

    async def restart(self) -> None:
        """Stop a node, whose partitions and coordinators move, and start it again."""
        node_id = self._node_id()
        self._cluster.nodes[node_id].stop()
        for partition in self._stage.partitions:
            if self._stage.state.leader_and_epoch(partition)[0] == node_id:
                self._stage.state.move_leader(partition, node_id % len(self._cluster.nodes) + 1)
        self._move_coordinators(node_id % len(self._cluster.nodes) + 1)
        await self._pace.wait_during()
        self._cluster.nodes[node_id].start()

    async def move_leader(self) -> None:
        """Elect the leader of a partition, while a node may have stale metadata."""
        if self._dice.random() < 0.5:
            self._cluster.make_stale(self._node_id())
        self._stage.state.move_leader(self._partition(), self._node_id())
        await self._pace.wait_during()
        for node_id in self._cluster.nodes:
            self._cluster.make_current(node_id)

    async def take_leader(self) -> None:
        """Leave a partition without a leader."""
        partition = self._partition()
        self._stage.state.move_leader(partition, NO_LEADER)
        await self._pace.wait_during()
        self._stage.state.move_leader(partition, self._node_id())

    async def move_coordinators(self) -> None:
        """Move the coordinators of all groups and transactional ids, which load their state again."""
        self._move_coordinators(self._node_id())

    # ---- answers

    async def answer_late(self) -> None:
        """Let a node answer some requests up to 2 s late."""
        await self._fated("late")

    async def drop_answers(self) -> None:
        """Let a node handle some requests, and close the connection instead of answering."""
        await self._fated("dropped")

    async def leave_unanswered(self) -> None:
        """Let a node handle some requests, and answer only later ones."""
        await self._fated("unanswered")

    async def damage(self) -> None:
        """Let a node send some fetched records with a changed byte."""
        await self._fated("damaged")

    async def truncate(self) -> None:
        """Let a leader fail after it has written some batches, which the next leader lacks."""
        await self._fated("truncated")

    async def _fated(self, fate: str) -> None:
        node_id = self._node_id()
        self._fates[node_id] = fate
        await self._pace.wait_during()
        self._fates.pop(node_id, None)

    async def _decide(self, node: ScriptedNode, header: RequestHeader, request: Any) -> Any:
        """Answer a request of an affected node."""
        fate = self._fates.get(node.node_id)
        if fate is None or header.key == ApiKey.API_VERSIONS or self._dice.random() >= FATED:
            return None
        if fate == "truncated":
            if header.key == ApiKey.PRODUCE:
                await self._write_and_lose(node, header, request)
            return None
        if fate == "damaged" and header.key != ApiKey.FETCH:
            return None
        response = await node.handle(header, request)
        if fate == "damaged":
            self.happened["damaged records"] = self.happened.get("damaged records", 0) + damage(response)
            return response
        if fate == "dropped":
            raise Dropped
        if fate == "unanswered":
            raise NoAnswer
        await trio.sleep(self._dice.uniform(0.05, 2))
        return response

    async def _write_and_lose(self, node: ScriptedNode, header: RequestHeader, request: Any) -> None:
        ends = {each: self._stage.state.log(each).end_offset for each in self._stage.partitions}
        await node.handle(header, request)
        for partition, end in ends.items():
            log = self._stage.state.log(partition)
            if log.end_offset > end:
                self.happened["lost writes"] = self.happened.get("lost writes", 0) + 1
                self._stage.state.move_leader(partition, self._node_id())
                log.truncate(end)
        raise Dropped

    # ---- helpers

    def _node_id(self) -> int:
        return self._dice.choice(list(self._cluster.nodes))

    def _partition(self) -> TopicPartition:
        return self._dice.choice(self._stage.partitions)

    def _move_coordinators(self, node_id: int) -> None:
        for group in self._groups:
            self._cluster.groups.move(group, node_id)
        for transactional_id in self._transactional_ids:
            self._cluster.transactions.move(transactional_id, node_id)


def damage(response: Any) -> int:
    """Change a byte in the records of each partition of a Fetch response. Return the number of the partitions."""
    filled = [each for topic in response.responses for each in topic.partitions if each.records]
    for data in filled:
        data.records = bytes(data.records[:-1]) + bytes([data.records[-1] ^ 1])
    return len(filled)
