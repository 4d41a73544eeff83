"""The run of a job in a session: its signals, its report and its exit code."""

from __future__ import annotations

import logging
import sys
from collections.abc import Callable, Sequence
from socketserver import BaseServer
from typing import TYPE_CHECKING

import click

from pykbroker.cli.pipeline.job_signals import Interrupts, exit_code, raising_interrupts

if TYPE_CHECKING:
    from pykbroker.pipeline.report import JobReport
    from pykbroker.pipeline.session import PipelineSession, SessionSettings


def run_job(
    settings: SessionSettings, job: Callable[[PipelineSession, Callable[[str], None]], JobReport], *, as_json: bool
) -> None:
    """Open a session, run a job, print its report, and end with its exit code.

    A job gets KeyboardInterrupt for the first SIGINT or SIGTERM. The second one ends the process at once. Errors after
    a signal are consequences of it: a signal to the process group also ends the JVM, and one that interrupts a call to
    the JVM may fail a later call. A signal after the end of the job changes neither its report nor its exit code.
    """
    from pykbroker.core.errors import StartError
    from pykbroker.pipeline.errors import PipelineError

    signals: list[int] = []
    silence_failed_calls()
    try:
        with raising_interrupts(signals) as interrupts:
            report = _run(settings, job, signals, interrupts)
            click.echo(report.json() if as_json else report.text())
    except (Exception, KeyboardInterrupt) as error:
        if not signals and isinstance(error, PipelineError | StartError):
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
