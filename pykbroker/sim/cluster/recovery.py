"""The judge of recovery: after the last fault, a core of brokers must serve all partitions and fill their ISRs."""

from __future__ import annotations

import trio

from pykbroker.sim.client import Again, SimConnection
from pykbroker.sim.cluster.nodes import SimCluster
from pykbroker.sim.cluster.stage import ClusterStage
from pykbroker.sim.consumer import NotServed, end_offset
from pykbroker.sim.history import Place

SERVES_S_MAX, FILLS_S_MAX = 10.0, 60.0
"""The times in seconds after the last fault within which all partitions are served, and all ISRs are full."""
LOOK_S = 0.1


class Recovery:
    """A judge that asks for all `places` as a client does. Brokers that are held down are not part of the core."""

    def __init__(self, stage: ClusterStage, cluster: SimCluster, places: list[Place], min_isr: int) -> None:
        self._stage, self._cluster, self._places, self._min_isr = stage, cluster, places, min_isr

    async def judge(self) -> list[str]:
        """Return findings if a healed core does not recover in time, and then start the brokers that it lacks."""
        findings = await self._judge_core()
        if self._cluster.held:
            self._cluster.held.clear()
            await self._cluster.start_all()
            findings += await self._judge_core()
        return findings

    async def _judge_core(self) -> list[str]:
        findings, down = [], sorted(self._cluster.held)
        core = f"a core without brokers {down}" if down else "a healed cluster"
        with trio.move_on_after(SERVES_S_MAX) as late:
            await self._stage.until_answered(self._served)
        if late.cancelled_caught:
            findings.append(f"{core} does not serve within {SERVES_S_MAX:.0f} s: {', '.join(self._not_writable())}")
        for _ in range(int(FILLS_S_MAX / LOOK_S)):
            if not self._missing():
                return findings
            await trio.sleep(LOOK_S)
        missing = ", ".join(self._missing())
        return [*findings, f"{core} has not filled its ISRs within {FILLS_S_MAX:.0f} s: {missing}"]

    async def _served(self, connection: SimConnection) -> None:
        """Raise Again unless the leaders answer for all partitions, and their ISRs take writes with acks=all."""
        for place in self._places:
            try:
                await end_offset(connection, place, committed=False)
            except NotServed as error:
                raise Again(str(error)) from error
        if short := self._not_writable():
            raise Again(", ".join(short))

    def _not_writable(self) -> list[str]:
        """Describe the partitions without a leader or with too small an ISR."""
        found = []
        for place in self._places:
            placed = self._cluster.placed(place)
            up = 0 if placed is None else len(set(placed.replicas) - self._cluster.held)
            if placed is None or placed.leader < 0 or len(placed.isr) < min(self._min_isr, up):
                found.append(f"{place} {placed and (placed.leader, placed.isr, placed.elr)}")
        return found

    def _missing(self) -> list[str]:
        """Describe the partitions whose ISR lacks a replica of the core, or that are being reassigned."""
        image, found = self._cluster.image(), []
        if image is None:
            return ["the controller is down"]
        for topic in image.topics.by_name.values():
            for index, placed in topic.partitions.items():
                if missing := set(placed.replicas) - {*placed.isr, *self._cluster.held}:
                    found.append(f"{topic.name}-{index} lacks {sorted(missing)}")
                elif placed.adding and not set(placed.adding) & self._cluster.held:
                    found.append(f"{topic.name}-{index} is being reassigned")
        return found
