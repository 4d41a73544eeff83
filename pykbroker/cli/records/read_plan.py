"""The options of commands that read topics: where they begin and end, and for which group."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

import click

from pykbroker.cli.ask import CLIENT_ID, ask, named
from pykbroker.cli.client_config import security_settings
from pykbroker.cli.client_failures import setting
from pykbroker.cli.completion import group_names, topic_names
from pykbroker.cli.parameters import together
from pykbroker.cli.records.existing_partition import lacking
from pykbroker.cli.records.read_range import BEGINNING, END, END_FORM, START_FORM, Start, Stop, start_point, stop_point
from pykbroker.core.address import Address
from pykbroker.core.topic_partition import TopicPartition

if TYPE_CHECKING:
    from pykbroker.client.admin.admin import Admin

LOOK_UP_MS_MAX = 30_000


class ReadPlan(NamedTuple):
    """The partitions to read, from a start up to a stop or without an end, and the settings of the consumer.

    `records_max` is None for any number of records. Without a group, all `partitions` are read. A plan that `follows`
    the logs may stop after their present ends.
    """

    topics: Sequence[str]
    partitions: Sequence[TopicPartition]
    start: Start
    stop: Stop | None
    records_max: int | None
    follows: bool
    group: str | None
    settings: dict[str, Any]


read_options = together(
    click.argument("topics", nargs=-1, required=True, metavar="TOPIC...", shell_complete=topic_names),
    click.option(
        "--from",
        "start",
        type=start_point,
        metavar=START_FORM,
        help="Begin there in each partition; -N stands for the last N offsets. [default: beginning, or with "
        "--group the committed offset if there is one]",
    ),
    click.option(
        "--to",
        "stop",
        type=stop_point,
        metavar=END_FORM,
        help="Stop before this offset, or before the first record of this time. [default: the end of the log "
        "when the command starts]",
    ),
    click.option("--count", type=click.IntRange(min=1), help="Stop after this number of records in total."),
    click.option("--follow", is_flag=True, help="Do not stop at the end of the logs: wait for more records."),
    click.option(
        "--partition",
        "indexes",
        type=click.IntRange(min=0),
        multiple=True,
        help="Read only this partition of each topic. Repeatable.",
    ),
    click.option(
        "--group",
        shell_complete=group_names,
        help="Read as a member of this group, and commit the offsets of the records.",
    ),
    click.option("--uncommitted", is_flag=True, help="Read also records of open and aborted transactions."),
)
"""The options of a plan, which `read_plan` gets."""


def read_plan(
    *,
    topics: Sequence[str],
    bootstrap: Sequence[Address],
    settings: Sequence[str],
    start: Start | None,
    stop: Stop | None,
    count: int | None,
    follow: bool,
    indexes: Sequence[int],
    group: str | None,
    uncommitted: bool,
) -> ReadPlan:
    """Return the plan of a command's options. click.UsageError or click.ClickException: it cannot be carried out."""
    check_options(start, stop, indexes, group, follow=follow)
    names = list(dict.fromkeys(topics))
    given: dict[str, Any] = {
        "bootstrap_servers": named(bootstrap),
        **security_settings(),
        "client_id": CLIENT_ID,
        "isolation_level": "read_uncommitted" if uncommitted else "read_committed",
        "auto_offset_reset": "latest" if group is not None and start == END else "earliest",
        "allow_auto_create_topics": False,
        "default_api_timeout_ms": LOOK_UP_MS_MAX,
    }
    if group is not None:
        given["group_id"] = group
    return ReadPlan(
        topics=names,
        partitions=ask(bootstrap, lambda admin: existing_partitions(admin, names, indexes)),
        start=BEGINNING if start is None else start,
        stop=None if follow and stop is None else END if stop is None else stop,
        records_max=count,
        follows=follow,
        group=group,
        settings={**given, **dict(map(setting, settings))},
    )


def check_options(
    start: Start | None, stop: Stop | None, indexes: Sequence[int], group: str | None, *, follow: bool
) -> None:
    """Raise click.UsageError if options contradict each other."""
    if group is not None and indexes:
        raise click.UsageError("a group assigns the partitions to its members: leave out --partition or --group")
    if group is not None and start not in (None, BEGINNING, END):
        raise click.UsageError(
            "with --group, --from is beginning or end, for partitions without a committed offset; "
            "`pykbroker groups reset` commits other offsets"
        )
    if follow and not (stop is None or isinstance(stop, int)):
        raise click.UsageError("--follow waits for records after the end of the logs: give --to an offset, or no --to")
    if start == END and not follow and group is None:
        raise click.UsageError("there are no records from the end on: add --follow to wait for them")


async def existing_partitions(admin: Admin, topics: Sequence[str], indexes: Sequence[int]) -> list[TopicPartition]:
    """Return the chosen partitions of topics, by default all. click.ClickException: one does not exist."""
    from pykbroker.core.errors import ApiError
    from wire.error_codes import ErrorCode

    found: list[TopicPartition] = []
    for name in topics:
        try:
            (topic,) = await admin.topics([name])
        except ApiError as error:
            if error.code is not ErrorCode.UNKNOWN_TOPIC_OR_PARTITION:
                raise
            raise click.ClickException(
                f"topic '{name}' does not exist: `pykbroker topics list` lists those that do"
            ) from None
        existing = sorted(each.partition_index for each in topic.partitions)
        if missing := set(indexes).difference(existing):
            raise click.ClickException(lacking(name, len(existing), min(missing)))
        found.extend(TopicPartition(name, index) for index in existing if not indexes or index in indexes)
    return found
