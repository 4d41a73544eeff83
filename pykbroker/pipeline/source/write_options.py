"""The options and the columns of a query that writes, with the names and the errors of Spark's format `kafka`."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

import msgspec

from pykbroker.pipeline.source.client_options import producer_options
from pykbroker.pipeline.source.errors import InvalidColumn, InvalidOption

TYPES = {
    "topic": ("string",),
    "key": ("string", "binary"),
    "value": ("string", "binary"),
    "headers": ("array<struct<key:string,value:binary>>",),
    "partition": ("int",),
}
"""The columns that are written, with the types that each may have. Other columns have no effect."""


class WriteOptions(msgspec.Struct, frozen=True):
    """The options of a query that writes. `producer` has the settings of its producers."""

    producer: Mapping[str, str]
    topic: str | None = None
    """The topic of all rows, or None if each row names its own."""

    def __repr__(self) -> str:
        return f"WriteOptions({self.topic})"  # settings of a producer may be passwords


def write_options(options: Mapping[str, str]) -> WriteOptions:
    """Return the options of a query that writes, from names in lower case. Raise InvalidOption."""
    topic = options.get("topic")
    return WriteOptions(producer_options(options), None if topic is None else topic.strip())


def check_batch_mode(*, overwrite: bool) -> None:
    """Raise InvalidOption if a batch query shall replace the records of a topic."""
    if overwrite:
        raise InvalidOption("Save mode Overwrite not allowed for Kafka. Allowed save mode is append")


def check_columns(columns: Iterable[tuple[str, str]], options: WriteOptions) -> None:
    """Raise InvalidColumn unless rows can be written, from the names and types of their columns in Spark's DDL."""
    kinds = dict(columns)
    if options.topic is None and "topic" not in kinds:
        raise InvalidColumn(
            "topic option required when no 'topic' attribute is present. Use the topic option for setting a topic."
        )
    if "value" not in kinds:
        raise InvalidColumn("Required attribute 'value' not found")
    for name, allowed in TYPES.items():
        kind = kinds.get(name, allowed[0])
        if kind not in allowed and not (name == "topic" and options.topic is not None):
            raise InvalidColumn(f"{name} attribute unsupported type {kind}. {name} must be a(n) {' or '.join(allowed)}")
