"""The command `pykbroker pipeline compact`."""

from __future__ import annotations

from typing import Any

import click

from pykbroker.cli.pipeline.options import ARCHIVE_FORMATS, JobOptions, job_command, topic_list


@job_command(has_connector=False)
@click.option("--from", "archive", required=True, metavar="DIR", help="The archive, or CATALOG.NAMESPACE.TABLE.")
@click.option(
    "--format", "format_", type=ARCHIVE_FORMATS, default="parquet", show_default=True, help="That of the archive."
)
@click.option("--to", "target", required=True, metavar="DIR", help="The state, or CATALOG.NAMESPACE.TABLE.")
@click.option("--to-format", type=ARCHIVE_FORMATS, default="parquet", show_default=True, help="That of the state.")
@click.option("--topics", type=topic_list, metavar="NAME,...", help="The topics. [default: all of the archive]")
@click.option(
    "--null-keys",
    type=click.Choice(("refuse", "drop")),
    default="refuse",
    show_default=True,
    help="What to do if records have no key: stop, or leave them out.",
)
def compact(
    options: JobOptions,
    archive: str,
    format_: Any,
    target: str,
    to_format: Any,
    topics: tuple[str, ...] | None,
    null_keys: Any,
) -> None:
    """Write the latest value of each key of an archive, in place of what the target had.

    Keys whose latest record has no value disappear. Readers of the target see the old state or the new one, also after
    a crash.
    """
    from pykbroker.pipeline.jobs import compact as job

    settings = job.CompactSettings(archive, target, format_, to_format, topics or (), null_keys)
    options.run(lambda session, say: job.compact(session, settings, say), format_, to_format, reads_topics=False)
