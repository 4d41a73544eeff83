"""The command `pykbroker consume`, which prints the records of topics."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import click

from pykbroker.cli.ask import bootstrap_option
from pykbroker.cli.client_failures import failing_as_sentence, settings_option
from pykbroker.cli.client_warnings import warning_lines
from pykbroker.cli.records.read_plan import ReadPlan, read_options, read_plan
from pykbroker.core.address import Address

if TYPE_CHECKING:
    from pykbroker.cli.records.record_formats import Format
    from pykbroker.core.consumer.records import FetchedColumns

TEXT, JSON, RAW = "text", "json", "raw"


@click.command()
@read_options
@click.option(
    "-f",
    "--format",
    "name",
    default=TEXT,
    show_default=True,
    metavar="text|json|raw|TEMPLATE",
    help=r"Print values as lines, JSON objects as lines, values without line ends, or a template with fields, "
    r"such as '{partition} {offset} {key}: {value}\n'.",
)
@click.option("--json", "is_json", is_flag=True, help="The same as --format json, which `pykbroker produce` reads.")
@click.option("--key-delimiter", metavar="TEXT", help="Print key and TEXT before each value.")
@click.option("--null", "null_marker", metavar="TEXT", default="", help="Print TEXT for a null key or value.")
@settings_option
@bootstrap_option
def consume(
    name: str,
    is_json: bool,
    key_delimiter: str | None,
    null_marker: str,
    bootstrap: Sequence[Address],
    settings: Sequence[str],
    **options: Any,
) -> None:
    r"""Print the records of each TOPIC, up to the present end of the logs.

    Records of open and aborted transactions are left out, unless --uncommitted is given. Ctrl-C ends the command; a
    group then has committed the records that were printed.

    The fields of a template are {topic}, {partition}, {offset}, {timestamp} in ms, {time}, {key}, {value}, {headers},
    {key_bytes} and {value_bytes}. \n, \t, \r, \0, \\ and \xHH are escapes, and {{ and }} are braces.
    """
    import trio

    from pykbroker.core.consumer.errors import ConsumerError

    if is_json and name not in (TEXT, JSON):
        raise click.UsageError(f"--json and --format {name!r}: give one of them")
    form = chosen_format(JSON if is_json else name, key_delimiter, null_marker)
    plan = read_plan(bootstrap=bootstrap, settings=settings, **options)
    with warning_lines():
        failing_as_sentence(lambda: trio.run(run, plan, form), ConsumerError)


def chosen_format(name: str, key_delimiter: str | None, null_marker: str) -> Format:
    """Return the format of the options. click.UsageError: they contradict each other, or the template is invalid."""
    from pykbroker.cli.records.record_formats import raw_format, template_format, text_format
    from pykbroker.cli.records.record_json import json_lines

    if key_delimiter is not None and name != TEXT:
        raise click.UsageError("--key-delimiter is for --format text: leave out one of them")
    if key_delimiter == "":
        raise click.UsageError("--key-delimiter must not be empty")
    if null_marker and name in (JSON, RAW):
        raise click.UsageError(f"--null is for --format text and for templates: {name} has its own form of null")
    null = null_marker.encode()
    if name == TEXT:
        return text_format(key_delimiter=(key_delimiter or "").encode(), null_marker=null)
    if name in (JSON, RAW):
        return json_lines if name == JSON else raw_format
    if "{" not in name:
        raise click.UsageError(f"--format {name!r} is none of text, json and raw, and has no field such as {{value}}")
    try:
        return template_format(name, null)
    except ValueError as error:
        raise click.UsageError(str(error)) from None


async def run(plan: ReadPlan, form: Format) -> None:
    """Print the records of a plan. click.exceptions.Exit: a signal has ended the run before its end."""
    import trio

    from pykbroker.cli.interruption import interruptible
    from pykbroker.cli.records.reader import Reader
    from pykbroker.cli.signals import SIGNAL_EXIT_CODE
    from pykbroker.consumer import Consumer

    output = sys.stdout.buffer

    def write(data: bytes) -> None:
        output.write(data)
        output.flush()

    async def take(parts: list[FetchedColumns]) -> None:
        # A thread waits for the reader of a full pipe, while this one sends heartbeats.
        await trio.to_thread.run_sync(write, b"".join(map(form, parts)))

    async with interruptible() as interruption, Consumer(**plan.settings) as consumer:
        await Reader(consumer, plan, take, interruption).run()
    if interruption.signal is not None and not plan.follows:
        raise click.exceptions.Exit(SIGNAL_EXIT_CODE + interruption.signal)
