"""kafka-console-producer: sends each line of the standard input as a record, as `pykbroker produce` does."""

from __future__ import annotations

import logging
import sys
from collections.abc import Iterator
from itertools import combinations
from typing import TYPE_CHECKING, Any, NamedTuple

from pykbroker.cli.kafka_tools.connection import REACH_S_MAX, bootstrap, file_properties, reach, security_of
from pykbroker.cli.kafka_tools.options import CONNECTION, Given, InvalidCommandLine, Option, Tool, pairs
from pykbroker.cli.kafka_tools.properties import client_settings, with_properties

if TYPE_CHECKING:
    from pykbroker.cli.records.record_lines import ParsedRecord

BATCH_BYTES = 16 << 10
REACH_S_MIN = 1
LINE_READER = "LineMessageReader"
SETTINGS = {
    "request-required-acks": "acks",
    "request-timeout-ms": "request_timeout_ms",
    "retry-backoff-ms": "retry_backoff_ms",
    "message-send-max-retries": "retries",
    "max-block-ms": "max_block_ms",
    "max-memory-bytes": "buffer_memory",
    "max-partition-memory-bytes": "batch_size",
    "batch-size": "batch_size",
    "timeout": "linger_ms",
    "metadata-expiry-ms": "metadata_max_age_ms",
}
"""Options -> the setting of the producer that each stands for."""
OPTIONS = (
    *CONNECTION,
    Option("topic", "TOPIC"),
    *(Option(name, "NAME=VALUE", is_repeatable=True) for name in ("property", "reader-property")),
    *(Option(name, "NAME=VALUE", is_repeatable=True) for name in ("producer-property", "command-property")),
    *(Option(name, "FILE") for name in ("producer.config", "reader-config")),
    Option("compression-codec", "CODEC", is_optional=True),
    Option("sync"),
    *(Option(name, "VALUE") for name in SETTINGS),
    Option("socket-buffer-size", "BYTES"),  # the kernel chooses the size
    Option("line-reader", "CLASS"),
)


class LineForm(NamedTuple):
    """The properties of Kafka's line reader, which say how a line becomes a record, with its defaults."""

    parse_key: bool = False
    key_separator: str = "\t"
    parse_headers: bool = False
    headers_delimiter: str = "\t"
    headers_separator: str = ","
    headers_key_separator: str = ":"
    ignore_error: bool = False
    null_marker: str | None = None

    def record(self, line: bytes) -> ParsedRecord:
        """Return the record of a line. InvalidLine: a separator is missing, and errors are not ignored."""
        from pykbroker.cli.records.record_lines import ParsedRecord

        key = headers = None
        if self.parse_headers:
            headers, line = self._split(line, self.headers_delimiter, "headers delimiter")
        if self.parse_key:
            key, line = self._split(line, self.key_separator, "key separator")
        return ParsedRecord(self._content(line), self._content(key), tuple(self._headers(headers)))

    def _split(self, text: bytes, separator: str, what: str) -> tuple[bytes | None, bytes]:
        """Return the text before a separator, or None without one, and the rest."""
        from pykbroker.cli.records.record_lines import InvalidLine

        wanted = separator.encode()
        at = text.find(wanted)
        if at >= 0:
            return text[:at], text[at + len(wanted) :]
        if self.ignore_error:
            return None, text
        raise InvalidLine(f"No {what} found: {text.decode(errors='replace')!r} has no {separator!r}")

    def _headers(self, text: bytes | None) -> Iterator[tuple[str, bytes | None]]:
        from pykbroker.cli.records.record_lines import InvalidLine

        if self._content(text) is None:
            return
        pairs = (text or b"").split(self.headers_separator.encode())
        while len(pairs) > 1 and not pairs[-1]:  # as Java splits a text
            pairs.pop()
        for pair in pairs:
            name, value = self._split(pair, self.headers_key_separator, "header key separator")
            if name is None:
                yield pair.decode(), None
            elif self._content(name) is None:
                raise InvalidLine(f"a header has the name {self.null_marker!r}, which stands for null")
            else:
                yield name.decode(), self._content(value)

    def _content(self, text: bytes | None) -> bytes | None:
        return None if self.null_marker is not None and text == self.null_marker.encode() else text

    def check(self) -> None:
        """Raise InvalidCommandLine if two properties have the same text, so that a line has several meanings."""
        of_headers = ("headers_delimiter", "headers_separator", "headers_key_separator")
        pairs = [*combinations(of_headers, 2), *(("null_marker", each) for each in ("key_separator", *of_headers))]
        for one, other in pairs:
            if getattr(self, one) == getattr(self, other):
                names = [each.replace("_", ".") for each in (one, other)]
                raise InvalidCommandLine(f"{names[0]} and {names[1]} may not be equal")


