"""The command `pykbroker bench consume`, which reads records as columns and drops them."""

from __future__ import annotations

import time
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import click

from pykbroker.cli.ask import bootstrap_option
from pykbroker.cli.client_failures import failing_as_sentence, settings_option
from pykbroker.cli.client_warnings import warning_lines
from pykbroker.cli.records.read_plan import ReadPlan, read_options, read_plan
from pykbroker.cli.tables import json_option
from pykbroker.core.address import Address

if TYPE_CHECKING:
    from pykbroker.cli.bench.measurement import Measurement
    from pykbroker.cli.interruption import Interruption
    from pykbroker.core.consumer.records import FetchedColumns


@click.command()
@read_options
@click.option("--seconds", type=click.FloatRange(min=0, min_open=True), help="The time to read for at most.")
@settings_option
@json_option
@bootstrap_option
def consume(
    seconds: float | None, settings: Sequence[str], as_json: bool, bootstrap: Sequence[Address], **options: Any
) -> None:
    """Read the records of each TOPIC, and print rates and latencies.

    The rates of each second are printed on stderr. A latency is the age of the first record of a batch by its
    timestamp, of records that are produced during the measurement; read them with --follow. Ctrl-C ends the measurement
    early.
    """
    import trio

    from pykbroker.cli.bench.run import measured
    from pykbroker.core.consumer.errors import ConsumerError

    plan = read_plan(bootstrap=bootstrap, settings=settings, **options)

    async def run() -> None:
        await measured(ConsumeBenchmark(plan, seconds).run, as_json=as_json)

    with warning_lines():
        failing_as_sentence(lambda: trio.run(run), ConsumerError)


class ConsumeBenchmark:
    """A run of the command."""

    def __init__(self, plan: ReadPlan, seconds: float | None) -> None:
        self._plan, self._seconds = plan, seconds
        self._began_ms = time.time() * 1000

    async def run(self, measurement: Measurement, interruption: Interruption) -> None:
        """Read the records of the plan, for the time at most."""
        import trio

        from pykbroker.cli.records.reader import Reader
        from pykbroker.consumer import Consumer

        async def take(parts: list[FetchedColumns]) -> None:
            for part in parts:
                self._add(measurement, part)

        async with Consumer(**self._plan.settings) as consumer, trio.open_nursery() as nursery:
            if self._seconds is not None:
                nursery.start_soon(interruption.stop_after, self._seconds)
            await Reader(consumer, self._plan, take, interruption).run()
            nursery.cancel_scope.cancel()

    def _add(self, measurement: Measurement, part: FetchedColumns) -> None:
        columns = part.columns
        measurement.add(len(part), sum(map(len, filter(None, [*columns.keys, *columns.values]))))
        if columns.timestamps[0] >= self._began_ms:
            measurement.latencies.add(time.time() - columns.timestamps[0] / 1000, len(part))
