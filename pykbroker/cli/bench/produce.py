"""The command `pykbroker bench produce`, which sends records of random letters as fast as the broker takes them."""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

import click

from pykbroker.cli.ask import ask, bootstrap_option
from pykbroker.cli.client_failures import failing_as_sentence
from pykbroker.cli.client_warnings import warning_lines
from pykbroker.cli.completion import topic_names
from pykbroker.cli.records.existing_partition import require_partition
from pykbroker.cli.records.produce import BATCH_BYTES, producer_settings, send_options
from pykbroker.cli.tables import json_option
from pykbroker.core.address import Address

if TYPE_CHECKING:
    from pykbroker.cli.bench.measurement import Measurement
    from pykbroker.cli.interruption import Interruption
    from pykbroker.client.admin.admin import Admin
    from pykbroker.producer.delivery import ColumnsDelivery

SECONDS = 10
RECORD_BYTES = 100
RECORD_BYTES_MAX = 100_000_000
ROWS_MAX = 10_000
PACED_CALLS_PER_S = 50
"""The calls in a second with --rate. Each sends an equal number of records."""
LETTERS = bytes(65 + byte % 26 for byte in range(256))


class Load(NamedTuple):
    """The records to send: the limits of their number and of the time, their size, and the number in a second.

    None stands for no limit.
    """

    records_max: int | None
    seconds: float | None
    record_bytes: int
    rate: int | None

    @property
    def rows(self) -> int:
        """Return the records of one call."""
        rows = max(1, min(ROWS_MAX, BATCH_BYTES // self.record_bytes))
        return rows if self.rate is None else max(1, min(rows, self.rate // PACED_CALLS_PER_S))


@click.command()
@click.argument("topic", shell_complete=topic_names)
@bootstrap_option
@click.option("--count", type=click.IntRange(min=1), help="The number of records.")
@click.option(
    "--seconds",
    type=click.FloatRange(min=0, min_open=True),
    help=f"The time to send for. [default: {SECONDS}, or no limit with --count]",
)
@click.option(
    "--bytes",
    "record_bytes",
    type=click.IntRange(1, RECORD_BYTES_MAX),
    default=RECORD_BYTES,
    show_default=True,
    help="The size of each value.",
)
@click.option("--rate", type=click.IntRange(min=1), help="The records in a second. [default: as many as possible]")
@send_options
@json_option
def produce(
    topic: str,
    bootstrap: Sequence[Address],
    count: int | None,
    seconds: float | None,
    record_bytes: int,
    rate: int | None,
    partition: int | None,
    codec: str,
    acks: str,
    settings: Sequence[str],
    as_json: bool,
) -> None:
    """Send records to TOPIC, and print rates and latencies.

    The rates of each second are printed on stderr. A latency is the time from a call to the acknowledgement of all its
    records; with --rate, it begins when the call is due. Ctrl-C ends the measurement early.
    """
    import trio

    from pykbroker.cli.bench.run import measured
    from pykbroker.producer import RowsFailed

    own = {"client_id": "pykbroker-bench", "max_request_size": 2 * max(BATCH_BYTES, record_bytes)}
    given = producer_settings(bootstrap, codec, acks, settings, **own)
    load = Load(count, SECONDS if seconds is None and count is None else seconds, record_bytes, rate)
    ask(bootstrap, answers)

    async def run() -> None:
        await measured(ProduceBenchmark(topic, partition, load, given).run, as_json=as_json)

    with warning_lines():
        failing_as_sentence(lambda: trio.run(run), RowsFailed)


async def answers(admin: Admin) -> None:
    """Do nothing: a broker answers."""


class ProduceBenchmark:
    """A run of the command."""

    def __init__(self, topic: str, partition: int | None, load: Load, settings: dict[str, Any]) -> None:
        self._topic, self._partition, self._load, self._settings = topic, partition, load, settings
        self._values = random_values(load.record_bytes, load.rows)

    async def run(self, measurement: Measurement, interruption: Interruption) -> None:
        """Send all records, and wait until they are acknowledged."""
        import trio

        from pykbroker.producer import Producer

        async with Producer(**self._settings) as producer, trio.open_nursery() as nursery:
            if self._partition is not None:
                await require_partition(producer, self._settings, self._topic, self._partition)
            with interruption.cancels():
                for rows, due in self._calls(measurement.began):
                    if due is not None:
                        await trio.sleep_until(due)
                    start = trio.current_time() if due is None else due
                    delivery = await producer.send_many(self._topic, self._values[:rows], partition=self._partition)
                    nursery.start_soon(self._acknowledged, measurement, delivery, rows, start)

    def _calls(self, began: float) -> Iterator[tuple[int, float | None]]:
        """Yield the number of records of each call, and with a rate the time at which the call is due."""
        import trio

        load, sent = self._load, 0
        while load.records_max is None or sent < load.records_max:
            due = None if load.rate is None else began + sent / load.rate
            if load.seconds is not None and (due or trio.current_time()) >= began + load.seconds:
                return
            rows = len(self._values) if load.records_max is None else min(len(self._values), load.records_max - sent)
            yield rows, due
            sent += rows

    async def _acknowledged(self, measurement: Measurement, delivery: ColumnsDelivery, rows: int, start: float) -> None:
        import trio

        await delivery
        measurement.add(rows, rows * self._load.record_bytes)
        measurement.latencies.add(trio.current_time() - start, rows)


def random_values(record_bytes: int, rows: int) -> list[bytes]:
    """Return values of random letters."""
    letters = os.urandom(record_bytes * rows).translate(LETTERS)
    return [letters[start : start + record_bytes] for start in range(0, len(letters), record_bytes)]
