"""The effect of each record of `__consumer_offsets`: a function for each type of key, and a table of them.

A transactional record takes effect when its marker is replayed. Records of share and streams groups are ignored, since
this broker does not support such groups. The records stay in the log for a broker that supports them.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from pykbroker.core.coordinator.record import CoordinatorRecord, StoredRecord
from pykbroker.core.group.classic import stored
from pykbroker.core.group.classic.group import ClassicGroup
from pykbroker.core.group.classic.rebalance import BEGIN, JOIN, SESSION, SYNC
from pykbroker.core.group.consumer import replay as consumer
from pykbroker.core.group.consumer.deadlines import forget
from pykbroker.core.group.consumer.group import ConsumerGroup
from pykbroker.core.group.offsets import Committed, Partitions
from pykbroker.core.group.shard import Due, Shard
from pykbroker.core.log.producers import Marker
from pykbroker.core.outcome import Entry
from wire.sentinels import NO_PRODUCER_ID
from wire.stored.classic_group import GroupMetadataKey, GroupMetadataValue
from wire.stored.consumer_group import ConsumerGroupMemberMetadataKey, ConsumerGroupMetadataKey
from wire.stored.framing import CoordinatorKey, CoordinatorValue
from wire.stored.group_offsets import LegacyOffsetCommitKey, LegacyOffsetCommitValue, OffsetCommitKey, OffsetCommitValue
from wire.stored.offset_run import OffsetRun

OLDEST_TIME_MS = -1


def replay(shard: Shard, entry: Entry[StoredRecord]) -> None:
    """Apply a record of the log, or a run of records, to the state."""
    record = entry.value
    if isinstance(record, OffsetRun):
        _offsets(shard, record.group, record.topic, record.offsets, entry.producer_id)
    elif isinstance(record, Marker):
        shard.offsets.end(record.producer_id, record.commit)
    elif isinstance(record, CoordinatorRecord) and (change := REPLAY.get(type(record.key))) is not None:
        change(shard, record.key, record.value, entry)


def _offset(
    shard: Shard,
    key: OffsetCommitKey | LegacyOffsetCommitKey,
    value: OffsetCommitValue | LegacyOffsetCommitValue | None,
    entry: Entry[StoredRecord],
) -> None:
    if value is None:
        shard.offsets.remove(key.group, key.topic, key.partition)
    else:
        committed = {key.partition: Committed.of(value, entry.offset)}
        _offsets(shard, key.group, key.topic, committed, entry.producer_id)


def _offsets(shard: Shard, group_id: str, topic: str, committed: Partitions, producer_id: int) -> None:
    """Store offsets. A group that has offsets and no other record is a simple group."""
    if group_id not in shard.groups:
        shard.groups[group_id] = ClassicGroup(group_id, OLDEST_TIME_MS)
    if producer_id != NO_PRODUCER_ID:
        shard.offsets.put_pending(producer_id, group_id, topic, committed)
    else:
        shard.offsets.put(group_id, topic, committed)


def _classic(shard: Shard, key: GroupMetadataKey, value: GroupMetadataValue | None, _: Entry[StoredRecord]) -> None:
    group = shard.find_classic(key.group)
    if value is None:
        if group is not None:
            forget_timers(shard, group)
            del shard.groups[key.group]
        return
    if group is None:
        group = shard.groups[key.group] = ClassicGroup(key.group, value.current_state_timestamp)
    group.must_begin = key.group == shard.downgraded and bool(value.members)
    shard.downgraded = ""
    stored.restore(group, value)


def forget_timers(shard: Shard, group: ClassicGroup) -> None:
    """Cancel all deadlines of a deleted group."""
    for kind in (JOIN, SYNC, BEGIN):
        shard.timers.cancel(Due(kind, group.id))
    for member_id in (*group.members, *group.pending):
        shard.timers.cancel(Due(SESSION, group.id, member_id))


def _consumer(shard: Shard, key: Any, value: CoordinatorValue | None, _: Entry[StoredRecord]) -> None:
    group = shard.find_consumer(key.group_id)
    if value is None and group is None:
        return
    if isinstance(key, ConsumerGroupMetadataKey) and value is None:
        del shard.groups[key.group_id]
        shard.searches.pop(key.group_id, None)
        shard.downgraded = key.group_id
        return
    if group is None:
        group = shard.groups[key.group_id] = ConsumerGroup(key.group_id)
    consumer.REPLAY[type(key)](group, key, value)
    if isinstance(key, ConsumerGroupMemberMetadataKey) and value is None:
        forget(shard, key.group_id, key.member_id)


REPLAY: dict[type[CoordinatorKey], Callable[[Shard, Any, Any, Entry[StoredRecord]], None]] = {
    LegacyOffsetCommitKey: _offset,
    OffsetCommitKey: _offset,
    GroupMetadataKey: _classic,
    **dict.fromkeys(consumer.REPLAY, _consumer),
}