class Prompting:
    """The standard input of a terminal, with Kafka's prompt before each line."""

    name = "<stdin>"

    def read(self, limit: int) -> bytes:
        """Print the prompt, and return the next line, or b"" at the end."""
        print(">", end="", flush=True)
        return sys.stdin.buffer.readline(limit)


def run(given: Given) -> int:
    """Send the lines of the standard input, until it ends."""
    import trio

    from pykbroker.cli.ask import named
    from pykbroker.cli.client_failures import failing_as_sentence
    from pykbroker.cli.records.produce import Sending
    from pykbroker.producer import RowsFailed

    given.require("topic")
    reader = given.text("line-reader", LINE_READER)
    if reader.rpartition(".")[2] != LINE_READER:
        raise InvalidCommandLine(
            f"--line-reader {reader} is not translated: leave it out, or use `pykbroker produce --json`"
        )
    servers = bootstrap(given)
    form, settings = line_form(given), settings_of(given)
    reach(
        servers,
        max(min(given.number("max-block-ms", REACH_S_MAX * 1000) / 1000, REACH_S_MAX), REACH_S_MIN),
        security_of(settings),
    )
    logging.getLogger("pykbroker").addHandler(logging.NullHandler())  # the tool itself reports failures
    everything = {"bootstrap_servers": named(servers), "client_id": "console-producer", **settings}
    parse = None if form == LineForm() else form.record
    sending = Sending(everything, given.text("topic"), parse=parse, is_silent=True)
    source: Any = Prompting() if sys.stdin.isatty() and sys.stdout.isatty() else sys.stdin.buffer
    failing_as_sentence(lambda: trio.run(sending.run, [source]), RowsFailed)
    return 0


def line_form(given: Given) -> LineForm:
    """Return the form that properties describe. InvalidCommandLine: two of them have the same text."""
    texts = file_properties(given, "reader-config")
    form = with_properties(LineForm(), texts | pairs(given.all("property", "reader-property"), "property"))
    form.check()
    return form


def settings_of(given: Given) -> dict[str, Any]:
    """Return the settings of the producer. InvalidCommandLine: they ask for transactions, or are wrong."""
    from pykbroker.producer.settings import ProducerSettings

    texts = file_properties(given, "command-config", "producer.config")
    texts |= pairs(given.all("producer-property", "command-property"), "producer-property")
    if "transactional.id" in texts:
        raise InvalidCommandLine("transactional.id is not translated: the tool sends no transactions, so leave it out")
    settings: dict[str, Any] = {"acks": "all", "batch_size": BATCH_BYTES, "linger_ms": 0}
    settings |= client_settings(texts, ProducerSettings)
    for name, setting in SETTINGS.items():
        if name in given:
            settings[setting] = given.text(name) if setting == "acks" else given.number(name, 0)
    if "compression-codec" in given:
        settings["compression_type"] = given.text("compression-codec") or "gzip"
    settings.pop("bootstrap_servers", None)
    return settings


TOOL = Tool(
    "kafka-console-producer", "This tool helps to read data from standard input and publish it to Kafka.", OPTIONS, run
)
