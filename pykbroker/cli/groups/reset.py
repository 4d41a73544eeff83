"""The command `pykbroker groups reset`, which commits other offsets for a group without members."""

from __future__ import annotations

import time as clock
from collections.abc import Mapping, Sequence
from contextlib import closing
from datetime import datetime
from typing import IO, TYPE_CHECKING, Any, TypeAlias

import click

from pykbroker.cli.ask import ask, bootstrap_option, refuse
from pykbroker.cli.completion import group_names, topic_names
from pykbroker.cli.groups.reset_plan import PlannedOffset, ResetOffsets, duration, offsets_of_file, planned
from pykbroker.cli.parameters import OFFSET_MAX, PARTITION_FORM, milliseconds, partition, time
from pykbroker.cli.tables import Table, json_option
from pykbroker.cli.topics.offsets import by_partition
from pykbroker.core.address import Address
from pykbroker.core.topic_partition import TopicPartition

if TYPE_CHECKING:
    from pykbroker.client.admin.admin import Admin
    from pykbroker.client.group_coordinators import GroupCoordinators
    from pykbroker.core.errors import ApiError

PLANNED = ("group", "topic", "partition", "current_offset", "new_offset")
INACTIVE = ("Empty", "Dead")
TARGETS = (
    *("--to-offset", "--to-earliest", "--to-latest", "--to-current"),
    *("--to-time", "--by-duration", "--by", "--from-file"),
)

Value: TypeAlias = int | Mapping[TopicPartition, int] | None
Topics: TypeAlias = Sequence[tuple[str, int | None]]


@click.command()
@click.argument("group", shell_complete=group_names)
@click.option(
    "--topic",
    "topics",
    type=partition,
    multiple=True,
    metavar=PARTITION_FORM,
    shell_complete=topic_names,
    help="Reset the offsets of this topic or partition. Repeatable.",
)
@click.option("--all-topics", is_flag=True, help="Reset all offsets that the group has committed.")
@click.option("--to-offset", type=click.IntRange(0, OFFSET_MAX), help="Reset to this offset, within the log.")
@click.option("--to-earliest", is_flag=True, help="Reset to the start of the log.")
@click.option("--to-latest", is_flag=True, help="Reset to the end of the log.")
@click.option("--to-current", is_flag=True, help="Commit the current offset again, or the end of the log without one.")
@click.option("--to-time", type=time, metavar="TIME", help="Reset to the first record from this time on.")
@click.option(
    "--by-duration", type=duration, metavar="DURATION", help="Reset to the time this long ago, such as 90s, 2h or P7D."
)
@click.option(
    "--by", type=click.IntRange(-OFFSET_MAX, OFFSET_MAX), help="Shift by this number of offsets, back if negative."
)
@click.option(
    "--from-file", type=click.File(), metavar="FILE", help="Reset to the offsets in lines TOPIC,PARTITION,OFFSET."
)
@click.option("--dry-run", is_flag=True, help="Only print the new offsets.")
@click.option("--yes", is_flag=True, help="Commit the new offsets without asking.")
@json_option
@bootstrap_option
def reset(
    group: str,
    topics: Topics,
    all_topics: bool,
    dry_run: bool,
    yes: bool,
    as_json: bool,
    bootstrap: Sequence[Address],
    **targets: Any,
) -> None:
    """Reset the committed offsets of a group without members: print the new offsets, ask, and commit them.

    An offset outside of the log becomes the nearest end of the log, as with Kafka's tool.
    """
    kind, value = target(targets, group)
    if (kind == "from_file") + bool(topics) + all_topics != 1:
        raise click.UsageError("choose the partitions by --topic, by --all-topics or by --from-file")
    if dry_run and yes:
        raise click.UsageError("--dry-run and --yes contradict each other: choose one of them")
    plan = ask(bootstrap, lambda admin: plan_of(admin, group, topics, kind, value))
    rows = [(group, *each.partition, each.current, each.new) for each in plan]
    Table(PLANNED, rows).show(as_json=as_json)
    for each in plan:
        if each.remark:
            click.echo(each.remark, err=True)
    if dry_run:
        return
    if not yes:
        click.confirm(f"Commit these offsets for the group {group}?", abort=True, err=True)
    commit(bootstrap, group, plan, quiet=as_json)


def target(targets: Mapping[str, Any], group: str) -> tuple[str, Value]:
    """Return the one option that says where to, such as `to_offset`, and its value: an offset, ms, or a file's offsets.

    click.UsageError: none or several are given.
    """
    given = {name: value for name, value in targets.items() if value is not None and value is not False}
    if len(given) != 1:
        raise click.UsageError(f"choose one of {', '.join(TARGETS)}")
    ((kind, value),) = given.items()
    if isinstance(value, datetime):
        return kind, milliseconds(value)
    if kind == "by_duration":
        since = round(clock.time() * 1000) - value
        if since < 0:
            raise click.UsageError("--by-duration goes back to before 1970, where the timestamps of records begin")
        return kind, since
    if kind == "from_file":
        return kind, file_offsets(value, group)
    return kind, None if value is True else value


