"""What each record of `__consumer_offsets` changes: a function for a type of key, and a table of them.

A transactional record counts once its marker is replayed. What is said of share and streams groups is passed over: none
can be joined here, and their records stay in the log for a broker that knows them.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from pykbroker.core.coordinator_record import NO_PRODUCER, CoordinatorRecord, LogRecord
from pykbroker.core.group.classic import stored
from pykbroker.core.group.classic.group import ClassicGroup
from pykbroker.core.group.classic.rebalance import BEGIN, JOIN, SESSION, SYNC
from pykbroker.core.group.consumer import replay as consumer
from pykbroker.core.group.consumer.deadlines import forget
from pykbroker.core.group.consumer.group import ConsumerGroup
from pykbroker.core.group.offsets import Committed
from pykbroker.core.group.shard import Due, Shard
from pykbroker.core.outcome import Entry
from pykbroker.core.replication.producers import Marker
from wire.stored.classic_group import GroupMetadataKey, GroupMetadataValue
from wire.stored.consumer_group import ConsumerGroupMemberMetadataKey, ConsumerGroupMetadataKey
from wire.stored.framing import CoordinatorKey, CoordinatorValue
from wire.stored.group_offsets import (
    LegacyOffsetCommitKey,
    LegacyOffsetCommitValue,
    OffsetCommitKey,
    OffsetCommitValue,
)

OLDEST_TIME_MS = -1


def replay(shard: Shard, entry: Entry[LogRecord]) -> None:
    """Take a record of the log into the state."""
    record = entry.value
    if isinstance(record, Marker):
        shard.offsets.end(record.producer_id, record.commit)
        return
    change = REPLAY.get(type(record.key))
    if change is not None:
        change(shard, record.key, record.value, entry)


def _offset(shard: Shard, key: OffsetCommitKey | LegacyOffsetCommitKey,
            value: OffsetCommitValue | LegacyOffsetCommitValue | None, entry: Entry[LogRecord]) -> None:
    if value is None:
        shard.offsets.remove(key.group, key.topic, key.partition)
        return
    if key.group not in shard.groups:
        shard.groups[key.group] = ClassicGroup(key.group, OLDEST_TIME_MS)
    committed = Committed.of(value, entry.offset)
    record = entry.value
    if isinstance(record, CoordinatorRecord) and record.producer_id != NO_PRODUCER:
        shard.offsets.put_pending(record.producer_id, key.group, key.topic, key.partition, committed)
    else:
        shard.offsets.put(key.group, key.topic, key.partition, committed)


def _classic(shard: Shard, key: GroupMetadataKey, value: GroupMetadataValue | None, _: Entry[LogRecord]) -> None:
    group = shard.groups.get(key.group)
    if value is None:
        if isinstance(group, ClassicGroup):
            forget_timers(shard, group)
            del shard.groups[key.group]
        return
    if not isinstance(group, ClassicGroup):
        group = shard.groups[key.group] = ClassicGroup(key.group, value.current_state_timestamp)
    group.must_begin = key.group == shard.downgraded and bool(value.members)
    shard.downgraded = ""
    stored.restore(group, value)


def forget_timers(shard: Shard, group: ClassicGroup) -> None:
    """The group goes: nothing of it falls due any more."""
    for kind in (JOIN, SYNC, BEGIN):
        shard.timers.cancel(Due(kind, group.id))
    for member_id in (*group.members, *group.pending):
        shard.timers.cancel(Due(SESSION, group.id, member_id))


def _consumer(shard: Shard, key: Any, value: CoordinatorValue | None, _: Entry[LogRecord]) -> None:
    group = shard.groups.get(key.group_id)
    if value is None and not isinstance(group, ConsumerGroup):
        return
    if isinstance(key, ConsumerGroupMetadataKey) and value is None:
        del shard.groups[key.group_id]
        shard.downgraded = key.group_id
        return
    if not isinstance(group, ConsumerGroup):
        group = shard.groups[key.group_id] = ConsumerGroup(key.group_id)
    consumer.REPLAY[type(key)](group, key, value)
    if isinstance(key, ConsumerGroupMemberMetadataKey) and value is None:
        forget(shard, key.group_id, key.member_id)


REPLAY: dict[type[CoordinatorKey], Callable[[Shard, Any, Any, Entry[LogRecord]], None]] = {
    LegacyOffsetCommitKey: _offset,
    OffsetCommitKey: _offset,
    GroupMetadataKey: _classic,
    **dict.fromkeys(consumer.REPLAY, _consumer),
}
