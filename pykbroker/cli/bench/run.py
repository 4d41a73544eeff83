"""One run of a benchmark: its end by a signal, its live line each second, and its result."""

from __future__ import annotations

import sys
from collections.abc import Awaitable, Callable

import click
import trio

from pykbroker.cli.bench.measurement import Measurement
from pykbroker.cli.interruption import Interruption, interruptible

LINE_S = 1.0
CLEAR = "\r\x1b[K"
"""Go to the start of the line, and delete the line."""


async def measured(work: Callable[[Measurement, Interruption], Awaitable[None]], *, as_json: bool) -> None:
    """Run `work`, which adds to the measurement. Print the rates each second on stderr, and the result on stdout."""
    async with interruptible() as interruption, trio.open_nursery() as nursery:
        measurement = Measurement(trio.current_time())
        nursery.start_soon(print_lines, measurement)
        await work(measurement, interruption)
        nursery.cancel_scope.cancel()
    ended = trio.current_time()
    if sys.stderr.isatty():
        click.echo(CLEAR, err=True, nl=False)
    measurement.summary(ended).show(as_json=as_json)


async def print_lines(measurement: Measurement) -> None:
    """Print the rates each second, on a terminal in one line."""
    is_terminal = sys.stderr.isatty()
    while True:
        await trio.sleep(LINE_S)
        line = measurement.line(trio.current_time())
        click.echo(f"{CLEAR}{line}" if is_terminal else line, err=True, nl=not is_terminal)
