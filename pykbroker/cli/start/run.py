"""The run of a broker in this process, from its options to its exit code."""

from __future__ import annotations

import logging
import os
import signal
from collections.abc import AsyncIterator, Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager, nullcontext
from functools import partial
from typing import TYPE_CHECKING

import click
import trio

from pykbroker.cli.failures import explain, explain_end
from pykbroker.cli.signals import STOPPING
from pykbroker.cli.start.data_dirs import make_data_dir
from pykbroker.cli.start.first_lines import first_lines
from pykbroker.cli.start.options import Options
from pykbroker.cli.start.process import keep_freed_memory, return_freed_memory, settle_garbage_collector, write_log
from pykbroker.core.address import Address
from pykbroker.core.config.listener_configs import ignored_configs
from pykbroker.core.errors import StartError
from pykbroker.core.settings import Ready, Serving, Settings
from pykbroker.processes.messages import Announcement, tell
from pykbroker.world.system_limits import raise_open_files_limit
from pykbroker.world.temporary import temporary_directory

if TYPE_CHECKING:
    from pykbroker.cli.start.console import Console

EXIT_CODE_FAILED = 1
EXIT_CODE_IMPATIENT = 130

logger = logging.getLogger(__name__)


def run(
    options: Options,
    log_level: str,
    log_format: str,
    console: Address | None,
    noted: Sequence[int],
    pipe: int | None = None,
) -> None:
    """Serve until a signal. If `noted` holds an earlier signal, do not start. Announce the broker on a pipe, if any.

    click.ClickException: the broker cannot start. The message is one sentence.
    """
    write_log(log_level, log_format)
    with console_on(console) as bound, temporary_directory() if options.memory else nullcontext() as temporary_dir:
        try:
            settings = options.settings(temporary_dir)
        except StartError as error:
            raise click.ClickException(str(error)) from None
        for sentence in options.without_effect():
            logger.warning("%s", sentence)
        for sentence in ignored_configs(settings.config.texts, [*settings.listeners, *settings.controller_listeners]):
            logger.warning("%s", options.with_places(sentence))
        if options.passed_over():
            logger.info("Environment variables that pykbroker has no use for: %s", ", ".join(options.passed_over()))
        try:
            remarks = own_certificate(settings) if options.has_own_certificate else []
            lines = partial(
                first_lines, settings, remarks=remarks, as_json=log_format == "json", container=options.container
            )
            serve(settings, bound, noted, pipe, lines)
        except click.ClickException as error:
            raise click.ClickException(options.with_places(error.message)) from None


def own_certificate(settings: Settings) -> list[str]:
    """Make the certificate of `--tls auto`, and return what clients set. click.ClickException: it cannot be made."""
    from pykbroker.cli.start.own_certificates import prepare_certificates

    try:
        make_data_dir(settings.data_dirs[0])
        return [prepare_certificates(settings)]
    except StartError as error:
        raise click.ClickException(str(error)) from None


@contextmanager
def console_on(address: Address | None) -> Iterator[Console | None]:
    """Yield a bound console, or None without an address."""
    if address is None:
        yield None
        return
    from pykbroker.cli.start.console import Console

    console = Console(address)
    try:
        yield console
    finally:
        console.close()


def serve(
    settings: Settings,
    console: Console | None,
    noted: Sequence[int],
    pipe: int | None,
    lines: Callable[[Serving], Iterable[str]],
) -> None:
    """Serve until a signal. Write `lines` to stdout once clients can connect.

    click.ClickException: the broker cannot start. click.exceptions.Exit: the broker has failed.
    """
    started = False

    def ready(serving: Serving) -> None:
        nonlocal started
        started = True
        click.echo("\n".join(lines(serving)))
        if pipe is not None:
            tell(pipe, Announcement.of(serving, told(settings, serving)))
        settle_garbage_collector()
        return_freed_memory()

    try:
        make_data_dir(settings.data_dirs[0])
        raise_open_files_limit()
        keep_freed_memory()
        trio.run(serve_until_signal, settings, ready, console, noted)
    except Exception as error:
        reason = explain_end(error) if started else explain(error)
        if reason is None:
            raise
        if not started:
            raise click.ClickException(reason) from None
        logger.error("%s", reason)
        logger.debug("The failure came from:", exc_info=error)
        raise click.exceptions.Exit(EXIT_CODE_FAILED) from None


def told(settings: Settings, serving: Serving) -> Iterator[str]:
    """Yield the sentences that only the operator may read: the passwords that were generated."""
    if settings.users:
        from pykbroker.cli.start.users import new_passwords

        yield from new_passwords(settings, serving)


async def serve_until_signal(settings: Settings, ready: Ready, console: Console | None, noted: Sequence[int]) -> None:
    """Serve until SIGINT or SIGTERM, which also interrupts a start. A second signal ends the process at once."""
    stop = trio.Event()
    with trio.open_signal_receiver(*STOPPING) as signals:
        if noted:
            logger.info("%s: not starting.", signal.Signals(noted[0]).name)
            return
        from pykbroker import broker  # importing it takes long, so the options are checked first

        async with trio.open_nursery() as nursery:

            def serves(serving: Serving) -> None:
                ready(serving)
                if console is not None:
                    nursery.start_soon(console.run, serving.observer, stop.is_set)

            nursery.start_soon(stop_at_signal, signals, stop)
            await broker.serve(settings, serves, stop=stop)
            nursery.cancel_scope.cancel()


async def stop_at_signal(signals: AsyncIterator[int], stop: trio.Event) -> None:
    """Set `stop` at the first signal and end the process at the second, until cancelled."""
    async for number in signals:
        if stop.is_set():
            os._exit(EXIT_CODE_IMPATIENT)
        logger.info("%s: stopping.", signal.Signals(number).name)
        stop.set()
