"""Records that polls have left: what is taken of them, in which order, and what becomes stale."""

from __future__ import annotations

from pykbroker.core.consumer.offset_reset import EARLIEST
from pykbroker.core.consumer.position import CommittedOffset, FetchPosition
from pykbroker.core.consumer.records import FetchedColumns
from pykbroker.core.consumer.subscription import ConsumerSubscription
from pykbroker.core.consumer.unread import Taken, UnreadPart, UnreadRecords
from pykbroker.core.topic_partition import TopicPartition
from wire.records.batch import Batch
from wire.records.builder import BatchBuilder
from wire.records.column_reader import read_columns

A, B = TopicPartition("topic", 0), TopicPartition("topic", 1)


class Reading:
    """A consumer of two partitions, with records 0 and 1 of both in an iteration, and parts behind them."""

    def __init__(self) -> None:
        self.subscription = ConsumerSubscription(EARLIEST)
        self.subscription.subscribe(["topic"])
        self.subscription.assign_from_group([A, B])
        for partition in (A, B):
            self.subscription[partition].seek(FetchPosition(0))
        self.unread = UnreadRecords(self.subscription)
        for partition in (A, B):
            self.add(partition, 2)
        taken = self.unread.take(9)
        self.unread.iterate(taken, [record for each in taken.columns for record in each.records()])
        for partition, count in ((A, 3), (B, 2), (A, 2)):
            self.add(partition, count)

    def add(self, partition: TopicPartition, count: int) -> None:
        """Add a part behind the position."""
        state = self.subscription[partition]
        before = state.position
        assert before is not None
        builder = BatchBuilder(base_offset=before.offset)
        for _ in range(count):
            builder.append(None, b"value", (), 0)
        columns = FetchedColumns(partition, read_columns(Batch.read(builder.build()), 1 << 20), 0, 4)
        after = FetchPosition(before.offset + count, 4)
        self.unread.add(UnreadPart(columns, state, before, after, state.era))

    def take(self, records_max: int, *among: TopicPartition, cuts_batch: bool = True) -> list[tuple[int, list[int]]]:
        """Take parts, as a poll does. Return their partitions and offsets."""
        taken = self.unread.take(records_max, cuts_batch=cuts_batch, among=among)
        self.unread.parts = taken.left
        return places(taken)

    def choose(self, records_max: int, *among: TopicPartition) -> list[tuple[int, int]]:
        """Take records of the iteration, as a poll does. Return their partitions and offsets."""
        found, self.unread.iteration = self.unread.choose(records_max, among)
        return [(each.partition, each.offset) for each in found]

    def committed(self) -> dict[TopicPartition, CommittedOffset]:
        """Return the offsets of a commit."""
        positions = {each: self.subscription[each].position for each in self.subscription.partitions}
        return self.unread.offsets({each: CommittedOffset(*place[:2]) for each, place in positions.items() if place})


def places(taken: Taken) -> list[tuple[int, list[int]]]:
    return [(each.partition.partition, list(each.offsets)) for each in taken.columns]


def test_records_of_some_partitions_leave_the_others_in_order() -> None:
    reading = Reading()
    assert reading.choose(1, B) == [(1, 0)]
    assert reading.choose(9) == [(0, 0), (0, 1), (1, 1)]


def test_parts_of_some_partitions_leave_the_others_in_order() -> None:
    reading = Reading()
    assert reading.take(4, A) == [(0, [2, 3, 4]), (0, [5])]
    assert [reading.unread.has_parts(among) for among in ([B], [], [TopicPartition("topic", 2)])] == [True, True, False]
    assert reading.take(9) == [(1, [2, 3]), (0, [6])]


def test_parts_are_cut_at_the_limit() -> None:
    reading = Reading()
    assert reading.take(2) == [(0, [2, 3])]
    assert reading.take(9) == [(0, [4]), (1, [2, 3]), (0, [5, 6])]
    assert reading.take(1) == []


def test_the_last_part_may_be_taken_whole() -> None:
    reading = Reading()
    assert reading.take(4, cuts_batch=False) == [(0, [2, 3, 4]), (1, [2, 3])]


def test_what_is_not_stored_is_taken_again() -> None:
    reading = Reading()
    assert places(reading.unread.take(1)) == places(reading.unread.take(1)) == [(0, [2])]
    assert reading.unread.choose(1)[0] == reading.unread.choose(1)[0]


