"""The options and the run that all commands of `pykbroker pipeline` share."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterable, Mapping
from typing import TYPE_CHECKING, Any, TypeVar

import click

from pykbroker.cli.ask import BOOTSTRAP_VARIABLE, DEFAULT_BOOTSTRAP
from pykbroker.cli.parameters import bootstrap_servers
from pykbroker.core.address import Address

if TYPE_CHECKING:
    from pykbroker.pipeline.report import JobReport
    from pykbroker.pipeline.session import PipelineSession, SessionSettings

F = TypeVar("F", bound=Callable[..., Any])
CONNECTORS = ("auto", "jvm", "python")


def setting(text: str) -> tuple[str, str]:
    """Parse the KEY=VALUE of an option."""
    key, equals, value = text.partition("=")
    if not key or not equals:
        raise click.BadParameter(f"{text!r} is not KEY=VALUE")
    return key, value


def brokers(text: str) -> str:
    """Check the HOST[:PORT],... of an option, and return it with all ports."""
    addresses: tuple[Address, ...] = bootstrap_servers(text)
    return ",".join(map(str, addresses))


def topic_list(text: str) -> tuple[str, ...]:
    """Parse the NAME,... of an option."""
    found = tuple(dict.fromkeys(each.strip() for each in text.split(",") if each.strip()))
    if not found:
        raise click.BadParameter("name at least one topic")
    return found


def spark_options(command: F) -> F:
    """Add the options of the session and of the report to a command."""
    for option in reversed(
        (
            click.option("--master", default="local[*]", show_default=True, help="The master of Spark."),
            click.option(
                "--connector",
                type=click.Choice(CONNECTORS),
                default="auto",
                show_default=True,
                help="Spark's own Kafka connector, or the data source of pykbroker, which needs no jar.",
            ),
            click.option(
                "--spark",
                "conf",
                type=setting,
                metavar="KEY=VALUE",
                multiple=True,
                help="A setting of Spark. Repeatable.",
            ),
            click.option("--json", "as_json", is_flag=True, help="Print the report as one line of JSON."),
        )
    ):
        command = option(command)
    return command


def bootstrap_option(command: F) -> F:
    """Add the option for the brokers to a command."""
    return click.option(
        "-b",
        "--bootstrap",
        envvar=BOOTSTRAP_VARIABLE,
        show_envvar=True,
        type=brokers,
        metavar="HOST[:PORT],...",
        default=DEFAULT_BOOTSTRAP,
        show_default=True,
        help="The brokers of the cluster.",
    )(command)


def kafka_option(command: F) -> F:
    """Add the option for settings of the Kafka client to a command."""
    return click.option(
        "--kafka",
        type=setting,
        metavar="KEY=VALUE",
        multiple=True,
        help="An option of Spark's kafka format, such as maxOffsetsPerTrigger=100000, or one of its client, such as "
        "kafka.max.poll.records=10000. Repeatable.",
    )(command)


def session_settings(
    master: str, connector: Any, conf: Iterable[tuple[str, str]], packages: Iterable[str] = ()
) -> SessionSettings:
    """Return the settings of the session."""
    from pykbroker.pipeline.session import SessionSettings

    return SessionSettings(master, connector, dict(conf), tuple(packages))


def run_job(
    settings: SessionSettings, job: Callable[[PipelineSession, Callable[[str], None]], JobReport], *, as_json: bool
) -> None:
    """Open a session, run a job, print its report, and end with its exit code."""
    from pykbroker.pipeline.errors import PipelineError
    from pykbroker.pipeline.session import pipeline_session

    try:
        with pipeline_session(settings, say) as session:
            report = job(session, say)
    except PipelineError as error:
        raise click.ClickException(str(error)) from None
    click.echo(report.json() if as_json else report.text())
    sys.exit(report.exit_code)


def say(line: str) -> None:
    """Print a line of progress on stderr."""
    click.echo(line, err=True)


def options(pairs: Iterable[tuple[str, str]]) -> Mapping[str, str]:
    """Return the pairs of a repeatable option."""
    return dict(pairs)
