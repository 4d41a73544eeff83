"""The options of each broker of `pykbroker cluster`."""

from __future__ import annotations

import msgspec

from pykbroker.core.address import PORT_MAX, Address
from pykbroker.core.config.replication import replication_configs

CONTROLLER = 1
"""The id of the broker that is the controller, too."""


class ClusterPlan(msgspec.Struct, frozen=True):
    """A cluster: its brokers, numbered from 1, of which the first is the controller, and the settings of all."""

    brokers: int
    replicas: int
    listen: Address
    topics: tuple[str, ...] = ()
    configs: tuple[tuple[str, str], ...] = ()
    log_level: str = "info"

    def port(self, node_id: int) -> int:
        """Return the port of a broker, 0 for any free one."""
        return self.listen.port + node_id - 1 if self.listen.port else 0

    @property
    def controller(self) -> Address:
        """Return the address of the controller's listener. Its port follows those of the brokers."""
        return Address(self.listen.host, self.port(self.brokers + 1))

    @property
    def exceeds_ports(self) -> bool:
        """Whether the ports of the cluster exceed the highest port."""
        return self.controller.port > PORT_MAX

    def options(self, node_id: int, address: Address, controller: Address) -> list[str]:
        """Return the options of `pykbroker start`, except --data-dir, for a broker that listens on `address`.

        The last broker creates the topics, so that they are spread over all brokers.
        """
        options = ["--listen", str(address)]
        if node_id == CONTROLLER:
            options += ["--listen", f"CONTROLLER={controller}"]
        else:
            options += self._set("process.roles", "broker")
            options += self._set("controller.quorum.bootstrap.servers", str(controller))
        options += self._set("node.id", str(node_id))
        for name, value in (*replication_configs(self.replicas).items(), *self.configs):
            options += self._set(name, value)
        if node_id == self.brokers:
            options += [part for topic in self.topics for part in ("--topic", topic)]
        return [*options, "--log-level", self.log_level]

    @staticmethod
    def _set(name: str, value: str) -> list[str]:
        return ["--set", f"{name}={value}"]
