"""The partition of records without a key: when it is left, and how the next one is drawn."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from random import Random

from pykbroker.core.producer.sticky_partition import StickyPartition

BATCH_BYTES = 100


def scripted(*numbers: int) -> Callable[[int], int]:
    """Return draws in this order, each below what was asked for."""
    left = list(numbers)

    def draw(below: int) -> int:
        number = left.pop(0)
        assert number < below
        return number

    return draw


def test_records_stay_with_a_partition_until_a_batch_is_full() -> None:
    sticky = StickyPartition(BATCH_BYTES, scripted(2, 0))
    for _ in range(2):
        assert sticky.current(4, range(4)) == 2
        sticky.appended(49)
    assert sticky.current(4, range(4)) == 2
    sticky.appended(2)
    assert sticky.current(4, range(4)) == 0


def test_a_partition_without_a_leader_is_not_drawn_while_another_has_one() -> None:
    assert StickyPartition(BATCH_BYTES, scripted(1)).current(4, [0, 3]) == 3


def test_all_partitions_may_be_drawn_if_none_has_a_leader() -> None:
    assert StickyPartition(BATCH_BYTES, scripted(3)).current(4, []) == 3


def test_a_partition_that_is_gone_is_left() -> None:
    sticky = StickyPartition(BATCH_BYTES, scripted(3, 1))
    assert sticky.current(4, range(4)) == 3
    assert sticky.current(2, range(2)) == 1


def drawn(sticky: StickyPartition, partitions: int) -> Counter[int]:
    counts: Counter[int] = Counter()
    for _ in range(10_000):
        counts[sticky.current(partitions, range(partitions))] += 1
        sticky.appended(BATCH_BYTES)
    return counts


def test_a_partition_is_drawn_the_more_often_the_fewer_batches_wait_for_it() -> None:
    sticky = StickyPartition(BATCH_BYTES, Random(1).randrange)
    sticky.weigh({0: 0, 1: 3, 2: 1}, 3)
    counts = drawn(sticky, 3)
    assert set(counts) == {0, 1, 2}
    for partition, weight in ((0, 4), (1, 1), (2, 3)):
        assert abs(counts[partition] - 10_000 * weight / 8) < 300


def test_a_partition_whose_broker_takes_no_batches_is_never_drawn() -> None:
    sticky = StickyPartition(BATCH_BYTES, Random(1).randrange)
    sticky.weigh({0: 2, 2: 2}, 3)
    assert set(drawn(sticky, 3)) == {0, 2}


def test_equal_queues_make_every_partition_equally_likely() -> None:
    sticky = StickyPartition(BATCH_BYTES, Random(1).randrange)
    sticky.weigh({0: 0, 1: 5}, 2)
    sticky.weigh({0: 2, 1: 2}, 2)
    counts = drawn(sticky, 2)
    assert abs(counts[0] - counts[1]) < 400


def test_no_queue_at_all_makes_every_partition_equally_likely() -> None:
    sticky = StickyPartition(BATCH_BYTES, Random(1).randrange)
    sticky.weigh({}, 3)
    assert set(drawn(sticky, 3)) == {0, 1, 2}
