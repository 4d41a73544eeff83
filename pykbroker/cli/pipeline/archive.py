"""The command `pykbroker pipeline archive`."""

from __future__ import annotations

from typing import Any

import click

from pykbroker.cli.pipeline.options import (
    JobOptions,
    every_option,
    format_option,
    job_command,
    moved_option,
    topic_list,
)


@job_command("stream")
@click.option("--topics", type=topic_list, metavar="NAME,...", help="The topics to archive.")
@click.option("--pattern", help="A regular expression for whole names of topics, in place of --topics.")
@click.option("--to", "target", required=True, metavar="DIR", help="The archive, or CATALOG.NAMESPACE.TABLE.")
@format_option
@click.option("--once", is_flag=True, help="Stop with what the topics have now, which is the default.")
@every_option
@click.option("--checkpoint", default="", metavar="DIR", help="[default: inside the archive, or beside the table]")
@moved_option
@click.option("--uncommitted", is_flag=True, help="Archive records of open and aborted transactions too.")
def archive(
    options: JobOptions,
    topics: tuple[str, ...] | None,
    pattern: str | None,
    target: str,
    format_: Any,
    once: bool,
    every: float | None,
    checkpoint: str,
    moved: bool,
    uncommitted: bool,
) -> None:
    """Write topics to Parquet files or to an Iceberg table, each record once, also after a crash.

    The next run continues where the last one stopped. Readers of the bare directory, such as pyarrow and DuckDB, never
    see a record twice.
    """
    if bool(topics) is bool(pattern):
        raise click.UsageError("give either --topics or --pattern")
    if once and every is not None:
        raise click.UsageError("give either --once or --every")
    from pykbroker.pipeline.jobs import archive as job

    source = options.source(topics, pattern, uncommitted=uncommitted)
    settings = job.ArchiveSettings(source, target, format_, checkpoint, every, is_moved=moved)
    options.run(lambda session, say: job.archive(session, settings, say), format_)
