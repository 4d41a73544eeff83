"""Tests of changes to the listeners of a running broker, each with the answer of Apache Kafka 4.3.1."""

from __future__ import annotations

import pytest

from pykbroker.core.config.broker_change import check_broker_change
from pykbroker.core.config.config import BrokerConfig
from pykbroker.core.errors import ApiError
from wire.error_codes import ErrorCode

LISTENERS, MAP, ADVERTISED = "listeners", "listener.security.protocol.map", "advertised.listeners"
BASE = "PLAINTEXT://127.0.0.1:1,CONTROLLER://127.0.0.1:2"
KNOWN = "PLAINTEXT:PLAINTEXT,CONTROLLER:PLAINTEXT,EXT:PLAINTEXT"
BOTH = f"{BASE},EXT://127.0.0.1:5"
STATIC = {LISTENERS: BASE, MAP: KNOWN}
APART = {**STATIC, ADVERTISED: "PLAINTEXT://127.0.0.1:1"}


def change(static: dict[str, str], before: dict[str, str], wanted: dict[str, str]) -> None:
    """Check a change of the dynamic configs of broker 1 from `before` to `wanted`."""
    check_broker_change("1", wanted, BrokerConfig.from_mapping(static).with_dynamic({}, before))


@pytest.mark.parametrize("static", [STATIC, APART])
def test_a_listener_is_added(static: dict[str, str]) -> None:
    change(static, {}, {LISTENERS: BOTH})
    change(static, {}, {LISTENERS: f"{BASE}, new://:0", MAP: f"{KNOWN},NEW:plaintext"})
    change(static, {LISTENERS: BOTH}, {LISTENERS: f"{BOTH},NEW://[::1]:5", MAP: f"{KNOWN},NEW:PLAINTEXT"})


@pytest.mark.parametrize("wanted", [{LISTENERS: BASE}, {}])
def test_a_listener_is_removed_only_if_it_is_not_advertised(wanted: dict[str, str]) -> None:
    change(APART, {LISTENERS: BOTH}, wanted)
    with pytest.raises(ApiError) as refused:
        change(STATIC, {LISTENERS: BOTH}, wanted)
    assert refused.value.code == ErrorCode.INVALID_REQUEST
    assert str(refused.value) == (
        "Advertised listeners 'PLAINTEXT, EXT' must be a subset of listeners 'PLAINTEXT, CONTROLLER'"
    )


def test_an_open_listener_keeps_its_address_whatever_is_written() -> None:
    change(APART, {LISTENERS: BOTH}, {LISTENERS: BOTH.replace(":5", ":6")})
    change(STATIC, {}, {LISTENERS: BASE.replace(":1,", ":8,")})


