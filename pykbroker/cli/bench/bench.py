"""The commands of `pykbroker bench`, which measure this client against any Kafka broker."""

from __future__ import annotations

import click

from pykbroker.cli.bench.consume import consume
from pykbroker.cli.bench.produce import produce


@click.group()
def bench() -> None:
    """Measure how many records a broker takes and returns."""


bench.add_command(consume)
bench.add_command(produce)
