"""The metrics of log-ins, of TLS and of the authorizer, with the names that they have in Kafka's JMX exporter."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING

from pykbroker.console.text import Family, gauge, labels

if TYPE_CHECKING:
    from pykbroker.broker import BrokerStatistics
    from pykbroker.broker.decision_rates import AuthorizerStatistics
    from pykbroker.server.authentications import Authentications

MS_NS = 1_000_000
COUNTS: tuple[tuple[str, str, str, Callable[[Authentications], float]], ...] = (
    (
        "successful_authentication_total",
        "counter",
        "Clients that logged in by SASL, or by a handshake of TLS on a listener without SASL",
        lambda counts: counts.successes,
    ),
    (
        "failed_authentication_total",
        "counter",
        "Log-ins by SASL and handshakes of TLS that failed",
        lambda counts: counts.failures,
    ),
    (
        "successful_authentication_no_reauth_total",
        "counter",
        "Clients that logged in and cannot do so again on the same connection",
        lambda counts: counts.successes_without_again,
    ),
    (
        "successful_reauthentication_total",
        "counter",
        "Log-ins by SASL on a connection with a session",
        lambda counts: counts.successes_again,
    ),
    (
        "failed_reauthentication_total",
        "counter",
        "Log-ins by SASL that failed on a connection with a session",
        lambda counts: counts.failures_again,
    ),
    (
        "reauthentication_latency_avg",
        "gauge",
        "Mean time in ms of the log-ins on connections with a session, since the start",
        lambda counts: counts.again_ns / MS_NS / max(1, counts.successes_again),
    ),
    (
        "reauthentication_latency_max",
        "gauge",
        "Longest time in ms of a log-in on a connection with a session, since the start",
        lambda counts: counts.again_ns_longest / MS_NS,
    ),
    (
        "expired_connections_killed_count",
        "gauge",
        "Connections that ended with the session of a client that did not log in again",
        lambda counts: counts.expired,
    ),
)
"""The name, kind, HELP text and value of each metric of log-ins that Kafka has for a listener."""

DECISIONS: tuple[tuple[str, str, Callable[[AuthorizerStatistics], float]], ...] = (
    ("acls_total_count", "ACLs that the authorizer has", lambda found: found.acls),
    (
        "authorization_request_rate_per_minute",
        "Decisions of the authorizer per minute, in the last 30 to 60 s",
        lambda found: found.allowed_per_minute + found.denied_per_minute,
    ),
    (
        "authorization_allowed_rate_per_minute",
        "Operations that the authorizer allowed per minute, in the last 30 to 60 s",
        lambda found: found.allowed_per_minute,
    ),
    (
        "authorization_denied_rate_per_minute",
        "Operations that the authorizer denied per minute, in the last 30 to 60 s",
        lambda found: found.denied_per_minute,
    ),
)
"""The name, HELP text and value of each metric of Kafka's authorizer."""
PLUGIN = {"config": "authorizer.class.name", "class": "StandardAuthorizer", "role": "broker"}


def security_families(found: BrokerStatistics) -> Iterator[Family]:
    """Yield the log-ins and the connections with TLS by listener, and the decisions if there is an authorizer."""
    by_listener = found.server.authentications.items()
    for name, kind, documentation, value in COUNTS:
        samples = [(labels(listener=each, networkProcessor=0), value(counts)) for each, counts in by_listener]
        yield Family(f"kafka_server_socket_server_metrics_{name}", kind, documentation, samples)
    yield gauge(
        "kafka_network_socketserver_expiredconnectionskilledcount",
        "Connections of all listeners that ended with the session of a client that did not log in again",
        sum(counts.expired for _, counts in by_listener),
    )
    yield Family(
        "kafka_server_socket_server_metrics_connections_tls_info",
        "gauge",
        "Open connections with TLS by listener, version and cipher suite",
        [
            (labels(cipher=cipher, protocol=version, listener=listener, networkProcessor=0), count)
            for (listener, version, cipher), count in found.server.tls.items()
        ],
    )
    if found.authorizer is not None:
        for name, documentation, rate in DECISIONS:
            sample = (labels(**PLUGIN), rate(found.authorizer))
            yield Family(f"kafka_server_plugins_{name}", "gauge", documentation, [sample])
