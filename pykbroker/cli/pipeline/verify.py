"""The command `pykbroker pipeline verify`."""

from __future__ import annotations

import click

from pykbroker.cli.pipeline.options import JobOptions, format_option, job_command, topic_list


@job_command("batch")
@click.option("--topics", type=topic_list, metavar="NAME,...", help="The topics to compare.")
@click.option("--from", "archive", required=True, metavar="DIR", help="The archive, or CATALOG.NAMESPACE.TABLE.")
@click.option("--archive-only", is_flag=True, help="Compare the archive with its own commits, without brokers.")
@format_option
@click.option("--uncommitted", is_flag=True, help="The archive has records of open and aborted transactions too.")
def verify(
    options: JobOptions,
    topics: tuple[str, ...] | None,
    archive: str,
    archive_only: bool,
    format_: str,
    uncommitted: bool,
) -> None:
    """Prove that an archive has the records of its topics, each once and unchanged.

    Exit code 3 means that records are missing, double or different.
    """
    from pykbroker.pipeline.jobs import verify as job

    if not topics and not archive_only:
        raise click.UsageError("name the topics with --topics, or give --archive-only")
    source = options.source(topics, uncommitted=uncommitted)
    settings = job.VerifySettings(None if archive_only else source, archive, format_, topics or ())
    options.run(lambda session, say: job.verify(session, settings, say), format_, reads_topics=not archive_only)
