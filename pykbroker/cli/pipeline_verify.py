"""The command `pykbroker pipeline verify`."""

from __future__ import annotations

import click

from pykbroker.cli.pipeline_run import (
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
@click.option("--topics", type=topic_list, required=True, metavar="NAME,...", help="The topics to compare.")
@click.option("--from", "archive", required=True, metavar="DIR", help="The archive, or CATALOG.NAMESPACE.TABLE.")
@format_option
@click.option("--uncommitted", is_flag=True, help="The archive has records of open and aborted transactions too.")
@kafka_option("batch")
@spark_options
def verify(
    bootstrap: str,
    topics: tuple[str, ...],
    archive: str,
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

    source = TopicsToRead(bootstrap, topics, "", dict(kafka), committed_only=not uncommitted)
    settings = job.VerifySettings(source, archive, format_)
    run_job(
        session_settings(master, connector, conf, format_packages(format_)),
        lambda session, say: job.verify(session, settings, say),
        as_json=as_json,
    )
