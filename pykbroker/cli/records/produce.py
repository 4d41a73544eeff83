"""The command `pykbroker produce`, which sends the lines of files or of the standard input as records."""

from __future__ import annotations

import logging
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from io import BufferedIOBase
from typing import IO, TYPE_CHECKING, Any

import click

from pykbroker.cli.ask import CLIENT_ID, bootstrap_option, named
from pykbroker.cli.client_config import security_settings
from pykbroker.cli.client_failures import failing_as_sentence, setting, settings_option
from pykbroker.cli.completion import topic_names
from pykbroker.cli.parameters import together
from pykbroker.cli.records.existing_partition import require_partition
from pykbroker.core.address import Address

if TYPE_CHECKING:
    from pykbroker.cli.records.record_lines import ParsedRecord
    from pykbroker.producer import Delivery, Producer

CODECS, ACKS = ("none", "gzip", "snappy", "lz4", "zstd"), ("all", "1", "0")
READ_BYTES = 2 << 20
PROGRESS_S = 1
BATCH_BYTES = 1_000_000


send_options = together(
    click.option("--partition", type=click.IntRange(min=0), help="The partition of all records."),
    click.option("--codec", type=click.Choice(CODECS), default="none", show_default=True, help="The compression."),
    click.option(
        "--acks", type=click.Choice(ACKS), default="all", show_default=True, help="The replicas that confirm."
    ),
    settings_option,
)
"""The options of a command that sends records, of which `producer_settings` gets all but the first."""


def producer_settings(
    bootstrap: Sequence[Address], codec: str, acks: str, settings: Sequence[str], **more: Any
) -> dict[str, Any]:
    """Return the settings of a producer: of the options, and `more` of its command. -X takes precedence over both."""
    given = {"batch_size": BATCH_BYTES, "max_block_ms": 30_000, "compression_type": codec, "acks": acks, **more}
    return {"bootstrap_servers": named(bootstrap), **security_settings(), **given, **dict(map(setting, settings))}


@click.command()
@click.argument("topic", shell_complete=topic_names)
@click.argument("files", nargs=-1, type=click.File("rb"))
@bootstrap_option
@click.option("--json", "is_json", is_flag=True, help="Read a JSON object from each line: key, value, headers, ...")
@click.option("--key-delimiter", metavar="TEXT", help="Split each line into key and value at the first TEXT.")
@send_options
def produce(
    topic: str,
    files: Sequence[IO[bytes]],
    bootstrap: Sequence[Address],
    is_json: bool,
    key_delimiter: str | None,
    partition: int | None,
    codec: str,
    acks: str,
    settings: Sequence[str],
) -> None:
    """Send each line of FILES, or of the standard input, to TOPIC.

    An empty line is a record with an empty value. The records before a line that is no record are sent.
    """
    import trio

    if is_json and (key_delimiter is not None or partition is not None):
        raise click.UsageError("--json has key and partition in each line: leave out --key-delimiter and --partition")
    if key_delimiter == "":
        raise click.UsageError("--key-delimiter must not be empty")
    logging.getLogger("pykbroker").addHandler(logging.NullHandler())  # the command itself reports failures
    own = {"client_id": CLIENT_ID, "max_request_size": 2 * BATCH_BYTES}
    given = producer_settings(bootstrap, codec, acks, settings, **own)
    sources = files or [sys.stdin.buffer]
    from pykbroker.cli.records.record_lines import json_record
    from pykbroker.producer import RowsFailed

    delimiter = None if key_delimiter is None else key_delimiter.encode()
    sending = Sending(given, topic, partition, delimiter, json_record if is_json else None)

    failing_as_sentence(
        lambda: trio.run(sending.run, sources), RowsFailed, note=lambda: f" ({counted(sending.written)} written before)"
    )


def counted(records: int) -> str:
    """Return a number of records as the subject of a sentence, with its verb."""
    return "1 record was" if records == 1 else f"{records} records were"


