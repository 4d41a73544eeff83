"""A program that measures the event-loop steps of three brokers, each in its process, with thousands of partitions.

It prints one line of JSON: for each phase and broker the longest step in ms of CPU time, the longest pass, and the
longest garbage collection, which is counted apart. A step is the work of one task between two of its waits; a pass is
the work of all tasks of a broker between two waits for I/O. The directory should be in memory (tmpfs).
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
import time
from collections.abc import Awaitable, Callable
from functools import partial
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import trio

from pykbroker.client.backoff import Backoff
from pykbroker.client.reconnecting import ReconnectingConnection
from pykbroker.world.system_net import SystemNet
from tools.bench.watched_node import HOST
from wire.messages.create_topics import CreatableTopic, CreateTopicsRequest

NODES = (1, 2, 3)
LOST = 3
PARTITIONS_OF_TOPIC = 500
CONFIGS = {
    "offsets.topic.num.partitions": "1",
    "default.replication.factor": "3",
    "min.insync.replicas": "2",
    "broker.session.timeout.ms": "20000",
    "replica.lag.time.max.ms": "60000",
}
IDLE_S, LOOK_S = 5, 0.1


class WatchedNode:
    """A process of `watched_node`, which may be killed and started again."""

    def __init__(self, node_id: int, directory: Path) -> None:
        self.node_id, self._directory = node_id, directory / f"node{node_id}"
        self._directory.mkdir()
        self.port, self.controller = 0, ""
        self._process: subprocess.Popen[str] | None = None

    def start(self, controller: str) -> None:
        """Start the broker, and wait until it serves clients."""
        configs = json.dumps({**CONFIGS, "node.id": str(self.node_id)})
        words = [str(self._directory), str(self.port), controller, configs]
        self._process = subprocess.Popen(
            [sys.executable, "-m", "tools.bench.watched_node", *words],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            text=True,
        )
        found = self._read()
        self.port, self.controller = found["port"], "".join(found["controller"])

    def ask(self, line: str) -> Any:
        assert self._process is not None
        assert self._process.stdin is not None
        self._process.stdin.write(f"{line}\n")
        self._process.stdin.flush()
        return self._read()

    def _read(self) -> Any:
        assert self._process is not None
        assert self._process.stdout is not None
        line = self._process.stdout.readline()
        if not line:
            raise RuntimeError(f"broker {self.node_id} has ended with {self._process.wait()}")
        return json.loads(line)

    @property
    def is_running(self) -> bool:
        """Whether the process runs."""
        return self._process is not None and self._process.poll() is None

    def kill(self) -> None:
        """Kill the process if it runs, and wait for its end."""
        if self._process is not None:
            self._process.kill()
            self._process.wait()


class Measurement:
    """Three running brokers, and a connection to the first one, which is the controller, too."""

    def __init__(self, directory: Path, count: int) -> None:
        self._count, self._net = count, SystemNet()
        self.nodes = {node_id: WatchedNode(node_id, directory) for node_id in NODES}

    async def run(self) -> dict[str, Any]:
        """Return what was found in each phase."""
        for node in self.nodes.values():
            await self._start(node.node_id)
        async with trio.open_nursery() as nursery:
            nursery.start_soon(self._net.run)
            found = {"create": await self._phase(self._create_all)}
            found["idle"] = await self._phase(partial(trio.sleep, IDLE_S))
            found["fence"] = await self._phase(self._lose, LOST)
            found["return"] = await self._phase(partial(self._start, LOST), LOST)
            nursery.cancel_scope.cancel()
        return found

    async def _start(self, node_id: int) -> None:
        controller = self.nodes[1].controller if node_id != 1 else ""
        await trio.to_thread.run_sync(self.nodes[node_id].start, controller)

    async def _phase(self, work: Callable[[], Awaitable[object]], lost: int = 0) -> dict[str, Any]:
        """Return the longest steps of each broker while the work is done, and until all ISRs are as they should be.

        A broker that is `lost` has forgotten its steps before its last start.
        """
        asked = [node for node in self.nodes.values() if node.node_id != lost]
        for node in asked:
            await trio.to_thread.run_sync(node.ask, "begin")
        begun = time.monotonic()
        await work()
        running = [node for node in self.nodes.values() if node.is_running]
        while not await trio.to_thread.run_sync(self.nodes[1].ask, f"in_sync {len(running)}"):  # noqa: ASYNC110
            await trio.sleep(LOOK_S)
        found = {f"broker {node.node_id}": await trio.to_thread.run_sync(node.ask, "found") for node in running}
        return {"seconds": round(time.monotonic() - begun, 1), **found}

    async def _create_all(self) -> None:
        """Create topics until there are `count` partitions."""
        backoff = Backoff(lambda low, high: low)
        connection = ReconnectingConnection(self._net, HOST, self.nodes[1].port, "bench", backoff)
        for number in range(0, self._count, PARTITIONS_OF_TOPIC):
            partitions = min(PARTITIONS_OF_TOPIC, self._count - number)
            await create_topic(connection, f"t{number}", partitions)
        connection.close()

    async def _lose(self) -> None:
        self.nodes[LOST].kill()

    def close(self) -> None:
        """Kill all brokers."""
        for node in self.nodes.values():
            node.kill()


async def create_topic(connection: ReconnectingConnection, name: str, partitions: int) -> None:
    """Create a topic with a replica on each broker."""
    wanted = CreatableTopic(name=name, num_partitions=partitions, replication_factor=len(NODES))
    response = await connection.ask(CreateTopicsRequest(topics=[wanted], timeout_ms=600_000))
    if response.topics[0].error_code:
        raise RuntimeError(f"the topic {name} cannot be created: {response.topics[0]}")


def main() -> None:
    """Measure the steps with `--partitions` partitions of three replicas."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--partitions", type=int, default=10_000)
    parser.add_argument("--dir")
    options = parser.parse_args()
    with TemporaryDirectory(dir=options.dir) as directory:
        measurement = Measurement(Path(directory), options.partitions)
        try:
            print(json.dumps(trio.run(measurement.run)))
        finally:
            measurement.close()


if __name__ == "__main__":
    main()
