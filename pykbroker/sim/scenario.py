"""One broker, its clients, and a nemesis: work under faults, then calm, progress, and the verdict."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field
from functools import partial
from itertools import cycle, islice
from typing import TypeVar

import trio

from pykbroker.core.config import BrokerConfig
from pykbroker.core.settings import Settings
from pykbroker.sim.broker_node import BrokerNode, LogWatch
from pykbroker.sim.checkers import check
from pykbroker.sim.client import LOST, Connection, Dialer
from pykbroker.sim.consumer import Consumer, NotServed, read_all
from pykbroker.sim.history import History, Place, Poll
from pykbroker.sim.machine import Machine
from pykbroker.sim.nemesis import Nemesis
from pykbroker.sim.network import Network
from pykbroker.sim.poison import WALL_S
from pykbroker.sim.process import Process
from pykbroker.sim.producer import Producer
from pykbroker.sim.simulation import Simulation
from wire.api import ApiKey
from wire.error_codes import ErrorCode
from wire.messages.create_topics import (
    CreatableTopic, CreatableTopicConfig, CreateTopicsRequest, CreateTopicsResponse,
)  # fmt: skip

T = TypeVar("T")
BROKER, PORT = "broker-1", 9092
TOPICS = {"rolls": 3, "plain": 1}
SEGMENT_BYTES = 30_000
COMPACTED = {"cleanup.policy": "compact", "min.cleanable.dirty.ratio": "0.01"}
KINDS_OF_PRODUCER = ((True, -1), (True, -1), (False, 1), (False, 0))
"""Idempotent or not, and acks."""
PROGRESS_S_MAX = 30.0
"""After the last fault, all must be acknowledged and read within this time."""
LOSSES = ("lost write", "moved write", "unread in", "two values", "high watermark back", "OFFSET_OUT_OF_RANGE",
          "OUT_OF_ORDER_SEQUENCE", "cannot be read", "has no answer")
"""Findings that say only that records are gone, and others in their place, or that a partition is offline."""
DEVICE_S, STALLS, NOT_CACHED = 0.001, 0.002, 0.02


@dataclass(frozen=True)
class Plan:
    """What to simulate. `fsync`: with `pykbroker.flush.before.ack`, and the power may go.

    `compacted`: all the while logs are compacted. Every record has a key of its own, so that none may be missed.
    """

    seconds: float = 30.0
    kinds: tuple[str, ...] = Nemesis.KINDS
    fsync: bool = True
    producers: int = 4
    consumers: int = 2
    compacted: bool = False


@dataclass
class Report:
    """What came of it. A run without findings is good."""

    simulated_s: float = 0.0
    events: int = 0
    acknowledged: int = 0
    read: int = 0
    faults: dict[str, int] = field(default_factory=dict)
    exits: list[str] = field(default_factory=list)
    errors: list[str] = field(default_factory=list)
    findings: list[str] = field(default_factory=list)


class Scenario:
    """One run."""

    def __init__(self, simulation: Simulation, plan: Plan) -> None:
        self._simulation, self._plan = simulation, plan
        self._history, self._network = History(), Network(simulation)
        self._machine = Machine(simulation, self._network, BROKER)
        faults = self._machine.disk_faults
        faults.wait_s, faults.stalls, faults.not_cached = DEVICE_S, STALLS, NOT_CACHED
        config = BrokerConfig.from_mapping({
            "node.id": "1", "pykbroker.flush.before.ack": str(plan.fsync).lower(),
            **({"log.cleaner.backoff.ms": "100"} if plan.compacted else {})})
        settings = Settings(config, (f"/{BROKER}/0",), BROKER, PORT)
        self._node = BrokerNode(self._machine, settings, self._history)
        self._log = LogWatch(simulation, self._history)
        self._places: list[Place] = [(topic, index) for topic, count in TOPICS.items() for index in range(count)]
        self._client = Process("clients")
        self._producers = [
            self._producer(f"p{number}", idempotent=idempotent, acks=acks)
            for number, (idempotent, acks) in enumerate(islice(cycle(KINDS_OF_PRODUCER), plan.producers))
        ]
        self._consumers = [self._consumer(f"c{number}") for number in range(plan.consumers)]

    def _dialer(self, name: str) -> Dialer:
        return Dialer(self._network, self._client, name, (BROKER, PORT), sorted(TOPICS), self._simulation.dice(name))

    def _producer(self, name: str, *, idempotent: bool, acks: int) -> Producer:
        return Producer(name, self._dialer(name), self._history, self._places, self._wall_ms, idempotent=idempotent,
                        acks=acks, keyed=self._plan.compacted)

    def _consumer(self, name: str) -> Consumer:
        return Consumer(name, self._dialer(name), self._history, self._places)

    def _wall_ms(self) -> int:
        return int((WALL_S + self._simulation.now) * 1000)

    async def run(self) -> Report:
        """Work, calm down, judge."""
        with self._log.watching():
            return await self._run()

    async def _run(self) -> Report:
        kinds = tuple(kind for kind in self._plan.kinds if self._plan.fsync or kind not in Nemesis.POWER)
        clients = [each.name for each in self._producers] + [each.name for each in self._consumers]
        directories = tuple(f"{topic}-{index}" for topic, index in self._places)
        nemesis = Nemesis(self._simulation, self._network, self._node, clients, directories, kinds)
        await self._node.wait_serving()
        with trio.move_on_after(PROGRESS_S_MAX):
            await self._insistently(self._create_topics)
        async with trio.open_nursery() as consuming:
            for consumer in self._consumers:
                consuming.start_soon(consumer.run)
            async with trio.open_nursery() as producing:
                for producer in self._producers:
                    producing.start_soon(producer.run)
                await nemesis.run(self._plan.seconds)
                self._drain(producing)
            consuming.cancel_scope.cancel()
        return await self._judge(nemesis)

    def _drain(self, producing: trio.Nursery) -> None:
        for producer in self._producers:
            producer.draining = True
        producing.cancel_scope.deadline = trio.current_time() + PROGRESS_S_MAX

    async def _judge(self, nemesis: Nemesis) -> Report:
        history = self._history
        findings = [f"{producer.name} has no answer {PROGRESS_S_MAX:.0f} s after the last fault"
                    for producer in self._producers if producer.waits]
        final: list[Poll] = []
        with trio.move_on_after(PROGRESS_S_MAX):
            await self._insistently(partial(self._read_all, final))
        unread = set(self._places) - {poll.place for poll in final}
        findings += [f"{place} cannot be read {PROGRESS_S_MAX:.0f} s after the last fault" for place in sorted(unread)]
        if not set(nemesis.happened) & set(Nemesis.DISK):
            findings += [f"the broker ended, though its disk was sound: {each}" for each in self._node.exits]
        findings += history.oddities
        findings += [f"{each.kind} in {each.place}: {each.what}" for each in check(history, final)]
        return Report(
            simulated_s=self._simulation.now,
            events=self._simulation.clock.events,
            acknowledged=history.acknowledged(),
            read=sum(len(poll.found) for poll in history.polls),
            faults=nemesis.happened | self._machine.disk_faults.happened | self._network.faults.happened,
            exits=self._node.exits,
            errors=self._log.errors,
            findings=list(dict.fromkeys(filter(self._counts, findings))),
        )

    def _counts(self, finding: str) -> bool:
        """Where bits rot, records are lost; no other promise is given up."""
        return Nemesis.ROT not in self._plan.kinds or not any(loss in finding for loss in LOSSES)

    # ---- the overseer's own requests

    async def _insistently(self, request: Callable[[Connection], Awaitable[T]]) -> T:
        """Until the broker answers."""
        dialer = self._dialer("overseer")
        while True:
            try:
                async with dialer.connected() as connection:
                    return await request(connection)
            except LOST:
                await trio.sleep(0.1)

    async def _create_topics(self, connection: Connection) -> None:
        configs = {"internal.segment.bytes": str(SEGMENT_BYTES), "index.interval.bytes": "1000"}
        configs |= COMPACTED if self._plan.compacted else {}
        topics = []
        for topic, partitions in TOPICS.items():
            chosen = configs if topic == "rolls" else {}
            topics.append(CreatableTopic(name=topic, num_partitions=partitions, replication_factor=1, configs=[
                CreatableTopicConfig(name=name, value=value) for name, value in chosen.items()]))
        request = CreateTopicsRequest(topics=topics, timeout_ms=10_000)
        answer = await connection.call(request, CreateTopicsResponse, connection.any_version(ApiKey.CREATE_TOPICS))
        for created in answer.topics:
            assert created.error_code in (ErrorCode.NONE, ErrorCode.TOPIC_ALREADY_EXISTS), created

    async def _read_all(self, final: list[Poll], connection: Connection) -> None:
        """Take what is missing in `final`; LOST when something still is."""
        missing = sorted(set(self._places) - {poll.place for poll in final})
        lost: Exception | None = None
        for place in missing:
            try:
                final.append(await read_all(connection, place, self._history))
            except NotServed as error:
                lost = error
        if lost is not None:
            raise lost


async def run_scenario(simulation: Simulation, plan: Plan) -> Report:
    """One run, from its plan."""
    return await Scenario(simulation, plan).run()