class Sending:
    """The state of one run of the command.

    `parse` returns the record of a line; without it, a line is a value, or a key and a value with the delimiter between
    them. A run that `is_silent` prints nothing.
    """

    def __init__(
        self,
        settings: dict[str, Any],
        topic: str,
        partition: int | None = None,
        delimiter: bytes | None = None,
        parse: Callable[[bytes], ParsedRecord] | None = None,
        *,
        is_silent: bool = False,
    ) -> None:
        self._topic, self._partition, self._delimiter, self._parse = topic, partition, delimiter, parse
        self._settings, self._is_silent = settings, is_silent
        self._existing: set[int] = set()
        """The partitions that records have named, and that the topic has."""
        self.written = 0
        self._shown_at = time.monotonic()

    async def run(self, sources: Sequence[IO[bytes]]) -> None:
        from pykbroker.producer import Producer

        async with Producer(**self._settings) as producer:
            if self._partition is not None:
                await self._require(producer, self._partition)
            for source in sources:
                for first, lines in chunks(source):
                    await self._send(producer, getattr(source, "name", "stdin"), first, lines)
        self._show(done=True)

    async def _require(self, producer: Producer, partition: int) -> None:
        """Raise UnknownPartition if the topic lacks the partition."""
        if partition not in self._existing:
            await require_partition(producer, self._settings, self._topic, partition)
            self._existing.add(partition)

    async def _send(self, producer: Producer, name: str, first: int, lines: list[bytes]) -> None:
        from pykbroker.cli.records.record_lines import InvalidLine, keyed_columns
        from pykbroker.core.producer.errors import RecordTooLarge

        if self._parse is not None:
            for delivery in await self._send_parsed(self._parse, producer, name, first, lines):
                await delivery
        else:
            keys, values = (None, lines) if self._delimiter is None else keyed_columns(lines, self._delimiter)
            try:
                await (await producer.send_many(self._topic, values, keys, partition=self._partition))
            except RecordTooLarge:
                number = first + max(range(len(lines)), key=lambda row: len(lines[row]))
                raise InvalidLine(f"line {number} of {name} is longer than max_request_size permits") from None
        self.written += len(lines)
        self._show()

    async def _send_parsed(
        self, parse: Callable[[bytes], ParsedRecord], producer: Producer, name: str, first: int, lines: list[bytes]
    ) -> list[Delivery]:
        from pykbroker.cli.records.record_lines import InvalidLine
        from pykbroker.core.producer.errors import UnknownPartition

        deliveries: list[Delivery] = []
        for number, line in enumerate(lines, first):
            try:
                record = parse(line)
                if record.partition is not None:
                    await self._require(producer, record.partition)
            except (InvalidLine, UnknownPartition) as error:
                for delivery in deliveries:
                    await delivery
                self.written += len(deliveries)
                raise InvalidLine(f"line {number} of {name}: {error}") from None
            deliveries.append(
                await producer.send(
                    self._topic,
                    record.value,
                    record.key,
                    partition=record.partition,
                    headers=record.headers,
                    timestamp=record.timestamp,
                )
            )
        return deliveries

    def _show(self, *, done: bool = False) -> None:
        """Print the number of records on stderr, each second on a terminal and once at the end."""
        now = time.monotonic()
        if self._is_silent:
            return
        if done:
            click.echo(f"{counted(self.written)} written to '{self._topic}'.", err=True)
        elif sys.stderr.isatty() and now - self._shown_at > PROGRESS_S:
            self._shown_at = now
            click.echo(f"{self.written} records\r", err=True, nl=False)


def chunks(source: IO[bytes]) -> Iterator[tuple[int, list[bytes]]]:
    """Yield lines without their ends, with the number of the first one, as soon as the source has them.

    A pipe or a terminal therefore gives each line when it is written.
    """
    read = source.read1 if isinstance(source, BufferedIOBase) else source.read
    number, rest = 1, b""
    while data := read(READ_BYTES):
        *lines, rest = (rest + data).split(b"\n")
        if lines:
            yield number, [line.removesuffix(b"\r") for line in lines]
            number += len(lines)
    if rest:
        yield number, [rest.removesuffix(b"\r")]
