"""The command `pykbroker pipeline replay`."""

from __future__ import annotations

from typing import Any

import click

from pykbroker.cli.pipeline.options import JobOptions, format_option, job_command, setting, topic_list


@job_command("write", has_connector=False)
@click.option("--archive", required=True, metavar="DIR", help="The archive, or CATALOG.NAMESPACE.TABLE.")
@format_option
@click.option("--topics", type=topic_list, metavar="NAME,...", help="The topics to replay.  [default: all]")
@click.option("--to", "target", default="", metavar="NAME", help="The target topic. {topic} is that of the source.")
@click.option("--rename", type=setting, metavar="SOURCE=TARGET", multiple=True, help="A target topic. Repeatable.")
@click.option(
    "--partition-by",
    type=click.Choice(("partition", "key")),
    default="partition",
    show_default=True,
    help="Write each record to the partition that it had, or to that of its key.",
)
@click.option("--from", "start", default="", metavar="OFFSET|TIME", help="The first offset or time.")
@click.option("--until", "end", default="", metavar="OFFSET|TIME", help="The offset or time to stop before.")
@click.option("--rate", type=click.FloatRange(min=0, min_open=True), help="The maximum of records a second.")
@click.option(
    "--job", default="", metavar="NAME", help="The group of the positions.  [default: derived from archive and targets]"
)
def replay(
    options: JobOptions,
    archive: str,
    format_: Any,
    topics: tuple[str, ...] | None,
    target: str,
    rename: tuple[tuple[str, str], ...],
    partition_by: Any,
    start: str,
    end: str,
    rate: float | None,
    job: str,
) -> None:
    """Write the records of an archive to topics, each once, also after a crash.

    Keys, headers, timestamps and the order of each partition are kept. The next run continues where the last one
    stopped. --from and --until take an offset, a time such as 2026-11-24T08:00:00Z, or offsets by topic and partition
    as JSON.
    """
    if not target and not rename:
        raise click.UsageError("give a target with --to or --rename")
    from pykbroker.pipeline.jobs import replay as jobs

    settings = jobs.ReplaySettings(
        archive,
        options.bootstrap,
        format_,
        topics or (),
        target,
        dict(rename),
        partition_by,
        job,
        start,
        end,
        rate,
        dict(options.kafka),
    )
    options.run(lambda session, say: jobs.replay(session, settings, say), format_, runs_python=True)
