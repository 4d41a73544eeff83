"""The security protocols of listeners, which are those of Apache Kafka."""

from __future__ import annotations

from enum import IntEnum


class SecurityProtocol(IntEnum):
    """Whether connections are encrypted, and how clients authenticate. Registrations of brokers have the numbers."""

    PLAINTEXT = 0
    SSL = 1
    SASL_PLAINTEXT = 2
    SASL_SSL = 3

    @property
    def has_tls(self) -> bool:
        """Whether connections are encrypted."""
        return self in (SecurityProtocol.SSL, SecurityProtocol.SASL_SSL)

    @property
    def has_sasl(self) -> bool:
        """Whether a client must log in by SASL before its first request."""
        return self in (SecurityProtocol.SASL_PLAINTEXT, SecurityProtocol.SASL_SSL)


def protocol_of(*, has_tls: bool, has_users: bool) -> SecurityProtocol:
    """Return the protocol of the listener for clients."""
    if has_users:
        return SecurityProtocol.SASL_SSL if has_tls else SecurityProtocol.SASL_PLAINTEXT
    return SecurityProtocol.SSL if has_tls else SecurityProtocol.PLAINTEXT
