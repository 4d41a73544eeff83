"""kafka-console-producer: sends each line of the standard input as a record, as `pykbroker produce` does."""

from __future__ import annotations

import logging
import sys
from typing import TYPE_CHECKING, Any, NamedTuple

from pykbroker.cli.kafka_tools.connection import bootstrap, check_security, client_properties, reach
from pykbroker.cli.kafka_tools.options import CONNECTION, Given, Option, Tool, missing, pairs
from pykbroker.cli.kafka_tools.properties import with_properties

if TYPE_CHECKING:
    from pykbroker.cli.records.record_lines import ParsedRecord

BATCH_BYTES = 16 << 10
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
    *missing("lines of text are read: leave it out, or use `pykbroker produce --json`", "line-reader", takes="CLASS"),
    *missing("the kernel chooses the size: leave it out", "socket-buffer-size", takes="BYTES"),
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
    null_marker: str = ""

    def record(self, line: bytes) -> ParsedRecord:
        """Return the record of a line. InvalidLine: a separator is missing, and errors are not ignored."""
        from pykbroker.cli.records.record_lines import ParsedRecord

        text, key = line, None
        headers: list[tuple[str, bytes | None]] = []
        if self.parse_headers:
            found, text = self._split(text, self.headers_delimiter, "headers")
            for pair in (found or b"").split(self.headers_separator.encode()) if found else ():
                name, value = self._split(pair, self.headers_key_separator, "header key")
                headers.append(((name or b"").decode(), self._content(value)))
        if self.parse_key:
            key, text = self._split(text, self.key_separator, "key")
        return ParsedRecord(self._content(text), None if key is None else self._content(key), tuple(headers))

    def _split(self, text: bytes, separator: str, what: str) -> tuple[bytes | None, bytes]:
        from pykbroker.cli.records.record_lines import InvalidLine

        if self.null_marker and text == self.null_marker.encode() and what != "key":
            return None, text
        before, found, after = text.partition(separator.encode())
        if found:
            return before, after
        if self.ignore_error:
            return None, text
        raise InvalidLine(f"No {what} separator found: {text.decode(errors='replace')!r} has no {separator!r}")

    def _content(self, text: bytes) -> bytes | None:
        return None if self.null_marker and text == self.null_marker.encode() else text


def run(given: Given) -> int:
    """Send the lines of the standard input, until it ends."""
    import trio

    from pykbroker.cli.ask import named
    from pykbroker.cli.client_failures import failing_as_sentence
    from pykbroker.cli.records.produce import Sending
    from pykbroker.producer import RowsFailed

    given.require("topic")
    servers = bootstrap(given)
    form, settings = line_form(given), settings_of(given)
    reach(servers)
    logging.getLogger("pykbroker").addHandler(logging.NullHandler())  # the tool itself reports failures
    everything = {"bootstrap_servers": named(servers), "client_id": "console-producer", **settings}
    parse = None if form == LineForm() else form.record
    sending = Sending(everything, given.text("topic"), parse=parse, is_silent=True)
    failing_as_sentence(lambda: trio.run(sending.run, [sys.stdin.buffer]), RowsFailed)
    return 0


def line_form(given: Given) -> LineForm:
    """Return the form of --property, --reader-property and --reader-config. InvalidCommandLine: one is unknown."""
    texts = client_properties(given, "reader-config")
    return with_properties(LineForm(), texts | pairs(given.all("property", "reader-property"), "property"))


def settings_of(given: Given) -> dict[str, Any]:
    """Return the settings of the producer. InvalidCommandLine: they ask for SASL or TLS."""
    texts = client_properties(given, "command-config", "producer.config")
    texts |= pairs(given.all("producer-property", "command-property"), "producer-property")
    check_security(texts)
    settings: dict[str, Any] = {"acks": "all", "batch_size": BATCH_BYTES, "linger_ms": 0}
    settings |= {name.replace(".", "_"): value for name, value in texts.items()}
    settings |= {setting: given.text(name) for name, setting in SETTINGS.items() if name in given}
    if "compression-codec" in given:
        settings["compression_type"] = given.text("compression-codec") or "gzip"
    for name in ("bootstrap_servers", "security_protocol", "key_serializer", "value_serializer"):
        settings.pop(name, None)
    return settings


TOOL = Tool(
    "kafka-console-producer", "This tool helps to read data from standard input and publish it to Kafka.", OPTIONS, run
)
