"""The judge of recovery: after the last fault, a core of brokers must serve all partitions and fill their ISRs."""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple

import trio

from pykbroker.replica.partition.partition import Partition
from pykbroker.sim.client import Again, SimConnection
from pykbroker.sim.cluster.nodes import SimCluster
from pykbroker.sim.cluster.stage import ClusterStage
from pykbroker.sim.consumer import NotServed, end_offset
from pykbroker.sim.history import Place

LOOK_S = 0.1


class RecoveryLimits(NamedTuple):
    """The times in seconds after the last fault within which all partitions are served, and all ISRs are full.

    Within `serves_s_max`, what the leaders had appended at the last fault's end is committed, too, so that it is
    acknowledged.
    """

    serves_s_max: float
    fills_s_max: float


AFTER_FAULTS, AFTER_CUTS = RecoveryLimits(10.0, 60.0), RecoveryLimits(5.0, 10.0)


class Recovery:
    """A judge that asks for all `places` as a client does. Brokers that are held down are not part of the core."""

    def __init__(self, stage: ClusterStage, cluster: SimCluster, places: list[Place], min_isr: int) -> None:
        self._stage, self._cluster, self._places, self._min_isr = stage, cluster, places, min_isr

    async def judge(self, limits: RecoveryLimits) -> list[str]:
        """Return findings if a healed core does not recover in time, and then start the brokers that it lacks."""
        findings = await self._judge_core(limits)
        if self._cluster.held:
            self._cluster.held.clear()
            await self._cluster.start_all()
            findings += await self._judge_core(AFTER_FAULTS)
        return findings

    async def _judge_core(self, limits: RecoveryLimits) -> list[str]:
        findings, down, begun = [], sorted(self._cluster.held), trio.current_time()
        core = f"a core without brokers {down}" if down else "a healed cluster"
        appended = self._appended()
        with trio.move_on_after(limits.serves_s_max) as late:
            await self._stage.until_answered(self._served)
            while self._uncommitted(appended):  # noqa: ASYNC110 - nothing tells a change of another process
                await trio.sleep(LOOK_S)
        if late.cancelled_caught:
            missing = ", ".join([*self._not_writable(), *self._uncommitted(appended)])
            findings.append(f"{core} does not serve within {limits.serves_s_max:.0f} s: {missing}")
        while trio.current_time() < begun + limits.fills_s_max:
            if not self._missing():
                return findings
            await trio.sleep(LOOK_S)
        missing = ", ".join(self._missing())
        return [*findings, f"{core} has not filled its ISRs within {limits.fills_s_max:.0f} s: {missing}"]

    def _leading(self, place: Place) -> Partition | None:
        """Return the replica that leads a partition, or None without a running leader."""
        placed = self._cluster.placed(place)
        return None if placed is None else self._cluster.replica(placed.leader, place)

    def _appended(self) -> dict[Place, int]:
        """Return the log end offsets of the leaders."""
        leading = {place: self._leading(place) for place in self._places}
        return {place: one.log.log_end_offset for place, one in leading.items() if one is not None and one.log}

    def _uncommitted(self, appended: Mapping[Place, int]) -> list[str]:
        """Describe the partitions whose leaders have not committed these offsets, unless they have cut them off."""
        found = []
        for place, end in appended.items():
            one = self._leading(place)
            if one is not None and one.log and one.high_watermark < min(end, one.log.log_end_offset):
                found.append(f"{place} is committed up to {one.high_watermark} of {end}")
        return found

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
