"""Options that several commands have, and the types of options: an address, a topic to create, a time and others."""

from __future__ import annotations

import os
import re
from collections.abc import Callable
from datetime import datetime
from functools import reduce
from typing import Any, TypeVar

import click

from pykbroker.core.address import Address, parse_address
from pykbroker.core.new_topic import PARTITIONS_MAX, NewTopic
from wire.sentinels import BROKER_DEFAULT

DEFAULT_PORT = 9092
OFFSET_MAX = 2**63 - 1
TOPIC_FORM = "NAME[:PARTITIONS[:KEY=VALUE,...]]"
PARTITION_FORM = "TOPIC[:PARTITION]"
BROKER_HOST = re.compile(r"[^\s/=@]+")
F = TypeVar("F", bound=Callable[..., Any])
CONFIG_NAME = re.compile(r"[\w.-]*")
LISTENER_NAME = re.compile(r"[A-Za-z0-9_-]+")


def together(*options: Callable[[F], F]) -> Callable[[F], F]:
    """Return the decorator that adds several options to a command. The help has them in this order."""
    return lambda command: reduce(lambda found, option: option(found), reversed(options), command)


def set_option(sentence: str) -> Callable[[F], F]:
    """Return the option --set with this sentence in the help."""
    return click.option(
        "--set", "configs", type=config, metavar="KEY=VALUE", multiple=True, help=f"{sentence} Repeatable."
    )


def console_option(sentences: str) -> Callable[[F], F]:
    """Return the option --console with these sentences in the help."""
    return click.option(
        "--console",
        envvar="PYKBROKER_CONSOLE",
        show_envvar=True,
        type=address,
        metavar="HOST:PORT",
        help=f"{sentences} Requires pip install 'pykbroker[console]'.",
    )


log_level_option = click.option(
    "--log-level",
    envvar="PYKBROKER_LOG_LEVEL",
    show_envvar=True,
    type=click.Choice(["debug", "info", "warning", "error"]),
    default="info",
    show_default=True,
    help="The least severe level that is written to stderr.",
)


def address(text: str) -> Address:
    """Parse the HOST:PORT of an option."""
    try:
        parsed = parse_address(text)
    except ValueError as error:
        raise click.BadParameter(str(error)) from None
    if not parsed.host:
        raise click.BadParameter(f"{text!r} has no host; for all interfaces use 0.0.0.0:{parsed.port}")
    return parsed


def bootstrap_servers(text: str) -> tuple[Address, ...]:
    """Parse the HOST[:PORT],... of an option. The port is `DEFAULT_PORT` where it is left out."""
    return tuple(broker(each.strip()) for each in text.split(","))


def broker(text: str) -> Address:
    """Parse the HOST[:PORT] of a broker."""
    bare = ":" not in text or (text.startswith("[") and text.endswith("]"))
    try:
        parsed = parse_address(f"{text}:{DEFAULT_PORT}" if bare else text)
    except ValueError:
        parsed = Address("", 0)
    if not BROKER_HOST.fullmatch(parsed.host) or parsed.host.isdigit() or not parsed.port:
        raise click.BadParameter(f"{text!r} is not HOST[:PORT], such as localhost, kafka1:9093 or [::1]:9092")
    return parsed


def named_address(text: str) -> tuple[str, Address]:
    """Parse the [NAME=]HOST:PORT of an option. The name is in upper case, and empty if there is none."""
    name, equals, rest = text.rpartition("=")
    if equals and not LISTENER_NAME.fullmatch(name):
        raise click.BadParameter(f"{name!r} in {text!r} is not a name; write NAME=HOST:PORT or HOST:PORT")
    return name.upper(), address(rest)


def topic(text: str) -> NewTopic:
    """Parse the NAME[:PARTITIONS[:KEY=VALUE,...]] of an option."""
    from pykbroker.core.errors import ApiError
    from pykbroker.core.names import check_topic_name

    name, _, rest = text.partition(":")
    partitions, colon, configs = rest.partition(":")
    if ":" in text and not (partitions.isascii() and partitions.isdigit() and 0 < int(partitions) <= PARTITIONS_MAX):
        raise click.BadParameter(f"{text!r} is not {TOPIC_FORM}, such as orders:3 or orders:3:retention.ms=60000")
    try:
        check_topic_name(name)
    except ApiError as error:
        raise click.BadParameter(str(error)) from None
    pairs = dict(topic_config(each) for each in split_configs(configs)) if colon else {}
    return NewTopic(name, int(partitions) if partitions else BROKER_DEFAULT, pairs, source="--topic")


def split_configs(text: str) -> list[str]:
    """Split KEY=VALUE,... at the commas before a key. A value such as delete,compact keeps its own."""
    parts: list[str] = []
    for part in text.split(","):
        if parts and "=" not in part:
            parts[-1] += "," + part
        else:
            parts.append(part)
    return parts


def topic_config(text: str) -> tuple[str, str]:
    """Parse the KEY=VALUE of a topic's config. click.BadParameter: Kafka has no such config."""
    from pykbroker.core.config.names import nearest
    from pykbroker.core.config.table import TOPIC

    key, value = config(text, "retention.ms=60000")
    if key not in TOPIC:
        raise click.BadParameter(f"there is no topic config {key}{nearest(key, TOPIC)}")
    return key, value


def config(text: str, example: str = "num.partitions=3") -> tuple[str, str]:
    """Parse the KEY=VALUE of an option."""
    key, equals, value = text.partition("=")
    if not equals or not key.strip():
        raise click.BadParameter(f"{name_in(text)!r} is not KEY=VALUE, such as {example}")
    return key.strip(), value.strip()


def name_in(text: str) -> str:
    """Return the name at the beginning of a text for an error. What follows without a `=` may be a password."""
    found = CONFIG_NAME.match(text)
    assert found is not None
    return found[0]


def partition(text: str) -> tuple[str, int | None]:
    """Parse the TOPIC[:PARTITION] of an argument. None stands for all partitions."""
    name, colon, index = text.partition(":")
    if not name or (colon and not (index.isascii() and index.isdigit() and int(index) < PARTITIONS_MAX)):
        raise click.BadParameter(f"{text!r} is not {PARTITION_FORM}, such as orders or orders:0")
    return name, int(index) if colon else None


def time(text: str, refusal: str = "not a time") -> datetime:
    """Parse an ISO time. A time without a zone is local.

    A time before 1970 is refused: -1 ms stands for the end of a log, and -2 ms for its start.
    """
    try:
        parsed = datetime.fromisoformat(text).astimezone()
    except (ValueError, OverflowError):
        raise click.BadParameter(f"{text!r} is {refusal} such as 2026-01-31T12:00:00") from None
    if parsed.timestamp() < 0:
        raise click.BadParameter(f"{text!r} is before 1970, where the timestamps of records begin")
    return parsed


def milliseconds(time: datetime) -> int:
    """Return the ms since 1970."""
    return round(time.timestamp() * 1000)


def descriptor(text: str) -> int:
    """Parse the number of a descriptor that this process has inherited."""
    try:
        os.fstat(int(text))
    except (ValueError, OverflowError, OSError):
        raise click.BadParameter(f"{text!r} is no open file descriptor") from None
    return int(text)
