"""The command `pykbroker log-dirs`, which prints the sizes of partitions by log directory, from a broker or files."""

from __future__ import annotations

import os
import re
from collections.abc import Iterable, Iterator, Sequence
from operator import itemgetter
from typing import TYPE_CHECKING, Any

import click

from pykbroker.cli.ask import ask, bootstrap_option
from pykbroker.cli.completion import topic_names
from pykbroker.cli.tables import Table, json_option, print_json
from pykbroker.core.address import Address

if TYPE_CHECKING:
    from wire.messages.describe_log_dirs import DescribeLogDirsResult

COLUMNS = ("topic", "partition", "bytes", "lag", "future")
DIRECTORY = re.compile(r"(?P<topic>.+)-(?P<partition>\d+)|(?P<moved>.+)-(?P<into>\d+)\.[0-9a-f]{32}-future")

LogDirRow = tuple[str, int, int, int | None, bool]


@click.command()
@click.argument("directories", nargs=-1, type=click.Path(exists=True, file_okay=False), metavar="[DIR]...")
@click.option(
    "--topic",
    "topics",
    metavar="NAME",
    multiple=True,
    shell_complete=topic_names,
    help="List only this topic. Repeatable.",
)
@json_option
@bootstrap_option
def log_dirs(directories: Sequence[str], topics: Sequence[str], as_json: bool, bootstrap: Sequence[Address]) -> None:
    """Print the sizes of the partitions in each log directory.

    Without a DIR, a running broker reports the sizes and the lag of each partition. With a DIR, the files of this
    directory are read. FUTURE marks a copy that is being moved to the directory.
    """
    found: list[tuple[str, dict[str, Any], Iterator[LogDirRow]]]
    if directories:
        found = [(directory, {}, measured(directory)) for directory in directories]
    else:
        answers = ask(bootstrap, lambda admin: admin.log_dirs())
        found = [(one.log_dir, facts(one), described(one)) for one in answers]
    tables = [(name, more, table(rows, topics)) for name, more, rows in found]
    if as_json:
        print_json([{"log_dir": name, **more, "partitions": listed.records()} for name, more, listed in tables])
        return
    for name, more, listed in tables:
        words = (value if key == "error" else f"{key}={value}" for key, value in more.items())
        click.echo(" ".join([name, *words]))
        listed.print()


def table(rows: Iterable[LogDirRow], topics: Sequence[str]) -> Table:
    """Return the partitions of a directory, only those of `topics` if there are any."""
    chosen = sorted(((row[:2], row) for row in rows if not topics or row[0] in topics), key=itemgetter(0))
    return Table(COLUMNS, [row for _, row in chosen])


def facts(found: DescribeLogDirsResult) -> dict[str, Any]:
    """Return the size of a directory's volume, or the error of a directory that has failed."""
    from pykbroker.client.admin.admin import error_name

    if found.error_code:
        return {"error": error_name(found.error_code)}
    return {"total_bytes": found.total_bytes, "usable_bytes": found.usable_bytes}


def described(found: DescribeLogDirsResult) -> Iterator[LogDirRow]:
    """Yield the partitions of a directory as the broker describes them."""
    for topic in found.topics:
        for part in topic.partitions:
            yield topic.name, part.partition_index, part.partition_size, part.offset_lag, part.is_future_key


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
                yield topic, int(partition), size, None, found["moved"] is not None
    except OSError as error:
        raise click.ClickException(f"{error.filename}: {error.strerror}") from None
