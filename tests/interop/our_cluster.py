"""A cluster of pykbroker's own processes: one that is broker and controller, and others that are brokers only."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from tests.interop.keystores import Keystores
from tests.interop.namespaces import Namespaces
from tests.interop.proxies import HOST, Proxies
from tools.bench import peers
from tools.broker_process import PYKBROKER, BrokerProcess

SETTINGS = (
    "offsets.topic.num.partitions=6",
    "transaction.state.log.num.partitions=6",
    "group.initial.rebalance.delay.ms=0",
    "group.consumer.min.heartbeat.interval.ms=100",
    "group.consumer.heartbeat.interval.ms=200",
)
REPLICATED = (
    "default.replication.factor=3",
    "min.insync.replicas=2",
    "offsets.topic.replication.factor=3",
    "transaction.state.log.replication.factor=3",
    "transaction.state.log.min.isr=2",
    "broker.session.timeout.ms=2000",
    "broker.heartbeat.interval.ms=300",
    "replica.lag.time.max.ms=2000",
)
"""Settings for three replicas of everything, and for a fail-over within seconds."""
MUTUAL = (
    "listener.security.protocol.map=PLAINTEXT:PLAINTEXT,INTERNAL:SSL,CONTROLLER:SSL",
    "inter.broker.listener.name=INTERNAL",
    "ssl.client.auth=required",
    "ssl.principal.mapping.rules=RULE:^CN=([^,]+).*$/$1/",
    "authorizer.class.name=org.apache.kafka.metadata.authorizer.StandardAuthorizer",
    "super.users=User:ANONYMOUS;User:node1;User:node2;User:node3",
)
"""Settings of nodes that know each other by certificates. Clients, which have none, may do everything."""


class OurCluster:
    """A running cluster. The node ids begin with 1, which is the controller, too.

    With namespaces as its network, each node runs in the namespace of its id. With proxies, the nodes connect to each
    other through them, and clients connect to the nodes. With keystores, the nodes know each other by certificates, and
    only clients connect without TLS.
    """

    def __init__(
        self,
        work: Path,
        node_count: int = 3,
        settings: Sequence[str] = SETTINGS,
        network: Namespaces | Proxies | Keystores | None = None,
    ) -> None:
        self._work, self._settings = work, settings
        self._keystores = network if isinstance(network, Keystores) else None
        self._namespaces = network if isinstance(network, Namespaces) else None
        self._proxies = network if isinstance(network, Proxies) else None
        self._controller = f"{self._host(1)}:{peers.free_port()}"
        self.controller = self._controller if self._proxies is None else self._proxied(1, self._controller)
        self.nodes: dict[int, BrokerProcess] = {}
        try:
            self.start(1)
            others = [self._begin(node_id) for node_id in range(2, node_count + 1)]
            for node in others:
                node.wait_ready()
        except BaseException:
            self.kill()  # no caller has the cluster yet
            raise

    @property
    def bootstrap(self) -> str:
        """Return the addresses of all brokers."""
        return ",".join(node.address for node in self.nodes.values())

    def directory(self, node_id: int) -> Path:
        """Return the data directory of a node."""
        return self._work / f"node{node_id}" / "data"

    def start(self, node_id: int) -> BrokerProcess:
        """Start a node for the first time."""
        node = self._begin(node_id)
        node.wait_ready()
        return node

    def _begin(self, node_id: int) -> BrokerProcess:
        """Begin to start a node for the first time."""
        directory = self.directory(node_id)
        directory.parent.mkdir()
        if node_id == 1:
            options = [
                *("--listen", f"CONTROLLER={self._controller}"),
                *("--set", f"advertised.listeners=CONTROLLER://{self.controller}"),
            ]
        else:
            options = [
                *("--set", "process.roles=broker"),
                *("--set", f"controller.quorum.bootstrap.servers={self.controller}"),
            ]
        options += self._internal_listener(node_id)
        of_nodes = () if self._keystores is None else (*MUTUAL, *self._keystores.settings(f"node{node_id}"))
        for setting in (f"node.id={node_id}", *self._settings, *of_nodes):
            options += ["--set", setting]
        program = PYKBROKER if self._namespaces is None else self._namespaces.program(node_id, PYKBROKER)
        node = self.nodes[node_id] = BrokerProcess(
            directory.parent, "--data-dir", str(directory), *options, program=program, host=self._host(node_id)
        )
        node.begin()
        return node

    def _proxied(self, node_id: int, address: str) -> str:
        """Return the address of a proxy before an address of a node."""
        assert self._proxies is not None
        return f"{HOST}:{self._proxies.open(node_id, int(address.rpartition(':')[2]))}"

    def _internal_listener(self, node_id: int) -> list[str]:
        """Return the options of the listener for brokers, if it is another one than that for clients."""
        if self._keystores is not None:
            return ["--listen", f"INTERNAL={HOST}:{peers.free_port()}"]
        if self._proxies is None:
            return []
        address = f"{HOST}:{peers.free_port()}"
        return [
            *("--listen", f"INTERNAL={address}"),
            *("--advertise", f"INTERNAL={self._proxied(node_id, address)}"),
            *("--set", "inter.broker.listener.name=INTERNAL"),
        ]

    def _host(self, node_id: int) -> str:
        return "127.0.0.1" if self._namespaces is None else self._namespaces.host(node_id)

    def stop(self) -> list[int]:
        """Stop all nodes, the controller last, and return their exit codes."""
        return [node.stop() for _, node in sorted(self.nodes.items(), reverse=True)]

    def kill(self) -> None:
        """Kill all nodes that still run."""
        for node in self.nodes.values():
            node.kill()
