"""The command `pykbroker dump-log`, which prints the files of a log, a line for each batch, record or entry."""

from __future__ import annotations

import mmap
import os
import re
from collections.abc import Sequence

import click

EXIT_CODE_DAMAGED = 1
SEGMENT = re.compile(r"[0-9]{20}\.log")


@click.command()
@click.argument("paths", nargs=-1, required=True, type=click.Path(exists=True), metavar="FILE|DIR...")
@click.option(
    "--deep", is_flag=True, help="Also print the records of each batch. Records of internal topics are decoded."
)
@click.pass_context
def dump_log(context: click.Context, paths: Sequence[str], deep: bool) -> None:
    """Print the contents of .log, .index, .timeindex, .txnindex, .snapshot and .checkpoint files.

    For the directory of a partition, the .log files of all its segments are printed in the order of their offsets.
    For a damaged file, the position of the damage is printed, the rest of the file is skipped, and the exit code is 1.
    No file is changed.
    """
    from pykbroker.cli.logs.dumping import Damaged, dumped

    damaged = False
    for path in [file for named in paths for file in files_of(named)]:
        click.echo(f"{path}:")
        data = content(path)
        try:
            for line in dumped(os.path.abspath(path), data, deep=deep):
                click.echo(line)
        except Damaged as found:
            damaged = True
            click.echo(f"{path} is damaged at byte {found.position} of {len(data)}: {found}", err=True)
        except ValueError as error:
            raise click.UsageError(f"{path}: {error}") from None
    if damaged:
        context.exit(EXIT_CODE_DAMAGED)


def files_of(path: str) -> list[str]:
    """Return the file, or the segments of a directory by offset. click.UsageError: the directory has no segments."""
    if not os.path.isdir(path):
        return [path]
    try:
        names = sorted(filter(SEGMENT.fullmatch, os.listdir(path)))
    except OSError as error:
        raise click.ClickException(f"cannot read {path}: {error.strerror}") from None
    if not names:
        raise click.UsageError(f"{path} has no segments: name the directory of a partition, such as orders-0")
    return [os.path.join(path, name) for name in names]


def content(path: str) -> memoryview:
    """Return the file, mapped into memory, so that a file larger than memory can be printed."""
    try:
        with open(path, "rb") as file:
            if not os.fstat(file.fileno()).st_size:
                return memoryview(b"")
            return memoryview(mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ))
    except OSError as error:
        raise click.ClickException(f"cannot read {path}: {error.strerror}") from None
