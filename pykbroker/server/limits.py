"""What a listener allows: Kafka's configs of connections and requests, and how much memory those may hold."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from pykbroker.core.config.config import BrokerConfig
from pykbroker.core.config.host_counts import read_host_counts
from pykbroker.server.host_names import by_address

BUDGET_SHARE = 4
"""One part in so many of `pykbroker.memory.budget.bytes` is for requests and answers in flight."""
ANSWER_SHARE = 4
"""One part in so many of what may be held is for one answer."""
UNLIMITED = 2**31 - 1


@dataclass(frozen=True, slots=True)
class Limits:
    """The defaults are for tests. Negative `idle_ms_max`: connections may idle for ever."""

    request_bytes_max: int = 100 << 20
    connections_max: int = UNLIMITED
    connections_per_ip_max: int = UNLIMITED
    connections_per_ip_overrides: Mapping[str, int] = field(default_factory=dict)
    connections_per_s_max: int = UNLIMITED
    idle_ms_max: int = 600_000
    held_requests_max: int = 500
    held_bytes_max: int = 256 << 20

    @property
    def answer_bytes_max(self) -> int:
        """Of an answer that can be longer than its request by any factor."""
        return self.held_bytes_max // ANSWER_SHARE

    @classmethod
    def of(cls, config: BrokerConfig, named: Mapping[str, tuple[str, ...]]) -> Limits:
        """As a broker is configured; `named` are the addresses of hosts that have names there."""
        share = config.pykbroker_memory_budget_bytes // BUDGET_SHARE
        queued = config.queued_max_request_bytes
        return cls(
            request_bytes_max=config.socket_request_max_bytes,
            connections_max=config.max_connections,
            connections_per_ip_max=config.max_connections_per_ip,
            connections_per_ip_overrides=by_address(overrides(config), named),
            connections_per_s_max=config.max_connection_creation_rate,
            idle_ms_max=config.connections_max_idle_ms,
            held_requests_max=config.queued_max_requests,
            held_bytes_max=min(share, queued) if queued > 0 else share,
        )


def overrides(config: BrokerConfig) -> dict[str, int]:
    """How many connections some hosts may have, by address or name."""
    return read_host_counts("max.connections.per.ip.overrides", config.max_connections_per_ip_overrides)
