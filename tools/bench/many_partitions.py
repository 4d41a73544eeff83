"""A program that measures the event-loop steps of three brokers in one process with thousands of followed partitions.

It prints one line of JSON: the longest step in ms of CPU time of each phase, and what ran in it. A step is the work of
one task between two of its waits; `pass` is the work of all tasks of all three brokers between two waits for I/O. CPU
time is counted, not elapsed time, so that other processes do not matter. The directory should be in memory (tmpfs).
"""

from __future__ import annotations

import argparse
import gc
import json
import time
from collections.abc import Awaitable, Callable
from functools import partial
from pathlib import Path
from statistics import median
from tempfile import TemporaryDirectory
from types import CoroutineType
from typing import Any

import msgspec
import trio

from pykbroker import broker
from pykbroker.cli.process import settle_garbage_collector
from pykbroker.client.backoff import Backoff
from pykbroker.client.reconnecting import ReconnectingConnection
from pykbroker.core.address import Address
from pykbroker.core.config.config import BrokerConfig
from pykbroker.core.config.listeners import ListenerSettings
from pykbroker.core.settings import Serving, Settings
from pykbroker.world.system import system_world
from pykbroker.world.system_net import SystemNet
from wire.messages.create_topics import CreatableTopic, CreateTopicsRequest
from wire.messages.produce import PartitionProduceData, ProduceRequest, TopicProduceData
from wire.records.builder import BatchBuilder

HOST = "127.0.0.1"
NODES = (1, 2, 3)
PARTITIONS_OF_TOPIC = 500
OPEN_FILES_MAX = 1 << 20
CONFIGS = {
    "offsets.topic.num.partitions": "1",
    "default.replication.factor": "3",
    "min.insync.replicas": "2",
    "broker.session.timeout.ms": "20000",
    "replica.lag.time.max.ms": "60000",
}
IDLE_S, LOOK_S = 5, 0.1
WARM_UP, RECORDS = 100, 500
WINDOWS = 9
"""The number of measurements of the cost of a record. Their median is not disturbed by other processes for a while."""


class StepWatch(trio.abc.Instrument):
    """The longest step of a task, and the longest pass of the event loop, since `begin`, in ms of CPU time.

    Garbage collections are counted apart: the heap of three brokers is three times as large as that of one.
    """

    def __init__(self) -> None:
        self._collecting_ns = self._collected_ns = 0
        gc.callbacks.append(self._note_collection)
        self.longest_collection_ms = 0.0
        self.begin()

    def _note_collection(self, phase: str, _: dict[str, int]) -> None:
        if phase == "start":
            self._collecting_ns = time.thread_time_ns()
        else:
            took_ns = time.thread_time_ns() - self._collecting_ns
            self._collected_ns += took_ns
            self.longest_collection_ms = max(self.longest_collection_ms, took_ns / 1e6)

    def _now_ns(self) -> int:
        """Return the CPU time without that of garbage collections."""
        return time.thread_time_ns() - self._collected_ns

    def begin(self) -> None:
        """Forget all steps so far."""
        self._pass_ns = self._step_ns = self._now_ns()
        self.longest_pass_ms = self.longest_ms = self.longest_collection_ms = 0.0
        self.task = ""

    def after_io_wait(self, timeout: float) -> None:
        self._pass_ns = self._now_ns()

    def before_io_wait(self, timeout: float) -> None:
        self.longest_pass_ms = max(self.longest_pass_ms, (self._now_ns() - self._pass_ns) / 1e6)

    def before_task_step(self, task: trio.lowlevel.Task) -> None:
        self._step_ns = self._now_ns()

    def after_task_step(self, task: trio.lowlevel.Task) -> None:
        took_ms = (self._now_ns() - self._step_ns) / 1e6
        if took_ms > self.longest_ms:
            self.longest_ms, self.task = took_ms, f"{task.name} {waits_in(task)}"

    def found(self) -> dict[str, Any]:
        """Return the longest step with its task, the longest pass, and the longest garbage collection."""
        collection_ms = round(self.longest_collection_ms, 1)
        longest_ms, pass_ms = round(self.longest_ms, 1), round(self.longest_pass_ms, 1)
        return {"step": longest_ms, "pass": pass_ms, "collection": collection_ms, "task": self.task}


