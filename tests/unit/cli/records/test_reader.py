"""Tests of a run that reads topics, with a scripted consumer."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Collection
from typing import Any

import trio

from pykbroker.cli.interruption import Interruption
from pykbroker.cli.records.read_plan import ReadPlan
from pykbroker.cli.records.reader import Reader
from pykbroker.core.consumer.records import FetchedColumns
from pykbroker.core.topic_partition import TopicPartition
from wire.records.column_reader import Columns

PATIENCE_S = 5
ONE, TWO = TopicPartition("orders", 0), TopicPartition("orders", 1)


def part(partition: TopicPartition, *offsets: int) -> FetchedColumns:
    """Return records with these offsets, whose values are the offsets as text."""
    rows = len(offsets)
    columns = Columns(list(offsets), [0] * rows, [None] * rows, [b"%d" % offset for offset in offsets])
    return FetchedColumns(partition, columns, 0, -1)


class ScriptedConsumer:
    """A consumer of a log with ten records in each partition, whose polls are functions of the test."""

    def __init__(self, *polls: Callable[[ScriptedConsumer], Awaitable[list[FetchedColumns]]]) -> None:
        self._polls = list(polls)
        self.listener: Any = None
        self.positions: dict[TopicPartition, int] = {}
        self.paused: list[TopicPartition] = []

    def subscribe(self, _topics: Any, listener: Any) -> None:
        self.listener = listener

    async def poll_columns(self, _timeout_s: float, _records_max: int | None) -> list[FetchedColumns]:
        await trio.lowlevel.checkpoint()
        found = await self._polls.pop(0)(self)
        self.positions.update({each.partition: each.columns.offsets[-1] + 1 for each in found})
        return found

    async def position(self, partition: TopicPartition) -> int:
        return self.positions.setdefault(partition, 0)

    async def end_offsets(self, partitions: Collection[TopicPartition]) -> dict[TopicPartition, int]:
        return dict.fromkeys(partitions, 10)

    def seek(self, partition: TopicPartition, offset: int) -> None:
        self.positions[partition] = offset

    def pause(self, partitions: Collection[TopicPartition]) -> None:
        self.paused += partitions


def read(consumer: Any, **changes: Any) -> list[tuple[int, int]]:
    """Return the partition and the offset of each record that a member reads."""
    fields: dict[str, Any] = {
        "topics": ["orders"],
        "partitions": [ONE, TWO],
        "start": "beginning",
        "stop": "end",
        "records_max": None,
        "follows": False,
        "group": "readers",
        "settings": {},
    }
    found: list[tuple[int, int]] = []

    async def take(parts: list[FetchedColumns]) -> None:
        found.extend((each.partition.partition, offset) for each in parts for offset in each.columns.offsets)

    async def run() -> None:
        with trio.fail_after(PATIENCE_S):
            await Reader(consumer, ReadPlan(**fields | changes), take, Interruption()).run()

    trio.run(run)
    return found


async def nothing(_consumer: ScriptedConsumer) -> list[FetchedColumns]:
    return []


async def assign_both(consumer: ScriptedConsumer) -> list[FetchedColumns]:
    await consumer.listener.on_partitions_assigned([ONE, TWO])
    return []


async def assign_none(consumer: ScriptedConsumer) -> list[FetchedColumns]:
    await consumer.listener.on_partitions_assigned([])
    return []


def test_a_member_without_partitions_waits_for_some() -> None:
    async def all_of_one(consumer: ScriptedConsumer) -> list[FetchedColumns]:
        await consumer.listener.on_partitions_assigned([ONE])
        return [part(ONE, *range(10))]

    found = read(ScriptedConsumer(nothing, assign_none, nothing, all_of_one))
    assert found == [(0, offset) for offset in range(10)]


def test_a_member_that_has_given_away_its_partitions_ends() -> None:
    async def revoke(consumer: ScriptedConsumer) -> list[FetchedColumns]:
        consumer.listener.on_partitions_revoked([ONE, TWO])
        return []

    assert read(ScriptedConsumer(assign_both, revoke, assign_none)) == []


def test_a_member_reads_on_after_a_rebalance_that_lasts_longer_than_a_poll() -> None:
    async def revoke(consumer: ScriptedConsumer) -> list[FetchedColumns]:
        consumer.listener.on_partitions_revoked([ONE, TWO])
        return [part(ONE, 0, 1)]

    async def assign_one(consumer: ScriptedConsumer) -> list[FetchedColumns]:
        await consumer.listener.on_partitions_assigned([ONE])
        return [part(ONE, *range(2, 10))]

    found = read(ScriptedConsumer(assign_both, revoke, nothing, assign_one))
    assert found == [(0, offset) for offset in range(10)]


def test_records_behind_the_stop_are_dropped_and_left_to_the_group() -> None:
    async def beyond(_consumer: ScriptedConsumer) -> list[FetchedColumns]:
        return [part(ONE, 0, 1, 2, 7), part(TWO, 5, 6)]

    consumer = ScriptedConsumer(assign_both, beyond)
    assert read(consumer, stop=5) == [(0, 0), (0, 1), (0, 2)]
    assert consumer.positions == {ONE: 5, TWO: 5}
    assert sorted(consumer.paused) == [ONE, TWO]


def test_a_partition_ends_behind_records_that_are_not_for_the_user() -> None:
    async def move(consumer: ScriptedConsumer) -> list[FetchedColumns]:
        consumer.positions |= {ONE: 10, TWO: 10}
        return []

    assert read(ScriptedConsumer(assign_both, nothing, move)) == []
