"""Committed offsets of groups, and pending offsets of open transactions.

If a partition has an offset from a transaction and one from outside, the one whose record has the higher offset
applies, whenever the transaction ends. Compaction keeps only that record.
"""

from __future__ import annotations

from collections.abc import Iterator

import msgspec

from wire.declare import NIL
from wire.records.record import RecordCursor
from wire.sentinels import NO_LEADER_EPOCH, NO_OFFSET, NO_TIMESTAMP
from wire.stored.group_offsets import LegacyOffsetCommitValue, OffsetCommitValue
from wire.stored.offset_run import OffsetRun, read_offset_run


class Committed(msgspec.Struct, frozen=True, gc=False):
    """The committed offset of one partition. Times are ms since 1970.

    `expire_ms` is -1 if the broker's retention applies.
    """

    offset: int
    leader_epoch: int
    metadata: str
    commit_ms: int
    expire_ms: int = NO_TIMESTAMP
    topic_id: bytes = NIL
    record_offset: int = NO_OFFSET

    @classmethod
    def of(cls, value: OffsetCommitValue | LegacyOffsetCommitValue, record_offset: int) -> Committed:
        if isinstance(value, LegacyOffsetCommitValue):
            return cls(
                value.offset, NO_LEADER_EPOCH, value.metadata, value.commit_timestamp, record_offset=record_offset
            )
        return cls(
            value.offset,
            value.leader_epoch,
            value.metadata,
            value.commit_timestamp,
            value.expire_timestamp,
            bytes(value.topic_id),
            record_offset,
        )


Partitions = dict[int, Committed]
Topics = dict[str, Partitions]
NO_TOPICS: Topics = {}


def read_run(cursor: RecordCursor) -> OffsetRun[Committed] | None:
    """Read consecutive records of committed offsets in a batch. Return None if the next record is of another type."""
    return read_offset_run(cursor, Committed)


class GroupOffsets:
    """Offsets by group, topic and partition. Empty groups and topics are removed."""

    def __init__(self) -> None:
        self._groups: dict[str, Topics] = {}
        self._pending: dict[int, dict[str, Topics]] = {}  # producer id -> group id -> offsets
        self._open: dict[str, set[int]] = {}  # group id -> producer ids with pending offsets

    def of_group(self, group_id: str) -> Topics:
        return self._groups.get(group_id, NO_TOPICS)

    def get(self, group_id: str, topic: str, partition: int) -> Committed | None:
        return self.of_group(group_id).get(topic, {}).get(partition)

    def put(self, group_id: str, topic: str, committed: Partitions) -> None:
        """Store committed offsets. The caller must not use `committed` afterwards."""
        _put(self._groups, group_id, topic, committed)

    def put_pending(self, producer_id: int, group_id: str, topic: str, committed: Partitions) -> None:
        """Keep offsets pending until their transaction ends. The caller must not use `committed` afterwards."""
        _put(self._pending.setdefault(producer_id, {}), group_id, topic, committed)
        self._open.setdefault(group_id, set()).add(producer_id)

    def remove(self, group_id: str, topic: str, partition: int) -> None:
        """Remove the partition's committed and pending offsets."""
        _drop(self._groups, group_id, topic, partition)
        for producer_id in list(self._open.get(group_id, ())):
            _drop(self._pending[producer_id], group_id, topic, partition)
            if group_id not in self._pending[producer_id]:
                self._close(group_id, producer_id)

    def is_pending(self, group_id: str, topic: str, partition: int) -> bool:
        """Whether an open transaction has an offset for the partition."""
        return any(
            partition in self._pending[producer_id].get(group_id, NO_TOPICS).get(topic, {})
            for producer_id in self._open.get(group_id, ())
        )

    def has_pending(self, group_id: str) -> bool:
        """Whether an open transaction has an offset for the group."""
        return group_id in self._open

    def partitions(self, group_id: str) -> Iterator[tuple[str, int]]:
        """Return each partition with a committed or pending offset once."""
        for topic, partitions in self.of_group(group_id).items():
            for partition in partitions:
                yield topic, partition
        seen = set()
        for producer_id in sorted(self._open.get(group_id, ())):
            for topic, partitions in self._pending[producer_id].get(group_id, NO_TOPICS).items():
                for partition in partitions:
                    if (topic, partition) not in seen and self.get(group_id, topic, partition) is None:
                        seen.add((topic, partition))
                        yield topic, partition

    def groups(self) -> list[str]:
        """Return all groups with a committed or pending offset."""
        return list(dict.fromkeys([*self._groups, *self._open]))

    def end(self, producer_id: int, commit: bool) -> None:
        """Apply the pending offsets of the producer's transaction, or discard them if it aborted."""
        for group_id, topics in self._pending.pop(producer_id, {}).items():
            self._close(group_id, producer_id)
            for topic, partitions in topics.items() if commit else ():
                for partition, committed in partitions.items():
                    held = self.get(group_id, topic, partition)
                    if held is None or held.record_offset < committed.record_offset:
                        self.put(group_id, topic, {partition: committed})

    def _close(self, group_id: str, producer_id: int) -> None:
        """Record that the producer no longer has pending offsets for the group."""
        producers = self._open[group_id]
        producers.discard(producer_id)
        if not producers:
            del self._open[group_id]


def _put(groups: dict[str, Topics], group_id: str, topic: str, committed: Partitions) -> None:
    held = groups.setdefault(group_id, {}).setdefault(topic, committed)
    if held is not committed:
        held.update(committed)


def _drop(groups: dict[str, Topics], group_id: str, topic: str, partition: int) -> None:
    topics = groups.get(group_id, NO_TOPICS)
    partitions = topics.get(topic)
    if partitions is not None and partitions.pop(partition, None) is not None and not partitions:
        del topics[topic]
        if not topics:
            del groups[group_id]
