"""The command `pykbroker pipeline audit`."""

from __future__ import annotations

from typing import Any

import click

from pykbroker.cli.pipeline.options import JobOptions, format_option, job_command, topic_list


@job_command("batch")
@click.option("--topics", type=topic_list, metavar="NAME,...", help="The topics to audit.")
@click.option("--from", "archive", default="", metavar="DIR", help="An archive, or CATALOG.NAMESPACE.TABLE.")
@format_option
@click.option("--archive-only", is_flag=True, help="Read no cluster. --topics selects topics of the archive.")
@click.option("--html", "page", default="", metavar="FILE", help="Write a page with plots to this file or URI.")
@click.option("--uncommitted", is_flag=True, help="Read records of open and aborted transactions too.")
def audit(
    options: JobOptions,
    topics: tuple[str, ...] | None,
    archive: str,
    format_: Any,
    archive_only: bool,
    page: str,
    uncommitted: bool,
) -> None:
    """Measure topics, an archive, or both: sizes, rates, keys, gaps and disorder of each partition.

    With --topics and --from, the archive is compared with the topics. Exit code 3 means that it lacks records, or has
    some more than once.
    """
    if archive_only and not archive:
        raise click.UsageError("--archive-only needs an archive: give --from")
    if not topics and not archive_only:
        raise click.UsageError("give --topics, or --from with --archive-only")
    from pykbroker.pipeline.jobs import audit as job

    source = options.source(topics, uncommitted=uncommitted)
    settings = job.AuditSettings(None if archive_only else source, archive, format_, topics or (), page)
    options.run(lambda session, say: job.audit(session, settings, say), format_, reads_topics=not archive_only)
