"""A cluster that runs in the background loop of the producer under test, for tests of threads and of asyncio."""

from __future__ import annotations

import threading
import time
from random import Random
from typing import Any

import trio

from pykbroker.core.topic_partition import TopicPartition
from pykbroker.producer.settings import producer_settings
from pykbroker.producer.threaded import ThreadedProducer
from pykbroker.sim.scripted.cluster import ScriptedCluster
from pykbroker.world.client_world import ClientWorld
from tests.unit.client.loopback import LoopbackNet
from wire.api import ApiKey

WAIT_S = 10
"""The longest time that a test waits for a thread."""


class Planted(Exception):
    """The error of a crash that a test has asked for."""


class HostedNet(LoopbackNet):
    """A network in memory with a cluster of three nodes, whose topic `topic` has three partitions.

    The nodes answer requests of the APIs in `scripts` by its functions, from the first request on.
    """

    def __init__(self, scripts: dict[ApiKey, Any] | None = None) -> None:
        super().__init__()
        self._scripts = scripts or {}
        self._running = threading.Event()

    async def run(self) -> None:
        self._token, self._crash = trio.lowlevel.current_trio_token(), trio.Event()
        async with trio.open_nursery() as nursery:
            self.cluster = ScriptedCluster(lambda _host: self, Random(1), nursery)
            self.cluster.state.auto_creates = False
            self.cluster.state.add_topic("topic", 3)
            for key, answer in self._scripts.items():
                self.cluster.script(key, answer)
            self.cluster.start()
            self._running.set()
            await self._crash.wait()
            raise Planted("planted")

    def crash(self) -> None:
        """Let the loop of the producer fail."""
        self._token.run_sync_soon(self._crash.set)

    def hold(self, api: ApiKey) -> None:
        """Let the cluster answer no request of this kind until `release` is called."""
        released = self._released = trio.Event()

        async def held(_node: Any, _request: Any) -> None:
            await released.wait()

        self.cluster.script(api, held)

    def release(self) -> None:
        """Let the cluster answer the requests that `hold` has kept."""
        self._token.run_sync_soon(self._released.set)

    def wait_running(self) -> None:
        """Wait until the cluster has been made."""
        assert self._running.wait(WAIT_S)

    def world(self) -> ClientWorld:
        """Return the world of a producer that hosts this network."""
        return ClientWorld(self, lambda: time.time_ns() // 1_000_000, time.perf_counter_ns, Random(5))

    def take_leaders(self) -> None:
        """Leave all partitions without a leader, so that nothing is sent. Call this in the loop."""
        for index in range(3):
            self.cluster.state.move_leader(TopicPartition("topic", index), -1)


SETTINGS = {"bootstrap_servers": "node1:9092", "linger_ms": 0}


def threaded(net: HostedNet, **settings: Any) -> ThreadedProducer:
    """Return a producer for threads, whose loop hosts the network."""
    producer = ThreadedProducer("producer", producer_settings(SETTINGS | settings), net.world())
    net.wait_running()
    return producer


class Call:
    """A call in a thread of its own, and its result or error."""

    def __init__(self, function: Any, *args: Any) -> None:
        self._function, self._args = function, args
        self.result: Any = None
        self.error: BaseException | None = None
        self._thread = threading.Thread(target=self._run, daemon=True)
        self._thread.start()

    @property
    def is_done(self) -> bool:
        return not self._thread.is_alive()

    def join(self) -> Any:
        """Return the result of the call. Raise its error, and fail if it does not end."""
        self._thread.join(WAIT_S)
        assert self.is_done, "the call never ends"
        if self.error is not None:
            raise self.error
        return self.result

    def _run(self) -> None:
        try:
            self.result = self._function(*self._args)
        except BaseException as error:  # noqa: BLE001 - `join` raises it
            self.error = error


def wait_until(condition: Any) -> None:
    """Wait until a condition that another thread makes true holds."""
    deadline = time.monotonic() + WAIT_S
    while not condition():
        assert time.monotonic() < deadline, "the condition never held"
        time.sleep(0.001)
