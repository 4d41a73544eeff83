"""Tests of configs with the prefixes of a listener and of a SASL mechanism, in Kafka's order of precedence."""

from __future__ import annotations

import pytest

from pykbroker.core.config.listener_configs import ListenerConfigs, ignored_configs, listener_config
from pykbroker.core.config.listeners import ListenerSettings
from pykbroker.core.errors import ApiError
from pykbroker.core.security.protocol import SecurityProtocol

REAUTH, RECEIVE, JAAS = "connections.max.reauth.ms", "sasl.server.max.receive.size", "sasl.jaas.config"


def listener(protocol: SecurityProtocol) -> ListenerSettings:
    return ListenerSettings("EXT", protocol=protocol)


def test_the_mechanism_of_a_listener_comes_before_the_listener_and_that_before_the_broker() -> None:
    texts = {
        REAUTH: "1",
        f"listener.name.ext.{REAUTH}": "2",
        f"listener.name.ext.scram-sha-256.{REAUTH}": "3",
        f"plain.{REAUTH}": "4",
    }
    assert listener_config(texts, "EXT", REAUTH, "SCRAM-SHA-256") == "3"
    assert listener_config(texts, "EXT", REAUTH, "PLAIN") == "2"
    assert listener_config(texts, "EXT", REAUTH) == "2"
    assert listener_config(texts, "INT", REAUTH, "PLAIN") == "1"
    assert listener_config({}, "INT", REAUTH, "PLAIN") is None


def test_a_prefix_has_the_listener_and_the_mechanism_in_lower_case() -> None:
    texts = {"listener.name.EXT.ssl.key.password": "a", f"listener.name.ext.PLAIN.{JAAS}": "b"}
    assert listener_config(texts, "EXT", "ssl.key.password") is None
    assert listener_config(texts, "EXT", JAAS, "PLAIN") is None


@pytest.mark.parametrize(
    "name", [JAAS, "sasl.server.callback.handler.class", "sasl.login.class", "sasl.login.callback.handler.class"]
)
def test_a_login_is_configured_only_with_listener_and_mechanism(name: str) -> None:
    ignored = {name: "a", f"listener.name.ext.{name}": "b", f"plain.{name}": "c"}
    assert listener_config(ignored, "EXT", name, "PLAIN") is None
    assert listener_config(ignored, "EXT", name) is None
    assert listener_config({f"listener.name.ext.plain.{name}": "d", **ignored}, "EXT", name, "PLAIN") == "d"
    assert list(ignored_configs(ignored, [listener(SecurityProtocol.SASL_PLAINTEXT)])) == [
        f"{written} has no effect without a SASL mechanism: write listener.name.ext.MECHANISM.{name}"
        for written in (f"listener.name.ext.{name}", name)
    ]
    assert list(ignored_configs(ignored, [listener(SecurityProtocol.SSL)])) == []


@pytest.mark.parametrize(
    ("prefix", "remedy"),
    [
        ("EXT", "write listener.name.ext.ssl.client.auth"),
        ("Later", "write listener.name.later.ssl.client.auth"),
        ("etx", "replace etx by one of ext"),
        ("ext", None),
        ("later", None),
        ("controller", None),
    ],
)
def test_a_prefix_of_no_listener_is_warned_of(prefix: str, remedy: str | None) -> None:
    name = "ssl.client.auth"
    texts = {"listener.security.protocol.map": "EXT:SSL,LATER:SSL", f"listener.name.{prefix}.{name}": "required"}
    sentence = f"listener.name.{prefix}.{name} has no effect, since no listener has this prefix: {remedy}"
    assert list(ignored_configs(texts, [listener(SecurityProtocol.SSL)])) == ([] if remedy is None else [sentence])


def test_a_value_is_read_and_checked_as_that_of_the_config_without_prefix() -> None:
    texts = {f"listener.name.ext.{RECEIVE}": "7", "listener.name.ext.ssl.client.auth": "often"}
    configs = ListenerConfigs(texts, listener(SecurityProtocol.SSL))
    assert configs.get(RECEIVE, "PLAIN") == 7
    assert configs.get("ssl.protocol") == "TLSv1.3"
    with pytest.raises(ApiError, match="Invalid value often for configuration ssl.client.auth"):
        configs.get("ssl.client.auth")


def test_client_certificates_are_required_on_sasl_ssl_only_with_the_prefix_of_the_listener() -> None:
    texts = {"ssl.client.auth": "required"}
    own = {**texts, "listener.name.ext.ssl.client.auth": "requested"}
    assert ListenerConfigs(texts, listener(SecurityProtocol.SSL)).get("ssl.client.auth") == "required"
    assert ListenerConfigs(own, listener(SecurityProtocol.SSL)).get("ssl.client.auth") == "requested"
    assert ListenerConfigs(texts, listener(SecurityProtocol.SASL_SSL)).get("ssl.client.auth") == "none"
    assert ListenerConfigs(own, listener(SecurityProtocol.SASL_SSL)).get("ssl.client.auth") == "requested"
    assert list(ignored_configs(texts, [*map(listener, SecurityProtocol)])) == [
        "ssl.client.auth has no effect on EXT, which uses SASL_SSL: write listener.name.ext.ssl.client.auth"
    ]
    assert list(ignored_configs(own, [*map(listener, SecurityProtocol)])) == []
