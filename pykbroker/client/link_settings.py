"""The settings of the connections that a broker opens to other nodes."""

from __future__ import annotations

import msgspec

from pykbroker.client.backoff import Backoff
from pykbroker.core.backoff import Uniform
from pykbroker.core.config.config import BrokerConfig


class LinkSettings(msgspec.Struct, frozen=True):
    """The settings with which connections are opened, with Kafka's defaults. Each comment names the Kafka config."""

    setup_timeout_ms: int = 10_000
    """socket.connection.setup.timeout.ms"""
    setup_timeout_ms_max: int = 30_000
    """socket.connection.setup.timeout.max.ms"""
    receive_buffer_bytes: int = -1
    """The size of the kernel's receive buffer; -1 keeps the kernel's own size."""

    @classmethod
    def of(cls, config: BrokerConfig, receive_buffer_bytes: int = -1) -> LinkSettings:
        """Return the settings of a broker's configs. Kafka has configs of the buffer for each kind of connections."""
        return cls(
            config.socket_connection_setup_timeout_ms,
            config.socket_connection_setup_timeout_max_ms,
            receive_buffer_bytes,
        )

    def setup_timeout(self, uniform: Uniform) -> Backoff:
        """Return the time limits of the attempts of a new connection."""
        return Backoff(uniform, self.setup_timeout_ms, self.setup_timeout_ms_max)