def file_offsets(file: IO[str], group: str) -> dict[TopicPartition, int]:
    """Return the offsets of a file. click.BadParameter: it is no text, or has invalid lines."""
    try:
        return offsets_of_file(file, file.name, group)
    except UnicodeDecodeError:
        raise click.BadParameter(f"{file.name} is not a text file in UTF-8") from None


async def plan_of(admin: Admin, group: str, topics: Topics, kind: str, value: Value) -> list[PlannedOffset]:
    """Return the new offsets of a group. click.ClickException: the group is active, or there is nothing to reset."""
    from pykbroker.client.admin.group_offsets import committed_offsets
    from pykbroker.client.group_coordinators import GroupCoordinators

    with closing(GroupCoordinators(admin)) as coordinators:
        await check_inactive(coordinators, group)
        committed = await committed_offsets(coordinators, group)
    selection: Topics = [*value] if isinstance(value, Mapping) else topics or sorted(committed)
    if not selection:
        raise click.ClickException(f"Group '{group}' has no committed offsets: choose the partitions by --topic")
    timestamp = value if kind in ("to_time", "by_duration") and isinstance(value, int) else None
    found = await found_offsets(admin, selection, committed, timestamp)
    return planned(kind, value, found)


async def check_inactive(coordinators: GroupCoordinators, group: str) -> None:
    """Raise click.ClickException or ApiError if the group is active or is no group of consumers.

    As in Kafka, a group that does not exist is accepted.
    """
    from pykbroker.client.admin.group_description import CONSUMER_PROTOCOL
    from pykbroker.client.admin.groups import describe_groups
    from pykbroker.core.errors import ApiError
    from wire.error_codes import ErrorCode

    found = (await describe_groups(coordinators, [group]))[group]
    if isinstance(found, ApiError):
        if found.code is not ErrorCode.GROUP_ID_NOT_FOUND:
            raise found
        click.echo(f"The group {group} does not exist: committing offsets creates it.", err=True)
    elif found.protocol not in (CONSUMER_PROTOCOL, ""):
        raise click.ClickException(f"Group '{group}' is no group of consumers: its protocol is {found.protocol}")
    elif found.state not in INACTIVE:
        raise click.ClickException(
            f"Group '{group}' is active (state {found.state}, members {len(found.members)}): "
            "its offsets can be reset once all members have left"
        )


async def found_offsets(
    admin: Admin, selection: Topics, committed: Mapping[TopicPartition, int], timestamp: int | None
) -> dict[TopicPartition, ResetOffsets]:
    """Return the offsets of these partitions, or with None of all partitions of a topic.

    click.ClickException or ApiError: a partition does not exist, or its leader refuses.
    """
    from pykbroker.client.leaders import Leaders
    from wire.sentinels import EARLIEST_TIMESTAMP, LATEST_TIMESTAMP

    found = dict[TopicPartition, ResetOffsets]()
    with closing(Leaders(admin)) as leaders:
        for topic in dict.fromkeys(name for name, _ in selection):
            starts, ends = [
                by_partition(await leaders.offsets(topic, each)) for each in (EARLIEST_TIMESTAMP, LATEST_TIMESTAMP)
            ]
            times = by_partition(await leaders.offsets(topic, timestamp)) if timestamp is not None else {}
            for index in indexes(topic, selection, starts):
                part = TopicPartition(topic, index)
                found[part] = ResetOffsets(starts[index] or 0, ends[index] or 0, committed.get(part), times.get(index))
    return found


def indexes(topic: str, selection: Topics, known: Mapping[int, int | None]) -> Sequence[int]:
    """Return the selected partitions of a topic. click.ClickException: the topic lacks one of them."""
    named = [index for name, index in selection if name == topic]
    for index in named:
        if index is not None and index not in known:
            raise click.ClickException(f"Topic '{topic}' has no partition {index} (UNKNOWN_TOPIC_OR_PARTITION)")
    return [*known] if None in named else [index for index in named if index is not None]


def commit(bootstrap: Sequence[Address], group: str, plan: Sequence[PlannedOffset], *, quiet: bool) -> None:
    """Commit the planned offsets. click.ClickException: the coordinator refuses some of them."""
    from pykbroker.client.admin.group_offsets import commit_offsets
    from pykbroker.client.group_coordinators import GroupCoordinators

    async def work(admin: Admin) -> dict[TopicPartition, ApiError | None]:
        with closing(GroupCoordinators(admin)) as coordinators:
            return await commit_offsets(coordinators, group, {each.partition: each.new for each in plan})

    outcomes = ask(bootstrap, work)
    refusals = [f"{each}: {error}" for each, error in outcomes.items() if error is not None]
    if not quiet:
        done = len(outcomes) - len(refusals)
        click.echo(f"Reset the offsets of the group {group} in {done} of {len(plan)} partitions.")
    refuse(refusals)
