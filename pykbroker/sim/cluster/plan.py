"""The plan of a simulated cluster, and the configs of its brokers."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from random import Random

from pykbroker.core.address import Address
from pykbroker.core.config.config import BrokerConfig
from pykbroker.core.config.listeners import PLAINTEXT, ListenerSettings
from pykbroker.core.security.protocol import SecurityProtocol
from pykbroker.core.settings import Settings
from pykbroker.sim.cluster.acl_workload import CONFIGS as ACL_CONFIGS
from pykbroker.sim.cluster.fault_kinds import KINDS, RETENTION
from pykbroker.sim.cluster.user_workload import CONFIGS as USER_CONFIGS
from pykbroker.sim.cluster.user_workload import LISTENER as USER_LISTENER
from pykbroker.sim.cluster.user_workload import LISTENER_OF_BROKERS, PORT_OF_BROKERS
from pykbroker.sim.cluster.user_workload import PORT as USER_PORT
from pykbroker.sim.groups.workload import CONFIGS as GROUP_CONFIGS
from pykbroker.sim.transactions.workload import CONFIGS as TRANSACTION_CONFIGS

CLIENT_PORT, CONTROLLER_PORT = 9092, 9093
CONTROLLER_ID = 1
"""The id of the node that is broker and controller."""
REPLICAS_MAX = 3
TIMES: Mapping[str, str] = {
    "broker.session.timeout.ms": "3000",
    "broker.heartbeat.interval.ms": "500",
    "replica.lag.time.max.ms": "3000",
    "replica.fetch.backoff.ms": "200",
    "replica.socket.timeout.ms": "5000",
}
"""Timeouts shorter than Kafka's, so that a run of 15 s has several elections and changes of each ISR."""

RETAINED: Mapping[str, str] = {"log.retention.check.interval.ms": "500"}
"""The configs with which retention deletes within a run."""


@dataclass(frozen=True)
class SwarmPlan:
    """The plan of a simulated cluster: `brokers` nodes, and the kinds of faults of which a seed chooses a subset.

    If `fsync` is true, `pykbroker.flush.before.ack` is set and power failures occur. If `distant` is true, brokers are
    farther from each other than from clients, so that a client is ahead of the requests between brokers. The seed
    decides each field that is None. It leaves brokers near each other unless they have transactions.
    """

    brokers: int = 3
    seconds: float = 15.0
    kinds: tuple[str, ...] = KINDS
    fsync: bool | None = None
    producers: int = 4
    consumers: int = 2
    workloads: tuple[str, ...] = ("log",)
    distant: bool | None = None
    configs: tuple[tuple[str, str], ...] = ()
    """Additional configs of all brokers."""

    def decided(self, dice: Random) -> SwarmPlan:
        """Return the plan with a random decision about `fsync` and `distant`, if it has none."""
        fsync = dice.random() < 0.5 if self.fsync is None else self.fsync
        distant = "transactions" in self.workloads and dice.random() < 0.5 if self.distant is None else self.distant
        return replace(self, fsync=fsync, distant=distant)

    @property
    def replicas(self) -> int:
        """Return the replication factor of all topics."""
        return min(REPLICAS_MAX, self.brokers)

    @property
    def min_isr(self) -> int:
        """Return `min.insync.replicas` of all topics."""
        return max(1, self.replicas - 1)

    @property
    def node_ids(self) -> range:
        return range(CONTROLLER_ID, CONTROLLER_ID + self.brokers)

    def settings(self, node_id: int) -> Settings:
        own, controller = Address(host_of(node_id), CLIENT_PORT), Address(host_of(CONTROLLER_ID), CONTROLLER_PORT)
        replicas, min_isr = str(self.replicas), str(self.min_isr)
        config = BrokerConfig.from_mapping(
            {
                **GROUP_CONFIGS,
                **TRANSACTION_CONFIGS,
                **TIMES,
                "node.id": str(node_id),
                "default.replication.factor": replicas,
                "offsets.topic.replication.factor": replicas,
                "transaction.state.log.replication.factor": replicas,
                "transaction.state.log.min.isr": min_isr,
                "min.insync.replicas": min_isr,
                "pykbroker.flush.before.ack": str(bool(self.fsync)).lower(),
                **(RETAINED if {*self.kinds} & {*RETENTION} else {}),
                **(ACL_CONFIGS if "acls" in self.workloads else {}),
                **(USER_CONFIGS if "users" in self.workloads else {}),
                **dict(self.configs),
            }
        )
        has_users = "users" in self.workloads
        of_controllers = SecurityProtocol.SASL_PLAINTEXT if has_users else SecurityProtocol.PLAINTEXT
        listener = ListenerSettings("CONTROLLER", controller, protocol=of_controllers)
        return Settings(
            config,
            (f"/{host_of(node_id)}/0",),
            (ListenerSettings(address=own), *(self._listeners_with_sasl(node_id) if has_users else ())),
            inter_broker_listener=LISTENER_OF_BROKERS if has_users else PLAINTEXT,
            controller_listeners=(listener,) if node_id == CONTROLLER_ID else (),
            quorum=() if node_id == CONTROLLER_ID else (controller,),
        )

    def _listeners_with_sasl(self, node_id: int) -> Iterator[ListenerSettings]:
        """Yield the listeners for clients that log in, and for other brokers."""
        for name, port in ((USER_LISTENER, USER_PORT), (LISTENER_OF_BROKERS, PORT_OF_BROKERS)):
            address = Address(host_of(node_id), port)
            yield ListenerSettings(name, address, protocol=SecurityProtocol.SASL_PLAINTEXT)


def host_of(node_id: int) -> str:
    """Return the name of a node's host."""
    return f"broker-{node_id}"
