"""Tests of listeners in configs and options, with the rules of Apache Kafka 4.3.1."""

from __future__ import annotations

from typing import Any

import pytest

from pykbroker.core.address import Address
from pykbroker.core.config.listeners import (
    ListenerSettings,
    inter_broker_listener,
    listener_settings,
    outgoing_listener,
)
from pykbroker.core.errors import StartError

MAP = "listener.security.protocol.map"
TWO = {"listeners": "A://a:1,B://b:2", MAP: "A:PLAINTEXT,B:PLAINTEXT"}
DOCKER = {
    "listeners": "PLAINTEXT://:29092,PLAINTEXT_HOST://0.0.0.0:9092,CONTROLLER://:9093",
    MAP: "CONTROLLER:PLAINTEXT,PLAINTEXT:PLAINTEXT,PLAINTEXT_HOST:PLAINTEXT",
    "controller.listener.names": "CONTROLLER",
}


def declared(texts: dict[str, str], **options: Any) -> dict[str, tuple[str, str | None]]:
    return {
        one.name: (str(one.address), None if one.advertised is None else str(one.advertised))
        for one in listener_settings(texts, **options)
    }


def test_controller_listeners_are_ignored() -> None:
    assert declared(DOCKER) == {"PLAINTEXT": ("0.0.0.0:29092", None), "PLAINTEXT_HOST": ("0.0.0.0:9092", None)}


def test_each_listener_has_its_advertised_address() -> None:
    advertised = "PLAINTEXT://broker:29092, plaintext_host://localhost:9092,CONTROLLER://broker:9093"
    assert declared({**DOCKER, "advertised.listeners": advertised}) == {
        "PLAINTEXT": ("0.0.0.0:29092", "broker:29092"),
        "PLAINTEXT_HOST": ("0.0.0.0:9092", "localhost:9092"),
    }


def test_listeners_without_an_advertised_address_have_none() -> None:
    assert declared({**TWO, "advertised.listeners": "B://:9"}) == {"A": ("a:1", None), "B": ("b:2", None)}
    assert declared({**TWO, "advertised.listeners": "B://x:9"}) == {"A": ("a:1", None), "B": ("b:2", "x:9")}


def test_advertised_addresses_may_share_a_port() -> None:
    found = declared({**TWO, "advertised.listeners": "A://x:9,B://x:9"})
    assert found == {"A": ("a:1", "x:9"), "B": ("b:2", "x:9")}


@pytest.mark.parametrize("listeners", ["A://127.0.0.1:1,B://[::1]:1", "A://:0,B://:0"])
def test_an_ipv4_and_an_ipv6_listener_may_share_a_port_and_so_may_free_ports(listeners: str) -> None:
    assert len(declared({**TWO, "listeners": listeners})) == 2


def test_listen_options_may_name_listeners() -> None:
    listen = (("", Address("h", 1)), ("EXTERNAL", Address("h", 2)))
    advertise = (("EXTERNAL", Address("x", 3)), ("", Address("y", 4)))
    assert declared(DOCKER, listen=listen, advertise=advertise) == {
        "PLAINTEXT": ("h:1", "y:4"),
        "EXTERNAL": ("h:2", "x:3"),
    }


def test_advertise_takes_precedence_over_advertised_listeners() -> None:
    texts = {**TWO, "advertised.listeners": "A://x:1,B://x:2"}
    assert declared(texts, advertise=(("B", Address("y", 3)),)) == {"A": ("a:1", "x:1"), "B": ("b:2", "y:3")}


def test_an_advertise_option_without_a_name_applies_to_the_only_listener() -> None:
    one = {"listeners": "A://a:1", MAP: "A:PLAINTEXT"}
    assert declared(one, advertise=(("", Address("x", 3)),)) == {"A": ("a:1", "x:3")}


def test_the_default_listener_is_on_localhost() -> None:
    assert listener_settings({}) == (ListenerSettings(),)


