"""The limits of a broker and its listeners on connections, requests and memory, from Kafka's configs."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

import msgspec

from pykbroker.core.config.config import BrokerConfig
from pykbroker.core.config.host_counts import read_host_counts
from pykbroker.core.config.table import OF_LISTENERS
from pykbroker.server.host_names import by_address

BUDGET_SHARE = 4
"""The divisor of `pykbroker.memory.budget.bytes` that gives the bytes for requests and responses in flight."""
ANSWER_SHARE = 4
"""The divisor of the bytes for requests and responses in flight that gives the maximum size of one response."""
UNLIMITED = 2**31 - 1


class ConnectionLimits(msgspec.Struct, frozen=True):
    """The limits on the open connections and on the rate of new connections, of a broker or of a listener."""

    connections_max: int = UNLIMITED
    connections_per_s_max: int = UNLIMITED

    @classmethod
    def of_listener(cls, config: BrokerConfig, listener: str) -> ConnectionLimits:
        """Return the limits of a listener. A limit that the listener does not set has the value of the broker."""
        connections, per_s = (config.of_listener(listener, name) for name in OF_LISTENERS)
        assert isinstance(connections, int)
        assert isinstance(per_s, int)
        return cls(connections, per_s)


class Limits(msgspec.Struct, frozen=True):
    """The limits of one broker. The defaults are for tests. A negative `idle_ms_max` means no limit on idle time."""

    request_bytes_max: int = 100 << 20
    connections: ConnectionLimits = ConnectionLimits()
    listeners: Mapping[str, ConnectionLimits] = msgspec.field(default_factory=dict)
    connections_per_ip_max: int = UNLIMITED
    connections_per_ip_overrides: Mapping[str, int] = msgspec.field(default_factory=dict)
    idle_ms_max: int = 600_000
    held_requests_max: int = 500
    held_bytes_max: int = 256 << 20

    def of_nodes(self) -> Limits:
        """Return the limits for other nodes of the cluster. Those that keep clients out do not apply to them."""
        return msgspec.structs.replace(
            self, connections=ConnectionLimits(), connections_per_ip_max=UNLIMITED, connections_per_ip_overrides={}
        )

    @property
    def answer_bytes_max(self) -> int:
        """Return the maximum size of a response of an API whose response can be much longer than the request."""
        return self.held_bytes_max // ANSWER_SHARE

    @classmethod
    def of(cls, config: BrokerConfig, named: Mapping[str, tuple[str, ...]], listeners: Iterable[str]) -> Limits:
        """Return the limits of a broker with these listeners. `named` has the addresses of host names in configs."""
        share = config.pykbroker_memory_budget_bytes // BUDGET_SHARE
        queued = config.queued_max_request_bytes
        return cls(
            request_bytes_max=config.socket_request_max_bytes,
            connections=ConnectionLimits(config.max_connections, config.max_connection_creation_rate),
            listeners={name: ConnectionLimits.of_listener(config, name) for name in listeners},
            connections_per_ip_max=config.max_connections_per_ip,
            connections_per_ip_overrides=by_address(overrides(config), named),
            idle_ms_max=config.connections_max_idle_ms,
            held_requests_max=config.queued_max_requests,
            held_bytes_max=min(share, queued) if queued > 0 else share,
        )


def overrides(config: BrokerConfig) -> dict[str, int]:
    """Return the connection limits that `max.connections.per.ip.overrides` sets, by address or host name."""
    return read_host_counts("max.connections.per.ip.overrides", config.max_connections_per_ip_overrides)
