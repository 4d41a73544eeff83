"""The types of options: an address, a listener's address, a topic with its number of partitions, a config."""

from __future__ import annotations

import re

import click

from pykbroker.core.address import Address, parse_address

LISTENER_NAME = re.compile(r"[A-Za-z0-9_-]+")


def address(text: str) -> Address:
    """Parse the HOST:PORT of an option."""
    try:
        parsed = parse_address(text)
    except ValueError as error:
        raise click.BadParameter(str(error)) from None
    if not parsed.host:
        raise click.BadParameter(f"{text!r} has no host; for all interfaces use 0.0.0.0:{parsed.port}")
    return parsed


def named_address(text: str) -> tuple[str, Address]:
    """Parse the [NAME=]HOST:PORT of an option. The name is in upper case, and empty if there is none."""
    name, equals, rest = text.rpartition("=")
    if equals and not LISTENER_NAME.fullmatch(name):
        raise click.BadParameter(f"{name!r} in {text!r} is not a name; write NAME=HOST:PORT or HOST:PORT")
    return name.upper(), address(rest)


def topic(text: str) -> tuple[str, int]:
    """Parse the NAME:PARTITIONS of an option."""
    from pykbroker.core.errors import ApiError
    from pykbroker.core.names import check_topic_name

    name, _, partitions = text.rpartition(":")
    if not (partitions.isascii() and partitions.isdigit() and int(partitions) > 0):
        raise click.BadParameter(f"{text!r} is not NAME:PARTITIONS, such as orders:3")
    try:
        check_topic_name(name)
    except ApiError as error:
        raise click.BadParameter(str(error)) from None
    return name, int(partitions)


def config(text: str) -> tuple[str, str]:
    """Parse the KEY=VALUE of an option."""
    key, equals, value = text.partition("=")
    if not equals or not key.strip():
        raise click.BadParameter(f"{text!r} is not KEY=VALUE, such as num.partitions=3")
    return key.strip(), value.strip()
