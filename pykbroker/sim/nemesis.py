"""The source of faults in a simulation. The seed determines the kinds of faults and the times between them."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import ClassVar

from pykbroker.sim.broker_node import BrokerNode
from pykbroker.sim.fault_pace import FaultPace
from pykbroker.sim.link_faults import LinkFaults
from pykbroker.sim.machine_faults import MachineFaults
from pykbroker.sim.network import Network
from pykbroker.sim.simulation import Simulation


class Nemesis:
    """An injector of faults into a broker and the network, one after the other."""

    POWER: ClassVar = ("lose_power", "lose_power_midstep", "fail_syncs")
    """The power losses. They are used only if every acknowledged record is synced."""
    DISK: ClassVar = ("fill_disk", "fail_reads", "fail_syncs")
    """The disk faults, which may end the broker."""
    ROT = "rot"
    """Bit rot. It may lose records, since there is one replica, but the broker must never serve damaged records."""
    KINDS: ClassVar = (
        "kill",
        "kill_midstep",
        "restart",
        "pause",
        "isolate",
        "deafen",
        "mute",
        "lose_segments",
        "slow_disk",
        "fill_disk",
        "fail_reads",
        "skew_clock",
        "stall",
        *POWER,
    )

    def __init__(
        self,
        simulation: Simulation,
        network: Network,
        node: BrokerNode,
        clients: list[str],
        directories: tuple[str, ...],
        kinds: tuple[str, ...],
    ) -> None:
        self._simulation, self._network, self._node = simulation, network, node
        self._dice = dice = simulation.dice("nemesis")
        self._kinds = [kind for kind in kinds if dice.random() < 0.6] or list(kinds)
        self._pace = FaultPace(dice)
        self._links = LinkFaults(network, lambda: node.machine.name, clients, self._pace, dice)
        self._machine = MachineFaults(node, directories, self._pace, dice)
        self.happened: dict[str, int] = {}

    async def run(self, until_s: float) -> None:
        """Inject faults until `until_s`, then end all of them."""
        while self._simulation.now < until_s:
            await self._pace.wait_before()
            if self._kinds:
                await self._strike(self._dice.choice(self._kinds))
        await self._calm()

    async def _strike(self, kind: str) -> None:
        self.happened[kind] = self.happened.get(kind, 0) + 1
        self._simulation.trace("nemesis", kind)
        self._node.start()
        await self._simulation.at_rest()
        fault: Callable[[], Awaitable[None]] = getattr(self._links if kind in LinkFaults.KINDS else self._machine, kind)
        await fault()

    async def _calm(self) -> None:
        self._network.heal()
        await self._node.wait_serving()
