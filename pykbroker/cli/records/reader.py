"""The run of a command that reads topics: it polls until each partition has ended."""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Awaitable, Callable, Collection
from math import inf

import msgspec

from pykbroker.cli.interruption import Interruption
from pykbroker.cli.records.read_plan import ReadPlan
from pykbroker.cli.records.read_range import offset_ranges, stop_offsets
from pykbroker.consumer import Consumer, FetchedColumns, RebalanceListener
from pykbroker.core.topic_partition import TopicPartition

RECORDS_AT_ONCE = 10_000
"""The records of a poll with --count. Other polls return whole batches, at least as many records."""
MEMBER_POLL_S = 0.2
"""The time-out of a poll of a member. Each poll commits if it is due, and then the partitions may have ended."""

Take = Callable[[list[FetchedColumns]], Awaitable[None]]
"""A function that gets the records of each poll. The next poll comes after it, and commits them for a group."""


class Reader(RebalanceListener):
    """A reader of the partitions of a plan, or of those that the group assigns.

    A partition is open until its position reaches its stop. A partition that comes back from another member keeps its
    stop.
    """

    def __init__(self, consumer: Consumer, plan: ReadPlan, take: Take, interruption: Interruption) -> None:
        self._consumer, self._plan, self._take, self._interruption = consumer, plan, take, interruption
        self._stops: dict[TopicPartition, int | None] = {}
        self._open: set[TopicPartition] = set()
        self._is_assigned = False
        self._records_left: float = inf if plan.records_max is None else plan.records_max

    async def run(self) -> None:
        """Read until all partitions have ended, the records are enough, or the run is stopped."""
        with self._interruption.cancels():
            await self._begin()
        while not self._is_done:
            found: list[FetchedColumns] = []
            with self._interruption.cancels():
                found = await self._poll()
            if found := [part for part in map(self._before_stop, found) if len(part)]:
                self._records_left -= sum(map(len, found))
                await self._take(found)
            with self._interruption.cancels():
                await self._close_ended()

    @property
    def _is_done(self) -> bool:
        is_at_end = self._is_assigned and not self._open
        return self._interruption.is_stopped or is_at_end or self._records_left <= 0

    async def _begin(self) -> None:
        """Assign the partitions that have something to read, or subscribe for the group."""
        plan, consumer = self._plan, self._consumer
        if plan.group is not None:
            consumer.subscribe(plan.topics, self)
            return
        ranges = await offset_ranges(consumer, plan.partitions, plan.start, plan.stop, follows=plan.follows)
        ranges = {each: found for each, found in ranges.items() if found.stop is None or found.start < found.stop}
        consumer.assign(ranges)
        for partition, (start, stop) in ranges.items():
            consumer.seek(partition, start)
            self._stops[partition] = stop
        self._open, self._is_assigned = set(ranges), True

    async def _poll(self) -> list[FetchedColumns]:
        """Return the next records. A member returns without records after a while."""
        timeout_s = inf if self._plan.group is None else MEMBER_POLL_S
        records_max = None if self._records_left == inf else int(min(RECORDS_AT_ONCE, self._records_left))
        return await self._consumer.poll_columns(timeout_s, records_max)

    def _before_stop(self, part: FetchedColumns) -> FetchedColumns:
        """Return the records of a part before the stop of its partition, whose position then is not behind it."""
        stop, offsets = self._stops[part.partition], part.columns.offsets
        if stop is None or offsets[-1] < stop:
            return part
        self._consumer.seek(part.partition, stop)
        return msgspec.structs.replace(part, columns=part.columns.slice(0, bisect_left(offsets, stop)))

    async def _close_ended(self) -> None:
        """Close the open partitions whose position has reached their stop."""
        for partition in list(self._open):
            stop = self._stops[partition]
            if stop is not None and await self._consumer.position(partition) >= stop:
                self._consumer.pause([partition])
                self._open.discard(partition)

    # ---- the listener of a member

    async def on_partitions_assigned(self, partitions: Collection[TopicPartition]) -> None:
        """Open partitions that the group has assigned.

        A member that has had no partitions waits for some: the coordinator of KIP-848 assigns none at first.
        """
        added = [each for each in partitions if each not in self._stops]
        stop = self._plan.stop
        if stop is None:
            self._stops.update(dict.fromkeys(added))
        elif added:
            self._stops.update(await stop_offsets(self._consumer, added, stop, follows=self._plan.follows))
        self._open.update(partitions)
        self._is_assigned = bool(self._stops)

    def on_partitions_revoked(self, partitions: Collection[TopicPartition]) -> None:
        """Close partitions that the group has taken back. The next assignment ends the rebalance."""
        self._open.difference_update(partitions)
        self._is_assigned = False
