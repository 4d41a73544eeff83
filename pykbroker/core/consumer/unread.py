"""The records that have left the buffer, and that the user has not received yet. They do not count as processed.

1. A record leaves one place only when it is in the next: it is here before the position moves past it, and goes when
   the call that returns it has nothing left to do. An interrupt at any time neither loses nor repeats a record.
2. A record belongs to an era of its partition. A seek, a reset by the user and the end of the assignment end the era.
3. The thread of the user takes records. The trio thread only adds parts, and notes changes, which may come between any
   two calls of the other thread. That thread stores nothing that is older than the last change.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Collection, Iterable, Iterator
from copy import copy
from itertools import chain
from operator import length_hint
from typing import Any, NamedTuple

import msgspec

from pykbroker.core.consumer.partition_state import AssignedPartition
from pykbroker.core.consumer.position import CommittedOffset, FetchPosition
from pykbroker.core.consumer.records import FetchedColumns
from pykbroker.core.consumer.subscription import ConsumerSubscription, is_subscribed
from pykbroker.core.topic_partition import TopicPartition


class UnreadPart(msgspec.Struct, gc=False, eq=False):
    """Columns with the positions before and behind them. `is_passed` says that the position has moved behind them."""

    columns: FetchedColumns
    state: AssignedPartition
    before: FetchPosition
    after: FetchPosition
    era: object
    is_passed: bool = False

    def pass_over(self) -> None:
        """Move the position behind the columns, unless that was done, or the position is elsewhere by now."""
        if not self.is_passed:
            state, after = self.state, self.after
            position = state.position
            if position is not None and position.offset == self.before.offset and self.era is state.era:
                leader = position.leader
                state.position = after if leader is after.leader else after._replace(leader=leader)
            self.is_passed = True

    def split(self, count: int) -> tuple[UnreadPart, UnreadPart]:
        """Return the first records, and the others."""
        columns, era = self.columns, self.era
        middle = FetchPosition(columns.offsets[count - 1] + 1, columns.leader_epoch, self.before.leader)
        first, rest = columns.slice(0, count), columns.slice(count, len(columns))
        return (
            UnreadPart(first, self.state, self.before, middle, era, is_passed=True),
            UnreadPart(rest, self.state, middle, self.after, era, is_passed=True),
        )


class Taken(NamedTuple):
    """Parts for the user, and parts that stay unread.

    The caller stores the latter in `parts` when it returns the former.
    """

    parts: list[UnreadPart]
    left: list[UnreadPart]

    @property
    def columns(self) -> list[FetchedColumns]:
        """Return the columns of the parts for the user."""
        return [part.columns for part in self.parts]

    def until(self, failures: dict[TopicPartition, int]) -> Taken:
        """Return these parts without the records of partitions from an offset on, which stay."""
        if not failures:
            return self
        taken: list[UnreadPart] = []
        left: list[UnreadPart] = []
        for part in self.parts:
            offsets = part.columns.offsets
            failed_at = failures.get(part.columns.partition, offsets[-1] + 1)
            count = sum(offset < failed_at for offset in offsets)
            if count == len(offsets):
                taken.append(part)
            elif not count:
                left.append(part)
            else:
                first, rest = part.split(count)
                taken.append(first)
                left.append(rest)
        return Taken(taken, left + self.left)


class UnreadRecords:
    """The next records of an iteration, and the parts behind them.

    A caller takes the first of `records` by `for`, since no signal handler runs between the iterator and the variable.
    Otherwise it stores `iteration` and `parts` as a whole.
    """

    def __init__(self, subscription: ConsumerSubscription) -> None:
        self._subscription = subscription
        self.iteration: Iterator[Any] = iter(())
        """The records of an iteration. Some may be stale, unless they are also `records`."""
        self.records = self.iteration
        """The same iterator if all may be returned, or an empty one until `restore`."""
        self.parts: list[UnreadPart] = []
        self._aside: list[Any] = []
        """The records of the iteration that may not be returned now."""
        self._changes = self._taken_at = self._restored_at = 0
        """The number of changes, and those that were known to the last `take` and `restore`."""
        self._eras: dict[TopicPartition, object] = {}
        """The eras of the records of an iteration."""
        self._arrived: deque[UnreadPart] = deque()
        """The parts that polls have left for the thread of the user."""
        subscription.changed = self._changed

    # ---- the trio thread

    def add(self, part: UnreadPart) -> None:
        """Append a part, and then move the position behind it."""
        self._arrived.append(part)
        part.pass_over()

    def offsets(self, positions: dict[TopicPartition, CommittedOffset]) -> dict[TopicPartition, CommittedOffset]:
        """Return the positions, moved back to the first unread record of each partition."""
        for part in reversed([*self.parts, *self._arrived]):
            partition = part.columns.partition
            if partition in positions and self._is_current(partition, part.era):
                positions[partition] = CommittedOffset(part.before.offset, part.before.epoch)
        for record in reversed(self._kept()):
            partition = TopicPartition(record.topic, record.partition)
            if partition in positions and self._is_current(partition, self._eras.get(partition)):
                positions[partition] = CommittedOffset(record.offset, record.leader_epoch)
        return positions

    def first(self, partition: TopicPartition) -> int | None:
        """Return the offset of the first unread record of a partition, or None without one."""
        if self._is_current(partition, self._eras.get(partition)):
            for record in self._kept():
                if (record.topic, record.partition) == partition:
                    return int(record.offset)
        for part in [*self.parts, *self._arrived]:
            if part.columns.partition == partition and self._is_current(partition, part.era):
                return part.columns.offsets[0]
        return None

    def has_parts(self, among: Collection[TopicPartition] = ()) -> bool:
        """Whether there are parts, of any partition or `among` some."""
        parts, arrived = self.parts, self._arrived
        if not parts and not arrived:
            return False
        return any(
            (not among or part.columns.partition in among) and self._may_return(part.columns.partition, part.era)
            for part in chain(list(parts), list(arrived))
        )

    def iterated(self) -> set[TopicPartition]:
        """Return the partitions of the unread records of an iteration."""
        kept = self._kept() if self._has_iteration() else []
        return {TopicPartition(each.topic, each.partition) for each in kept}

    def discard(self) -> None:
        """Forget all records, at the end of the consumer and in a forked process."""
        nothing = iter(())
        self._arrived.clear()
        self.records, self.iteration, self._aside, self.parts = nothing, nothing, [], []

    def _changed(self) -> None:
        """Note a change. The next call of the user then drops the records that are stale."""
        self.records = iter(())
        self._changes += 1

    def _has_iteration(self) -> bool:
        """Whether the iteration has unread records, which may be stale. A consumer that only polls has none."""
        return bool(self._aside) or length_hint(self.iteration) > 0

    def _kept(self) -> list[Any]:
        return [*self._aside, *copy(self.iteration)]

    # ---- the thread of the user

    def take(self, records_max: int, *, cuts_batch: bool = True, among: Collection[TopicPartition] = ()) -> Taken:
        """Return the next parts with up to `records_max` records, of all partitions or `among` some, and the others.

        If `cuts_batch` is false, the last part is returned whole, which may be more records. Stale parts are dropped.
        """
        self._taken_at = self._changes
        self._absorb()
        found: list[UnreadPart] = []
        left: list[UnreadPart] = []
        place, may_return = None, False
        for part in self.parts:
            partition = part.columns.partition
            if not self._is_current(partition, part.era):
                continue
            if partition is not place:  # the parts of a response share it
                place, may_return = partition, self._may_return(partition, part.era)
            if records_max <= 0 or not may_return or (among and partition not in among):
                left.append(part)
                continue
            count = len(part.columns)
            if cuts_batch and count > records_max:
                part, rest = part.split(records_max)
                left.append(rest)
            records_max -= count
            found.append(part)
        return Taken(found, left)

    def choose(self, records_max: int, among: Collection[TopicPartition] = ()) -> tuple[list[Any], Iterator[Any]]:
        """Return up to `records_max` records of the iteration, and the others, which the caller then stores."""
        if not self._has_iteration():
            return [], self.iteration
        self.restore()
        records = list(copy(self.records))
        self.records = iter(())  # until the caller has stored the others and they were restored
        if not among:
            return records[:records_max], iter(records[records_max:])
        found = [each for each in records if (each.topic, each.partition) in among][:records_max]
        taken = set(map(id, found))
        return found, iter([each for each in records if id(each) not in taken])

    def iterate(self, taken: Taken, records: Iterable[Any]) -> bool:
        """Append records, which were made of the last taken parts, to those of the iteration.

        Return whether there are records that may be returned.
        """
        self.restore()
        eras = self._eras | {part.columns.partition: part.era for part in taken.parts}
        all_ = iter([*copy(self.iteration), *records])
        self.parts, self._eras, self.iteration = taken.left, eras, all_
        self._restored_at = min(self._restored_at, self._taken_at)
        self.records = iter(())
        return self.restore()

    def restore(self) -> bool:
        """Drop stale records of the iteration, and keep those aside that may not be returned now.

        Return whether there are records that may be returned.
        """
        while self.records is not self.iteration:
            changes, eras = self._changes, self._eras
            records, aside = self.iteration, self._aside
            if changes != self._restored_at:
                kept = self._kept()
                held = {partition for partition, era in eras.items() if self._is_current(partition, era)}
                given = {each for each in held if self._may_return(each, eras[each])}
                records = iter([each for each in kept if (each.topic, each.partition) in given])
                aside = [each for each in kept if (each.topic, each.partition) in held - given]
            if changes == self._changes:  # no call is between this line and the end, so that no other change comes
                self.records = self.iteration = records
                self._aside, self._restored_at = aside, changes
        return length_hint(self.records) > 0

    def _absorb(self) -> None:
        """Move the parts that polls have left behind the others. An interrupted move is finished."""
        arrived, parts = self._arrived, self.parts
        while arrived:
            part = arrived[0]
            if not part.is_passed:
                part.pass_over()
            if not parts or parts[-1] is not part:
                parts.append(part)
            del arrived[0]

    def _is_current(self, partition: TopicPartition, era: object) -> bool:
        """Whether the records of an era are unread, and not stale."""
        state = self._subscription.get(partition)
        return state is not None and state.era is era

    def _may_return(self, partition: TopicPartition, era: object) -> bool:
        """Whether records of an era may be returned now."""
        state = self._subscription.get(partition)
        is_open = state is not None and state.era is era and not (state.is_paused or state.is_revoking)
        return is_open and is_subscribed(self._subscription, partition.topic)
