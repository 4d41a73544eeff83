"""The options that the commands of `pykbroker pipeline` share, and the decorator that makes such a command."""

from __future__ import annotations

from collections.abc import Callable
from functools import wraps
from math import isfinite, nan
from typing import TYPE_CHECKING, Any, NamedTuple

import click

from pykbroker.cli.ask import BOOTSTRAP_VARIABLE
from pykbroker.cli.client_config import CLIENT_CONFIG, security_settings
from pykbroker.cli.own_address import DEFAULT_TEXT, default_bootstrap
from pykbroker.cli.parameters import bootstrap_servers, name_in
from pykbroker.cli.pipeline.run import failed, run_job

if TYPE_CHECKING:
    from pykbroker.pipeline.kafka_options import Use
    from pykbroker.pipeline.reading import TopicsToRead
    from pykbroker.pipeline.report import JobReport
    from pykbroker.pipeline.session import PipelineSession

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
        raise click.BadParameter(f"{name_in(text)!r} is not KEY=VALUE")
    return key, value


def kafka_setting(*uses: Use) -> Callable[[str], tuple[str, str]]:
    """Return the parser of the KEY=VALUE of an option of Spark's kafka format, for what a job does with topics.

    Options that other options set are refused, and those that the job cannot take.
    """

    def parse(text: str) -> tuple[str, str]:
        from pykbroker.pipeline.kafka_options import refusal

        key, value = setting(text)
        if advice := refusal(key, uses) or FIXED.get(key.lower()):
            raise click.BadParameter(f"{key} is not allowed here: {advice}")
        return key, value

    return parse


def brokers(text: str) -> str:
    """Check the HOST[:PORT],... of an option, and return it with all ports."""
    return ",".join(map(str, bootstrap_servers(text)))


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
        seconds = nan
    if not isfinite(seconds):
        raise click.BadParameter(f"{text!r} is no duration, such as 500ms, 5s, 2m or 1h")
    if seconds <= 0:
        raise click.BadParameter(f"{text!r} must be longer than nothing")
    return seconds


format_option = click.option("--format", "format_", type=ARCHIVE_FORMATS, default="parquet", show_default=True)
every_option = click.option(
    "--every", type=duration, metavar="TIME", help="Run until interrupted, with a batch every TIME, as in 5s."
)
moved_option = click.option(
    "--moved", is_flag=True, help="The target of --to was moved there with its checkpoint since the last run."
)
BOOTSTRAP = click.Option(
    ["-b", "--bootstrap"],
    envvar=BOOTSTRAP_VARIABLE,
    show_envvar=True,
    type=brokers,
    metavar="HOST[:PORT],...",
    default=default_bootstrap,
    help=f"The brokers of the cluster. {DEFAULT_TEXT}",
)
CONNECTOR = click.Option(
    ["--connector"],
    type=click.Choice(CONNECTORS),
    default="auto",
    show_default=True,
    help="Spark's own Kafka connector, or the data source of pykbroker, which needs no jar.",
)
MASTER = click.Option(
    ["--master"], default="", show_default="that of Spark's own settings, or local[*]", help="The master of Spark."
)
SPARK = click.Option(
    ["--spark", "conf"], type=setting, metavar="KEY=VALUE", multiple=True, help="A setting of Spark. Repeatable."
)
JSON = click.Option(["--json", "as_json"], is_flag=True, help="Print the report as one line of JSON.")


class JobOptions(NamedTuple):
    """The options of a command that say where its topics are, how they are read, and how Spark runs."""

    master: str
    conf: tuple[tuple[str, str], ...]
    as_json: bool
    connector: Any = "python"
    bootstrap: str = ""
    kafka: tuple[tuple[str, str], ...] = ()

    def source(self, topics: tuple[str, ...] | None, pattern: str | None = None, *, uncommitted: bool) -> TopicsToRead:
        """Return what the job reads of the cluster."""
        from pykbroker.pipeline.kafka_options import of_reader
        from pykbroker.pipeline.reading import TopicsToRead

        options = of_reader(dict(self.kafka))
        return TopicsToRead(self.bootstrap, topics or (), pattern or "", options, committed_only=not uncommitted)

    def run(
        self,
        job: Callable[[PipelineSession, Callable[[str], None]], JobReport],
        *formats: str,
        runs_python: bool = False,
        reads_topics: bool = True,
    ) -> None:
        """Run a job with archives of some formats to its report. `runs_python`: its tasks need this package.

        A job that reads no topics needs no connector, nor its jars. Raise click.ClickException if Spark has no packages
        for a format.
        """
        from pykbroker.pipeline.session import SessionSettings

        packages = format_packages("iceberg" if "iceberg" in formats else "parquet")
        connector: Any = self.connector if reads_topics else "python"
        settings = SessionSettings(self.master, connector, dict(self.conf), packages, runs_python, reads_topics)
        run_job(settings, job, as_json=self.as_json)


def job_command(*uses: Use, has_connector: bool = True) -> Callable[[Callable[..., None]], click.Command]:
    """Return the decorator that makes a command of a function, which gets JobOptions as its first argument.

    `uses` is what the job does with topics. Without a use, the command has no options for brokers. The options of the
    function stand between --bootstrap and the options of Kafka's clients and of Spark.
    """
    kafka = click.Option(
        ["--kafka"],
        type=kafka_setting(*uses),
        metavar="KEY=VALUE",
        multiple=True,
        help=". ".join(KAFKA_HELP[each] for each in uses) + ". Repeatable.",
    )

    def decorate(function: Callable[..., None]) -> click.Command:
        @click.command()
        @wraps(function)
        def command(**given: Any) -> None:
            shared = {name: given.pop(name) for name in JobOptions._fields if name in given}
            if uses:
                shared["kafka"] = with_security(shared["kafka"])
            function(JobOptions(**shared), **given)

        before, after = ([BOOTSTRAP, CLIENT_CONFIG], [kafka]) if uses else ([], [])
        command.params = [*before, *command.params, *after, *([CONNECTOR] * has_connector), MASTER, SPARK, JSON]
        return command

    return decorate


def with_security(options: tuple[tuple[str, str], ...]) -> tuple[tuple[str, str], ...]:
    """Return the settings of --client-config as options of Spark's kafka format, before options of the user.

    click.ClickException: the settings of TLS and SASL do not work.
    """
    from pykbroker.pipeline.cluster import security_of_jobs
    from pykbroker.pipeline.errors import PipelineError
    from pykbroker.pipeline.source.client_options import PREFIX, security_of

    try:
        given = {f"{PREFIX}{name.replace('_', '.')}": value for name, value in security_settings().items()}
        security_of_jobs(security_of({**given, **dict(options)}))
    except click.ClickException as error:
        raise failed(error.message) from None
    except PipelineError as error:
        raise failed(str(error)) from None
    return (*given.items(), *options)


def format_packages(format_: str) -> tuple[str, ...]:
    """Return the packages that a format of archives needs. click.ClickException: there are none for this Spark."""
    from pykbroker.pipeline.errors import PipelineError
    from pykbroker.pipeline.jars import iceberg_package

    try:
        return (iceberg_package(),) if format_ == "iceberg" else ()
    except PipelineError as error:
        raise failed(str(error)) from None
