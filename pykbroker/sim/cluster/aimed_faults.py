"""The faults that wait for a moment: a broker fails at the time at which a faulty cluster would lose something."""

from __future__ import annotations

from dataclasses import replace
from random import Random

import trio

from pykbroker.sim.cluster.nodes import SimCluster
from pykbroker.sim.cluster.patience import FILL_S_MAX, holds
from pykbroker.sim.cluster.plan import CONTROLLER_ID
from pykbroker.sim.fault_pace import FaultPace

SLOW_S, CUT_S_MAX = 0.2, 0.02
"""The duration of an operation of a slow disk, and the longest time between an append and a power failure, in s."""
APPEND_S_MAX, ELIGIBLE_S_MAX, REGISTERED_S_MAX, SERVING_S_MAX = 3.0, 5.0, 10.0, 10.0
"""The longest times in seconds to wait for an append, an ELR, a registration, and a start."""
SHRUNK_S_MAX = 5.0
"""The longest time in seconds to wait until the controller has taken killed brokers out of the ISRs."""
SOON_S, LOOK_S = 0.001, 0.05
"""The times in seconds between two looks at a log, and between two looks at an image."""


class AimedFaults:
    """The aimed faults of the machines of a cluster. Until one has ended, no other machine fails."""

    def __init__(self, cluster: SimCluster, pace: FaultPace, dice: Random) -> None:
        self._cluster, self._pace, self._dice = cluster, pace, dice

    async def lose_metadata(self) -> None:
        """Cut the power of the controller between an append to the metadata log and its fsync, on a slow disk."""
        node = self._cluster.controller
        node.start()
        self._cluster.held.add(CONTROLLER_ID)
        healthy = node.machine.disk_faults
        node.machine.set_disk_faults(replace(healthy, wait_s=SLOW_S))
        if await holds(self._has_uncommitted_metadata, APPEND_S_MAX, SOON_S):
            await trio.sleep(self._dice.uniform(0, CUT_S_MAX))
            node.machine.lose_power()
        node.machine.set_disk_faults(healthy)
        await self._pace.wait_during()
        self._cluster.held.discard(CONTROLLER_ID)
        node.start()

    async def lose_eligible(self) -> None:
        """Shut down one follower, and then wipe the disks of another one in an ELR, or cut its power.

        A power failure loses what the broker has not synced. The loss occurs only if each partition has another replica
        in its ISR, which has all committed records.
        """
        cluster, followers = self._cluster, self._cluster.node_ids[1:]
        if len(followers) < 2 or not all(map(cluster.is_expendable, followers)):
            return
        away, lost = self._dice.sample(followers, 2)
        broker_epoch = cluster.broker_epoch(lost)
        cluster.held.update((away, lost))
        await cluster.nodes[away].stop()
        machine = cluster.nodes[lost].machine
        machine.kill()
        if await holds(lambda: cluster.is_spare(lost), ELIGIBLE_S_MAX, LOOK_S):
            self._dice.choice((machine.wipe, machine.lose_power))()
        cluster.held.discard(lost)
        cluster.nodes[lost].start()
        await holds(lambda: cluster.broker_epoch(lost) > broker_epoch, REGISTERED_S_MAX, LOOK_S)
        await self._pace.wait_during()
        cluster.held.discard(away)
        cluster.nodes[away].start()
        await holds(lambda: cluster.is_refilled(lost, broker_epoch), FILL_S_MAX, LOOK_S)

    async def starve_isrs(self) -> None:
        """Kill all brokers but the controller until its ISRs are too small for acks=all, and start them again."""
        cluster, others = self._cluster, list(self._cluster.node_ids[1:])
        cluster.held.update(others)
        for node_id in others:
            cluster.nodes[node_id].machine.kill()
        await holds(self._has_small_isr, SHRUNK_S_MAX, LOOK_S)
        self._dice.shuffle(others)
        for node_id in others:
            await self._pace.wait_during()
            cluster.held.discard(node_id)
            cluster.nodes[node_id].start()

    async def start_slowly(self) -> None:
        """Start a broker on a slow disk after its controller was restarted, too, so that it reads the metadata late.

        The broker records the controller's new epoch on its disk before it reads the metadata.
        """
        cluster, node_id = self._cluster, self._dice.choice(self._cluster.node_ids[1:])
        node, controller = cluster.nodes[node_id], cluster.controller
        cluster.held.update((node_id, CONTROLLER_ID))
        await node.stop()
        await controller.stop()
        cluster.held.discard(CONTROLLER_ID)
        await controller.wait_serving()
        healthy = node.machine.disk_faults
        node.machine.set_disk_faults(replace(healthy, wait_s=SLOW_S))
        node.start()
        await holds(lambda: node.serving, SERVING_S_MAX, LOOK_S)
        node.machine.set_disk_faults(healthy)
        cluster.held.discard(node_id)

    def _has_small_isr(self) -> bool:
        """Whether the controller's node leads a partition whose ISR is too small for acks=all."""
        parts = self._cluster.controller.parts
        return parts is not None and any(
            one.leading is not None and one.leading.is_under_min_isr for one in parts.replicas.all_online()
        )

    def _has_uncommitted_metadata(self) -> bool:
        """Whether the controller's log has a record after its newest committed image."""
        node = self._cluster.controller
        local = node.parts.local_controller if node.serving and node.parts is not None else None
        return local is not None and local.fetches.log_end_offset > local.images.committed.offset + 1
