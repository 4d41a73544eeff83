"""The command `pykbroker pipeline verify`."""

from __future__ import annotations

import click

from pykbroker.cli.pipeline.run import (
    bootstrap_option,
    format_option,
    format_packages,
    kafka_option,
    run_job,
    session_settings,
    spark_options,
    topic_list,
)


@click.command()
@bootstrap_option
@click.option("--topics", type=topic_list, metavar="NAME,...", help="The topics to compare.")
@click.option("--from", "archive", required=True, metavar="DIR", help="The archive, or CATALOG.NAMESPACE.TABLE.")
@click.option("--archive-only", is_flag=True, help="Compare the archive with its own commits, without brokers.")
@format_option
@click.option("--uncommitted", is_flag=True, help="The archive has records of open and aborted transactions too.")
@kafka_option("batch")
@spark_options
def verify(
    bootstrap: str,
    topics: tuple[str, ...] | None,
    archive: str,
    archive_only: bool,
    format_: str,
    uncommitted: bool,
    kafka: tuple[tuple[str, str], ...],
    master: str,
    connector: str,
    conf: tuple[tuple[str, str], ...],
    as_json: bool,
) -> None:
    """Prove that an archive has the records of its topics, each once and unchanged.

    Exit code 3 means that records are missing, double or different.
    """
    from pykbroker.pipeline.jobs import verify as job
    from pykbroker.pipeline.reading import TopicsToRead

    if not topics and not archive_only:
        raise click.UsageError("name the topics with --topics, or give --archive-only")
    source = TopicsToRead(bootstrap, topics or (), "", dict(kafka), committed_only=not uncommitted)
    settings = job.VerifySettings(None if archive_only else source, archive, format_, topics or ())
    run_job(
        session_settings(master, connector, conf, format_packages(format_), reads_topics=not archive_only),
        lambda session, say: job.verify(session, settings, say),
        as_json=as_json,
    )
