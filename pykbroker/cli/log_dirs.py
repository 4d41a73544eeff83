"""The command `pykbroker log-dirs`, which prints the sizes of partitions by log directory, from a broker or files."""

from __future__ import annotations

import os
import re
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING

import click

from pykbroker.cli.ask import ask, bootstrap_option
from pykbroker.cli.columns import print_columns
from pykbroker.core.address import Address

if TYPE_CHECKING:
    from pykbroker.client.admin import Admin
    from wire.messages.describe_log_dirs import DescribeLogDirsResult

HEAD = ("TOPIC", "PARTITION", "BYTES", "LAG", "FUTURE")
DIRECTORY = re.compile(r"(?P<topic>.+)-(?P<partition>\d+)|(?P<moved>.+)-(?P<into>\d+)\.[0-9a-f]{32}-future")

LogDirRow = tuple[str, int, int, object, str]


@click.command()
@click.argument("directories", nargs=-1, type=click.Path(exists=True, file_okay=False), metavar="[DIR]...")
@click.option("--topic", "topics", metavar="NAME", multiple=True, help="List only this topic. Repeatable.")
@bootstrap_option
def log_dirs(directories: Sequence[str], topics: Sequence[str], bootstrap: Address) -> None:
    """Print the sizes of the partitions in each log directory.

    Without a DIR, a running broker reports the sizes and the lag of each partition. With a DIR, the files of this
    directory are read. FUTURE marks a copy that is being moved to the directory.
    """
    if directories:
        for directory in directories:
            show(directory, list(measured(directory)), topics)
        return

    async def work(admin: Admin) -> None:
        for found in await admin.log_dirs():
            show(title(found), list(described(found)), topics)

    ask(bootstrap, work)


def show(name: str, rows: Sequence[LogDirRow], topics: Sequence[str]) -> None:
    """Print a line for the directory, then one for each partition."""
    click.echo(name)
    print_columns([HEAD, *sorted(row for row in rows if not topics or row[0] in topics)])


def title(found: DescribeLogDirsResult) -> str:
    """Return the path of a directory and its state."""
    from pykbroker.client.admin import error_name

    if found.error_code:
        return f"{found.log_dir} {error_name(found.error_code)}"
    return f"{found.log_dir} total_bytes={found.total_bytes} usable_bytes={found.usable_bytes}"


def described(found: DescribeLogDirsResult) -> Iterator[LogDirRow]:
    """Yield the partitions of a directory as the broker describes them."""
    for topic in found.topics:
        for part in topic.partitions:
            future = "yes" if part.is_future_key else "no"
            yield topic.name, part.partition_index, part.partition_size, part.offset_lag, future


def measured(directory: str) -> Iterator[LogDirRow]:
    """Yield the partitions of a directory from its files.

    click.ClickException: the directory is not a log directory, or cannot be read.
    """
    try:
        entries = sorted(os.scandir(directory), key=lambda entry: entry.name)
        if not any(entry.name == "meta.properties" for entry in entries):
            raise click.ClickException(f"{directory} is not a log directory: it has no meta.properties")
        for entry in entries:
            found = DIRECTORY.fullmatch(entry.name)
            if found and entry.is_dir():
                topic, partition = found["topic"] or found["moved"], found["partition"] or found["into"]
                size = sum(file.stat().st_size for file in os.scandir(entry) if file.name.endswith(".log"))
                yield topic, int(partition), size, "-", "yes" if found["moved"] else "no"
    except OSError as error:
        raise click.ClickException(f"{error.filename}: {error.strerror}") from None
