"""The metrics of log-ins, TLS and the authorizer, under the names of Kafka's JMX exporter."""

from __future__ import annotations

import msgspec

from tests.unit.console.observed import FOUND, Observed, Samples

SERVER = "kafka_server_socket_server_metrics_"
PLUGINS = "kafka_server_plugins_"


def of(found: Samples, name: str) -> dict[str, float]:
    """Return the values of a metric by listener."""
    return {dict(labels).get("listener", ""): value for (one, labels), value in found.items() if one == name}


async def test_log_ins_are_counted_by_listener() -> None:
    found = await Observed().scrape()
    names = [
        "successful_authentication_total",
        "failed_authentication_total",
        "successful_authentication_no_reauth_total",
        "successful_reauthentication_total",
        "failed_reauthentication_total",
        "expired_connections_killed_count",
    ]
    assert [of(found, SERVER + name) for name in names] == [{"PLAINTEXT": 0, "SASL": 21 + at} for at in range(6)]
    assert found["kafka_network_socketserver_expiredconnectionskilledcount", ()] == 26
    latencies = [of(found, f"{SERVER}reauthentication_latency_{name}") for name in ("avg", "max")]
    assert latencies == [{"PLAINTEXT": 0, "SASL": 1.5}, {"PLAINTEXT": 0, "SASL": 2.5}]


async def test_connections_with_tls_are_counted_by_version_and_cipher_suite() -> None:
    found = await Observed().scrape()
    rows = {labels: value for (name, labels), value in found.items() if name == f"{SERVER}connections_tls_info"}
    assert [(*dict(labels).values(), value) for labels, value in rows.items()] == [
        ("TLS_AES_256_GCM_SHA384", "SASL", "0", "TLSv1.3", 3),
        ("TLS_ECDHE_RSA_WITH_AES", "SSL", "0", "TLSv1.2", 2),
    ]


async def test_an_authorizer_has_its_acls_and_its_decisions_per_minute() -> None:
    without = msgspec.structs.replace(FOUND, authorizer=None)
    assert not [name for name, _ in await Observed(without).scrape() if name.startswith(PLUGINS)]
    found = await Observed().scrape()
    labels = (("class", "StandardAuthorizer"), ("config", "authorizer.class.name"), ("role", "broker"))
    names = [
        "acls_total_count",
        *(f"authorization_{each}_rate_per_minute" for each in ("request", "allowed", "denied")),
    ]
    assert [found[PLUGINS + name, labels] for name in names] == [7, 31.5, 30, 1.5]