def test_a_commit_ends_before_the_first_unread_record() -> None:
    reading = Reading()
    assert reading.committed() == {A: CommittedOffset(0, 4), B: CommittedOffset(0, 4)}
    reading.choose(3)
    assert reading.committed() == {A: CommittedOffset(2, 4), B: CommittedOffset(1, 4)}
    reading.choose(1)
    reading.take(1)
    assert reading.committed() == {A: CommittedOffset(3, 4), B: CommittedOffset(2, 4)}
    assert [reading.unread.first(each) for each in (A, B)] == [3, 2]
    reading.take(9)
    assert reading.committed() == {A: CommittedOffset(7, 4), B: CommittedOffset(4, 4)}
    assert reading.unread.first(A) is None


def test_records_that_stay_are_the_next_ones() -> None:
    reading = Reading()
    taken = reading.unread.take(6).until({A: 4})
    reading.unread.parts = taken.left
    assert places(taken) == [(0, [2, 3]), (1, [2, 3])]
    assert reading.committed()[A].offset == 0
    reading.choose(4)
    assert reading.committed() == {A: CommittedOffset(4, 4), B: CommittedOffset(4, 4)}
    assert reading.take(9) == [(0, [4]), (0, [5]), (0, [6])]


def test_a_move_by_the_user_drops_the_records_of_its_partition() -> None:
    reading = Reading()
    reading.subscription[A].move(FetchPosition(0))
    reading.subscription.changed()
    assert reading.committed() == {A: CommittedOffset(0), B: CommittedOffset(0, 4)}
    assert (reading.unread.first(A), reading.unread.first(B)) == (None, 0)
    assert reading.choose(9) == [(1, 0), (1, 1)]
    assert reading.take(9) == [(1, [2, 3])]


def test_records_end_with_their_assignment() -> None:
    reading = Reading()
    reading.subscription.assign_from_group([B])
    reading.subscription.assign_from_group([A, B])
    reading.subscription[A].seek(FetchPosition(100))
    assert reading.committed() == {A: CommittedOffset(100), B: CommittedOffset(0, 4)}
    assert reading.choose(9) == [(1, 0), (1, 1)]
    assert reading.take(9) == [(1, [2, 3])]


def test_records_of_a_partition_that_is_given_away_are_kept_for_the_commit_and_returned_to_nobody() -> None:
    reading = Reading()
    reading.subscription.mark_revoking([A])
    assert reading.choose(9) == [(1, 0), (1, 1)]
    assert reading.take(9) == [(1, [2, 3])]
    assert not reading.unread.has_parts()
    assert reading.committed() == {A: CommittedOffset(0, 4), B: CommittedOffset(4, 4)}


def test_records_of_a_topic_that_is_no_longer_subscribed_are_not_returned() -> None:
    reading = Reading()
    reading.subscription.subscribe(["other"])
    assert reading.choose(9) == []
    assert reading.take(9) == []


def test_records_that_are_held_back_survive_other_changes() -> None:
    reading = Reading()
    reading.subscription.mark_revoking([A])
    assert reading.choose(1) == [(1, 0)]
    reading.subscription.mark_revoking([])
    assert reading.choose(9) == [(0, 0), (0, 1), (1, 1)]
    assert reading.choose(9) == []


def test_a_change_during_a_call_that_returns_records_doubles_none() -> None:
    reading = Reading()
    found, left = reading.unread.choose(1)
    reading.subscription.changed()
    reading.unread.iteration = left
    assert [(each.partition, each.offset) for each in found] == [(0, 0)]
    assert reading.choose(9) == [(0, 1), (1, 0), (1, 1)]


def test_records_that_become_stale_while_objects_are_made_of_them_are_not_iterated() -> None:
    reading = Reading()
    reading.choose(9)
    taken = reading.unread.take(9)
    records = [record for each in taken.columns for record in each.records()]
    reading.subscription.changed()
    reading.subscription[A].move(FetchPosition(0))
    reading.subscription.changed()
    assert reading.unread.iterate(taken, records)
    assert [each.partition for each in reading.unread.records] == [1, 1]


def test_an_interrupted_move_of_a_part_is_finished_once() -> None:
    reading = Reading()
    part = reading.unread._arrived[0]
    part.is_passed = False
    reading.subscription[A].position = part.before
    reading.unread.parts.append(part)
    assert reading.take(9) == [(0, [2, 3, 4]), (1, [2, 3]), (0, [5, 6])]
    assert reading.subscription[A].position == part.after


def test_a_consumer_at_its_end_has_no_records() -> None:
    reading = Reading()
    reading.subscription.mark_revoking([A])
    reading.unread.discard()
    assert (reading.choose(9), reading.take(9), reading.unread.iterated()) == ([], [], set())
