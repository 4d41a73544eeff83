"""The options and the run that all commands of `pykbroker pipeline` share."""

from __future__ import annotations

import logging
import sys
from collections.abc import Callable, Iterable, Sequence
from socketserver import BaseServer
from typing import TYPE_CHECKING, Any, TypeVar

import click

from pykbroker.cli.ask import BOOTSTRAP_VARIABLE
from pykbroker.cli.own_address import DEFAULT_BOOTSTRAP
from pykbroker.cli.parameters import bootstrap_servers
from pykbroker.cli.pipeline.job_signals import Interrupts, exit_code, raising_interrupts
from pykbroker.core.address import Address

if TYPE_CHECKING:
    from pykbroker.pipeline.kafka_options import Use
    from pykbroker.pipeline.report import JobReport
    from pykbroker.pipeline.session import PipelineSession, SessionSettings

F = TypeVar("F", bound=Callable[..., Any])
FIXED = {
    "kafka.bootstrap.servers": "give the brokers with --bootstrap",
    "kafka.isolation.level": "give --uncommitted for the records of open and aborted transactions",
    "includeheaders": "an archive always has the headers",
    "subscribe": "name the topics with --topics",
    "subscribepattern": "give the pattern with --pattern",
    "assign": "name whole topics with --topics",
    "endingoffsets": "the job decides where it ends",
    "endingtimestamp": "the job decides where it ends",
}
"""The options of Spark's kafka format that are set by others, in lower case, with what to do in their place."""
KAFKA_HELP: dict[Use, str] = {
    "stream": "An option of Spark's format kafka, such as maxOffsetsPerTrigger=100000, or a setting of its consumer, "
    "such as kafka.max.poll.records=10000",
    "batch": "An option of Spark's format kafka, such as minPartitions=8, or a setting of its consumer, such as "
    "kafka.max.poll.records=10000",
    "write": "A setting of the producer, such as kafka.compression.type=lz4",
}
SECONDS = {"ms": 0.001, "s": 1.0, "m": 60.0, "h": 3600.0}
CONNECTORS = ("auto", "jvm", "python")
ARCHIVE_FORMATS = click.Choice(("parquet", "iceberg"))


def setting(text: str) -> tuple[str, str]:
    """Parse the KEY=VALUE of an option."""
    key, equals, value = text.partition("=")
    if not key or not equals:
        raise click.BadParameter(f"{text!r} is not KEY=VALUE")
    return key, value


def kafka_setting(*uses: Use) -> Callable[[str], tuple[str, str]]:
    """Return the parser of the KEY=VALUE of an option of Spark's kafka format, for what a job does with topics.

    Options that other options set are refused, and those that the job cannot take.
    """

    def parse(text: str) -> tuple[str, str]:
        from pykbroker.pipeline.errors import PipelineError
        from pykbroker.pipeline.kafka_options import refusal
        from pykbroker.pipeline.reading import require_plaintext

        key, value = setting(text)
        try:
            require_plaintext({key: value})
        except PipelineError as error:
            raise click.BadParameter(str(error)) from None
        if advice := refusal(key, uses) or FIXED.get(key.lower()):
            raise click.BadParameter(f"{key} is not allowed here: {advice}")
        return key, value

    return parse


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


def duration(text: str) -> float:
    """Parse a duration such as 500ms, 5s or 2m. Return it in seconds."""
    number = text.rstrip("msh")
    unit = text[len(number) :] or "s"
    try:
        seconds = float(number) * SECONDS[unit]
    except (ValueError, KeyError):
        raise click.BadParameter(f"{text!r} is no duration, such as 500ms, 5s, 2m or 1h") from None
    if seconds <= 0:
        raise click.BadParameter(f"{text!r} must be longer than nothing")
    return seconds


def every_option(command: F) -> F:
    """Add the option for a stream of batches to a command."""
    return click.option(
        "--every", type=duration, metavar="TIME", help="Run until interrupted, with a batch every TIME, as in 5s."
    )(command)


def moved_option(command: F) -> F:
    """Add the option for a target that was moved to a command."""
    return click.option(
        "--moved", is_flag=True, help="The target of --to was moved there with its checkpoint since the last run."
    )(command)


def spark_options(command: F) -> F:
    """Add the options of a session that reads topics, and of the report, to a command."""
    return click.option(
        "--connector",
        type=click.Choice(CONNECTORS),
        default="auto",
        show_default=True,
        help="Spark's own Kafka connector, or the data source of pykbroker, which needs no jar.",
    )(session_options(command))


