"""A scenario: clients use a broker under faults, then the faults end and the history is checked."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial

import trio

from pykbroker.core.address import Address
from pykbroker.core.config.config import BrokerConfig
from pykbroker.core.config.listeners import ListenerSettings
from pykbroker.core.names import INTERNAL_TOPICS
from pykbroker.core.settings import Settings
from pykbroker.sim.broker_node import BrokerNode, LogWatch
from pykbroker.sim.client import SimConnection
from pykbroker.sim.groups.workload import CONFIGS as GROUP_CONFIGS
from pykbroker.sim.groups.workload import GroupWorkload
from pykbroker.sim.log_workload import LogWorkload
from pykbroker.sim.machine import SimMachine
from pykbroker.sim.nemesis import Nemesis
from pykbroker.sim.network import Network
from pykbroker.sim.simulation import Simulation
from pykbroker.sim.stage import Stage
from pykbroker.sim.transactions.workload import CONFIGS as TRANSACTION_CONFIGS
from pykbroker.sim.transactions.workload import TransactionWorkload
from pykbroker.sim.workload import PROGRESS_S_MAX, Workload
from wire.api import ApiKey
from wire.error_codes import ErrorCode
from wire.messages.create_topics import CreatableTopic, CreatableTopicConfig, CreateTopicsRequest

BROKER, PORT = "broker-1", 9092
LOSSES = (
    "lost write",
    "moved write",
    "unread in",
    "two values",
    "high watermark back",
    "OFFSET_OUT_OF_RANGE",
    "OUT_OF_ORDER_SEQUENCE",
    "cannot be read",
    "has no answer",
)
"""Parts of the findings that report lost or replaced records, or an offline partition, as bit rot may cause them."""
DEVICE_S, STALLS, NOT_CACHED = 0.001, 0.002, 0.02
WORKLOADS: Mapping[str, Callable[[Stage, Plan], Workload]] = {
    "log": lambda stage, plan: LogWorkload(stage, plan.producers, plan.consumers, compacted=plan.compacted),
    "groups": lambda stage, _: GroupWorkload(stage),
    "transactions": lambda stage, _: TransactionWorkload(stage),
}
"""The workloads by their names."""
COMPACTED = {
    "cleanup.policy": "compact",
    "min.cleanable.dirty.ratio": "0.01",
    "delete.retention.ms": "1000",
    "internal.segment.bytes": "10000",
}
"""The configs with which the topics of coordinators are compacted all the time."""
SCRUB = {"pykbroker.scrub.interval.ms": "3000", "pykbroker.scrub.bytes.per.second": "1000000"}
CONFIGS: Mapping[str, str] = {**GROUP_CONFIGS, **TRANSACTION_CONFIGS, **SCRUB}


@dataclass(frozen=True)
class Plan:
    """The plan of a simulation. If `fsync` is true, `pykbroker.flush.before.ack` is set and power failures occur.

    If `compacted` is true, logs are compacted all the time. Each record then has a unique key, so that compaction must
    not remove any.
    """

    seconds: float = 30.0
    kinds: tuple[str, ...] = Nemesis.KINDS
    fsync: bool = True
    producers: int = 4
    consumers: int = 2
    compacted: bool = False
    workloads: tuple[str, ...] = ("log",)


@dataclass
class Report:
    """The findings and figures of a run. A run without findings has passed."""

    simulated_s: float = 0.0
    events: int = 0
    acknowledged: int = 0
    read: int = 0
    faults: dict[str, int] = field(default_factory=dict)
    exits: list[str] = field(default_factory=list)
    errors: list[str] = field(default_factory=list)
    findings: list[str] = field(default_factory=list)


def report(
    simulation: Simulation,
    workloads: Sequence[Workload],
    findings: Iterable[str],
    *,
    faults: dict[str, int],
    exits: list[str],
    errors: list[str],
) -> Report:
    """Return the report of a run. Equal findings are reported once."""
    return Report(
        simulated_s=simulation.now,
        events=simulation.clock.events,
        acknowledged=sum(workload.acknowledged for workload in workloads),
        read=sum(workload.read for workload in workloads),
        faults=faults,
        exits=exits,
        errors=errors,
        findings=list(dict.fromkeys(findings)),
    )


class Scenario:
    """A single run of a plan."""

    def __init__(self, simulation: Simulation, plan: Plan) -> None:
        self._simulation, self._plan = simulation, plan
        self._network = Network(simulation)
        self._machine = SimMachine(simulation, self._network, BROKER)
        faults = self._machine.disk_faults
        faults.wait_s, faults.stalls, faults.not_cached = DEVICE_S, STALLS, NOT_CACHED
        names: list[str] = []
        self._stage = Stage(simulation, self._network, (BROKER, PORT), names)
        self._workloads = [WORKLOADS[name](self._stage, plan) for name in plan.workloads]
        self._topics = [topic for workload in self._workloads for topic in workload.topics]
        if plan.compacted and plan.workloads != ("log",):
            self._topics += [
                CreatableTopic(
                    name=name,
                    num_partitions=2,
                    replication_factor=1,
                    configs=[CreatableTopicConfig(name=config, value=value) for config, value in COMPACTED.items()],
                )
                for name in sorted(INTERNAL_TOPICS)
            ]
        names += sorted(topic.name for topic in self._topics)
        config = BrokerConfig.from_mapping(
            {
                "node.id": "1",
                "pykbroker.flush.before.ack": str(plan.fsync).lower(),
                **CONFIGS,
                **({"log.cleaner.backoff.ms": "100"} if plan.compacted else {}),
            }
        )
        settings = Settings(config, (f"/{BROKER}/0",), (ListenerSettings(address=Address(BROKER, PORT)),))
        self._node = BrokerNode(self._machine, settings, self._stage.unexpected)
        self._log = LogWatch(simulation, self._stage.unexpected)

    async def run(self) -> Report:
        """Run the clients under faults, end the faults, and check the history."""
        with self._log.watching():
            return await self._run()

    async def _run(self) -> Report:
        nemesis = self._nemesis()
        await self._node.wait_serving()
        with trio.move_on_after(PROGRESS_S_MAX):
            await self._stage.until_answered(partial(create_topics, self._topics))
        async with trio.open_nursery() as working:
            for workload in self._workloads:
                workload.start(working)
            await nemesis.run(self._plan.seconds)
            findings = await together([workload.settle for workload in self._workloads])
            working.cancel_scope.cancel()
        findings += await together([workload.judge for workload in self._workloads])
        return self._report(nemesis, findings)

    def _nemesis(self) -> Nemesis:
        kinds = tuple(kind for kind in self._plan.kinds if self._plan.fsync or kind not in Nemesis.POWER)
        clients = [name for workload in self._workloads for name in workload.clients]
        directories = tuple(f"{topic.name}-{index}" for topic in self._topics for index in range(topic.num_partitions))
        return Nemesis(self._simulation, self._network, self._node, clients, directories, kinds)

    def _report(self, nemesis: Nemesis, findings: list[str]) -> Report:
        if not set(nemesis.happened) & set(Nemesis.DISK):
            findings += [f"the broker ended, though its disk was sound: {each}" for each in self._node.exits]
        findings += self._stage.unexpected
        return report(
            self._simulation,
            self._workloads,
            filter(self._counts, findings),
            faults=nemesis.happened | self._machine.disk_faults.happened | self._network.faults.happened,
            exits=self._node.exits,
            errors=self._log.errors,
        )

    def _counts(self, finding: str) -> bool:
        """Whether a finding is a bug. With bit rot, a finding of lost records is no bug."""
        return Nemesis.ROT not in self._plan.kinds or not any(loss in finding for loss in LOSSES)


async def create_topics(topics: list[CreatableTopic], connection: SimConnection) -> None:
    """Create these topics, unless they exist. Raise an error of LOST."""
    request = CreateTopicsRequest(topics=topics, timeout_ms=10_000)
    answer = await connection.ask(request, connection.any_version(ApiKey.CREATE_TOPICS))
    for created in answer.topics:
        assert created.error_code in (ErrorCode.NONE, ErrorCode.TOPIC_ALREADY_EXISTS), created


async def together(parts: Sequence[Callable[[], Awaitable[list[str]]]]) -> list[str]:
    """Run all functions concurrently and return their findings."""
    found: list[list[str]] = [[] for _ in parts]

    async def one(place: int, part: Callable[[], Awaitable[list[str]]]) -> None:
        found[place] = await part()

    async with trio.open_nursery() as nursery:
        for place, part in enumerate(parts):
            nursery.start_soon(one, place, part)
    return [finding for each in found for finding in each]


async def run_scenario(simulation: Simulation, plan: Plan) -> Report:
    """Run one scenario from its plan."""
    return await Scenario(simulation, plan).run()
