"""The output of kafka-console-consumer: the parts of a record that its properties name, in Kafka's order."""

from __future__ import annotations

from collections.abc import Mapping
from itertools import repeat
from typing import Any, NamedTuple

from pykbroker.cli.kafka_tools.properties import with_properties
from pykbroker.cli.records.record_formats import without_nulls
from pykbroker.core.consumer.records import FetchedColumns
from wire.records.record import Headers
from wire.sentinels import NO_TIMESTAMP

TIMESTAMP_TYPES = (b"CreateTime:", b"LogAppendTime:")
AS_STRINGS = {(name, "StringDeserializer") for name in ("key.deserializer", "value.deserializer")}
"""Properties that have no effect, because keys and values are printed as they are."""


class ConsoleFormat(NamedTuple):
    """The properties of Kafka's DefaultMessageFormatter, with its defaults."""

    print_timestamp: bool = False
    print_partition: bool = False
    print_offset: bool = False
    print_epoch: bool = False
    print_headers: bool = False
    print_key: bool = False
    print_value: bool = True
    key_separator: str = "\t"
    line_separator: str = "\n"
    headers_separator: str = ","
    null_literal: str = "null"

    def formatted(self, fetched: FetchedColumns) -> bytes:
        """Return the output for the records of one batch."""
        null, count = self.null_literal.encode(), len(fetched)
        columns: list[Any] = []
        if self.print_timestamp:
            kind = TIMESTAMP_TYPES[fetched.timestamp_type]
            columns.append(
                b"NO_TIMESTAMP" if each == NO_TIMESTAMP else kind + b"%d" % each for each in fetched.timestamps
            )
        if self.print_partition:
            columns.append(repeat(b"Partition:%d" % fetched.partition.partition, count))
        if self.print_offset:
            columns.append(map(b"Offset:%d".__mod__, fetched.offsets))
        if self.print_epoch:
            columns.append(repeat(b"Epoch:%d" % fetched.leader_epoch, count))
        if self.print_headers:
            columns.append(map(self._headers, fetched.columns.headers or repeat((), count)))
        if self.print_key:
            columns.append(without_nulls(fetched.keys, null))
        if self.print_value:
            columns.append(without_nulls(fetched.columns.values, null))
        end = self.line_separator.encode()
        if not columns:
            return end * count
        separator = self.key_separator.encode()
        return b"".join(separator.join(parts) + end for parts in zip(*columns, strict=True))

    def _headers(self, headers: Headers) -> bytes:
        null = self.null_literal.encode()
        pairs = [name.encode() + b":" + (null if value is None else value) for name, value in headers]
        return self.headers_separator.encode().join(pairs) or b"NO_HEADERS"


def parsed_format(texts: Mapping[str, str]) -> ConsoleFormat:
    """Return the format of properties such as print.key=true. InvalidCommandLine: a property is unknown or invalid."""
    shown = {name: text for name, text in texts.items() if (name, text.rpartition(".")[2]) not in AS_STRINGS}
    return with_properties(ConsoleFormat(), shown)