def session_options(command: F) -> F:
    """Add the options of a session that reads no topics, and of the report, to a command."""
    for option in reversed(
        (
            click.option(
                "--master",
                default="",
                show_default="that of Spark's own settings, or local[*]",
                help="The master of Spark.",
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


def format_option(command: F) -> F:
    """Add the option for the format of the archive to a command."""
    return click.option("--format", "format_", type=ARCHIVE_FORMATS, default="parquet", show_default=True)(command)


def kafka_option(*uses: Use) -> Callable[[F], F]:
    """Return the decorator that adds the option for settings of the Kafka client to a command.

    `uses` is what the job does with topics.
    """
    return click.option(
        "--kafka",
        type=kafka_setting(*uses),
        metavar="KEY=VALUE",
        multiple=True,
        help=". ".join(KAFKA_HELP[each] for each in uses) + ". Repeatable.",
    )


def session_settings(
    master: str,
    connector: Any,
    conf: Iterable[tuple[str, str]],
    packages: Iterable[str] = (),
    *,
    runs_python: bool = False,
    reads_topics: bool = True,
) -> SessionSettings:
    """Return the settings of the session. `runs_python`: the tasks of the job run functions of this package."""
    from pykbroker.pipeline.session import SessionSettings

    return SessionSettings(master, connector, dict(conf), tuple(packages), runs_python, reads_topics)


def format_packages(format_: str) -> tuple[str, ...]:
    """Return the packages that a format of archives needs. click.ClickException: there are none for this Spark."""
    from pykbroker.pipeline.errors import PipelineError
    from pykbroker.pipeline.jars import iceberg_package

    try:
        return (iceberg_package(),) if format_ == "iceberg" else ()
    except PipelineError as error:
        raise failed(str(error)) from None


def run_job(
    settings: SessionSettings, job: Callable[[PipelineSession, Callable[[str], None]], JobReport], *, as_json: bool
) -> None:
    """Open a session, run a job, print its report, and end with its exit code.

    A job gets KeyboardInterrupt for the first SIGINT or SIGTERM. The second one ends the process at once. Errors after
    a signal are consequences of it: a signal to the process group also ends the JVM, and one that interrupts a call to
    the JVM may fail a later call. A signal after the end of the job changes neither its report nor its exit code.
    """
    from pykbroker.pipeline.errors import PipelineError

    signals: list[int] = []
    silence_failed_calls()
    try:
        with raising_interrupts(signals) as interrupts:
            report = _run(settings, job, signals, interrupts)
            click.echo(report.json() if as_json else report.text())
    except (Exception, KeyboardInterrupt) as error:
        if not signals and isinstance(error, PipelineError):
            raise failed(str(error)) from None
        if not signals and not isinstance(error, KeyboardInterrupt):
            raise
        say(f"{click.get_current_context().info_name}: interrupted")
        report_failure("interrupted", exit_code(signals), is_interrupted=True)
        sys.exit(exit_code(signals))
    if report.is_interrupted and not report.losses:
        sys.exit(exit_code(signals))
    sys.exit(report.exit_code)


def _run(
    settings: SessionSettings, job: Callable[..., JobReport], signals: Sequence[int], interrupts: Interrupts
) -> JobReport:
    """Open a session, and run a job unless a signal has come meanwhile. Python ignores what a finalizer raises.

    A signal while the session closes ends that alone. A later one has no effect: Python looks for signals behind calls,
    and there is none between the last of them and the report.
    """
    from pykbroker.pipeline.session import pipeline_session

    reports: list[JobReport] = []
    try:
        with pipeline_session(settings, say) as session:
            silence_accumulators()
            if signals:
                raise KeyboardInterrupt
            reports.append(job(session, say))
    except (Exception, KeyboardInterrupt):
        if not reports or not signals:
            raise
    finally:
        interrupts.is_over = True
    return reports[0]


def failed(error: str) -> click.ClickException:
    """Return the exception that ends a command, and print a report about it if the user has asked for JSON."""
    exception = click.ClickException(error)
    report_failure(error, exception.exit_code)
    return exception


def report_failure(error: str, code: int, *, is_interrupted: bool = False) -> None:
    """Print the report of a command without another one, if the user has asked for JSON."""
    from pykbroker.pipeline.report import FailedReport

    context = click.get_current_context()
    if context.params.get("as_json"):
        click.echo(FailedReport(context.info_name or "", error, code, is_interrupted).json())


def silence_failed_calls() -> None:
    """Stop py4j from logging failed and interrupted calls to the JVM, since the job reports them."""
    logging.getLogger("py4j").setLevel(logging.CRITICAL)
    logging.getLogger().addFilter(lambda record: "while sending command" not in record.getMessage())


def silence_accumulators() -> None:
    """Stop pyspark's accumulator server from printing a stack when the JVM ends. No job uses accumulators."""
    from pyspark import accumulators

    for each in vars(accumulators).values():
        if isinstance(each, type) and issubclass(each, BaseServer):
            each.handle_error = lambda *_: None  # type: ignore[method-assign]


def say(line: str) -> None:
    """Print a line of progress on stderr."""
    click.echo(line, err=True)