@pytest.mark.parametrize(
    ("wanted", "sentence"),
    [
        ({LISTENERS: ""}, "Configuration 'listeners' must not be empty. Valid values include: any non-empty value"),
        (
            {LISTENERS: "PLAINTEXT"},
            "Error creating broker listeners from '[PLAINTEXT]': Unable to parse PLAINTEXT to a broker endpoint",
        ),
        (
            {LISTENERS: f"{BASE},EXT://127.0.0.1"},
            "Error creating broker listeners from '[PLAINTEXT://127.0.0.1:1, CONTROLLER://127.0.0.1:2,"
            " EXT://127.0.0.1]': Unable to parse EXT://127.0.0.1 to a broker endpoint",
        ),
        (
            {LISTENERS: "PLAINTEXT://:1,NOPE://:6"},
            "Error creating broker listeners from '[PLAINTEXT://:1, NOPE://:6]': No security protocol defined for"
            " listener NOPE",
        ),
        (
            {LISTENERS: "PLAINTEXT://:1,PLAINTEXT://:5"},
            "Error creating broker listeners from '[PLAINTEXT://:1, PLAINTEXT://:5]': Each listener must have a"
            " different name, listeners: [PLAINTEXT://:1, PLAINTEXT://:5]",
        ),
        *(
            (
                {LISTENERS: f"PLAINTEXT://{one}:1,EXT://{other}:1"},
                f"Error creating broker listeners from '[PLAINTEXT://{one}:1, EXT://{other}:1]': {rule}, listeners:"
                f" [PLAINTEXT://{one}:1, EXT://{other}:1]{port}",
            )
            for one, other, rule, port in (
                ("", "host", "Each listener must have a different port", ""),
                (
                    "",
                    "127.0.0.1",
                    "Each listener must have a different port unless exactly one listener has an IPv4 address and the"
                    " other IPv6 address",
                    ", port: 1",
                ),
                (
                    "127.0.0.1",
                    "127.0.0.2",
                    "If you have two listeners on the same port then one needs to be IPv4 and the other IPv6",
                    ", port: 1",
                ),
            )
        ),
        (
            {LISTENERS: "CONTROLLER://127.0.0.1:2,EXT://127.0.0.1:5"},
            "inter.broker.listener.name must be a listener name defined in advertised.listeners. The valid options"
            " based on currently configured listeners are EXT",
        ),
        (
            {LISTENERS: "PLAINTEXT://127.0.0.1:1"},
            "controller.listener.names must contain at least one value appearing in the 'listeners' configuration when"
            " running the KRaft controller role",
        ),
        (
            {MAP: KNOWN.replace("PLAINTEXT:PLAINTEXT", "PLAINTEXT:SSL")},
            "Security protocol cannot be updated for existing listener PLAINTEXT",
        ),
        (
            {MAP: "CONTROLLER:PLAINTEXT"},
            f"Error creating broker listeners from '[{BASE.replace(',', ', ')}]': No security protocol defined for"
            " listener PLAINTEXT",
        ),
        (
            {MAP: f"{KNOWN},EXT:TLS"},
            "listener.security.protocol.map: EXT has the unknown protocol TLS: write one of PLAINTEXT, SSL,"
            " SASL_PLAINTEXT, SASL_SSL",
        ),
        (
            {LISTENERS: BOTH, MAP: f"{KNOWN},EXT:SASL_SSL"},
            "sasl.enabled.mechanisms of the listener EXT has GSSAPI, and pykbroker has PLAIN, SCRAM-SHA-256,"
            " SCRAM-SHA-512: write listener.name.ext.sasl.enabled.mechanisms=SCRAM-SHA-256 or the like",
        ),
    ],
)
def test_the_error_for_listeners_that_cannot_be_is_that_of_kafka(wanted: dict[str, str], sentence: str) -> None:
    with pytest.raises(ApiError) as refused:
        change(STATIC, {}, wanted)
    assert refused.value.code == ErrorCode.INVALID_REQUEST
    assert str(refused.value) == sentence


@pytest.mark.parametrize(
    ("name", "text", "may_change"),
    [
        ("ssl.keystore.location", "/x", True),
        ("ssl.truststore.certificates", "x", True),
        ("max.connections", "7", True),
        ("num.network.threads", "4", True),
        ("ssl.enabled.protocols", "TLSv1.2", False),
        ("ssl.client.auth", "required", False),
        ("sasl.enabled.mechanisms", "PLAIN", False),
        ("plain.sasl.jaas.config", "x", False),
        ("max.connections.per.ip", "7", False),
        ("foo", "7", False),
    ],
)
def test_an_open_listener_keeps_most_of_its_configs_while_listeners_change(
    name: str, text: str, may_change: bool
) -> None:
    own = {f"listener.name.plaintext.{name}": text}
    change(STATIC, {}, own)  # it counts once the listener is opened anew
    change(STATIC, own, {**own, LISTENERS: BOTH})
    change(STATIC, {}, {f"listener.name.ext.{name}": text, LISTENERS: BOTH})
    if may_change:
        change(STATIC, {}, {**own, LISTENERS: BOTH})
        return
    with pytest.raises(ApiError) as refused:
        change(STATIC, {}, {**own, LISTENERS: BOTH})
    assert refused.value.code == ErrorCode.INVALID_REQUEST
    assert str(refused.value) == (
        "Configs cannot be updated dynamically for existing listener PLAINTEXT, "
        "restart broker or create a new listener for update"
    )


@pytest.mark.parametrize("name", [LISTENERS, MAP])
def test_listeners_are_those_of_one_broker(name: str) -> None:
    config = BrokerConfig.from_mapping(STATIC)
    with pytest.raises(ApiError, match=rf"broker id must be specified: \[{name}\]"):
        check_broker_change("", {name: STATIC[name]}, config)
