"""The findings of an audit, as plain data. The JSON of the command has these fields."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Literal

import msgspec

Side = Literal["topic", "archive"]
Measured = Mapping[str, Any]
"""A row of a measure."""


class PartitionProfile(msgspec.Struct, frozen=True):
    """The figures of one partition. Offsets are missing between the first and the last one, in a number of gaps.

    `steps_back` counts the records whose timestamp is before that of the record before them. `lateness_ms_max` is the
    longest time by which a record is older than any record before it. `low_ms` and `high_ms` are the limits of the
    timestamps in ms, None without timestamps. `undated` records have none, or one outside the years 1 to 9999.
    """

    partition: int
    records: int
    first_offset: int
    last_offset: int
    missing_offsets: int
    gaps: int
    duplicates: int
    key_bytes: int
    value_bytes: int
    header_bytes: int
    value_bytes_max: int
    null_keys: int
    null_values: int
    low_ms: int | None
    high_ms: int | None
    steps_back: int
    lateness_ms_max: int
    undated: int = 0

    @property
    def bytes(self) -> int:
        """Return the bytes of all keys, values and headers."""
        return self.key_bytes + self.value_bytes + self.header_bytes


class TimeSlot(msgspec.Struct, frozen=True):
    """The records and bytes of a topic in a slot of time. Slots without records are left out."""

    start_ms: int
    width_ms: int
    records: int
    bytes: int


class KeyCount(msgspec.Struct, frozen=True):
    """A key as text, and the number of its records. A key that is no UTF-8 is shown as 0x and its digits."""

    key: str
    records: int


class KeyShare(msgspec.Struct, frozen=True):
    """A number of keys, and the number of records that these have together."""

    keys: int
    records: int


class SizeCount(msgspec.Struct, frozen=True):
    """The number of values of at least `bytes_min` bytes and less than twice as many."""

    bytes_min: int
    records: int


class TopicProfile(msgspec.Struct, frozen=True):
    """The figures of one topic on one side.

    `keys` is the number of different keys, and `top_percent_records` the number of records of the most frequent
    hundredth of them. `key_curve` adds up the keys, the most frequent ones first.
    """

    topic: str
    partitions: list[PartitionProfile]
    timeline: list[TimeSlot] = []
    top_keys: list[KeyCount] = []
    keys: int = 0
    top_percent_records: int = 0
    key_curve: list[KeyShare] = []
    value_sizes: list[SizeCount] = []

    @property
    def records(self) -> int:
        return sum(each.records for each in self.partitions)

    @property
    def bytes(self) -> int:
        """Return the bytes of all keys, values and headers."""
        return sum(each.bytes for each in self.partitions)

    @property
    def low_ms(self) -> int | None:
        """Return the earliest timestamp."""
        return min((each.low_ms for each in self.partitions if each.low_ms is not None), default=None)

    @property
    def high_ms(self) -> int | None:
        """Return the latest timestamp."""
        return max((each.high_ms for each in self.partitions if each.high_ms is not None), default=None)

    @property
    def records_per_s(self) -> float | None:
        """Return the mean rate between the earliest and the latest timestamp, None if these are equal."""
        if self.low_ms is None or self.high_ms is None or self.low_ms == self.high_ms:
            return None
        return self.records * 1000 / (self.high_ms - self.low_ms)


class SideProfile(msgspec.Struct, frozen=True):
    """The figures of the topics of a cluster, or of those of an archive. `place` is an address or a directory."""

    side: Side
    place: str
    topics: list[TopicProfile]


class PartitionComparison(msgspec.Struct, frozen=True):
    """The offsets of a partition, each counted once, by whether the topic and the archive have them.

    `missing` records are in the topic alone, although the archive has later ones, and `not_archived` ones are later.
    `deleted` records are in the archive alone and earlier than the topic's first one, and `only_archived` ones are
    later. `log_end` is the offset of the topic's next record.
    """

    topic: str
    partition: int
    log_start: int
    log_end: int
    both: int = 0
    missing: int = 0
    first_missing: int | None = None
    not_archived: int = 0
    deleted: int = 0
    only_archived: int = 0


class OffsetStrip(msgspec.Struct, frozen=True):
    """The number of offsets that each side has in equal slots of offsets, from `start` on. An absent side has none."""

    topic: str
    partition: int
    start: int
    width: int
    counts: dict[Side, list[int]]


class AuditFindings(msgspec.Struct, frozen=True):
    """Everything that an audit has found. `measured_ms` is the time at which it began."""

    measured_ms: int
    cluster_id: str
    sides: list[SideProfile]
    comparisons: list[PartitionComparison] = []
    strips: list[OffsetStrip] = []
    remarks: list[str] = []
    losses: list[str] = []

    def topic_names(self) -> list[str]:
        """Return the names of all topics of either side."""
        return sorted({topic.topic for side in self.sides for topic in side.topics})

    def profile(self, side: SideProfile, topic: str) -> TopicProfile | None:
        """Return the profile of a topic on a side, None if the side does not have it."""
        return next((each for each in side.topics if each.topic == topic), None)
