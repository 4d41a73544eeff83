"""Tests of the parsing of addresses, topics, configs and times on the command line."""

from __future__ import annotations

import click
import pytest
from click.testing import CliRunner

from pykbroker.cli.main import pykbroker
from pykbroker.cli.parameters import address, bootstrap_servers, config, milliseconds, named_address, time, topic
from pykbroker.core.address import Address, parse_address
from pykbroker.core.new_topic import NewTopic


@pytest.mark.parametrize(
    ("text", "host", "port"),
    [
        ("127.0.0.1:9092", "127.0.0.1", 9092),
        ("localhost:0", "localhost", 0),
        ("[::1]:9092", "::1", 9092),
        (":9092", "", 9092),
        ("[fe80::1%eth0]:9092", "fe80::1%eth0", 9092),
        ("a_b-c.d:9092", "a_b-c.d", 9092),
    ],
)
def test_an_address_is_parsed_and_prints_as_written(text: str, host: str, port: int) -> None:
    assert parse_address(text) == Address(host, port)
    assert str(parse_address(text)) == text


@pytest.mark.parametrize("text", ["", "9092", "host", "host:", "host:x", "h:65536", "h:-1", "::1:9092", "h:\u0663"])
def test_an_invalid_address_is_refused(text: str) -> None:
    with pytest.raises(ValueError, match=r"HOST:PORT|not a port"):
        parse_address(text)


@pytest.mark.parametrize("host", ["_{HOSTNAME_COMMAND}", "$HOST", "a b", "a/b", "http://a", "[a b]", "k\u00e4se"])
def test_an_address_with_characters_that_kafka_refuses_in_a_host_is_refused(host: str) -> None:
    with pytest.raises(ValueError, match=r"is not a host: write a name or an IP address|HOST:PORT"):
        parse_address(f"{host}:9092")


def test_an_address_without_a_host_is_refused() -> None:
    with pytest.raises(click.BadParameter, match="0.0.0.0:9092"):
        address(":9092")


@pytest.mark.parametrize("text", ["", "orders:", "orders:0", "orders:x", "orders:-1", "or/ders:1", ":3", "..:1"])
def test_an_invalid_topic_is_refused_with_a_reason(text: str) -> None:
    with pytest.raises(click.BadParameter, match=r"NAME\[:PARTITIONS|Topic name is invalid"):
        topic(text)


@pytest.mark.parametrize(
    ("text", "parsed"),
    [
        ("orders", NewTopic("orders")),
        ("orders:3", NewTopic("orders", 3)),
        ("orders:3:retention.ms=5", NewTopic("orders", 3, {"retention.ms": "5"})),
        (
            "orders:3:cleanup.policy=delete,compact,retention.ms=5",
            NewTopic("orders", 3, {"cleanup.policy": "delete,compact", "retention.ms": "5"}),
        ),
    ],
)
def test_a_topic_may_have_partitions_and_configs(text: str, parsed: NewTopic) -> None:
    assert topic(text) == parsed._replace(source="--topic")


@pytest.mark.parametrize("words", [("start", "--set"), ("produce", "t", "-X"), ("pipeline", "archive", "--kafka")])
def test_what_follows_a_name_without_an_equals_sign_may_be_a_password(words: tuple[str, ...]) -> None:
    refused = CliRunner().invoke(pykbroker, [*words, "ssl.key.password:canary"])
    assert (refused.exit_code, "'ssl.key.password' is no" in refused.output) == (2, True)
    assert "canary" not in refused.output


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("orders:3:retention.msec=5", "did you mean retention.ms"),
        ("orders:3:retention.ms", "is not KEY=VALUE, such as retention.ms=60000"),
        ("orders:3:", "is not KEY=VALUE, such as retention.ms=60000"),
        ("orders:retention.ms=5", "such as orders:3 or orders:3:retention.ms=60000"),
    ],
)
def test_an_invalid_config_of_a_topic_is_refused_with_what_to_write(text: str, reason: str) -> None:
    with pytest.raises(click.BadParameter, match=reason):
        topic(text)


@pytest.mark.parametrize(
    ("text", "addresses"),
    [
        ("h", [("h", 9092)]),
        ("h:1", [("h", 1)]),
        ("a, b:9093,[::1],[::1]:1", [("a", 9092), ("b", 9093), ("::1", 9092), ("::1", 1)]),
    ],
)
def test_bootstrap_servers_have_port_9092_unless_another_is_written(text: str, addresses: list[object]) -> None:
    assert list(bootstrap_servers(text)) == addresses


@pytest.mark.parametrize(
    "text", ["", ",", "a,", ":9092", "h:x", "::1", "9092", "http://a:1", "PLAINTEXT=a:1", "a b", "a:0"]
)
def test_invalid_bootstrap_servers_are_refused_with_the_form_to_write(text: str) -> None:
    with pytest.raises(click.BadParameter, match=r"is not HOST\[:PORT\], such as"):
        bootstrap_servers(text)


def test_configs_are_parsed() -> None:
    assert config("log.dirs = /a=b ") == ("log.dirs", "/a=b")
    for text in ("log.dirs", "=x"):
        with pytest.raises(click.BadParameter, match="KEY=VALUE"):
            config(text)


@pytest.mark.parametrize(
    ("text", "name", "host", "port"),
    [
        ("127.0.0.1:9092", "", "127.0.0.1", 9092),
        ("external=[::1]:0", "EXTERNAL", "::1", 0),
        ("PLAINTEXT_HOST=h:1", "PLAINTEXT_HOST", "h", 1),
    ],
)
def test_a_listener_name_is_optional_and_converted_to_upper_case(text: str, name: str, host: str, port: int) -> None:
    assert named_address(text) == (name, Address(host, port))


@pytest.mark.parametrize("text", ["=h:1", "a b=h:1", "a,b=h:1", "A=", "A=:1", "A=B=h:1"])
def test_a_listener_without_a_name_or_address_is_refused(text: str) -> None:
    with pytest.raises(click.BadParameter):
        named_address(text)


def test_a_time_is_not_rounded_down_to_the_ms_before() -> None:
    assert milliseconds(time("1970-01-01T00:00:01.001+00:00")) == 1001
