"""The command `pykbroker pipeline archive`."""

from __future__ import annotations

from typing import Any

import click

from pykbroker.cli.pipeline.run import (
    bootstrap_option,
    every_option,
    format_option,
    format_packages,
    kafka_option,
    moved_option,
    run_job,
    session_settings,
    spark_options,
    topic_list,
)


@click.command()
@bootstrap_option
@click.option("--topics", type=topic_list, metavar="NAME,...", help="The topics to archive.")
@click.option("--pattern", help="A regular expression for whole names of topics, in place of --topics.")
@click.option("--to", "target", required=True, metavar="DIR", help="The archive, or CATALOG.NAMESPACE.TABLE.")
@format_option
@click.option("--once", is_flag=True, help="Stop with what the topics have now, which is the default.")
@every_option
@click.option("--checkpoint", default="", metavar="DIR", help="[default: inside the archive, or beside the table]")
@moved_option
@click.option("--uncommitted", is_flag=True, help="Archive records of open and aborted transactions too.")
@kafka_option("stream")
@spark_options
def archive(
    bootstrap: str,
    topics: tuple[str, ...] | None,
    pattern: str | None,
    target: str,
    format_: Any,
    once: bool,
    every: float | None,
    checkpoint: str,
    moved: bool,
    uncommitted: bool,
    kafka: tuple[tuple[str, str], ...],
    master: str,
    connector: str,
    conf: tuple[tuple[str, str], ...],
    as_json: bool,
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
    from pykbroker.pipeline.reading import TopicsToRead

    source = TopicsToRead(bootstrap, topics or (), pattern or "", dict(kafka), committed_only=not uncommitted)
    settings = job.ArchiveSettings(source, target, format_, checkpoint, every, is_moved=moved)
    run_job(
        session_settings(master, connector, conf, format_packages(format_)),
        lambda session, say: job.archive(session, settings, say),
        as_json=as_json,
    )
