"""Tests of the parsing of addresses, topics and configs."""

from __future__ import annotations

import click
import pytest

from pykbroker.cli.parameters import address, config, named_address, topic
from pykbroker.core.address import Address, parse_address


@pytest.mark.parametrize(
    ("text", "host", "port"),
    [
        ("127.0.0.1:9092", "127.0.0.1", 9092),
        ("localhost:0", "localhost", 0),
        ("[::1]:9092", "::1", 9092),
        (":9092", "", 9092),
    ],
)
def test_an_address_is_parsed_and_prints_as_written(text: str, host: str, port: int) -> None:
    assert parse_address(text) == Address(host, port)
    assert str(parse_address(text)) == text


@pytest.mark.parametrize("text", ["", "9092", "host", "host:", "host:x", "h:65536", "h:-1", "::1:9092", "h:\u0663"])
def test_an_invalid_address_is_refused(text: str) -> None:
    with pytest.raises(ValueError, match=r"HOST:PORT|not a port"):
        parse_address(text)


def test_an_address_without_a_host_is_refused() -> None:
    with pytest.raises(click.BadParameter, match="0.0.0.0:9092"):
        address(":9092")


@pytest.mark.parametrize("text", ["orders", "orders:", "orders:0", "orders:x", "orders:-1", "or/ders:1", ":3", "..:1"])
def test_an_invalid_topic_is_refused_with_a_reason(text: str) -> None:
    with pytest.raises(click.BadParameter, match=r"NAME:PARTITIONS|Topic name is invalid"):
        topic(text)


def test_topics_and_configs_are_parsed() -> None:
    assert topic("orders:3") == ("orders", 3)
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
def test_a_listener_has_a_name_in_upper_case_or_none(text: str, name: str, host: str, port: int) -> None:
    assert named_address(text) == (name, Address(host, port))


@pytest.mark.parametrize("text", ["=h:1", "a b=h:1", "a,b=h:1", "A=", "A=:1", "A=B=h:1"])
def test_a_listener_without_a_name_or_address_is_refused(text: str) -> None:
    with pytest.raises(click.BadParameter):
        named_address(text)
