"""Two nodes of pykbroker with a broker of Apache Kafka, which know each other by passwords over TLS.

Each node has the listeners PLAINTEXT and SECURE, and the first one is the controller. SECURE is for other brokers and
for the users: those of the nodes, node1 to node3, and alice. An authorizer lets nodes and clients of PLAINTEXT do all.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from pykbroker.cli.kafka_tools.__main__ import main
from tests.interop.kafka_node import java
from tests.interop.keystores import Keystores
from tests.interop.our_cluster import REPLICATED, SETTINGS
from tools.bench import peers
from tools.bench.child import Child
from tools.broker_process import BrokerProcess

CLUSTER_ID = "8BhzD8bPTOKa0mC0mKnYTw"
OURS, THEIRS = (1, 2), 3
NODES = (*OURS, THEIRS)
ALICE = "alice"
USERS = (*(f"node{node_id}" for node_id in NODES), ALICE)
PLAIN, SCRAM = "plain.PlainLoginModule", "scram.ScramLoginModule"
SESSION_MS = 2000
"""The lifetime of a session on the listener SECURE, so that nodes authenticate again during a test."""
PROTOCOLS = "PLAINTEXT:PLAINTEXT,SECURE:SASL_SSL,CONTROLLER:SASL_SSL"
SHARED = (
    *SETTINGS,
    *REPLICATED,
    f"listener.security.protocol.map={PROTOCOLS}",
    "controller.listener.names=CONTROLLER",
    "inter.broker.listener.name=SECURE",
    "authorizer.class.name=org.apache.kafka.metadata.authorizer.StandardAuthorizer",
    f"super.users={';'.join(f'User:{user}' for user in ('ANONYMOUS', *USERS[:-1]))}",
    "sasl.enabled.mechanisms=PLAIN,SCRAM-SHA-512",
    "sasl.mechanism.inter.broker.protocol=SCRAM-SHA-512",
    "sasl.mechanism.controller.protocol=PLAIN",
    f"listener.name.secure.scram-sha-512.connections.max.reauth.ms={SESSION_MS}",
    "num.io.threads=2",
    "num.network.threads=1",
)


def password_of(user: str) -> str:
    return f"{user}-canary"


def login(module: str, options: Mapping[str, str]) -> str:
    """Return a line of `sasl.jaas.config`."""
    named = " ".join(f'{name}="{value}"' for name, value in options.items())
    return f"org.apache.kafka.common.security.{module} required {named};"


class SecuredCluster:
    """A running cluster. Any node may be killed, stopped and started again."""

    def __init__(self, work: Path, jars: Path) -> None:
        self._work, self._stores = work, Keystores(work)
        self._ports = {node_id: (peers.free_port(), peers.free_port()) for node_id in NODES}
        self.controller = f"127.0.0.1:{peers.free_port()}"
        for node_id in NODES:
            self._write_properties(node_id)
        self._format(1, *USERS)
        self._format(THEIRS)
        self._java = java(jars, "kafka.Kafka", str(self._properties(THEIRS)))
        self.ours: dict[int, BrokerProcess] = {}
        self.theirs = Child(self._java, self._work / f"kafka{THEIRS}.log")
        try:
            for node_id in OURS:
                self._begin(node_id)
            for node in self.ours.values():
                node.wait_ready()
            peers.wait_until_serving(self.theirs, self._ports[THEIRS][0])
        except BaseException:
            self.kill()  # no caller has the cluster yet
            raise

    def directory(self, node_id: int) -> Path:
        """Return the data directory of a node."""
        return self._work / f"data{node_id}"

    def address(self, node_id: int) -> str:
        """Return the address of the listener PLAINTEXT of a node."""
        node = self.ours.get(node_id)
        return f"127.0.0.1:{self._ports[node_id][0]}" if node is None else node.address

    def secure_address(self, node_id: int) -> str:
        """Return the address of the listener SECURE of a node."""
        return f"127.0.0.1:{self._ports[node_id][1]}"

    def client(self, user: str, node_id: int) -> dict[str, Any]:
        """Return the configs of a client of confluent-kafka that logs in at a node."""
        return {
            "bootstrap.servers": self.secure_address(node_id),
            "security.protocol": "SASL_SSL",
            "ssl.ca.location": str(self._stores.truststore),
            "sasl.mechanism": "PLAIN",
            "sasl.username": user,
            "sasl.password": password_of(user),
        }

    def start_theirs(self) -> None:
        """Start the broker of Kafka again, and wait until it answers clients."""
        self.theirs = Child(self._java, self._work / f"kafka{THEIRS}.log")
        peers.wait_until_serving(self.theirs, self._ports[THEIRS][0])

    def kill(self) -> None:
        """Kill all nodes that still run."""
        for node in self.ours.values():
            node.kill()
        self.theirs.kill()

    def output(self) -> str:
        """Return all that the nodes have logged."""
        ours = "".join(node.output() for node in self.ours.values())
        return ours + (self._work / f"kafka{THEIRS}.log").read_text()

    def _properties(self, node_id: int) -> Path:
        return self._work / f"{node_id}.properties"

    def _write_properties(self, node_id: int) -> None:
        plain, secure = self._ports[node_id]
        listeners = f"PLAINTEXT://127.0.0.1:{plain},SECURE://127.0.0.1:{secure}"
        roles = ("broker", "") if node_id != 1 else ("broker,controller", f",CONTROLLER://{self.controller}")
        lines = [
            f"node.id={node_id}",
            f"process.roles={roles[0]}",
            f"listeners={listeners}{roles[1]}",
            f"advertised.listeners={listeners}",
            f"log.dirs={self.directory(node_id)}",
            f"controller.quorum.voters=1@{self.controller}",
            *self._stores.settings(f"node{node_id}"),
            *SHARED,
        ]
        me = {"username": f"node{node_id}", "password": password_of(f"node{node_id}")}
        users = {f"user_{user}": password_of(user) for user in USERS}
        for listener in ("secure", "controller"):
            prefix = f"listener.name.{listener}."
            lines.append(f"{prefix}plain.sasl.jaas.config={login(PLAIN, {**me, **users})}")
            lines.append(f"{prefix}scram-sha-512.sasl.jaas.config={login(SCRAM, me)}")
        self._properties(node_id).write_text("\n".join(lines) + "\n")

    def _format(self, node_id: int, *users: str) -> None:
        """Format the directory of a node, with the credentials of these users for SCRAM."""
        added = [f"SCRAM-SHA-512=[name={user},password={password_of(user)}]" for user in users]
        words = [word for each in added for word in ("--add-scram", each)]
        assert main(["kafka-storage", "format", "-c", str(self._properties(node_id)), "-t", CLUSTER_ID, *words]) == 0

    def _begin(self, node_id: int) -> None:
        directory = self._work / f"node{node_id}"
        directory.mkdir()
        listen = ["--listen", f"SECURE={self.secure_address(node_id)}"]
        listen += ["--listen", f"CONTROLLER={self.controller}"] if node_id == 1 else []
        node = self.ours[node_id] = BrokerProcess(directory, "--config", str(self._properties(node_id)), *listen)
        node.begin()
