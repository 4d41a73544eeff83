"""Clusters of several nodes in one process: a node that is broker and controller, and nodes that are brokers only."""

from __future__ import annotations

from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from pathlib import Path
from typing import TypeVar

import trio
from msgspec.structs import replace

from pykbroker import broker
from pykbroker.core.address import Address
from pykbroker.core.config.config import BrokerConfig
from pykbroker.core.config.listeners import ListenerSettings, outgoing_listener
from pykbroker.core.config.table import ONE_BROKER
from pykbroker.core.new_topic import NewTopic
from pykbroker.core.settings import Serving, Settings
from tests.unit.apis.conftest import Client, LocalBroker

T = TypeVar("T")
HOST = "127.0.0.1"
PAUSE_S = 0.02


class Node:
    """A node that may be stopped and started again on the same log directories: `directory` and `disks` - 1 others."""

    def __init__(self, node_id: int, directory: Path, controller: Address | None, **configs: str) -> None:
        self.node_id, self.directory, self._controller = node_id, directory, controller
        others = range(2, int(configs.pop("disks", "1")) + 1)
        self.directories = (directory, *(directory.with_name(f"{directory.name}-{number}") for number in others))
        self._texts = {
            **ONE_BROKER,
            "offsets.topic.num.partitions": "6",
            "transaction.state.log.num.partitions": "6",
            "node.id": str(node_id),
            **{name.replace("_", "."): value for name, value in configs.items()},
        }
        self._address = Address(HOST, 0)
        self.topics: tuple[NewTopic, ...] = ()
        self.serving: Serving | None = None

    @property
    def controller_address(self) -> Address:
        """Return the address of the node's controller."""
        assert self.serving is not None
        return self.serving.controller_listeners["CONTROLLER"]

    def settings(self) -> Settings:
        own = (self._listener("CONTROLLER"),)
        config = BrokerConfig.from_mapping(self._texts)
        listeners = [ListenerSettings(address=self._address)]
        of_brokers = self._texts.get("inter.broker.listener.name", listeners[0].name)
        if of_brokers != listeners[0].name:
            listeners.append(self._listener(of_brokers))
        return Settings(
            config,
            tuple(map(str, self.directories)),
            listeners=tuple(listeners),
            inter_broker_listener=of_brokers,
            controller_listeners=own if self._controller is None else (),
            quorum=() if self._controller is None else (self._controller,),
            memory=True,
            topics=self.topics,
        )

    def _listener(self, name: str) -> ListenerSettings:
        """Return a listener on any port, with the protocol of its name or of `listener.security.protocol.map`."""
        return replace(outgoing_listener(self._texts, name), address=Address(HOST, 0))

    @asynccontextmanager
    async def running(self) -> AsyncIterator[LocalBroker]:
        """Run the node during the block, and shut it down after it."""
        stop, ready = trio.Event(), trio.Event()

        def note(serving: Serving) -> None:
            self.serving = serving
            self._address = Address(HOST, serving.port)
            ready.set()

        for directory in self.directories:
            directory.mkdir(exist_ok=True)
        async with trio.open_nursery() as nursery:

            async def run() -> None:
                await broker.serve(self.settings(), note, stop=stop)

            nursery.start_soon(run)
            await ready.wait()
            assert self.serving is not None
            local = LocalBroker(self.serving, stop)
            try:
                yield local
            finally:
                await local.disconnect()
                stop.set()


class Cluster:
    """A running cluster: the nodes, and the first connection to each, by node id."""

    def __init__(self, nursery: trio.Nursery, directory: Path, **configs: str) -> None:
        self._nursery, self._directory, self._configs = nursery, directory, configs
        self._stops: dict[int, tuple[trio.Event, trio.Event]] = {}
        self._scopes: dict[int, trio.CancelScope] = {}
        self.nodes: dict[int, Node] = {}
        self.brokers: dict[int, LocalBroker] = {}
        self.clients: dict[int, Client] = {}

    async def start(self, node_id: int) -> Client:
        """Start a node, which is a new one or was stopped before, and connect to it."""
        if node_id not in self.nodes:
            controller = None if node_id == 1 else self.nodes[1].controller_address
            self.nodes[node_id] = Node(node_id, self._directory / f"node{node_id}", controller, **self._configs)
        self.brokers[node_id] = await self._nursery.start(self._run, node_id)
        client = self.clients[node_id] = await self.brokers[node_id].connect()
        return client

    async def stop(self, node_id: int) -> None:
        """Shut a node down."""
        stop, ended = self._stops.pop(node_id)
        stop.set()
        await ended.wait()

    def crash(self, node_id: int) -> None:
        """End a node without a controlled shutdown: its sockets are closed, and its directories are not."""
        self._stops.pop(node_id)
        self._scopes.pop(node_id).cancel()

    async def stop_all(self) -> None:
        """Shut down all nodes, the controller last."""
        for node_id in sorted(self._stops, reverse=True):
            await self.stop(node_id)

    async def controller_client(self) -> Client:
        """Connect to the controller's listener."""
        return await self.brokers[1].connect_to(self.nodes[1].controller_address)

    async def _run(self, node_id: int, task_status: trio.TaskStatus[LocalBroker]) -> None:
        stop, ended = self._stops[node_id] = trio.Event(), trio.Event()
        with trio.CancelScope() as self._scopes[node_id]:
            async with self.nodes[node_id].running() as local:
                task_status.started(local)
                await stop.wait()
        ended.set()


@asynccontextmanager
async def cluster(directory: Path, *node_ids: int, **configs: str) -> AsyncIterator[Cluster]:
    """Run a cluster of these nodes, the first of which is the controller, too."""
    async with trio.open_nursery() as nursery:
        running = Cluster(nursery, directory, **configs)
        for node_id in node_ids:
            await running.start(node_id)
        yield running
        await running.stop_all()


async def eventually(look: Callable[[], Awaitable[T]]) -> T:
    """Repeat an asynchronous look until it returns something true, and return that."""
    while True:
        if found := await look():
            return found
        await trio.sleep(PAUSE_S)