def waits_in(task: trio.lowlevel.Task) -> str:
    """Return the functions in which a task waits, the outermost first."""
    names = []
    coroutine: Any = task.coro
    while isinstance(coroutine, CoroutineType):
        if coroutine.cr_frame is None:  # it has ended
            break
        names.append(f"{coroutine.cr_code.co_name}:{coroutine.cr_frame.f_lineno}")
        coroutine = coroutine.cr_await
    return " > ".join(names)


class Node:
    """A broker that may be crashed and started again."""

    def __init__(self, node_id: int, directory: Path, controller: Address | None) -> None:
        self.node_id, self._controller = node_id, controller
        self._directory, self._scope = str(directory / f"node{node_id}"), trio.CancelScope()
        Path(self._directory).mkdir()
        self._address = Address(HOST, 0)
        self.serving: Serving

    async def run(self, *, task_status: trio.TaskStatus[None]) -> None:
        """Run the broker until `crash` is called."""
        own = (ListenerSettings("CONTROLLER", Address(HOST, 0)),)
        settings = Settings(
            BrokerConfig.from_mapping({**CONFIGS, "node.id": str(self.node_id)}),
            (self._directory,),
            listeners=(ListenerSettings(address=self._address),),
            controller_listeners=own if self._controller is None else (),
            quorum=() if self._controller is None else (self._controller,),
            memory=True,
        )
        world = msgspec.structs.replace(system_world((self._directory,), durable=False), open_files_max=OPEN_FILES_MAX)

        def note(serving: Serving) -> None:
            self.serving, self._address = serving, Address(HOST, serving.port)
            task_status.started()

        with trio.CancelScope() as self._scope:
            await broker.serve(settings, note, world=world)

    def crash(self) -> None:
        """End the broker as a kill does."""
        self._scope.cancel()


