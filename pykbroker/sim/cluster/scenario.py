"""A scenario of a cluster: clients use several brokers under faults, then the faults end and the history is checked."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import partial

import msgspec
import trio

from pykbroker.core.metadata.image import EMPTY
from pykbroker.core.names import GROUP_METADATA_TOPIC, TRANSACTION_STATE_TOPIC
from pykbroker.sim.broker_node import LogWatch
from pykbroker.sim.cluster import fault_kinds
from pykbroker.sim.cluster.acl_workload import AclWorkload
from pykbroker.sim.cluster.brief_topic import BriefTopic
from pykbroker.sim.cluster.deletions import Deletions
from pykbroker.sim.cluster.full_disk import FullDisk
from pykbroker.sim.cluster.metadata_changes import MetadataChanges
from pykbroker.sim.cluster.nemesis import ClusterNemesis
from pykbroker.sim.cluster.nodes import SimCluster
from pykbroker.sim.cluster.plan import CLIENT_PORT, SwarmPlan, host_of
from pykbroker.sim.cluster.producer_ids import ask_for_producer_ids
from pykbroker.sim.cluster.recovery import AFTER_CUTS, AFTER_FAULTS, Recovery
from pykbroker.sim.cluster.replica_check import check_replicas
from pykbroker.sim.cluster.stage import ClusterStage
from pykbroker.sim.cluster.unclean_topic import UncleanTopic
from pykbroker.sim.cluster.user_workload import PORT as USER_PORT
from pykbroker.sim.cluster.user_workload import UserWorkload
from pykbroker.sim.cluster.watch import ClusterWatch
from pykbroker.sim.groups.workload import GroupWorkload
from pykbroker.sim.history import Place
from pykbroker.sim.log_workload import PLACES, LogWorkload
from pykbroker.sim.network import Network
from pykbroker.sim.scenario import Report, create_topics, report, together
from pykbroker.sim.simulation import Simulation
from pykbroker.sim.transactions.workload import TransactionWorkload
from pykbroker.sim.workload import PROGRESS_S_MAX, Workload

PROBER = "prober"
"""The host of the client that asks for producer ids."""
WORKLOADS: Mapping[str, Callable[[ClusterStage, SwarmPlan], Workload]] = {
    "log": lambda stage, plan: LogWorkload(stage, plan.producers, plan.consumers, compacted=False),
    "groups": lambda stage, _: GroupWorkload(stage),
    "transactions": lambda stage, _: TransactionWorkload(stage),
    "acls": lambda stage, plan: AclWorkload(stage, {each: (host_of(each), CLIENT_PORT) for each in plan.node_ids}),
    "users": lambda stage, plan: UserWorkload(stage, {each: (host_of(each), USER_PORT) for each in plan.node_ids}),
}
"""The workloads by their names."""
COORDINATED: Mapping[str, tuple[Place, ...]] = {
    "log": (),
    "groups": ((GROUP_METADATA_TOPIC, 0), (GROUP_METADATA_TOPIC, 1)),
    "acls": (),
    "users": (),
    "transactions": ((GROUP_METADATA_TOPIC, 0), (TRANSACTION_STATE_TOPIC, 0), (TRANSACTION_STATE_TOPIC, 1)),
}
"""The partitions of coordinators, whose leaders may be cut off, too."""


class ClusterScenario:
    """A single run of a plan. `cluster` has the nodes, `network` joins them, and `watch` judges them."""

    def __init__(self, simulation: Simulation, plan: SwarmPlan) -> None:
        self._simulation = simulation
        self._plan = plan = plan.decided(simulation.dice("plan"))
        self.network = Network(simulation)
        if plan.distant:
            self.network.distant = frozenset(map(host_of, plan.node_ids))
        names: list[str] = []
        self._stage = ClusterStage(
            simulation, self.network, [(host_of(each), CLIENT_PORT) for each in plan.node_ids], names
        )
        self.cluster = SimCluster(simulation, self.network, plan, self._stage.unexpected)
        self._stage.placed = self.cluster.placed
        self._workloads = [WORKLOADS[name](self._stage, plan) for name in plan.workloads]
        self._topics = [
            msgspec.structs.replace(topic, replication_factor=plan.replicas)
            for workload in self._workloads
            for topic in workload.topics
        ]
        names += sorted(topic.name for topic in self._topics)
        self._places = [(topic.name, index) for topic in self._topics for index in range(topic.num_partitions)]
        self._brief = BriefTopic(self._stage, plan.replicas, simulation.dice("brief topic"))
        self.watch = ClusterWatch(self.cluster, self._stage.unexpected)
        self._log = LogWatch(simulation, self._stage.unexpected)

    async def run(self) -> Report:
        """Run the clients under faults, end the faults, and check the history."""
        with self._log.watching():
            return await self._run()

    async def _run(self) -> Report:
        nemesis = self._nemesis()
        await self.cluster.start_all()
        with trio.move_on_after(PROGRESS_S_MAX):
            await self._stage.until_answered(lambda connection: create_topics(self._topics, connection))
        recovery = Recovery(self._stage, self.cluster, self._places, self._plan.min_isr)
        async with trio.open_nursery() as watching:
            watching.start_soon(self.watch.run)
            async with trio.open_nursery() as working:
                working.start_soon(ask_for_producer_ids, self._stage.dialer(PROBER))
                for workload in self._workloads:
                    workload.start(working)
                await nemesis.run(self._plan.seconds)
                findings = await self._judge_full_disk(nemesis)
                settling = [workload.settle for workload in self._workloads]
                limits = AFTER_CUTS if set(nemesis.happened) <= set(fault_kinds.CUTS) else AFTER_FAULTS
                judged = partial(recovery.judge, limits)
                findings += await together([self.cluster.start_all, judged, *settling])
                working.cancel_scope.cancel()
            findings += await together([self._brief.judge, *(workload.judge for workload in self._workloads)])
            watching.cancel_scope.cancel()
        findings += check_replicas(self.cluster, self.cluster.image() or EMPTY)
        return self._report(nemesis, findings)

    async def _judge_full_disk(self, nemesis: ClusterNemesis) -> list[str]:
        if "fill_leader" not in nemesis.kinds or "log" not in self._plan.workloads or self.cluster.held:
            return []
        nemesis.happened["fill_leader"] = 1
        dice = self._simulation.dice("full disk")
        return await FullDisk(self.cluster, list(PLACES), self._plan.min_isr, dice).judge()

    def _nemesis(self) -> ClusterNemesis:
        kinds = [kind for kind in self._plan.kinds if self._plan.fsync or kind not in fault_kinds.POWER]
        hosts = [name for workload in self._workloads for name in workload.clients]
        dice = self._simulation.dice("metadata changes")
        deletable = list(PLACES) if "log" in self._plan.workloads else []
        deletions = Deletions(self._stage, self.cluster, deletable, self._simulation.dice("deletions"))
        changes = MetadataChanges(
            self._stage, self.cluster, self._places, self._brief, deletions, self._plan.min_isr, dice
        )
        places = [*self._places, *(place for name in self._plan.workloads for place in COORDINATED[name])]
        unclean = UncleanTopic(self._stage, self.network, self.cluster)
        hosts.append(PROBER)
        return ClusterNemesis(
            self._simulation, self.network, self.cluster, hosts, places, kinds, changes, unclean, deletions
        )

    def _report(self, nemesis: ClusterNemesis, findings: list[str]) -> Report:
        nodes = self.cluster.nodes.values()
        exits = [f"{node.machine.name}: {each}" for node in nodes for each in node.exits]
        if not set(nemesis.happened) & set(fault_kinds.DISK):
            findings += [f"a broker ended, though its disk was sound: {each}" for each in exits]
            if not set(nemesis.happened) & set(fault_kinds.LOSSES):
                findings += [f"{each}, though its disk has lost nothing" for each in self.watch.damaged]
        findings += self._stage.unexpected
        faults = nemesis.happened | self.network.faults.happened
        for node in nodes:
            for kind, times in node.machine.disk_faults.happened.items():
                faults[kind] = faults.get(kind, 0) + times
        return report(self._simulation, self._workloads, findings, faults=faults, exits=exits, errors=self._log.errors)


async def run_cluster(simulation: Simulation, plan: SwarmPlan) -> Report:
    """Run one scenario of a cluster from its plan."""
    return await ClusterScenario(simulation, plan).run()
