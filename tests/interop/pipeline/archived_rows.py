"""Archives that a test writes itself, and the records that a topic has after a replay."""

from __future__ import annotations

import uuid
from collections.abc import Sequence
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any, NamedTuple

import confluent_kafka as ck
import pyarrow as pa
from pyarrow import parquet

PATIENCE_S = 30
WAIT_MS = 10
"""The wait of a fetch at the end of a log. librdkafka sees the end when the fetch is answered, by default in 500 ms."""
FIRST_TIME = datetime(2025, 11, 24, 23, 59, 58, tzinfo=UTC)
"""The time of the first three offsets. That of each next three is a second later, so that records are of two days."""
HEADERS = pa.list_(pa.struct([("key", pa.string()), ("value", pa.binary())]))
SCHEMA = pa.schema(
    {
        "key": pa.binary(),
        "value": pa.binary(),
        "topic": pa.string(),
        "partition": pa.int32(),
        "offset": pa.int64(),
        "timestamp": pa.timestamp("us", "UTC"),
        "timestampType": pa.int32(),
        "headers": HEADERS,
    }
)
Archived = tuple[Any, ...]
"""A row of an archive."""


class Content(NamedTuple):
    """A record without its place. The timestamp is in ms since 1970."""

    partition: int
    key: bytes | None
    value: bytes | None
    headers: Any
    timestamp: int


def archived(topic: str, partition: int, offsets: range) -> list[Archived]:
    """Return rows of an archive. Some have no key, no value or no headers."""
    rows = []
    for offset in offsets:
        key = f"key-{offset % 7}".encode() if offset % 5 else None
        value = None if offset % 11 == 10 else f"{topic}-{partition}-{offset}".encode()
        headers = [("h", str(offset).encode()), ("none", None), ("h", b"")] if offset % 4 == 1 else None
        time = FIRST_TIME + timedelta(seconds=offset // 3)
        rows.append((key, value, topic, partition, offset, time, 0, headers))
    return rows


def content(rows: Sequence[Archived]) -> list[Content]:
    """Return the records of rows of an archive, by partition and in their order."""
    found = sorted(rows, key=lambda row: row[3:5])
    return [Content(row[3], row[0], row[1], row[7], int(row[5].timestamp() * 1000)) for row in found]


def table(rows: Sequence[Archived]) -> pa.Table:
    """Return rows of an archive as a table."""
    named = [dict(zip(SCHEMA.names, row, strict=True)) for row in rows]
    for row in named:
        row["headers"] = row["headers"] and [{"key": key, "value": value} for key, value in row["headers"]]
    return pa.Table.from_pylist(named, SCHEMA)


def write_archive(directory: Path, rows: Sequence[Archived], files: int = 3) -> None:
    """Add rows to an archive of Parquet files, in which the records of a partition lie in several files."""
    for index in range(files):
        by_day: dict[tuple[str, str], list[Archived]] = {}
        for row in rows[index::files]:
            by_day.setdefault((row[2], f"{row[5]:%Y-%m-%d}"), []).append(row)
        for (topic, date), part in by_day.items():
            path = directory / f"topic={topic}" / f"date={date}"
            path.mkdir(parents=True, exist_ok=True)
            parquet.write_table(table(part).drop_columns("topic"), path / f"{uuid.uuid4().hex}.parquet")


def topic_content(bootstrap: str, topic: str) -> list[Content]:
    """Return the committed records of a topic, by partition and in their order."""
    settings = {"bootstrap.servers": bootstrap, "group.id": "judge", "enable.partition.eof": True}
    settings |= {"fetch.wait.max.ms": WAIT_MS, "isolation.level": "read_committed"}
    consumer = ck.Consumer({**settings, "auto.offset.reset": "earliest"})
    partitions = consumer.list_topics(topic, PATIENCE_S).topics[topic].partitions
    consumer.assign([ck.TopicPartition(topic, index, ck.OFFSET_BEGINNING) for index in partitions])
    found: list[tuple[int, int, Content]] = []
    ended: set[int] = set()
    while len(ended) < len(partitions):
        message = consumer.poll(PATIENCE_S)
        assert message is not None, f"no record and no end of {topic} within {PATIENCE_S} s"
        if message.error() is None:
            values = (message.key(), message.value(), message.headers(), message.timestamp()[1])
            found.append((message.partition(), message.offset(), Content(message.partition(), *values)))
        else:
            assert message.error().code() == ck.KafkaError._PARTITION_EOF, message.error()
            ended.add(message.partition())
    consumer.close()
    return [each for _, _, each in sorted(found, key=lambda each: each[:2])]
