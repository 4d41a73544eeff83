"""Records for the user: columns of one batch, and objects made from them."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from itertools import repeat
from typing import Any, Protocol, TypeAlias

import msgspec

from pykbroker.core.topic_partition import TopicPartition
from wire.records.batch import Batch
from wire.records.record import Headers

CREATE_TIME, LOG_APPEND_TIME = 0, 1


class ConsumerRecord(msgspec.Struct, gc=False):
    """A record with its place in the log. The timestamp is in ms since 1970, `timestamp_type` 0 or 1 as in Kafka.

    `leader_epoch` is -1 if it is unknown.
    """

    topic: str
    partition: int
    offset: int
    timestamp: int
    timestamp_type: int
    key: bytes | None
    value: bytes | None
    headers: Headers
    leader_epoch: int


class RecordColumns(Protocol):
    """The records of a batch as columns: `Columns`, or `Segments`, which makes the lists when they are asked for."""

    def __len__(self) -> int: ...

    @property
    def content_bytes(self) -> int:
        """Return a number of bytes that keys, values and headers do not exceed, without a look at each record."""

    @property
    def offsets(self) -> Sequence[int]:
        """Return the offsets, which increase."""

    @property
    def timestamps(self) -> list[int]:
        """Return the timestamps, in ms since 1970."""

    @property
    def keys(self) -> list[bytes | None]:
        """Return the keys, None for records without a key."""

    @property
    def values(self) -> list[bytes | None]:
        """Return the values, None for tombstones."""

    @property
    def headers(self) -> list[Headers] | None:
        """Return the headers, or None if no record has headers."""

    def slice(self, start: int, end: int) -> RecordColumns:
        """Return the records from index `start` up to but not including `end`."""


ReadRecords: TypeAlias = Callable[[Batch, int], RecordColumns]
"""A function that decodes a batch of at most so many bytes, as `read_columns` and `read_segments` do."""


class FetchedColumns(msgspec.Struct, gc=False):
    """The records of one batch, or a part of them, as columns. `leader_epoch` is -1 if it is unknown."""

    partition: TopicPartition
    columns: RecordColumns
    timestamp_type: int
    leader_epoch: int

    def __len__(self) -> int:
        return len(self.columns)

    @property
    def offsets(self) -> Sequence[int]:
        """Return the offsets. They may have gaps."""
        return self.columns.offsets

    @property
    def timestamps(self) -> list[int]:
        """Return the timestamps, in ms since 1970."""
        return self.columns.timestamps

    @property
    def keys(self) -> list[bytes | None]:
        """Return the keys, None for records without a key."""
        return self.columns.keys

    @property
    def values(self) -> list[bytes | None]:
        """Return the values, None for tombstones."""
        return self.columns.values

    @property
    def headers(self) -> list[Headers] | None:
        """Return the headers, or None if no record has headers."""
        return self.columns.headers

    def slice(self, start: int, end: int) -> FetchedColumns:
        """Return the records from index `start` up to but not including `end`."""
        return FetchedColumns(self.partition, self.columns.slice(start, end), self.timestamp_type, self.leader_epoch)

    def records(self) -> list[ConsumerRecord]:
        """Return the records as objects. The loop over the records runs in C."""
        columns, (topic, index) = self.columns, self.partition
        return list(
            map(
                ConsumerRecord,
                repeat(topic),
                repeat(index),
                columns.offsets,
                columns.timestamps,
                repeat(self.timestamp_type),
                columns.keys,
                columns.values,
                repeat(()) if columns.headers is None else columns.headers,
                repeat(self.leader_epoch),
            )
        )


def by_partition(records: Iterable[Any]) -> dict[TopicPartition, list[Any]]:
    """Return records, which have a topic and a partition, as lists of each partition."""
    found: dict[TopicPartition, list[Any]] = {}
    place: TopicPartition | None = None
    for record in records:
        if place is None or record.partition != place[1] or record.topic != place[0]:  # a poll has runs of a partition
            place = TopicPartition(record.topic, record.partition)
            append = found.setdefault(place, []).append
        append(record)
    return found
