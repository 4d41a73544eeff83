"""The output formats of `pykbroker consume`: text, raw, JSON lines, or a template such as `{offset}: {value}\\n`."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Sequence
from datetime import UTC, datetime, timedelta
from itertools import chain, islice, repeat
from typing import TypeAlias

from pykbroker.core.consumer.records import FetchedColumns
from wire.records.record import Headers
from wire.sentinels import NO_TIMESTAMP

EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
ESCAPE = re.compile(r"\\(?:x([0-9a-fA-F]{2})|(.?))", re.DOTALL)
ESCAPES = {"n": b"\n", "t": b"\t", "r": b"\r", "0": b"\0", "\\": b"\\"}
FIELD = re.compile(r"\{\{|\}\}|\{(\w*)\}|[{}]")

Format: TypeAlias = Callable[[FetchedColumns], bytes]
"""A function that returns the output for the records of one batch."""
Column: TypeAlias = Iterable[bytes]


def text_format(*, key_delimiter: bytes = b"", null_marker: bytes = b"", delimiter: bytes = b"\n") -> Format:
    """Return the format with a value on each line, which with a key delimiter follows the key and this delimiter.

    `null_marker` stands for a null key or value.
    """

    def formatted(fetched: FetchedColumns) -> bytes:
        values = without_nulls(fetched.columns.values, null_marker)
        if key_delimiter:
            keys = without_nulls(fetched.columns.keys, null_marker)
            values = list(map(key_delimiter.join, zip(keys, values, strict=True)))
        return delimiter.join(chain(values, (b"",)))

    return formatted


def raw_format(fetched: FetchedColumns) -> bytes:
    """Return the values without anything between them."""
    return b"".join(filter(None, fetched.columns.values))


def template_format(template: str, null_marker: bytes = b"") -> Format:
    r"""Return the format of a template: text with escapes such as \n, and fields in braces.

    The fields are those of `FIELDS`. Doubled braces stand for braces. `null_marker` stands for a null key or value.
    ValueError: a field is unknown, a brace has no partner, or an escape is invalid.
    """
    pattern, names = parsed_template(template)

    def formatted(fetched: FetchedColumns) -> bytes:
        if not names:
            return pattern % () * len(fetched)
        columns = [FIELDS[name](fetched, null_marker) for name in names]
        return b"".join(map(pattern.__mod__, islice(zip(*columns, strict=False), len(fetched))))

    return formatted


def parsed_template(template: str) -> tuple[bytes, list[str]]:
    """Return a template as a pattern for the operator % of bytes, and the names of its fields."""
    parts, names, end = [], [], 0
    for found in FIELD.finditer(template):
        parts.append(literal(template[end : found.start()]))
        end = found.end()
        if found[0] in ("{{", "}}"):
            parts.append(found[0][:1].encode())
        elif found[1] in FIELDS:
            parts.append(b"%b")
            names.append(found[1])
        else:
            raise ValueError(
                f"{found[0]!r} in the template is no field: write {{{'}, {'.join(FIELDS)}}}, or {{{{ for a brace"
            )
    parts.append(literal(template[end:]))
    return b"".join(parts), names


def literal(text: str) -> bytes:
    """Return a text of a template for a pattern, with its escapes replaced."""
    return unescaped(text).replace(b"%", b"%%")


def unescaped(text: str) -> bytes:
    r"""Return a text with its escapes replaced: \n, \t, \r, \0, \\ and \xHH. ValueError: there is another escape."""
    parts, end = [], 0
    for found in ESCAPE.finditer(text):
        parts.append(text[end : found.start()].encode())
        end = found.end()
        code, letter = found.groups()
        if code is None and letter not in ESCAPES:
            raise ValueError(f"{found[0]!r} in {text!r} is no escape: write \\n, \\t, \\r, \\0, \\\\ or \\xHH")
        parts.append(bytes([int(code, 16)]) if code else ESCAPES[letter])
    return b"".join([*parts, text[end:].encode()])


def without_nulls(column: Sequence[bytes | None], null_marker: bytes) -> Sequence[bytes]:
    """Return a column with the marker in the place of each null."""
    if None not in column:
        return column  # type: ignore[return-value]
    return [null_marker if content is None else content for content in column]


def numbers(column: Iterable[int]) -> Column:
    """Return a column of numbers as decimal text."""
    return map(b"%d".__mod__, column)


def sizes(column: Sequence[bytes | None]) -> Column:
    """Return the sizes of contents in bytes, -1 for null."""
    return numbers([-1 if content is None else len(content) for content in column])


def time_text(timestamp: int) -> bytes:
    """Return a timestamp in ms as a UTC time such as 2026-01-31T12:00:00.000Z.

    Return the number if it is -1 for no timestamp, or a time outside of the years 1 to 9999.
    """
    if timestamp == NO_TIMESTAMP:
        return b"%d" % timestamp
    try:
        time = EPOCH + timedelta(milliseconds=timestamp)
    except OverflowError:
        return b"%d" % timestamp
    return time.isoformat(timespec="milliseconds").replace("+00:00", "Z").encode()


def headers_text(headers: Headers, null_marker: bytes) -> bytes:
    """Return the headers of a record as NAME=VALUE, separated by commas."""
    return b",".join(name.encode() + b"=" + (null_marker if value is None else value) for name, value in headers)


FIELDS: dict[str, Callable[[FetchedColumns, bytes], Column]] = {
    "topic": lambda fetched, null: repeat(fetched.partition.topic.encode()),
    "partition": lambda fetched, null: repeat(b"%d" % fetched.partition.partition),
    "offset": lambda fetched, null: numbers(fetched.columns.offsets),
    "timestamp": lambda fetched, null: numbers(fetched.columns.timestamps),
    "time": lambda fetched, null: map(time_text, fetched.columns.timestamps),
    "key": lambda fetched, null: without_nulls(fetched.columns.keys, null),
    "value": lambda fetched, null: without_nulls(fetched.columns.values, null),
    "headers": lambda fetched, null: map(headers_text, fetched.columns.headers or repeat(()), repeat(null)),
    "key_bytes": lambda fetched, null: sizes(fetched.columns.keys),
    "value_bytes": lambda fetched, null: sizes(fetched.columns.values),
}
"""The fields of a template -> their column for a batch. A column of a constant has no end."""
