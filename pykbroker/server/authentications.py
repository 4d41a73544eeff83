"""The counts of log-ins by SASL and of handshakes of TLS on one listener, as Kafka's socket server has them."""

from __future__ import annotations

from collections.abc import Iterable

import msgspec
from msgspec.structs import replace


class Authentications(msgspec.Struct):
    """The counts since the start of the listener. A listener without TLS and SASL has zeros.

    A log-in counts on a listener with SASL, and a handshake of TLS on one without it. A handshake that fails counts on
    both.
    """

    successes: int = 0
    failures: int = 0
    successes_without_again: int = 0
    """The successes of clients that cannot authenticate again on their connection."""
    successes_again: int = 0
    """The successful re-authentications (KIP-368)."""
    failures_again: int = 0
    expired: int = 0
    """The connections that ended with their session, whose client did not authenticate again."""
    again_ns: int = 0
    """The total time of the successful re-authentications, from SaslHandshake on."""
    again_ns_longest: int = 0


def total(parts: Iterable[Authentications]) -> Authentications:
    """Return the sums of all counts, and the longest time."""
    parts = [Authentications(), *parts]
    sums = (sum(getattr(part, name) for part in parts) for name in Authentications.__struct_fields__)
    return replace(Authentications(*sums), again_ns_longest=max(part.again_ns_longest for part in parts))
