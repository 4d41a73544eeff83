"""Records that a poll has left: what `take` returns of them, and in which order."""

from __future__ import annotations

from pykbroker.consumer.unread import UnreadRecords
from pykbroker.core.consumer.records import ConsumerRecord, FetchedColumns
from pykbroker.core.topic_partition import TopicPartition
from wire.records.batch import Batch
from wire.records.builder import BatchBuilder
from wire.records.column_reader import read_columns

A, B = TopicPartition("topic", 0), TopicPartition("topic", 1)


def record(partition: TopicPartition, offset: int) -> ConsumerRecord:
    return ConsumerRecord(*partition, offset, 0, 0, None, b"", (), -1)


def part(partition: TopicPartition, first: int, count: int) -> FetchedColumns:
    builder = BatchBuilder(base_offset=first)
    for _ in range(count):
        builder.append(None, b"value", (), 0)
    return FetchedColumns(partition, read_columns(Batch.read(builder.build()), 1 << 20), 0, -1)


def places(parts: list[FetchedColumns]) -> list[tuple[int, list[int]]]:
    return [(each.partition.partition, list(each.offsets)) for each in parts]


def unread() -> UnreadRecords:
    found = UnreadRecords()
    found.records.extend([record(A, 0), record(B, 0), record(A, 1), record(B, 1)])
    found.parts = [part(A, 2, 3), part(B, 2, 2), part(A, 5, 2)]
    return found


def test_records_of_some_partitions_leave_the_others_in_order() -> None:
    left = unread()
    assert [(each.partition, each.offset) for each in left.take(1, {B})] == [(1, 0)]
    assert [(each.partition, each.offset) for each in left.records] == [(0, 0), (0, 1), (1, 1)]
    assert [(each.partition, each.offset) for each in left.take(9)] == [(0, 0), (0, 1), (1, 1)]


def test_columns_of_some_partitions_leave_the_others_in_order() -> None:
    left = unread()
    assert places(left.take_parts(4, {A})) == [(0, [2, 3, 4]), (0, [5])]
    assert places(left.parts) == [(1, [2, 3]), (0, [6])]
    assert [left.has_parts(among) for among in ({B}, (), {TopicPartition("topic", 2)})] == [True, True, False]


def test_columns_are_cut_at_the_limit() -> None:
    left = unread()
    assert places(left.take_parts(2)) == [(0, [2, 3])]
    assert places(left.take_parts(9)) == [(0, [4]), (1, [2, 3]), (0, [5, 6])]
    assert left.take_parts(1) == []


def test_a_commit_ends_before_the_first_unread_record() -> None:
    left = unread()
    assert (left.first(A), left.first(B)) == (0, 0)
    left.take(2)
    assert (left.first(A), left.first(B)) == (1, 1)
    left.drop([A])
    assert (left.first(A), left.first(B)) == (None, 1)
    left.keep_only([A])
    assert left.first(B) is None
