"""The commands of `pykbroker groups`: list, describe, reset and delete the groups of any Kafka broker."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import closing
from typing import TYPE_CHECKING

import click

from pykbroker.cli.ask import asking, refuse
from pykbroker.cli.completion import group_names, topic_names
from pykbroker.cli.groups.describe import describe
from pykbroker.cli.groups.reset import reset
from pykbroker.cli.parameters import PARTITION_FORM, partition
from pykbroker.cli.tables import Table, json_option

if TYPE_CHECKING:
    from pykbroker.client.admin.admin import Admin
    from pykbroker.client.group_coordinators import GroupCoordinators
    from pykbroker.core.topic_partition import TopicPartition

LISTED = ("group", "type", "state", "protocol", "coordinator", "members")
STATES = (
    "PreparingRebalance",
    "CompletingRebalance",
    "Assigning",
    "Reconciling",
    "Stable",
    "Empty",
    "Dead",
    "NotReady",
)
TYPES = ("Consumer", "Classic", "Share", "Streams")


@click.group()
def groups() -> None:
    """List, describe, reset and delete the groups of a running cluster."""


@groups.command("list")
@click.option(
    "--state",
    "states",
    type=click.Choice(STATES, case_sensitive=False),
    multiple=True,
    help="List only groups in this state. Repeatable.",
)
@click.option(
    "--type",
    "types",
    type=click.Choice(TYPES, case_sensitive=False),
    multiple=True,
    help="List only groups of this type. Repeatable.",
)
@json_option
@asking
async def list_groups(admin: Admin, states: Sequence[str], types: Sequence[str], as_json: bool) -> None:
    """List all groups, with their numbers of members."""
    from pykbroker.client.admin.groups import list_groups

    Table(LISTED, await list_groups(admin, states, types)).show(as_json=as_json)


@groups.command()
@click.argument("names", nargs=-1, required=True, metavar="GROUP...", shell_complete=group_names)
@click.option(
    "--topic",
    "partitions",
    type=partition,
    multiple=True,
    metavar=PARTITION_FORM,
    shell_complete=topic_names,
    help="Keep the groups, and delete only their committed offsets of this topic or partition. Repeatable.",
)
@asking
async def delete(admin: Admin, names: Sequence[str], partitions: Sequence[tuple[str, int | None]]) -> None:
    """Delete groups without members, and all their committed offsets.

    A group that cannot be deleted does not prevent the deletion of other groups.
    """
    from pykbroker.client.group_coordinators import GroupCoordinators

    with closing(GroupCoordinators(admin)) as coordinators:
        if partitions:
            refusals = [each for name in names for each in await forget(coordinators, name, partitions)]
        else:
            refusals = await remove(coordinators, names)
    refuse(dict.fromkeys(refusals))


groups.add_command(describe)
groups.add_command(reset)


async def remove(coordinators: GroupCoordinators, names: Sequence[str]) -> list[str]:
    """Delete groups. Return a sentence for each group that remains."""
    from pykbroker.client.admin.groups import delete_groups

    outcomes = await delete_groups(coordinators, names)
    for name, error in outcomes.items():
        if error is None:
            click.echo(f"Deleted the group {name}.")
    return [str(error) for error in outcomes.values() if error is not None]


async def forget(
    coordinators: GroupCoordinators, group: str, partitions: Sequence[tuple[str, int | None]]
) -> list[str]:
    """Delete committed offsets of a group. Return a sentence for each that remains or does not exist."""
    from pykbroker.client.admin.group_offsets import committed_offsets, delete_offsets

    committed = await committed_offsets(coordinators, group)
    chosen: list[TopicPartition] = []
    refusals = []
    for topic, index in dict.fromkeys(partitions):
        found = [each for each in sorted(committed) if each.topic == topic and index in (None, each.partition)]
        chosen += found
        if not found:
            place = topic if index is None else f"{topic}-{index}"
            refusals.append(f"Group '{group}' has no committed offset of {place}")
    for each, error in (await delete_offsets(coordinators, group, dict.fromkeys(chosen))).items() if chosen else ():
        if error is None:
            click.echo(f"Deleted the offset of the group {group} in {each}.")
        else:
            refusals.append(f"{each}: {error}")
    return refusals
