"""The options of each broker of `pykbroker cluster`."""

from __future__ import annotations

import os

import msgspec

from pykbroker.cli.cluster.security import BROKERS, CONTROLLERS, ClusterSecurity
from pykbroker.core.address import PORT_MAX, Address
from pykbroker.core.config.listeners import INTER_BROKER_NAME, INTER_BROKER_PROTOCOL, NOT_ROUTABLE
from pykbroker.core.config.replication import replication_configs

CONTROLLER = 1
"""The id of the broker that is the controller, too."""
LOOPBACK = dict(zip(NOT_ROUTABLE, ("127.0.0.1", "::1"), strict=True))
"""The address of this machine in place of all its interfaces."""


def of_broker(first: Address, node_id: int) -> Address:
    """Return the address of a broker that has the port after that of the broker before it. Port 0 stays 0."""
    return Address(first.host, first.port + node_id - 1 if first.port else 0)


class ClusterPlan(msgspec.Struct, frozen=True):
    """A cluster: its brokers, numbered from 1, of which the first is the controller, and the settings of all.

    `listen`, `advertise` and `console` are the addresses of the first broker. The others have the ports after them.
    `directory` has a directory for the data of each broker.
    """

    brokers: int
    replicas: int
    listen: Address
    topics: tuple[str, ...] = ()
    configs: tuple[tuple[str, str], ...] = ()
    log_level: str = "info"
    advertise: Address | None = None
    console: Address | None = None
    security: ClusterSecurity = ClusterSecurity()
    directory: str = ""
    of_variables: frozenset[str] = frozenset()
    """The configs that each broker has from a variable of its environment, as no list of processes shows it."""

    def __repr__(self) -> str:
        return f"ClusterPlan({self.counted}, {self.listen})"  # configs may be passwords

    @property
    def controller(self) -> Address:
        """Return the address of the controller's listener. Its port follows those of the brokers."""
        return self._for_brokers(1)

    def of_brokers(self, node_id: int) -> Address:
        """Return the address on which a broker serves the others. Its port follows that of the controller."""
        return self._for_brokers(1 + node_id)

    def _for_brokers(self, place: int) -> Address:
        """Return the address of a listener for brokers. As all run on this machine, no such listener is bound on all
        interfaces.
        """
        host, port = of_broker(self.listen, self.brokers + place)
        return Address(LOOPBACK.get(host, host), port)

    @property
    def _ports(self) -> int:
        """Return the number of consecutive ports from that of `listen` on."""
        return 2 * self.brokers + 1

    @property
    def counted(self) -> str:
        """Return the number of brokers in words."""
        return f"{self.brokers} broker" + ("" if self.brokers == 1 else "s")

    def refusal(self) -> str | None:
        """Return why no cluster can have these addresses, or None."""
        ports = {"--listen": self._ports, "--advertise": self.brokers, "--console": self.brokers}
        for option, first in (("--listen", self.listen), ("--advertise", self.advertise), ("--console", self.console)):
            if first is not None and first.port + ports[option] - 1 > PORT_MAX:
                return f"{option} {first} leaves too few ports for {self.counted}: choose another"
        if self.listen.host in NOT_ROUTABLE and self.advertise is None:
            return (
                f"clients cannot connect to {self.listen}, the address of --listen: add --advertise HOST:PORT with an"
                " address of the first broker that they can reach"
            )
        return self._shared_ports() or self.security.refusal(dict(self.configs))

    def _shared_ports(self) -> str | None:
        """Return why the console cannot have its ports, or None."""
        listen, console = self.listen, self.console
        if console is None or not listen.port or not console.port or listen.host != console.host:
            return None
        free = listen.port + self._ports
        if listen.port - self.brokers < console.port < free:
            return f"--console {console} and --listen {listen} share ports: choose a port from {free} on for --console"
        return None

    def options(self, node_id: int, address: Address, controller: Address) -> list[str]:
        """Return the options of `pykbroker start`, except --data-dir, for a broker that listens on `address`.

        The last broker creates the topics, so that they are spread over all brokers.
        """
        name, given = self.security.protocol.name, dict(self.configs)
        options = ["--listen", f"{name}={address}"]
        if self.advertise is not None:
            options += ["--advertise", f"{name}={of_broker(self.advertise, node_id)}"]
        if self.console is not None:
            options += ["--console", str(of_broker(self.console, node_id))]
        if not {INTER_BROKER_NAME, INTER_BROKER_PROTOCOL}.intersection(given):
            options += ["--listen", f"{BROKERS}={self.of_brokers(node_id)}", *self._set(INTER_BROKER_NAME, BROKERS)]
        if node_id == CONTROLLER:
            options += ["--listen", f"{CONTROLLERS}={controller}"]
        else:
            options += self._set("process.roles", "broker")
            options += self._set("controller.quorum.bootstrap.servers", str(controller))
        options += self._set("node.id", str(node_id))
        for config, value in self.configs_of(node_id).items():
            if config not in self.of_variables or value != given[config]:
                options += self._set(config, value)
        if node_id == self.brokers:
            options += [part for topic in self.topics for part in ("--topic", topic)]
        return [*options, "--log-level", self.log_level]

    def configs_of(self, node_id: int) -> dict[str, str]:
        """Return the configs that a broker shares with the others, and those of its security."""
        given = dict(self.configs)
        secured = self.security.configs(given, self.data_dir(node_id), self.data_dir(CONTROLLER), self.brokers)
        return {**replication_configs(self.replicas), **given, **secured}

    def data_dir(self, node_id: int) -> str:
        """Return the directory for the data of a broker."""
        return os.path.join(self.directory, str(node_id))

    def hosts(self, node_id: int) -> frozenset[str]:
        """Return the hosts of a broker, which its certificate is for."""
        addresses = (self.listen, self.advertise, self.of_brokers(node_id), self.controller)
        return self.security.hosts(each for each in addresses if each is not None)

    @staticmethod
    def _set(name: str, value: str) -> list[str]:
        return ["--set", f"{name}={value}"]