class Measurement:
    """Three running brokers with `count` followed partitions, and a connection to each."""

    def __init__(self, nursery: trio.Nursery, directory: Path, count: int) -> None:
        self._nursery, self._directory, self._count = nursery, directory, count
        self._net = SystemNet()
        self.watch = StepWatch()
        self.nodes: dict[int, Node] = {}

    async def start(self) -> None:
        """Start the brokers."""
        self._nursery.start_soon(self._net.run)
        for node_id in NODES:
            address = self.nodes[1].serving.controller_listeners["CONTROLLER"] if self.nodes else None
            self.nodes[node_id] = Node(node_id, self._directory, address)
            await self._nursery.start(self.nodes[node_id].run)
        trio.lowlevel.add_instrument(self.watch)

    def connect(self, node_id: int) -> ReconnectingConnection:
        """Return a connection to a broker."""
        return ReconnectingConnection(
            self._net, HOST, self.nodes[node_id].serving.port, "bench", Backoff(lambda a, b: a)
        )

    async def phase(self, work: Callable[[], Awaitable[object]]) -> dict[str, Any]:
        """Return the longest step while the work runs."""
        self.watch.begin()
        await work()
        return self.watch.found()

    async def create(self, topic: str, count: int) -> None:
        """Create a topic, and wait until its ISRs are full."""
        connection = self.connect(1)
        wanted = CreatableTopic(name=topic, num_partitions=count, replication_factor=len(NODES))
        response = await connection.ask(CreateTopicsRequest(topics=[wanted], timeout_ms=600_000))
        assert not response.topics[0].error_code, response
        connection.close()
        await until(partial(self.are_in_sync, len(NODES)))

    async def create_all(self) -> None:
        """Create topics until there are `count` partitions."""
        for number in range(0, self._count, PARTITIONS_OF_TOPIC):
            await self.create(f"t{number}", min(PARTITIONS_OF_TOPIC, self._count - number))

    def are_in_sync(self, size: int) -> bool:
        """Whether every partition has a leader and an ISR of this size."""
        image = self.nodes[1].serving.observer.parts.image()
        partitions = [one for topic in image.topics.by_id.values() for one in topic.partitions.values()]
        return all(one.leader >= 0 and len(one.isr) == size for one in partitions)

    async def lose(self) -> None:
        """Crash a broker, and wait until it has left all ISRs."""
        self.nodes[3].crash()
        await until(partial(self.are_in_sync, len(NODES) - 1))
        await trio.sleep(1)

    async def regain(self) -> None:
        """Start the broker again, and wait until it is in all ISRs."""
        await self._nursery.start(self.nodes[3].run)
        await until(partial(self.are_in_sync, len(NODES)))

    async def record_us(self, topic: str) -> float:
        """Return the CPU time in us of a record with acks=all to a partition of a topic, on all brokers together."""
        leader = self.nodes[1].serving.observer.parts.image().topics.by_name[topic].partitions[0].leader
        connection = self.connect(leader)
        for _ in range(WARM_UP):
            await self._produce(connection, topic)
        used_us = []
        for _ in range(WINDOWS):
            begun = time.thread_time_ns()
            for _ in range(RECORDS):
                await self._produce(connection, topic)
            used_us.append((time.thread_time_ns() - begun) / 1000 / RECORDS)
        connection.close()
        return median(used_us)

    async def _produce(self, connection: ReconnectingConnection, topic: str) -> None:
        builder = BatchBuilder()
        builder.append(None, bytes(100), timestamp=0)
        part = PartitionProduceData(index=0, records=builder.build())
        data = [TopicProduceData(name=topic, partition_data=[part])]
        response = await connection.ask(ProduceRequest(acks=-1, timeout_ms=30_000, topic_data=data), 9)
        assert not response.responses[0].partition_responses[0].error_code, response


async def until(condition: Callable[[], bool]) -> None:
    """Wait until a condition holds."""
    while not condition():  # noqa: ASYNC110 - the brokers have no event for it
        await trio.sleep(LOOK_S)


async def steps(count: int, directory: Path) -> dict[str, Any]:
    """Return the longest steps of each phase with this number of partitions."""
    async with trio.open_nursery() as nursery:
        one = Measurement(nursery, directory, count)
        await one.start()
        settle_garbage_collector()  # as `pykbroker start` does
        found = {"create": await one.phase(one.create_all)}
        found["idle"] = await one.phase(partial(trio.sleep, IDLE_S))
        found["fence"] = await one.phase(one.lose)
        found["return"] = await one.phase(one.regain)
        nursery.cancel_scope.cancel()
    return found


async def cost_us(count: int, directory: Path) -> float:
    """Return the CPU time of a record to one of `count` followed partitions."""
    async with trio.open_nursery() as nursery:
        one = Measurement(nursery, directory, count)
        await one.start()
        await one.create_all()
        settle_garbage_collector()
        await trio.sleep(1)
        found = await one.record_us("t0")
        nursery.cancel_scope.cancel()
    return found


def main() -> None:
    """Measure the steps with `--steps` partitions, or the cost of a record with `--cost` partitions."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--steps", type=int, default=0)
    parser.add_argument("--cost", type=int, default=0)
    parser.add_argument("--dir")
    options = parser.parse_args()
    found: dict[str, Any] = {}
    with TemporaryDirectory(dir=options.dir) as directory:
        if options.steps:
            found = trio.run(steps, options.steps, Path(directory))
        if options.cost:
            found["record_us"] = round(trio.run(cost_us, options.cost, Path(directory)), 1)
    print(json.dumps(found))


if __name__ == "__main__":
    main()
