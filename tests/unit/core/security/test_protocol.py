"""Tests of security protocols, whose names and numbers are those of Apache Kafka."""

from __future__ import annotations

from pykbroker.core.security.protocol import SecurityProtocol


def test_each_protocol_says_whether_it_has_tls_and_sasl() -> None:
    assert {each.name: (each.value, each.has_tls, each.has_sasl) for each in SecurityProtocol} == {
        "PLAINTEXT": (0, False, False),
        "SSL": (1, True, False),
        "SASL_PLAINTEXT": (2, False, True),
        "SASL_SSL": (3, True, True),
    }
