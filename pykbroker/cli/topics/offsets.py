"""The commands `pykbroker topics offsets` and `pykbroker topics trim`: the two ends of logs."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from contextlib import closing
from datetime import datetime
from typing import TYPE_CHECKING

import click

from pykbroker.cli.ask import asking, refuse
from pykbroker.cli.completion import topic_names
from pykbroker.cli.parameters import OFFSET_MAX, milliseconds, time
from pykbroker.cli.tables import Table, json_option
from wire.sentinels import HIGH_WATERMARK

if TYPE_CHECKING:
    from pykbroker.client.admin.admin import Admin
    from pykbroker.client.leaders import Leaders, PartitionResult

LATEST = "latest"


def point(text: str) -> int | datetime | str:
    """Parse a point of a log: an offset, an ISO time such as 2026-01-31T12:00:00+01:00, or `latest`."""
    if text == LATEST:
        return text
    if text.isascii() and text.isdigit():
        if int(text) > OFFSET_MAX:
            raise click.BadParameter(f"{text} is no offset, which is {OFFSET_MAX} at most")
        return int(text)
    return time(text, "neither an offset, nor latest, nor a time")


@click.command()
@click.argument("name", shell_complete=topic_names)
@click.option("--at", type=time, metavar="TIME", help="Also the first offset of records from this time on.")
@json_option
@asking
async def offsets(admin: Admin, name: str, at: datetime | None, as_json: bool) -> None:
    """Print the first and the next offset of each partition of a topic.

    The difference between both is at least the number of records: compaction and transactions leave gaps.
    """
    from pykbroker.client.leaders import Leaders
    from wire.sentinels import EARLIEST_TIMESTAMP, LATEST_TIMESTAMP

    ends = (EARLIEST_TIMESTAMP, LATEST_TIMESTAMP)
    with closing(Leaders(admin)) as leaders:
        found = [by_partition(await leaders.offsets(name, timestamp)) for timestamp in ends]
        if at is not None:
            found.append(by_partition(await leaders.offsets(name, milliseconds(at))))
    rows = [(partition, *(column[partition] for column in found)) for partition in found[0]]
    Table(("partition", "earliest", "latest", "at")[: len(found) + 1], rows).show(as_json=as_json)


@click.command()
@click.argument("name", shell_complete=topic_names)
@click.option(
    "--before",
    type=point,
    required=True,
    metavar="OFFSET|TIME|latest",
    help="Delete the records below this offset, older than this time, or all.",
)
@click.option("--partition", "partitions", type=click.IntRange(min=0), multiple=True, help="[default: all] Repeatable.")
@asking
async def trim(admin: Admin, name: str, before: int | datetime | str, partitions: Sequence[int]) -> None:
    """Delete the oldest records of a topic.

    A partition that ends before the offset refuses, and keeps its records.
    """
    from pykbroker.client.leaders import Leaders

    with closing(Leaders(admin)) as leaders:
        results = await leaders.delete_records(name, await offsets_before(leaders, name, before, partitions))
    for result in results:
        if not result.error:
            click.echo(f"Partition {result.partition} of {name} begins with offset {result.offset} now.")
    refuse(f"partition {one.partition} of {name}: {one.error}" for one in results if one.error)


async def offsets_before(
    leaders: Leaders, name: str, before: int | datetime | str, partitions: Sequence[int]
) -> Mapping[int, int]:
    """Return the offset for each partition below which its records are deleted."""
    from wire.sentinels import LATEST_TIMESTAMP

    timestamp = milliseconds(before) if isinstance(before, datetime) else LATEST_TIMESTAMP
    found = by_partition(await leaders.offsets(name, timestamp))
    chosen = dict.fromkeys(partitions or found, before if isinstance(before, int) else HIGH_WATERMARK)
    if isinstance(before, datetime):  # a partition without a record from this time on has only older ones
        chosen |= {index: offset for index, offset in found.items() if offset is not None and index in chosen}
    return chosen


def by_partition(results: Sequence[PartitionResult]) -> dict[int, int | None]:
    """Return the offsets by partition, None without one. click.ClickException: a partition's leader has refused."""
    for result in results:
        if result.error:
            raise click.ClickException(f"partition {result.partition}: {result.error}")
    return {result.partition: None if result.offset < 0 else result.offset for result in results}
