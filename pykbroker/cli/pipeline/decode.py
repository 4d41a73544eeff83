"""The command `pykbroker pipeline decode`."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from pykbroker.cli.pipeline.options import JobOptions, every_option, job_command, moved_option, topic_list
from pykbroker.cli.pipeline.run import failed

if TYPE_CHECKING:
    from pykbroker.pipeline.decoding.plan import DecodePlan

SCHEMA_FILE = click.Path(exists=True, dir_okay=False, path_type=Path)


@job_command("stream", "write")
@click.option("--topics", type=topic_list, required=True, metavar="NAME,...", help="The topics to decode.")
@click.option("--to", "target", required=True, metavar="DIR", help="The directory of the Parquet files.")
@click.option("--format", "format_", type=click.Choice(("json", "avro")), required=True, help="That of the values.")
@click.option("--schema", type=SCHEMA_FILE, help="The reader schema, in Avro's JSON for both formats.")
@click.option("--schema-id", type=click.IntRange(min=0), help="The id of the reader schema in the registry.")
@click.option("--registry", default="", metavar="URL", help="The schema registry, such as http://registry:8081.")
@click.option("--writer-schema", type=SCHEMA_FILE, help="The schema of all values, if it is not the reader schema.")
@click.option("--framed", is_flag=True, help="A magic byte and a schema id precede values.  [default with --registry]")
@click.option("--dead-letters", default="", metavar="TOPIC", help="The topic of records that cannot be decoded.")
@every_option
@click.option("--checkpoint", default="", metavar="DIR", help="[default: inside the target]")
@moved_option
@click.option("--uncommitted", is_flag=True, help="Decode records of open and aborted transactions too.")
def decode(
    options: JobOptions,
    topics: tuple[str, ...],
    target: str,
    format_: Any,
    schema: Path | None,
    schema_id: int | None,
    registry: str,
    writer_schema: Path | None,
    framed: bool,
    dead_letters: str,
    every: float | None,
    checkpoint: str,
    moved: bool,
    uncommitted: bool,
) -> None:
    """Write the values of topics as typed columns to Parquet files, each record once, also after a crash.

    The fields of the reader schema become the columns of `value`. Records that cannot be decoded go to the topic of
    --dead-letters, with the reason and their place in headers. Without such a topic, they stop the command.
    """
    if (schema is None) is (schema_id is None):
        raise click.UsageError("give either --schema or --schema-id")
    if schema_id is not None and not registry:
        raise click.UsageError("--schema-id needs --registry")
    if writer_schema is not None and (format_ == "json" or framed or registry):
        raise click.UsageError("--writer-schema is for Avro values without schema ids")
    from pykbroker.pipeline.jobs import decode as jobs
    from pykbroker.pipeline.kafka_options import of_producer

    reader = schema.read_text() if schema is not None else registered(registry, schema_id or 0)
    plan = _plan(format_, reader, writer_schema, registry, framed=framed or bool(registry))
    source, producer = options.source(topics, uncommitted=uncommitted), of_producer(dict(options.kafka))
    settings = jobs.DecodeSettings(source, target, plan, dead_letters, checkpoint, every, moved, producer)
    options.run(lambda session, say: jobs.decode(session, settings, say), runs_python=True)


def registered(registry: str, schema_id: int) -> str:
    """Return the text of a schema of the registry. Raise click.ClickException if there is none."""
    from pykbroker.pipeline.decoding.bad_record import BadRecord
    from pykbroker.pipeline.decoding.registry import SchemaRegistry
    from pykbroker.pipeline.errors import PipelineError

    try:
        return SchemaRegistry(registry).text(schema_id)
    except (BadRecord, PipelineError) as error:
        raise failed(str(error)) from None


def _plan(format_: Any, reader: str, writer: Path | None, registry: str, *, framed: bool) -> DecodePlan:
    from pykbroker.pipeline.decoding.plan import DecodePlan

    return DecodePlan(format_, reader, framed, "" if writer is None else writer.read_text(), registry)
