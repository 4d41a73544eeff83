"""The workload of groups: a classic group, a consumer group, and a group without members that only commits offsets."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial

import trio

from pykbroker.sim.client import Again, SimConnection
from pykbroker.sim.disk import WAIT_S_MAX
from pykbroker.sim.groups.classic_member import ClassicSimMember
from pykbroker.sim.groups.consumer_member import ConsumerMember
from pykbroker.sim.groups.history import GroupHistory
from pykbroker.sim.groups.member import REBALANCE_S, SESSION_S, SimMember
from pykbroker.sim.groups.offset_client import OffsetClient
from pykbroker.sim.groups.offsets import fetch_offsets
from pykbroker.sim.groups.ownership import check_ownership
from pykbroker.sim.groups.register import check_offsets
from pykbroker.sim.groups.worker import SimWorker
from pykbroker.sim.history import Place, SendOutcome
from pykbroker.sim.stage import Stage
from pykbroker.sim.workload import PROGRESS_S_MAX
from wire.messages.create_topics import CreatableTopic
from wire.messages.find_coordinator import CoordinatorType

TOPIC, PARTITIONS = "shared", 4
PLACES: tuple[Place, ...] = tuple((TOPIC, index) for index in range(PARTITIONS))
CLASSIC, CONSUMER, MEMBERLESS = "classic", "consumer", "memberless"
MEMBERS = OFFSET_CLIENTS = 3
CONFIGS = {
    "offsets.topic.num.partitions": "2",
    "offsets.topic.replication.factor": "1",
    "group.initial.rebalance.delay.ms": "500",
    "group.min.session.timeout.ms": "1000",
    "group.consumer.min.session.timeout.ms": "1000",
    "group.consumer.session.timeout.ms": str(int(SESSION_S * 1000)),
    "group.consumer.min.heartbeat.interval.ms": "100",
    "group.consumer.heartbeat.interval.ms": "500",
}
CONVERGED_S_MAX = WAIT_S_MAX + SESSION_S + REBALANCE_S + 5.0
"""The time within which groups must converge after the last fault, which may have been a stalled disk."""
LOOK_S = 0.2


class GroupWorkload:
    """The workload of groups. It matches `workload.Workload`. One member of each group is static."""

    def __init__(self, stage: Stage) -> None:
        self._stage, self._history = stage, GroupHistory(stage.unexpected)
        members: list[SimMember] = []
        for number in range(MEMBERS):
            instance_id = None if number else "static"
            members.append(ClassicSimMember(f"classic-{number}", CLASSIC, self._history, PLACES, instance_id))
            members.append(ConsumerMember(f"consumer-{number}", CONSUMER, self._history, (TOPIC,), instance_id))
        self._workers = [SimWorker(member, stage.dialer(member.name), self._history) for member in members]
        self._offset_clients = [
            OffsetClient(name, MEMBERLESS, stage.dialers(name), self._history, PLACES)
            for name in (f"stranger-{number}" for number in range(OFFSET_CLIENTS))
        ]

    @property
    def clients(self) -> list[str]:
        """Return the names of the clients' hosts."""
        return [each.member.name for each in self._workers] + [each.name for each in self._offset_clients]

    @property
    def topics(self) -> list[CreatableTopic]:
        """Return one topic. No records are written to it."""
        return [CreatableTopic(name=TOPIC, num_partitions=PARTITIONS, replication_factor=1)]

    def start(self, nursery: trio.Nursery) -> None:
        """Run the clients until the nursery is cancelled."""
        for worker in self._workers:
            nursery.start_soon(worker.run)
        for client in self._offset_clients:
            nursery.start_soon(client.run)

    async def settle(self) -> list[str]:
        """Wait until both groups have converged."""
        for worker in self._workers:
            worker.calm = True
        groups = {
            group: [worker.member for worker in self._workers if worker.member.group == group]
            for group in (CLASSIC, CONSUMER)
        }
        for _ in range(int(CONVERGED_S_MAX / LOOK_S)):
            if all(map(converged, groups.values())):
                break
            await trio.sleep(LOOK_S)
        return [
            f"{group} has not converged {CONVERGED_S_MAX:.0f} s after the last fault: {described(members)}"
            for group, members in groups.items()
            if not converged(members)
        ]

    async def judge(self) -> list[str]:
        """Fetch all offsets once more and check the history."""
        findings = []
        with trio.move_on_after(PROGRESS_S_MAX) as late:
            for group in (CLASSIC, CONSUMER, MEMBERLESS):
                await self._stage.until_answered(partial(self._fetch_all, group))
        if late.cancelled_caught:
            findings.append(f"offsets cannot be fetched {PROGRESS_S_MAX:.0f} s after the last fault")
        history = self._history
        anomalies = [*check_offsets(history.commits, history.fetched), *check_ownership(history)]
        return [*findings, *(f"{each.kind} in {each.place}: {each.what}" for each in anomalies)]

    async def _fetch_all(self, group: str, connection: SimConnection) -> None:
        await connection.find_coordinator(group, CoordinatorType.GROUP)
        found = await fetch_offsets(connection, self._history, "last reader", group, PLACES, stable=True)
        if set(found) < set(PLACES):
            raise Again("some offsets are not stable, or missing")

    @property
    def acknowledged(self) -> int:
        """Return the number of acknowledged commits."""
        return sum(commit.outcome is SendOutcome.ACKNOWLEDGED for commit in self._history.commits)

    @property
    def read(self) -> int:
        """Return the number of OffsetFetch responses."""
        return len(self._history.fetched)


def converged(members: Sequence[SimMember]) -> bool:
    """Whether all members are in the same generation and each partition has one owner."""
    owned = sorted(place for member in members for place in member.owned)
    return len({member.identity.generation for member in members}) == 1 and owned == list(PLACES)


def described(members: Sequence[SimMember]) -> str:
    """Describe the state of each member."""
    return ", ".join(
        f"{each.name} in {each.identity.generation} has {[index for _, index in each.owned]}" for each in members
    )
