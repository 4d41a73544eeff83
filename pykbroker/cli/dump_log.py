"""`pykbroker dump-log`: what stands in the files of a log, a line for each batch, record or entry."""

from __future__ import annotations

import mmap
import os
from collections.abc import Sequence

import click

EXIT_CODE_DAMAGED = 1


@click.command()
@click.argument("files", nargs=-1, required=True, type=click.Path(exists=True, dir_okay=False), metavar="FILE...")
@click.option("--deep", is_flag=True, help="Also the records of each batch; those of the cluster's own topics decoded.")
@click.pass_context
def dump_log(context: click.Context, files: Sequence[str], deep: bool) -> None:
    """Show what .log, .index, .timeindex, .txnindex, .snapshot and .checkpoint files hold.

    Damage is told with its position, and ends that file; the exit code is 1 then. Nothing is changed.
    """
    from pykbroker.cli.dumping import Damaged, dumped

    damaged = False
    for path in files:
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


def content(path: str) -> memoryview:
    """The file in memory as far as it is looked at; one that is larger than memory can be dumped, too."""
    try:
        with open(path, "rb") as file:
            if not os.fstat(file.fileno()).st_size:
                return memoryview(b"")
            return memoryview(mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ))
    except OSError as error:
        raise click.ClickException(f"cannot read {path}: {error.strerror}") from None
