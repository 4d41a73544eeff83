"""The output of kafka-console-consumer: the parts of a record that its properties name, in Kafka's order."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from itertools import repeat
from typing import Any, NamedTuple

from pykbroker.cli.kafka_tools.deserializers import DESERIALIZERS, PACKAGE, ContentText, InvalidContent, deserialized
from pykbroker.cli.kafka_tools.options import InvalidCommandLine
from pykbroker.cli.kafka_tools.properties import with_properties
from pykbroker.core.consumer.records import FetchedColumns
from wire.records.record import Headers
from wire.sentinels import NO_TIMESTAMP

TIMESTAMP_TYPES = (b"CreateTime:", b"LogAppendTime:")
NO_DELIVERY = b"Delivery:NOT_PRESENT"  # only members of share groups know how often a record was delivered


class ConsoleFormat(NamedTuple):
    """The properties of Kafka's DefaultMessageFormatter, with its defaults."""

    print_timestamp: bool = False
    print_partition: bool = False
    print_offset: bool = False
    print_delivery: bool = False
    print_epoch: bool = False
    print_headers: bool = False
    print_key: bool = False
    print_value: bool = True
    key_separator: str = "\t"
    line_separator: str = "\n"
    headers_separator: str = ","
    null_literal: str = "null"
    key_deserializer: str = ""
    value_deserializer: str = ""
    headers_deserializer: str = ""

    def formatted(self, fetched: FetchedColumns) -> bytes:
        """Return the output for the records of one batch. InvalidContent: a deserializer cannot read a record."""
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
        if self.print_delivery:
            columns.append(repeat(NO_DELIVERY, count))
        if self.print_epoch:
            columns.append(repeat(b"Epoch:%d" % fetched.leader_epoch, count))
        if self.print_headers:
            columns.append(map(self._headers, fetched.columns.headers or repeat((), count)))
        if self.print_key:
            columns.append(deserialized(fetched.keys, known(self.key_deserializer), null))
        if self.print_value:
            columns.append(deserialized(fetched.columns.values, known(self.value_deserializer), null))
        end = self.line_separator.encode()
        if not columns:
            return end * count
        separator = self.key_separator.encode()
        return b"".join(separator.join(parts) + end for parts in zip(*columns, strict=True))

    def _headers(self, headers: Headers) -> bytes:
        texts = deserialized(
            [value for _, value in headers], known(self.headers_deserializer), self.null_literal.encode()
        )
        pairs = [name.encode() + b":" + text for (name, _), text in zip(headers, texts, strict=True)]
        return self.headers_separator.encode().join(pairs) or b"NO_HEADERS"

    def pieces(self, fetched: FetchedColumns) -> Iterator[tuple[int, bytes | InvalidContent]]:
        """Yield the output for a number of records, or for one record why it has none."""
        try:
            yield len(fetched), self.formatted(fetched)
        except InvalidContent as error:
            if len(fetched) == 1:
                yield 1, InvalidContent(f"{fetched.partition} at offset {fetched.offsets[0]}: a field {error}")
                return
            for row in range(len(fetched)):
                yield from self.pieces(fetched.slice(row, row + 1))


def known(class_name: str) -> ContentText | None:
    """Return a deserializer, or None for an empty name. InvalidCommandLine: it is unknown."""
    name = class_name.removeprefix(PACKAGE)
    if name and name not in DESERIALIZERS:
        raise InvalidCommandLine(
            f"the deserializer {class_name} is not translated: use {', '.join(DESERIALIZERS)}, or leave it out, so that"
            " the bytes are printed"
        )
    return DESERIALIZERS[name] if name else None


def parsed_format(texts: Mapping[str, str]) -> ConsoleFormat:
    """Return the format of properties such as print.key=true. InvalidCommandLine: a deserializer is unknown."""
    form = with_properties(ConsoleFormat(), texts)
    for name in (form.key_deserializer, form.value_deserializer, form.headers_deserializer):
        known(name)
    return form
