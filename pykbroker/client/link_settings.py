"""The settings of the connections that a broker opens to other nodes."""

from __future__ import annotations

from math import inf

import msgspec

from pykbroker.client.backoff import Backoff
from pykbroker.client.connection import RESPONSE_BYTES_MAX
from pykbroker.client.reconnecting import ReconnectingConnection
from pykbroker.client.security import PLAINTEXT, ClientSecurity
from pykbroker.core.address import Address
from pykbroker.core.backoff import Uniform
from pykbroker.core.config.config import BrokerConfig
from pykbroker.world.net import Net


class LinkSettings(msgspec.Struct, frozen=True):
    """The settings with which connections are opened, with Kafka's defaults. Each comment names the Kafka config."""

    setup_timeout_ms: int = 10_000
    """socket.connection.setup.timeout.ms"""
    setup_timeout_ms_max: int = 30_000
    """socket.connection.setup.timeout.max.ms"""
    receive_buffer_bytes: int = -1
    """The size of the kernel's receive buffer; -1 keeps the kernel's own size."""
    security: ClientSecurity = PLAINTEXT
    """The TLS and the log-in of the listener of the other nodes."""

    @classmethod
    def of(cls, config: BrokerConfig, security: ClientSecurity, receive_buffer_bytes: int = -1) -> LinkSettings:
        """Return the settings of a broker's configs. Kafka has configs of the buffer for each kind of connections."""
        return cls(
            config.socket_connection_setup_timeout_ms,
            config.socket_connection_setup_timeout_max_ms,
            receive_buffer_bytes,
            security,
        )

    def connection(
        self,
        net: Net,
        address: Address,
        client_id: str,
        backoff: Backoff,
        uniform: Uniform,
        response_bytes_max: int = RESPONSE_BYTES_MAX,
        answer_s_max: float = inf,
    ) -> ReconnectingConnection:
        """Return a connection to another node, which is opened when a request needs it."""
        return ReconnectingConnection(
            net,
            *address,
            client_id,
            backoff,
            response_bytes_max,
            Backoff(uniform, self.setup_timeout_ms, self.setup_timeout_ms_max),
            answer_s_max,
            self.receive_buffer_bytes,
            self.security,
        )
