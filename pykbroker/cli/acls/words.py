"""The words of the commands about ACLs: principals, operations and resources."""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple, TypeVar

import click

from pykbroker.cli.completion import group_names, topic_names
from pykbroker.cli.parameters import together
from pykbroker.core.ip_address import java_text, parse_ip
from pykbroker.core.security.operation import Operation, ResourceType

CLUSTER = "kafka-cluster"
"""The name of the only resource of type CLUSTER."""
OPTIONS = {"topic": ResourceType.TOPIC, "group": ResourceType.GROUP, "transactional_id": ResourceType.TRANSACTIONAL_ID}
USER = "User:"
F = TypeVar("F", bound=Callable[..., object])


class Resource(NamedTuple):
    """The resource that options name, or with `is_prefix` those whose names begin so."""

    kind: ResourceType
    name: str
    is_prefix: bool


def principal(text: str) -> str:
    """Return the principal of a name: User:NAME, unless a type is written."""
    if not text or text.startswith(":"):
        raise click.BadParameter(f"{text!r} is no principal: write the name of a user, or '*' for every user")
    return text if ":" in text else f"{USER}{text}"


def operations(text: str) -> tuple[Operation, ...]:
    """Return the operations of a list such as READ,WRITE."""
    names = [each.strip().upper().replace("-", "_") for each in text.split(",")]
    for name in names:
        if name not in Operation.__members__:
            raise click.BadParameter(f"{name!r} is no operation: write some of {', '.join(Operation.__members__)}")
    return tuple(dict.fromkeys(Operation[name] for name in names))


def operation_names(_context: click.Context, _parameter: click.Parameter, incomplete: str) -> list[str]:
    """Return the lists of operations that begin with a text, which may have complete operations in front."""
    listed, comma, beginning = incomplete.rpartition(",")
    return [f"{listed}{comma}{name}" for name in Operation.__members__ if name.startswith(beginning.upper())]


resource_options = together(
    click.option("--topic", metavar="NAME", shell_complete=topic_names, help="A topic; '*' stands for all."),
    click.option("--group", metavar="NAME", shell_complete=group_names, help="A group; '*' stands for all."),
    click.option("--transactional-id", metavar="NAME", help="A transactional id; '*' stands for all."),
    click.option("--cluster", is_flag=True, help="The cluster itself."),
    click.option("--prefix", is_flag=True, help="NAME is the beginning of names."),
)


def host_address(text: str) -> str:
    """Return an IP address as Java writes it, or '*'. An ACL with the name of a host would apply to no client."""
    try:
        parse_ip(text.partition("%")[0] if text != "*" else "::")
    except ValueError:
        raise click.BadParameter(f"{text!r} is no IP address: write one such as 10.0.0.7, or '*' for all") from None
    return java_text(text)


host_option = click.option(
    "--host", metavar="ADDRESS", type=host_address, default="*", help="Only clients with this IP address."
)


def resource(
    *, topic: str | None, group: str | None, transactional_id: str | None, cluster: bool, prefix: bool
) -> Resource | None:
    """Return the resource of the options, or None without any. click.UsageError: there are several."""
    given = {"topic": topic, "group": group, "transactional_id": transactional_id}
    found = [(kind, name) for option, kind in OPTIONS.items() if (name := given[option]) is not None]
    found += [(ResourceType.CLUSTER, CLUSTER)] if cluster else []
    if len(found) > 1:
        raise click.UsageError(
            "an ACL is about one resource: write one of --topic, --group, --transactional-id, --cluster"
        )
    if prefix and (not found or cluster):
        raise click.UsageError("--prefix is about the NAME of --topic, --group or --transactional-id")
    return Resource(*found[0], prefix) if found else None


def one_resource(**options: object) -> Resource:
    """Return the resource of the options. click.UsageError: there is none, or there are several."""
    found = resource(**options)  # type: ignore[arg-type]  # the options of `resource_options`
    if found is None:
        raise click.UsageError("the resource is missing: add --topic, --group, --transactional-id or --cluster")
    return found