@pytest.mark.parametrize(
    ("texts", "sentence"),
    [
        ({"listeners": ":9092"}, "listeners: ':9092' is not NAME://HOST:PORT, such as PLAINTEXT://localhost:9092"),
        ({"listeners": "PLAINTEXT://x"}, "listeners: 'x' is not HOST:PORT, such as 127.0.0.1:9092 or [::1]:9092"),
        ({"listeners": "PLAINTEXT://x:-1"}, "listeners: '-1' in 'x:-1' is not a port: 0 to 65535"),
        (
            {"listeners": "CONTROLLER://:9093"},
            "listeners has no listener for clients: add PLAINTEXT://localhost:9092 or the like, or use --listen",
        ),
        (
            {"listeners": "PLAINTEXT://:1,plaintext://:2"},
            "listeners has PLAINTEXT twice: give each listener a name of its own",
        ),
        (
            {**TWO, "advertised.listeners": "A://x:1,A://y:2"},
            "advertised.listeners has A twice: give each listener a name of its own",
        ),
        ({**TWO, "listeners": "A://a:1,B://b:1"}, "listeners: A and B share port 1: give each listener its own"),
        *(
            (
                {**TWO, "listeners": f"A://{a}:1,B://{b}:1"},
                "listeners: A and B share port 1: give each listener its own",
            )
            for a, b in [("", "[::]"), ("0.0.0.0", "[::]"), ("0.0.0.0", "[::1]"), ("127.0.0.1", "[::]")]
        ),
        (
            {**TWO, "listeners": "A://127.0.0.1:1,B://127.0.0.2:1"},
            "listeners: A and B share port 1: give each listener its own",
        ),
        (
            {"listeners": "PLAINTEXT://:1,CONTROLLER://:1"},
            "listeners: PLAINTEXT and CONTROLLER share port 1: give each listener its own",
        ),
        (
            {"listeners": "PLAINTEXT://:1,OTHER://:2"},
            "listeners: OTHER has no security protocol: add OTHER:PLAINTEXT to listener.security.protocol.map",
        ),
        (
            {"listeners": "PLAINTEXT://:1", MAP: "CONTROLLER:PLAINTEXT"},
            "listeners: PLAINTEXT has no security protocol: add PLAINTEXT:PLAINTEXT to listener.security.protocol.map",
        ),
        (
            {"listeners": "A://:1", MAP: "A:PLAIN"},
            "listener.security.protocol.map: A has the unknown protocol PLAIN: write one of PLAINTEXT, SSL,"
            " SASL_PLAINTEXT, SASL_SSL",
        ),
        (
            {"listeners": "A://:1", MAP: "A"},
            "listener.security.protocol.map: 'A' is not NAME:PROTOCOL, such as EXTERNAL:PLAINTEXT",
        ),
        (
            {**TWO, "early.start.listeners": "A, controller,C"},
            "early.start.listeners: no listener is called C: write one of A, B, CONTROLLER",
        ),
        (
            {**TWO, "advertised.listeners": "A://x:1,C://x:2"},
            "advertised.listeners: no listener is called C: write one of A, B",
        ),
        (
            {**TWO, "advertised.listeners": "A://0.0.0.0:1"},
            "advertised.listeners: clients cannot connect to 0.0.0.0:1, the address of A: write a host that they can"
            " reach, or leave it out, and clients get the address that they connected to",
        ),
    ],
)
def test_the_error_for_an_invalid_config_names_it_and_the_remedy(texts: dict[str, str], sentence: str) -> None:
    with pytest.raises(StartError) as caught:
        listener_settings(texts)
    assert str(caught.value) == sentence


@pytest.mark.parametrize(
    ("options", "sentence"),
    [
        (
            {"listen": (("", Address("h", 1)), ("", Address("h", 2)))},
            "--listen has PLAINTEXT twice: give each listener a name of its own",
        ),
        (
            {"listen": (("", Address("h", 1)), ("B", Address("i", 1)))},
            "--listen: PLAINTEXT and B share port 1: give each listener its own",
        ),
        ({"advertise": (("C", Address("h", 1)),)}, "--advertise: no listener is called C: write one of A, B"),
        ({"advertise": (("", Address("h", 1)),)}, "--advertise HOST:PORT is for one of A, B: write A=HOST:PORT"),
        (
            {"advertise": (("A", Address("::", 1)),)},
            "--advertise: clients cannot connect to [::]:1, the address of A: write a host that they can reach, or"
            " leave it out, and clients get the address that they connected to",
        ),
    ],
)
def test_the_error_for_an_invalid_option_names_it_and_the_remedy(options: dict[str, Any], sentence: str) -> None:
    with pytest.raises(StartError) as caught:
        listener_settings(TWO, **options)
    assert str(caught.value) == sentence


@pytest.mark.parametrize(
    ("texts", "name"),
    [
        ({}, "PLAINTEXT"),
        ({"inter.broker.listener.name": "b"}, "B"),
        ({"security.inter.broker.protocol": "PLAINTEXT"}, "PLAINTEXT"),
    ],
)
def test_the_inter_broker_listener_is_the_configured_one_or_plaintext(texts: dict[str, str], name: str) -> None:
    assert inter_broker_listener(texts, ["B", "PLAINTEXT"]) == name


def test_the_first_listener_is_the_inter_broker_listener_if_none_is_named_plaintext() -> None:
    assert inter_broker_listener({}, ["B", "A"]) == "B"


@pytest.mark.parametrize(
    ("texts", "sentence"),
    [
        (
            {"inter.broker.listener.name": "CONTROLLER"},
            "inter.broker.listener.name: no listener for clients is called CONTROLLER: write one of A, B",
        ),
        (
            {"security.inter.broker.protocol": "SSL"},
            "security.inter.broker.protocol: no listener for clients is called SSL: add SSL://HOST:PORT to listeners,"
            " or write one of A, B",
        ),
        (
            {"inter.broker.listener.name": "A", "security.inter.broker.protocol": "PLAINTEXT"},
            "inter.broker.listener.name and security.inter.broker.protocol exclude each other: remove one of them",
        ),
    ],
)
def test_an_unknown_inter_broker_listener_is_refused(texts: dict[str, str], sentence: str) -> None:
    with pytest.raises(StartError) as caught:
        inter_broker_listener(texts, ["A", "B"])
    assert str(caught.value) == sentence


def test_a_listener_of_other_nodes_has_the_protocol_of_the_map_or_of_its_name() -> None:
    texts = {"listener.security.protocol.map": "CONTROLLER:SASL_SSL"}
    protocols = [outgoing_listener(texts, name).protocol.name for name in ("CONTROLLER", "SSL", "OTHER")]
    assert protocols == ["SASL_SSL", "SSL", "PLAINTEXT"]
