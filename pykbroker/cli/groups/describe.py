"""The command `pykbroker groups describe`: the offsets, the members or the states of groups."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from contextlib import closing
from operator import itemgetter
from typing import TYPE_CHECKING, Any

import click

from pykbroker.cli.ask import ask, bootstrap_option
from pykbroker.cli.completion import group_names
from pykbroker.cli.tables import Table, json_option
from pykbroker.core.address import Address

if TYPE_CHECKING:
    from pykbroker.client.admin.admin import Admin
    from pykbroker.client.admin.group_description import GroupDescription, MemberDescription
    from pykbroker.client.leaders import Leaders
    from pykbroker.core.topic_partition import TopicPartition

OFFSETS = (
    *("group", "topic", "partition", "current_offset", "log_end_offset", "lag"),
    *("consumer_id", "instance_id", "host", "client_id"),
)
MEMBERS = (
    *("group", "consumer_id", "instance_id", "host", "client_id", "partitions"),
    *("current_epoch", "current_assignment", "target_epoch", "target_assignment"),
)
STATE = (
    *("group", "type", "state", "coordinator", "assignment_strategy"),
    *("group_epoch", "target_assignment_epoch", "members"),
)
COLUMNS = {"offsets": OFFSETS, "members": MEMBERS, "state": STATE}


@click.command()
@click.argument("names", nargs=-1, metavar="[GROUP]...", shell_complete=group_names)
@click.option("--all", "every", is_flag=True, help="Describe all groups of consumers.")
@click.option("--offsets", "view", flag_value="offsets", help="Print committed offsets and lags. [default]")
@click.option("--members", "view", flag_value="members", help="Print the members and their assignments instead.")
@click.option("--state", "view", flag_value="state", help="Print the states and the coordinators instead.")
@json_option
@bootstrap_option
def describe(names: Sequence[str], every: bool, view: str | None, as_json: bool, bootstrap: Sequence[Address]) -> None:
    """Describe groups of consumers: their committed offsets, log end offsets and lags.

    Groups that exist are described even if others do not.
    """
    if bool(names) == every:
        raise click.UsageError("name the groups to describe, or give --all")

    columns = COLUMNS[view or "offsets"]

    async def work(admin: Admin) -> None:
        chosen = await all_names(admin) if every else list(dict.fromkeys(names))
        rows, refusals = await described(admin, chosen, columns)
        Table(columns, rows).show(as_json=as_json, refusals=refusals)

    ask(bootstrap, work)


async def all_names(admin: Admin) -> list[str]:
    """Return the ids of all groups of consumers, which are those that have a type with offsets."""
    from pykbroker.client.admin.groups import list_groups

    return [each.group for each in await list_groups(admin) if each.members is not None]


async def described(admin: Admin, names: list[str], columns: Sequence[str]) -> tuple[list[tuple[Any, ...]], list[str]]:
    """Return the rows of the groups that exist, and a sentence for each other one."""
    from pykbroker.client.admin.groups import describe_groups
    from pykbroker.client.group_coordinators import GroupCoordinators
    from pykbroker.client.leaders import Leaders
    from pykbroker.core.errors import ApiError

    rows, refusals, ends = [], [], dict[str, Mapping[int, int]]()
    with closing(GroupCoordinators(admin)) as coordinators, closing(Leaders(admin)) as leaders:
        for name, group in (await describe_groups(coordinators, names)).items():
            if isinstance(group, ApiError):
                refusals.append(str(group))
            elif columns is MEMBERS:
                rows += member_rows(group)
            elif columns is STATE:
                rows.append(state_row(group, coordinators.node_ids[name]))
            else:
                from pykbroker.client.admin.group_offsets import committed_offsets

                committed = await committed_offsets(coordinators, name)
                await find_ends(leaders, {each.topic for each in (*committed, *owners(group))}, ends)
                rows += offset_rows(group, committed, lambda part: ends[part.topic].get(part.partition))
    return rows, refusals


async def find_ends(leaders: Leaders, topics: set[str], ends: dict[str, Mapping[int, int]]) -> None:
    """Add the log end offsets of more topics to `ends`. A partition whose offset is unknown is left out."""
    from pykbroker.core.errors import ApiError
    from wire.sentinels import LATEST_TIMESTAMP

    for topic in sorted(topics - ends.keys()):
        try:
            found = await leaders.offsets(topic, LATEST_TIMESTAMP)
        except ApiError:  # the topic is deleted, or a partition has no leader
            found = []
        ends[topic] = {each.partition: each.offset for each in found if not each.error}


def owners(group: GroupDescription) -> dict[TopicPartition, MemberDescription]:
    """Return the member that each partition is assigned to."""
    return {each: member for member in group.members for each in member.assigned or ()}


def offset_rows(
    group: GroupDescription, committed: Mapping[TopicPartition, int], end: Callable[[TopicPartition], int | None]
) -> list[tuple[Any, ...]]:
    """Return a row for each partition that is committed or assigned.

    The lag is None if the committed offset or the log end offset is unknown.
    """
    assigned, rows = owners(group), []
    for each in sorted({*committed, *assigned}):
        offset, end_offset, member = committed.get(each), end(each), assigned.get(each)
        lag = None if offset is None or end_offset is None else end_offset - offset
        facts = (None,) * 4 if member is None else identity(member)
        rows.append((group.group, each.topic, each.partition, offset, end_offset, lag, *facts))
    return rows


def member_rows(group: GroupDescription) -> list[tuple[Any, ...]]:
    """Return a row for each member, with its assignment, and in the consumer protocol its target assignment."""
    rows = [
        (
            group.group,
            *identity(member),
            None if member.assigned is None else len(member.assigned),
            member.epoch,
            texts(member.assigned),
            group.assignment_epoch,
            texts(member.target),
        )
        for member in group.members
    ]
    return sorted(rows, key=itemgetter(1))


def state_row(group: GroupDescription, coordinator: int) -> tuple[Any, ...]:
    """Return the state of a group, and its epochs if it is of the consumer protocol."""
    return (
        group.group,
        group.type,
        group.state,
        coordinator,
        group.assignor or None,
        group.epoch,
        group.assignment_epoch,
        len(group.members),
    )


def identity(member: MemberDescription) -> tuple[str | None, ...]:
    """Return the cells that identify a member."""
    return member.member_id, member.instance_id, member.host, member.client_id


def texts(partitions: Sequence[TopicPartition] | None) -> list[str] | None:
    """Return partitions as texts, such as `orders-0`."""
    return None if partitions is None else [str(each) for each in partitions]
